//! The explorer: every event of a run, at any zoom, without a server.
//!
//! Time is a tree: each node covers a stretch and has four parts. Where few events begin, a node holds
//! them all (a leaf); elsewhere it holds bins, and sums by name of each of its parts. A browser needs a
//! few nodes for any view. docs/design/0021-explorer.md says why.
//!
//! `scene` says what the rows are and turns rows of tables into events, `merged` puts these in order of
//! time, `pyramid` builds the tree from them, `packed` encodes its nodes and writes them into files.

mod merged;
mod packed;
mod pyramid;
mod scene;
mod section;

pub use packed::Files;
pub(super) use section::section;

use crate::ReportError;
use idlewave_run::RunReader;
use idlewave_run::findings::Findings;
use idlewave_units::Nanos;
use idlewave_units::foreign::one_line;
use packed::Packs;
use pyramid::{Builder, Shape, Total};
use scene::{Name, Row, Scene};
use serde::Serialize;

/// Shown before and after something that a link leads to, at least.
const LEAST_AROUND: u64 = 1_000;
/// Runs of at most so many events are in the page as a whole: at 3 to 5 bytes each.
const INSIDE: u64 = 40_000;

/// What the page itself holds. Times are nanoseconds after `base`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Explorer {
    /// CLOCK_MONOTONIC at time 0; as text, since it may exceed 2^53.
    #[serde(skip)]
    zero: u64,
    base: String,
    span: u64,
    /// Bins of a node, how long one of the deepest level is, and the deepest level.
    bins: u64,
    unit: u64,
    depth: u32,
    rows: Vec<Row>,
    /// CPUs and ranks that have no row.
    hidden: (usize, usize),
    names: Vec<Name>,
    /// The entry of `names` that late steps have.
    late: u32,
    events: u64,
    /// Sums of the whole run, by name.
    totals: Vec<(u32, Total)>,
    /// The tree in preorder: `1` for a leaf, `0` for a node with four parts, which follow it.
    tree: String,
    /// The file of each node; `None` for those that are inside, or that hold nothing.
    packs: Vec<Option<u32>>,
    /// Nodes that are in the page.
    inside: Vec<(u32, String)>,
    /// Whether all nodes are inside or in files.
    is_whole: bool,
    /// What all files of this run are marked with.
    key: String,
    /// Where the files are, relative to the page; empty if there are none.
    folder: Option<String>,
}

impl Explorer {
    /// The folder of files beside the page; `None` if there are none.
    pub(super) fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    /// A moment of CLOCK_MONOTONIC, as the page counts it.
    pub(super) fn after(&self, time_ns: u64) -> Nanos {
        Nanos::from_nanos(time_ns.saturating_sub(self.zero))
    }

    /// A link to a stretch, with as much before and after it.
    pub(super) fn moment(&self, begin_ns: u64, end_ns: u64) -> String {
        let (begin, end) = (self.after(begin_ns).get(), self.after(end_ns).get());
        let around = end.saturating_sub(begin).max(LEAST_AROUND);
        let from = begin.saturating_sub(around);
        let to = end.saturating_add(around).min(self.span.max(from + 1));
        format!("#run={from}..{to}")
    }

    /// A link to a stretch, with this in the search box.
    pub(super) fn strike(&self, begin_ns: u64, end_ns: u64, name: &str) -> String {
        format!(
            "{}&amp;find={}",
            self.moment(begin_ns, end_ns),
            in_link(&one_line(name))
        )
    }
}

/// A name as a part of an address; letters and digits stay.
fn in_link(name: &str) -> String {
    name.bytes().fold(String::new(), |mut out, byte| {
        match byte.is_ascii_alphanumeric() {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// Builds the tree: in the page if the run is small, otherwise with all but its root in `files`.
/// Without `files` a large run has its root only. `None` if nothing was recorded.
pub(super) fn explore(
    run: &RunReader,
    findings: &Findings,
    files: Option<Files<'_>>,
) -> Result<Option<Explorer>, ReportError> {
    let limits = Limits {
        inside: INSIDE,
        leaf: pyramid::LEAF,
    };
    explore_within(run, findings, files, limits)
}

/// How many events are in a page as a whole, and in a leaf.
#[derive(Clone, Copy, Debug)]
struct Limits {
    inside: u64,
    leaf: u64,
}

fn explore_within(
    run: &RunReader,
    findings: &Findings,
    files: Option<Files<'_>>,
    limits: Limits,
) -> Result<Option<Explorer>, ReportError> {
    let (scene, density) = Scene::survey(run, findings)?;
    if scene.events == 0 {
        return Ok(None);
    }
    let shape = Shape::of(scene.span, scene.events, scene.rows.len(), limits.leaf);
    let key = packed::key(run.manifest());
    let is_small = scene.events <= limits.inside;
    let folder = files
        .as_ref()
        .filter(|_| !is_small)
        .map(|f| f.folder.to_owned());
    let is_whole = is_small || files.is_some();
    let packs = Packs::new(&key, is_small, files);
    let events = merged::merged(run, findings, &scene)?;
    let (built, totals) = Builder::new(&scene, shape, density, events, packs).build()?;
    Ok(Some(Explorer {
        zero: scene.base,
        base: scene.base.to_string(),
        span: scene.span,
        bins: shape.bins,
        unit: shape.unit,
        depth: shape.depth,
        hidden: scene.hidden,
        late: scene.late(),
        events: scene.events,
        totals: totals.into_iter().collect(),
        tree: built.tree,
        packs: built.packs,
        inside: built.inside,
        is_whole,
        key,
        folder,
        rows: scene.rows,
        names: scene.names,
    }))
}

#[cfg(test)]
mod tests;
