//! Turns the bundles of all nodes into the bundle of the run: decodes and orders them, puts them on
//! one clock, merges them, and replaces the front's bundle.

use crate::merge::{Front, NodeRun, host, merge, order, recorded_ranks};
use crate::node_job::incoming;
use crate::nodes::{facts, front_facts, handed_over};
use idlewave_run::tables::{Communicators, Table as _};
use idlewave_run::{Alignment, AlignmentPoint, Ledger, PhaseKind, RunReader};
use idlewave_session::align::{Correction, Exchange, Span, corrections, shared_clock};
use idlewave_session::{
    Lock, NodeFacts, Progress, SessionError, clock_exchanges, complete_ranks, open_run,
};
use idlewave_units::{Nanos, Rank};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Largest assumed difference between computers' clocks if neither messages nor the kernel tell:
/// NTP's own limit.
/// How a loss begins that says that the clock of a node was not compared by messages.
pub(crate) const CLOCKS_APART: &str = "comparison of the clock of node";
const UNSYNCHRONISED: Nanos = Nanos::from_nanos(16_000_000_000);

/// Number of ranks of MPI_COMM_WORLD in none of the bundles; `None` if its size is unknown too.
pub fn missing_ranks<'a>(bundles: impl IntoIterator<Item = &'a Path>) -> Option<usize> {
    let (mut size, mut known) = (None, BTreeSet::new());
    for bundle in bundles {
        let Ok(run) = RunReader::open(bundle) else {
            continue;
        };
        known.extend(recorded_ranks(run.manifest()).map(|sheet| sheet.rank));
        size = size.max(world_size(&run));
    }
    size.map(|size| (size as usize).saturating_sub(known.len()))
}

/// Size of MPI_COMM_WORLD: the number of its members, as known to one of them.
fn world_size(run: &RunReader) -> Option<u32> {
    let mut reader = run.table_if_present::<Communicators>().ok()??;
    let mut rows = Communicators::default();
    let mut members = 0_usize;
    while reader.next_into(&mut rows).ok()? {
        members += rows.rows().filter(|row| row.comm == 0).count();
        rows.clear();
    }
    u32::try_from(members).ok().filter(|&size| size > 0)
}

/// Replaces the front's own bundle `own` by the merged bundle of all nodes. The caller holds the
/// lock of the former; the returned lock is that of the merged one.
///
/// A node's bundle that cannot be read is entered in the ledger.
///
/// # Errors
/// The front's bundle cannot be read, the merged one cannot be written, or `stop` was set.
pub fn join_nodes(
    own: &Path,
    others: &[PathBuf],
    mut front: Front,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Lock, SessionError> {
    // If it is a link, its target is replaced.
    let own = &own.canonicalize().map_err(SessionError::io("find", own))?;
    let mut runs = vec![open_run(own, stop, progress)?];
    for other in others {
        match open_run(other, stop, progress) {
            Ok(run) => runs.push(run),
            Err(error @ SessionError::Interrupted { .. }) => return Err(error),
            Err(error) => front.losses.enter(
                format!("the bundle of a node ({}: {error})", name(other)),
                1,
                "what its ranks did, and what disturbed them, is missing",
                "record again; look for a full or failing disk on that node",
            ),
        }
    }
    progress.part("merging the nodes");
    let nodes = aligned(order(runs), own, &mut front.losses);
    let merged = beside(own)?;
    let write = || -> Result<Lock, SessionError> {
        let mut out = merge(&nodes, front, &merged)?;
        let lock = Lock::take(&merged)?;
        let sizes = nodes.iter().filter_map(|node| world_size(&node.run));
        if let Some(size) = sizes.max() {
            complete_ranks(&mut out.manifest, size);
            out.save()?;
        }
        exchange(&merged, own).map_err(SessionError::io("replace", own))?;
        Ok(lock)
    };
    let lock = write().inspect_err(|_| {
        // The nodes' bundles still exist; the error itself matters more.
        let _ = fs::remove_dir_all(&merged);
    })?;
    // `merged` is now the front's own bundle, with those of the others below it; everything is in
    // the merged one.
    fs::remove_dir_all(&merged).map_err(SessionError::io("remove", merged))?;
    Ok(lock)
}

/// Merges what other nodes handed over to a front that was killed before merging. Returns true if
/// there was something to merge.
///
/// # Errors
/// As for [`join_nodes`], and another process is working on the bundle: its front may be alive.
pub fn join_left(
    own: &Path,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<bool, SessionError> {
    if handed_over(&incoming(own)).is_empty() {
        return Ok(false);
    }
    let command = RunReader::open(own)?.manifest().command.clone();
    let lock = Lock::take(own)?;
    // Look again now that the lock is held: only late nodes can still add bundles.
    let others = handed_over(&incoming(own));
    let front = Front {
        command,
        exit_code: None,
        losses: Ledger::default(),
    };
    let merged = join_nodes(own, &others, front, stop, progress)?;
    drop((lock, merged));
    Ok(true)
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A directory beside the bundle, on the same file system. A killed process's leftover is removed.
fn beside(own: &Path) -> Result<PathBuf, SessionError> {
    let merged = own.with_file_name(format!(".{}.merging", name(own)));
    match fs::remove_dir_all(&merged) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(SessionError::io("remove", merged)(e)),
        _ => Ok(merged),
    }
}

/// Exchanges two directories atomically, if the file system can.
fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    if renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let aside = a.with_extension("own");
    fs::rename(b, &aside)?;
    if let Err(error) = fs::rename(a, b) {
        // Move it back.
        let _ = fs::rename(&aside, b);
        return Err(error);
    }
    fs::rename(aside, a)
}

/// Nodes with their clocks related to that of the first one.
fn aligned(runs: Vec<RunReader>, own: &Path, losses: &mut Ledger) -> Vec<NodeRun> {
    let facts: Vec<Option<NodeFacts>> = runs
        .iter()
        .map(|run| {
            if run.path() == own {
                front_facts(&incoming(own))
            } else {
                facts(run.path())
            }
        })
        .collect();
    let spans: Vec<Span> = runs.iter().map(span).collect();
    let exchanges = exchanges(&runs, losses);
    let measured = corrections(&spans, &exchanges);
    let mut nodes = Vec::new();
    for (at, (run, measured)) in runs.into_iter().zip(measured).enumerate() {
        let (from, to) = spans[at];
        let (correction, alignment) = match &measured {
            _ if at == 0 => (Correction::none(), None),
            _ if share_clock(&facts[0], &facts[at]) => {
                shared_clock(measured.as_ref(), spans[at], &host(&run), losses)
            }
            Some(correction) => (correction.clone(), Some(correction.sheet(from, to))),
            None => by_wall_clock(&facts[0], &facts[at], spans[at], &host(&run), losses),
        };
        nodes.push(NodeRun {
            run,
            correction,
            alignment,
        });
    }
    nodes
}

/// First and last time of the recording.
fn span(run: &RunReader) -> Span {
    let phases = run.manifest().phases.iter();
    phases
        .filter(|phase| matches!(phase.kind, PhaseKind::Recorded { .. }))
        .map(|phase| (phase.begin_ns, phase.end_ns))
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        .unwrap_or_default()
}

/// The clock comparisons that the ranks made, as exchanges between nodes.
fn exchanges(runs: &[RunReader], losses: &mut Ledger) -> Vec<Exchange> {
    let mut places: BTreeMap<Rank, usize> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        places.extend(recorded_ranks(run.manifest()).map(|sheet| (sheet.rank, at)));
    }
    let mut found = Vec::new();
    for run in runs {
        match clock_exchanges(run.path()) {
            Ok(exchanges) => found.extend(exchanges.iter().filter_map(|e| {
                let (node, peer) = (*places.get(&e.rank)?, *places.get(&e.peer)?);
                (node != peer).then_some(Exchange {
                    node,
                    peer,
                    sent_ns: e.sent_ns,
                    received_ns: e.received_ns,
                    peer_ns: e.peer_ns,
                })
            })),
            Err(error) => losses.enter(
                format!("comparisons of the clock of node {} ({error})", host(run)),
                1,
                "its times are corrected less accurately",
                "record again",
            ),
        }
    }
    found
}

fn share_clock(a: &Option<NodeFacts>, b: &Option<NodeFacts>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.shares_clock(b),
        _ => false,
    }
}

/// Without messages, compares the clocks by each node's time of day.
fn by_wall_clock(
    first: &Option<NodeFacts>,
    node: &Option<NodeFacts>,
    (from, to): Span,
    host: &str,
    losses: &mut Ledger,
) -> (Correction, Option<Alignment>) {
    let (offset_ns, error) = match (first, node) {
        (Some(first), Some(node)) => {
            let known = first.realtime_error_ns.zip(node.realtime_error_ns);
            let error = known.map_or(UNSYNCHRONISED, |(a, b)| {
                Nanos::from_nanos(a.saturating_add(b))
            });
            (node.realtime_ns.saturating_sub(first.realtime_ns), error)
        }
        _ => (0, UNSYNCHRONISED),
    };
    losses.enter(
        format!("{CLOCKS_APART} {host} with that of the first node by messages"),
        1,
        format!("its times are compared by the time of day only: they may be off by {error}"),
        "record a program that comes to MPI_Init, and do not set IDLEWAVE_CLOCKS=0",
    );
    let point = AlignmentPoint {
        time_ns: from,
        offset_ns,
        round_trip: Nanos::from_nanos(error.get().saturating_mul(2)),
    };
    let Some(correction) = Correction::fit(vec![point], from, to) else {
        return (Correction::none(), None);
    };
    let alignment = Alignment {
        method: "by the time of day of both nodes; the error is what their kernels state, or NTP's limit of 16 s".to_owned(),
        ..correction.sheet(from, to)
    };
    (correction, Some(alignment))
}

#[cfg(test)]
#[path = "nodes_join_tests.rs"]
mod tests;
