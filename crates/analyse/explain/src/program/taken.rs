//! What was taken from the threads of a recorded program, for replays.

use super::recorded::Recorded;
use crate::ExplainError;
use crate::catalog::Catalog;
use crate::crowd::{Crowd, crowds};
use crate::kernel::Kernels;
use crate::ran::Ran;
use crate::watch::{Charge, Charger, Watch};
use crate::watched::{is_recorded, throttled_nodes, watches};
use idlewave_run::tables::{Sources, Tasks};
use idlewave_run::{RunReader, SourceKind};

/// Per lane of a program of this run, what others took from it, in order of time and without
/// overlaps. Empty for nodes whose kernel was not traced.
///
/// Excludes sleep: outside calls it is voluntary, inside calls it is how a rank waits. Excludes
/// time without a known taker, as where switches are missing. Also returns the nodes whose ranks
/// shared CPUs.
///
/// # Errors
/// Tables that cannot be read, or contradict each other.
pub fn taken_from(
    run: &RunReader,
    recorded: &Recorded,
) -> Result<(Vec<Vec<Charge>>, Vec<Crowd>), ExplainError> {
    let manifest = run.manifest();
    let tasks = run.read::<Tasks>()?;
    let mut catalog = Catalog::new(&tasks, &run.read::<Sources>()?);
    let ran = Ran::read(run)?;
    let mut watched = watches(manifest, &tasks, &ran);
    watched.retain(|watch| is_recorded(manifest, watch));
    watched.truncate(recorded.program.lanes.len());
    let kernels = Kernels::read(run, &tasks, watched.iter().map(Watch::thread), &ran)?;
    // Holes of the trace are not filled: which thread had the CPU is only inferred there.
    let mut charger = Charger {
        kernels: &kernels,
        catalog: &mut catalog,
        throttled: throttled_nodes(manifest),
    };
    let mut taken = Vec::with_capacity(watched.len());
    for watch in &watched {
        let mut list = Vec::new();
        charger.charges(watch, watch.begin, watch.end, &mut list);
        taken.push(list);
    }
    for list in &mut taken {
        list.retain(|charge| {
            let kind = catalog.kind(charge.source);
            !matches!(kind, SourceKind::Blocked | SourceKind::Unexplained)
        });
    }
    let by_ranks = |list: &Vec<Charge>| {
        let ranks = |c: &&Charge| catalog.kind(c.source) == SourceKind::Rank;
        list.iter().filter(ranks).map(Charge::length).sum::<u64>()
    };
    let waited = watched.iter().zip(taken.iter().map(by_ranks));
    let crowds = crowds(waited, &kernels);
    Ok((taken, crowds))
}
