//! The end of a trace: what is open, the tables of objects, and what was lost.

use crate::import::app::Told;
use crate::import::error::ImportError;
use crate::import::imported::Imported;
use crate::import::paraver::labels::First;
use crate::import::paraver::run::Build;
use crate::prv;
use idlewave_run::tables::EndReason;
use idlewave_run::{Ledger, TraceMode, Unavailable};
use idlewave_units::Nanos;

/// What such a trace lacks of the kernel, and a kernel trace joined with it has.
pub(in crate::import) const OF_ITS_KERNEL: [&str; 2] =
    ["wake-ups and their wakers", "kinds of threads"];
/// What each of them means.
const OF_ITS_KERNEL_MEANS: [&str; 2] = [
    "run-queue waits are not told from sleep",
    "kernel threads are not told from other threads",
];

impl Build {
    /// Finishes the tables and the run.
    pub(super) fn finish(mut self, name: String, events: u64) -> Result<Imported, ImportError> {
        self.close_open()?;
        let mut losses = self.losses();
        losses.enter(
            "tasks taken for ranks, although none of them calls MPI",
            match (self.application, self.app.called()) {
                (First::Tasks, 0) => self.app.ranks(),
                _ => 0,
            },
            "the processes of a program without MPI look like ranks",
            "none needed",
        );
        if self.ran == 0 {
            for node in &mut self.app.run.manifest.nodes {
                node.trace.mode = TraceMode::Off;
                node.trace.unavailable.push(Unavailable {
                    what: "which thread had which CPU".to_owned(),
                    why: "the trace has no CPUs of threads".to_owned(),
                    allow: None,
                });
            }
        }
        self.app.run.finish_table(self.bursts)?;
        self.app.run.finish_table(self.interrupts)?;
        self.app.run.write_table(&self.sources)?;
        let library = "an MPI library that the trace does not name";
        let library = (self.app.called() > 0).then(|| library.to_owned());
        self.app.finish(Told {
            format: "Paraver trace",
            name,
            events,
            missed: None,
            cpus: self.cpus.len() as u32,
            span: Nanos::from_nanos(self.end),
            library,
            losses,
        })
    }

    /// Closes what is still open at the end of the trace.
    pub(super) fn close_open(&mut self) -> Result<(), ImportError> {
        for at in 0..self.threads.len() {
            if let Some((cpu, since)) = self.threads[at].running.take() {
                self.burst(at, cpu, since, self.end, EndReason::Unknown)?;
            }
            let open = self.threads[at].interrupts.iter().flatten().count();
            self.dropped.unfinished += open as u64;
            if self.threads[at].call.take().is_some() {
                self.dropped.unfinished += 1;
            }
            if let Some((value, begin)) = self.threads[at].region.take() {
                self.mark(at, prv::REGION, value, begin, None)?;
            }
            while let Some((value, begin)) = self.threads[at].marks.pop() {
                self.mark(at, prv::MARK, value, begin, None)?;
            }
        }
        Ok(())
    }

    pub(super) fn losses(&self) -> Ledger {
        let mut losses = Ledger::default();
        let dropped = &self.dropped;
        let first = dropped
            .first
            .map_or(String::new(), |line| format!(", the first in line {line}"));
        let lacks = "the run lacks them";
        let check = "see whether the trace was copied whole";
        losses.enter(
            format!("lines that are no records{first}"),
            dropped.malformed,
            lacks,
            check,
        );
        let undeclared = "records of threads or CPUs that the first line does not declare";
        losses.enter(undeclared, dropped.undeclared, lacks, check);
        losses.enter(
            "records outside of the time of the trace",
            dropped.outside,
            lacks,
            check,
        );
        losses.enter(
            "calls, interrupts and marks that do not end, or end too deep in others",
            dropped.unfinished,
            lacks,
            "trace the whole program",
        );
        losses.enter(
            "interrupts by sources without a name",
            dropped.unnamed,
            lacks,
            "keep the .pcf beside the .prv",
        );
        losses.enter(
            "calls and messages of applications other than the first",
            dropped.foreign,
            lacks,
            "export the applications as traces of their own",
        );
        losses.enter(
            "events of types that a run has no table for",
            dropped.others.values().sum::<u64>(),
            lacks,
            "look at them in Paraver",
        );
        losses.enter(
            "communicators of messages, and calls that completed their receives",
            dropped.messages,
            "all messages count as of MPI_COMM_WORLD, and receives as blocking",
            "record with `idlewave record`",
        );
        let coarse = u64::from(self.header.unit > 1);
        losses.enter(
            "times below a microsecond: the trace has none",
            coarse,
            "shorter interrupts and calls have no length",
            "trace in nanoseconds",
        );
        for (what, consequence) in OF_ITS_KERNEL.into_iter().zip(OF_ITS_KERNEL_MEANS) {
            losses.enter(
                what,
                u64::from(self.ran > 0),
                consequence,
                "record with `idlewave record`",
            );
        }
        losses
    }
}
