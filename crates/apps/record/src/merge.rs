//! Merges the bundles of several nodes into one run, with all times on one clock and a common
//! numbering.
//!
//! Rows come node by node, in the order of the nodes' smallest ranks, each node's rows in their own
//! order: every order within a rank or a CPU is kept, and one batch of one table is in memory at a
//! time.

use crate::merge_ids::Ids;
use idlewave_run::tables::*;
use idlewave_run::{
    Alignment, Incomplete, Ledger, Manifest, Phase, PhaseKind, RankSheet, RunError, RunReader,
    RunState, RunWriter, SchemaVersion,
};
use idlewave_session::align::Correction;
use idlewave_units::{NodeId, Rank};
use std::collections::BTreeMap;
use std::path::Path;

/// The bundle of one node, and its clock against that of the first node.
#[derive(Debug)]
pub struct NodeRun {
    /// The bundle: one node, numbered 0. Decoded, not in state `recording`.
    pub run: RunReader,
    /// The correction of its times.
    pub correction: Correction,
    /// The same for readers; `None` if the clock is the first node's own.
    pub alignment: Option<Alignment>,
}

/// The front's knowledge of the whole run.
#[derive(Clone, Debug, Default)]
pub struct Front {
    /// Its command line.
    pub command: Vec<String>,
    /// Exit code of the launcher, or 128 plus the signal that ended it; `None` if the front died
    /// first.
    pub exit_code: Option<i32>,
    /// What it could not fetch.
    pub losses: Ledger,
}

/// Sorts bundles of nodes in the order of the merged run: by smallest rank, then by host name.
/// Those without a rank are dropped, unless none has one.
pub fn order(runs: Vec<RunReader>) -> Vec<RunReader> {
    let mut keyed: Vec<(Option<Rank>, String, RunReader)> = runs
        .into_iter()
        .map(|run| {
            let least = recorded_ranks(run.manifest()).map(|r| r.rank).min();
            (least, host(&run), run)
        })
        .collect();
    if keyed.iter().any(|(least, ..)| least.is_some()) {
        keyed.retain(|(least, ..)| least.is_some());
    }
    keyed.sort_by(|a, b| (a.0, &a.1, a.2.path()).cmp(&(b.0, &b.1, b.2.path())));
    keyed.into_iter().map(|(.., run)| run).collect()
}

/// How the entry of `complete_ranks` in the ledger starts.
const NOT_RECORDED: &str = "ranks that were not recorded";

/// Ranks whose process a bundle knows; other sheets only fill gaps.
pub(crate) fn recorded_ranks(manifest: &Manifest) -> impl Iterator<Item = &RankSheet> {
    manifest
        .ranks
        .iter()
        .filter(|sheet| sheet.process.is_some())
}

/// Name of a bundle's node.
pub fn host(run: &RunReader) -> String {
    let node = run.manifest().nodes.first();
    node.map(|n| n.host.name.clone()).unwrap_or_default()
}

/// Writes the merged bundle to `path`, which must not exist or be empty. `nodes` are in [`order`].
///
/// What cannot be read of a node's table is entered in the ledger; the rest is kept.
///
/// # Errors
/// The merged bundle, or a node's table of communicators, operations or sources, fails.
pub fn merge(nodes: &[NodeRun], front: Front, path: &Path) -> Result<RunWriter, RunError> {
    let mut manifest = manifest(nodes, front);
    let places = measured_phases(nodes, &mut manifest.phases);
    let mut out = RunWriter::create(path, manifest)?;
    let runs: Vec<&RunReader> = nodes.iter().map(|node| &node.run).collect();
    let ids = Ids::unite(&runs)?;
    out.write_table(&ids.sources)?;
    if !ids.operations.is_empty() {
        out.write_table(&ids.operations)?;
    }
    if !ids.communicators.is_empty() {
        out.write_table(&ids.communicators)?;
    }
    copy::<Tasks>(nodes, &mut out, |at, _, row| row.node = at)?;
    copy::<Bursts>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.begin_ns = clock.apply(row.begin_ns);
        row.end_ns = clock.apply(row.end_ns);
    })?;
    copy::<Interrupts>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.source = ids.source(at, row.source);
        row.begin_ns = clock.apply(row.begin_ns);
        row.end_ns = clock.apply(row.end_ns);
    })?;
    copy::<Wakeups>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.time_ns = clock.apply(row.time_ns);
    })?;
    copy::<Migrations>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.time_ns = clock.apply(row.time_ns);
    })?;
    copy::<Syscalls>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.time_ns = clock.apply(row.time_ns);
    })?;
    copy::<TaskTimes>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.begin_ns = clock.apply(row.begin_ns);
        row.end_ns = clock.apply(row.end_ns);
    })?;
    copy::<Counters>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.source = ids.source(at, row.source);
        row.begin_ns = clock.apply(row.begin_ns);
        row.end_ns = clock.apply(row.end_ns);
    })?;
    copy::<Calls>(nodes, &mut out, |at, clock, row| {
        row.operation = ids.operation(at, row.operation);
        row.comm = row.comm.map(|comm| ids.communicator(at, comm));
        row.begin_ns = clock.apply(row.begin_ns);
        row.end_ns = clock.apply(row.end_ns);
    })?;
    copy::<Transfers>(nodes, &mut out, |at, clock, row| {
        row.comm = ids.communicator(at, row.comm);
        row.posted_ns = clock.apply(row.posted_ns);
        row.wait_ns = row.wait_ns.map(|t| clock.apply(t));
        row.completed_ns = row.completed_ns.map(|t| clock.apply(t));
    })?;
    copy::<Marks>(nodes, &mut out, |at, clock, row| {
        row.node = at;
        row.begin_ns = clock.apply(row.begin_ns);
        row.end_ns = row.end_ns.map(|t| clock.apply(t));
    })?;
    // Rows of phases that are not in the merged run refer to none.
    let place = |at: NodeId, phase: u32| places[at.index()].get(&phase).copied();
    copy::<Detours>(nodes, &mut out, |at, clock, row| {
        row.phase = place(at, row.phase).unwrap_or(u32::MAX);
        row.begin_ns = clock.apply(row.begin_ns);
    })?;
    copy::<Quanta>(nodes, &mut out, |at, clock, row| {
        row.phase = place(at, row.phase).unwrap_or(u32::MAX);
        row.begin_ns = clock.apply(row.begin_ns);
    })?;
    let state = out.manifest.incomplete.take();
    out.close(state)?;
    Ok(out)
}

/// Adds the phases in which nodes measured their CPUs; returns their new numbers, by node and old
/// number.
fn measured_phases(nodes: &[NodeRun], phases: &mut Vec<Phase>) -> Vec<BTreeMap<u32, u32>> {
    let mut places = Vec::new();
    for (at, node) in ids().zip(nodes) {
        let clock = &node.correction;
        let mut of_node = BTreeMap::new();
        for (old, phase) in (0..).zip(&node.run.manifest().phases) {
            let kind = match phase.kind.clone() {
                PhaseKind::Detour {
                    threshold,
                    floor,
                    mut loops,
                    ..
                } => {
                    for one in &mut loops {
                        one.begin_ns = clock.apply(one.begin_ns);
                        one.end_ns = clock.apply(one.end_ns);
                    }
                    PhaseKind::Detour {
                        node: at,
                        threshold,
                        floor,
                        loops,
                    }
                }
                PhaseKind::FixedWork {
                    work_steps,
                    kernel,
                    array,
                    ..
                } => PhaseKind::FixedWork {
                    node: at,
                    work_steps,
                    kernel,
                    array,
                },
                PhaseKind::FixedTime {
                    interval,
                    work_steps,
                    kernel,
                    array,
                    ..
                } => PhaseKind::FixedTime {
                    node: at,
                    interval,
                    work_steps,
                    kernel,
                    array,
                },
                _ => continue,
            };
            of_node.insert(old, phases.len() as u32);
            phases.push(Phase {
                kind,
                begin_ns: clock.apply(phase.begin_ns),
                end_ns: clock.apply(phase.end_ns),
            });
        }
        places.push(of_node);
    }
    places
}

/// Copies a table of all nodes that have it, batch by batch.
fn copy<T: Table>(
    nodes: &[NodeRun],
    out: &mut RunWriter,
    change: impl Fn(NodeId, &Correction, &mut T::Row),
) -> Result<(), RunError> {
    let mut table = None;
    let mut batch = T::default();
    for (at, node) in ids().zip(nodes) {
        let mut reader = match node.run.table_if_present::<T>() {
            Ok(Some(reader)) => reader,
            Ok(None) => continue,
            Err(error) => {
                unreadable::<T>(out, node, &error);
                continue;
            }
        };
        let table = match &mut table {
            Some(table) => table,
            none => none.insert(out.table::<T>()?),
        };
        loop {
            batch.clear();
            match reader.next_into(&mut batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    unreadable::<T>(out, node, &error);
                    break;
                }
            }
            for mut row in batch.rows() {
                change(at, &node.correction, &mut row);
                table.push(row)?;
            }
        }
    }
    match table {
        Some(table) => out.finish_table(table),
        None => Ok(()),
    }
}

fn unreadable<T: Table>(out: &mut RunWriter, node: &NodeRun, error: &RunError) {
    out.manifest.losses.enter(
        format!("table `{}` of node {} ({error})", T::NAME, host(&node.run)),
        1,
        "its rows for that node are missing",
        "record again; look for a full or failing disk on that node",
    );
    incomplete(&mut out.manifest, || {
        Incomplete::Error(format!("node {}: {error}", host(&node.run)))
    });
}

fn incomplete(manifest: &mut Manifest, why: impl FnOnce() -> Incomplete) {
    if manifest.incomplete.is_none() {
        manifest.incomplete = Some(why());
    }
}

/// Numbers of nodes, in order.
fn ids() -> impl Iterator<Item = NodeId> {
    (0..).map(NodeId::new)
}

fn manifest(nodes: &[NodeRun], front: Front) -> Manifest {
    let mut merged = Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: front.command,
        started: String::new(),
        seed: 0,
        simulated: None,
        nodes: Vec::new(),
        conditions: Default::default(),
        phases: phase(nodes, front.exit_code).into_iter().collect(),
        ranks: Vec::new(),
        losses: front.losses,
        tables: Vec::new(),
    };
    let mut ranks: BTreeMap<Rank, RankSheet> = BTreeMap::new();
    for (at, node) in ids().zip(nodes) {
        let own = node.run.manifest();
        if merged.started.is_empty() || own.started < merged.started {
            merged.started.clone_from(&own.started);
        }
        if at == NodeId::new(0) {
            merged.seed = own.seed;
            merged.idlewave.clone_from(&own.idlewave);
        }
        let name = host(&node.run);
        for sheet in own.nodes.iter().take(1) {
            merged.nodes.push(idlewave_run::NodeSheet {
                node: at,
                alignment: node.alignment.clone(),
                ..sheet.clone()
            });
        }
        for sheet in recorded_ranks(own) {
            let sheet = RankSheet {
                node: at,
                ..sheet.clone()
            };
            if let Some(other) = ranks.insert(sheet.rank, sheet) {
                merged.losses.enter(
                    format!("rank {} recorded on two nodes", other.rank),
                    1,
                    "its calls on both count as its own",
                    "record one parallel program at a time",
                );
            }
        }
        for loss in own.losses.entries() {
            // One node cannot know the ranks of the others.
            if loss.what.starts_with(NOT_RECORDED) && nodes.len() > 1 {
                continue;
            }
            let what = match nodes.len() {
                1 => loss.what.clone(),
                _ => format!("{name}: {}", loss.what),
            };
            merged
                .losses
                .enter(what, loss.count, &loss.consequence, &loss.advice);
        }
        if let Some(why) = &own.incomplete {
            incomplete(&mut merged, || match (why, nodes.len()) {
                (why, 1) => why.clone(),
                (Incomplete::Error(e), _) => Incomplete::Error(format!("node {name}: {e}")),
                (Incomplete::Signal(n), _) => {
                    Incomplete::Error(format!("node {name}: ended by signal {n}"))
                }
                (Incomplete::Killed, _) => {
                    Incomplete::Error(format!("node {name}: its recorder was killed"))
                }
            });
        }
    }
    merged.ranks = ranks.into_values().collect();
    merged
}

/// One phase that covers the recordings of all nodes; `None` if none has one.
fn phase(nodes: &[NodeRun], exit_code: Option<i32>) -> Option<Phase> {
    let recorded = nodes.iter().flat_map(|node| {
        let phases = node.run.manifest().phases.iter();
        phases.filter_map(|phase| match &phase.kind {
            PhaseKind::Recorded { library, .. } => Some((
                node.correction.apply(phase.begin_ns),
                node.correction.apply(phase.end_ns),
                library.clone(),
            )),
            _ => None,
        })
    });
    let (begin_ns, end_ns, library) =
        recorded.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1), a.2.or(b.2)))?;
    Some(Phase {
        kind: PhaseKind::Recorded { library, exit_code },
        begin_ns,
        end_ns,
    })
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
