//! The explorer: every event of a run, at any zoom, without a server.
//!
//! Time is a tree: each node covers a stretch of time and has four parts. Where few events start, a
//! node is a leaf and holds them all; elsewhere it holds bins, and sums by name for each of its
//! parts. A browser needs only a few nodes for any view. docs/design/0021-explorer.md says why.
//!
//! `survey` reads the tables once to see what there is, `scene` defines the rows and turns rows of
//! tables into events, `merged` sorts the events by time, `pyramid` builds the tree from them, and
//! `packed` encodes its nodes and writes them to files.

mod merged;
mod packed;
mod pyramid;
mod scene;
mod section;
mod sums;
mod survey;

pub use packed::PutFile;

use crate::ReportError;
use idlewave_run::RunReader;
use idlewave_run::findings::{Findings, LateFinding};
use idlewave_run::tables::{LateStep, LateSteps, Table};
use idlewave_units::Nanos;
use idlewave_units::foreign::one_line;
use packed::Packs;
use pyramid::Builder;
use scene::{Name, Row, Scene};
use serde::Serialize;
use sums::{Shape, Total};

/// Shows at least this many nanoseconds before and after the target of a link.
const LEAST_AROUND: u64 = 1_000;
/// The page holds every event of a run with at most this many events, at 3 to 5 bytes each.
const INSIDE: u64 = 40_000;

/// What the page itself holds. Times are nanoseconds after `base`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Explorer {
    /// CLOCK_MONOTONIC at time 0; as text, since it may exceed 2^53.
    #[serde(skip)]
    zero: u64,
    base: String,
    span: u64,
    /// Bins of a node, length of a bin of the deepest level, and the deepest level.
    bins: u64,
    unit: u64,
    depth: u32,
    rows: Vec<Row>,
    /// CPUs and ranks that have no row.
    hidden: (usize, usize),
    names: Vec<Name>,
    /// Index into `names` for late steps.
    late: u32,
    events: u64,
    /// Sums of the whole run, by name.
    totals: Vec<(u32, Total)>,
    /// The tree in preorder: `1` for a leaf, `0` for a node with four parts, which follow it.
    tree: String,
    /// The file of each node; `None` for nodes that are in the page or hold nothing.
    packs: Vec<Option<u32>>,
    /// Nodes that are in the page.
    inside: Vec<(u32, String)>,
    /// Whether all nodes are in the page or in files.
    is_whole: bool,
    /// Identifies the files of this run.
    key: String,
    /// Whether there are files beside the page.
    has_files: bool,
}

/// The section of the page that holds it.
pub(super) fn section(explorer: &Explorer) -> String {
    section::section(
        explorer.events,
        explorer.span,
        explorer.hidden,
        explorer.has_files,
    )
}

impl Explorer {
    /// Whether there are files beside the page.
    pub(super) fn has_files(&self) -> bool {
        self.has_files
    }

    /// A time of CLOCK_MONOTONIC as an offset on the page.
    pub(super) fn after(&self, time_ns: u64) -> Nanos {
        Nanos::from_nanos(time_ns.saturating_sub(self.zero))
    }

    /// A link to a stretch of time, with as much again before and after it.
    pub(super) fn moment(&self, begin_ns: u64, end_ns: u64) -> String {
        let (begin, end) = (self.after(begin_ns).get(), self.after(end_ns).get());
        let around = end.saturating_sub(begin).max(LEAST_AROUND);
        let from = begin.saturating_sub(around);
        let to = end.saturating_add(around).min(self.span.max(from + 1));
        format!("#run={from}..{to}")
    }

    /// A link to a stretch of time, with `name` in the search box.
    pub(super) fn strike(&self, begin_ns: u64, end_ns: u64, name: &str) -> String {
        format!(
            "{}&amp;find={}",
            self.moment(begin_ns, end_ns),
            in_link(&one_line(name))
        )
    }
}

/// A name as part of a URL; letters and digits stay.
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
/// Without `files`, a large run has only its root. `unwritten`: the late steps, if the run lacks
/// their table. `None` if nothing was recorded.
pub(super) fn explore(
    run: &RunReader,
    findings: &Findings,
    unwritten: Option<&LateSteps>,
    files: Option<PutFile<'_>>,
) -> Result<Option<Explorer>, ReportError> {
    let limits = Limits {
        inside: INSIDE,
        leaf: pyramid::LEAF,
    };
    explore_within(run, findings, unwritten, files, limits)
}

/// Late steps that are in no table: those of an analysis that could not be written, or the listed ones of
/// findings without tables.
fn late_steps(
    run: &RunReader,
    findings: &Findings,
    unwritten: Option<&LateSteps>,
) -> Vec<LateStep> {
    let has_table = run
        .manifest()
        .tables
        .iter()
        .any(|t| t.name == LateSteps::NAME);
    let mut steps: Vec<LateStep> = match unwritten {
        _ if has_table => Vec::new(),
        Some(table) => table.rows().collect(),
        None => findings.latest.iter().map(listed).collect(),
    };
    steps.sort_by_key(|l| (l.begin_ns, l.phase, l.iteration));
    steps
}

fn listed(late: &LateFinding) -> LateStep {
    LateStep {
        phase: late.phase,
        iteration: late.iteration,
        rank: late.last_rank,
        begin_ns: late.begin_ns,
        end_ns: late.end_ns,
        lateness: late.lateness,
    }
}

/// Most events of a run that is wholly in the page, and most events of a leaf.
#[derive(Clone, Copy, Debug)]
struct Limits {
    inside: u64,
    leaf: u64,
}

fn explore_within(
    run: &RunReader,
    findings: &Findings,
    unwritten: Option<&LateSteps>,
    files: Option<PutFile<'_>>,
    limits: Limits,
) -> Result<Option<Explorer>, ReportError> {
    let late = late_steps(run, findings, unwritten);
    let (scene, density) = Scene::survey(run, findings, &late)?;
    if scene.events == 0 {
        return Ok(None);
    }
    let shape = Shape::of(scene.span, scene.events, scene.rows.len(), limits.leaf);
    let key = packed::key(
        run.manifest(),
        &serde_json::to_vec(findings).map_err(|e| ReportError::Encode(e.to_string()))?,
    );
    let is_small = scene.events <= limits.inside;
    let has_files = files.is_some() && !is_small;
    let is_whole = is_small || files.is_some();
    let packs = Packs::new(&key, is_small, files);
    let events = merged::merged(run, late, &scene)?;
    let (built, totals) = Builder::new(&scene, shape, density, events, packs).build()?;
    Ok(Some(Explorer {
        zero: scene.base,
        base: scene.base.to_string(),
        span: scene.span,
        bins: shape.bins,
        unit: shape.unit,
        depth: shape.depth,
        hidden: scene.hidden,
        late: scene.late,
        events: scene.events,
        totals: totals.into_iter().collect(),
        tree: built.tree,
        packs: built.packs,
        inside: built.inside,
        is_whole,
        key,
        has_files,
        rows: scene.rows,
        names: scene.names,
    }))
}

#[cfg(test)]
mod tests;
