//! What is in a run, before anything is written: its threads and CPUs.

use crate::export::paraver::applications::Seen;
use crate::export::paraver::objects::Objects;
use crate::export::{ExportError, Job};
use idlewave_run::tables::*;

/// The first look at a run.
pub(super) struct Survey {
    pub objects: Objects,
    /// Largest nesting depth of interrupts.
    pub depth: u8,
}

impl Survey {
    pub(super) fn of(job: &Job<'_>) -> Result<Self, ExportError> {
        let mut seen = Seen::of(job)?;
        let run = job.run;
        let mut depth = 0;
        run.for_each::<Bursts>(|row| seen.ran(row.node, row.cpu, row.pid))?;
        run.for_each::<Interrupts>(|row| {
            seen.ran(row.node, row.cpu, row.pid);
            depth = depth.max(row.depth);
        })?;
        job.go_on()?;
        run.for_each::<Calls>(|row| seen.called(row.rank, row.thread))?;
        run.for_each::<Marks>(|row| seen.was_at(row.node, row.thread))?;
        Ok(Self {
            objects: seen.objects(),
            depth,
        })
    }
}
