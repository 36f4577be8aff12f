//! What was taken from the threads of a recorded program, for those who play it again.

use super::analysis::Recorded;
use crate::ExplainError;
use crate::catalog::Catalog;
use crate::kernel::Kernels;
use crate::watch::{Charge, Charger};
use crate::watched::{is_recorded, throttled_nodes, watches};
use idlewave_run::tables::{Sources, Tasks};
use idlewave_run::{RunReader, SourceKind};

/// Per lane of a program of this run, what others took from it, in order of time and without overlaps. Of a node whose
/// kernel was not seen nothing is known, and there is nothing.
///
/// Sleep is not among it: outside of calls it is the program's own, inside of them it is how a rank waits. Nor is what
/// nobody is known to have taken, as where switches are missing.
///
/// # Errors
/// Tables that cannot be read, or contradict each other.
pub fn taken_from(run: &RunReader, recorded: &Recorded) -> Result<Vec<Vec<Charge>>, ExplainError> {
    let manifest = run.manifest();
    let kernels = Kernels::read(run)?;
    let tasks = run.read::<Tasks>()?;
    let mut catalog = Catalog::new(&tasks, &run.read::<Sources>()?);
    let mut watched = watches(run, &tasks, &kernels)?;
    watched.retain(|watch| is_recorded(manifest, watch));
    watched.truncate(recorded.program.lanes.len());
    // Holes of the trace stay: who had the CPU in them is not known, only who is likely to.
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
    Ok(taken)
}
