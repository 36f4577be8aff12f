//! The end of a trace: what is open, the tables of objects, and what was lost.

use crate::import::error::ImportError;
use crate::import::imported::{Imported, Subject};
use crate::import::paraver::labels::First;
use crate::import::paraver::run::Build;
use crate::prv;
use idlewave_run::tables::*;
use idlewave_run::{Ledger, PhaseKind, RankSheet, TraceMode, Unavailable};
use idlewave_units::{Nanos, Rank};
use std::collections::{BTreeMap, HashSet};

impl Build {
    /// Ends the tables and the run.
    pub(super) fn finish(mut self, name: String, events: u64) -> Result<Imported, ImportError> {
        self.close_open()?;
        let mut losses = self.losses();
        let mut run = self.run;
        let mut ranks: BTreeMap<Rank, RankSheet> = BTreeMap::new();
        let mut tasks = Tasks::default();
        let mut idle = HashSet::new();
        let mut threads: Vec<(_, usize)> = self.objects.into_iter().collect();
        threads.sort_unstable();
        for (_, at) in threads {
            let thread = &self.threads[at];
            if thread.is_idle && !idle.insert(thread.node) {
                continue;
            }
            tasks.push(Task {
                node: thread.node,
                pid: thread.pid,
                process: Some(thread.process),
                name: thread.name.clone(),
                kind: thread.kind,
            });
            if let Some(rank) = thread.rank {
                let sheet = ranks.entry(rank).or_insert(RankSheet {
                    rank,
                    node: thread.node,
                    cpu: None,
                    threads: Vec::new(),
                    process: Some(thread.process),
                    priority: None,
                });
                sheet.threads.push(thread.pid);
            }
        }
        let mut communicators = Communicators::default();
        let all: Vec<u32> = ranks.keys().map(|r| r.get() + 1).collect();
        let mut listed = self.header.communicators;
        if listed.is_empty() {
            listed.push((1, all));
        }
        for (comm, (number, members)) in listed.into_iter().enumerate() {
            for (member, task) in members.into_iter().enumerate() {
                let Some(rank) = task.checked_sub(1).map(Rank::new) else {
                    continue;
                };
                communicators.push(Communicator {
                    comm: comm as u32,
                    member: member as u32,
                    rank,
                    key: number.into(),
                });
            }
        }
        losses.enter(
            "tasks taken for ranks, although none of them calls MPI",
            match (self.application, self.called) {
                (First::Tasks, 0) => ranks.len() as u64,
                _ => 0,
            },
            "the processes of a program without MPI look like ranks",
            "none needed",
        );
        let is_program = |kind: &&TaskKind| matches!(kind, TaskKind::Rank | TaskKind::Program);
        let told = Subject::Told {
            name,
            ranks: ranks.len() as u64,
            threads: tasks.kind.iter().filter(is_program).count() as u64,
        };
        run.manifest.ranks = ranks.into_values().collect();
        run.manifest.losses = losses.clone();
        let library =
            (self.called > 0).then(|| "an MPI library that the trace does not name".to_owned());
        if let Some(phase) = run.manifest.phases.first_mut() {
            phase.kind = PhaseKind::Recorded {
                library,
                exit_code: None,
            };
        }
        if let Some(first) = run.manifest.nodes.first_mut() {
            first.trace.cost.events = events;
        }
        if self.ran == 0 {
            for node in &mut run.manifest.nodes {
                node.trace.mode = TraceMode::Off;
                node.trace.unavailable.push(Unavailable {
                    what: "which thread had which CPU".to_owned(),
                    why: "the trace has no CPUs of threads".to_owned(),
                    allow: None,
                });
            }
        }
        run.finish_table(self.bursts)?;
        run.finish_table(self.interrupts)?;
        run.finish_table(self.marks)?;
        run.finish_table(self.calls)?;
        run.finish_table(self.transfers)?;
        run.write_table(&self.functions.rows)?;
        run.write_table(&communicators)?;
        run.write_table(&tasks)?;
        run.write_table(&self.sources)?;
        run.close(None)?;
        Ok(Imported {
            format: "Paraver trace".to_owned(),
            events,
            missed: None,
            cpus: self.cpus.len() as u32,
            span: Nanos::from_nanos(self.end),
            program: told,
            losses,
        })
    }

    /// Ends with the trace what the trace leaves open.
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
        losses.enter(
            "communicators without a list of members",
            self.comms.len() as u64,
            "waits at their collectives are not explained",
            "record with `idlewave record`",
        );
        let coarse = u64::from(self.header.unit > 1);
        losses.enter(
            "times below a microsecond: the trace has none",
            coarse,
            "shorter interrupts and calls have no length",
            "trace in nanoseconds",
        );
        let always = [
            (
                "wake-ups and their wakers",
                "run-queue waits are not told from sleep",
            ),
            (
                "kinds of threads",
                "kernel threads are not told from other threads",
            ),
        ];
        for (what, consequence) in always {
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
