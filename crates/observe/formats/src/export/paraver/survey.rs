//! What is in a run, before anything is written: its first and last time, and its threads.

use crate::export::paraver::applications::Seen;
use crate::export::paraver::objects::Objects;
use crate::export::{ExportError, Job};
use idlewave_run::tables::*;

/// The first look at a run.
pub(super) struct Survey {
    /// First and last time, CLOCK_MONOTONIC nanoseconds of node 0; `None` without any.
    pub begin: Option<u64>,
    pub end: u64,
    pub objects: Objects,
    /// Largest nesting depth of interrupts.
    pub depth: u8,
}

#[derive(Default)]
struct Times {
    begin: Option<u64>,
    end: u64,
}

impl Times {
    fn see(&mut self, begin: u64, end: u64) {
        self.begin = Some(self.begin.map_or(begin, |first| first.min(begin)));
        self.end = self.end.max(end).max(begin);
    }
}

impl Survey {
    pub(super) fn of(job: &Job<'_>) -> Result<Self, ExportError> {
        let mut times = Times::default();
        let mut seen = Seen::of(job)?;
        let run = job.run;
        let mut depth = 0;
        run.for_each::<Bursts>(|row| {
            times.see(row.begin_ns, row.end_ns);
            seen.ran(row.node, row.cpu, row.pid);
        })?;
        run.for_each::<Interrupts>(|row| {
            times.see(row.begin_ns, row.end_ns);
            seen.ran(row.node, row.cpu, row.pid);
            depth = depth.max(row.depth);
        })?;
        job.go_on()?;
        run.for_each::<Regions>(|row| times.see(row.begin_ns, row.end_ns))?;
        run.for_each::<Calls>(|row| {
            times.see(row.begin_ns, row.end_ns);
            seen.called(row.rank, row.thread);
        })?;
        run.for_each::<Marks>(|row| {
            times.see(row.begin_ns, row.end_ns.unwrap_or(row.begin_ns));
            seen.was_at(row.node, row.thread);
        })?;
        run.for_each::<Messages>(|row| {
            times.see(row.sent_ns.min(row.posted_ns), row.completed_ns);
        })?;
        run.for_each::<LateSteps>(|row| times.see(row.begin_ns, row.end_ns))?;
        run.for_each::<Waits>(|row| times.see(row.begin_ns, row.end_ns))?;
        run.for_each::<Wakeups>(|row| times.see(row.time_ns, row.time_ns))?;
        Ok(Self {
            begin: times.begin,
            end: times.end,
            objects: seen.objects(),
            depth,
        })
    }

    /// A time in the trace.
    pub(super) fn at(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.begin.unwrap_or(0))
    }

    /// The length of the trace.
    pub(super) fn length(&self) -> u64 {
        self.at(self.end)
    }
}
