//! What the program did: regions, marks, calls of MPI, messages, late steps and waits.

use crate::export::paraver::labels::Names;
use crate::export::paraver::record::{MESSAGE, Record};
use crate::export::paraver::survey::Survey;
use crate::export::sorter::Sorter;
use crate::export::{ExportError, Job};
use crate::prv;
use idlewave_run::tables::*;
use idlewave_run::{Ledger, PhaseKind};
use idlewave_units::{NodeId, Rank};
use std::collections::HashMap;

/// The work in progress.
struct Gather<'a> {
    job: &'a Job<'a>,
    survey: &'a Survey,
    to: &'a mut Sorter<Record>,
    names: &'a mut Names,
    losses: &'a mut Ledger,
}

pub(super) fn gather(
    job: &Job<'_>,
    survey: &Survey,
    to: &mut Sorter<Record>,
    names: &mut Names,
    losses: &mut Ledger,
) -> Result<(), ExportError> {
    let mut gather = Gather {
        job,
        survey,
        to,
        names,
        losses,
    };
    gather.regions()?;
    gather.late_steps()?;
    gather.calls()?;
    gather.messages()?;
    gather.waits()?;
    gather.marks()
}

/// Calls `visit` with every row of a table, until it fails.
fn each<T: Table>(
    job: &Job<'_>,
    mut visit: impl FnMut(T::Row) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let Some(mut reader) = job.run.table_if_present::<T>()? else {
        return Ok(());
    };
    let mut rows = T::default();
    while reader.next_into(&mut rows)? {
        job.go_on()?;
        rows.rows().try_for_each(&mut visit)?;
        rows.clear();
    }
    Ok(())
}

impl Gather<'_> {
    /// For each phase its index among those that give every rank a thread of its own.
    fn phases(&self) -> Vec<usize> {
        let mut next = 0;
        let phases = self.job.run.manifest().phases.iter();
        let index = phases.map(|phase| {
            let index = next;
            next += usize::from(matches!(phase.kind, PhaseKind::Lockstep { .. }));
            index
        });
        index.collect()
    }

    fn regions(&mut self) -> Result<(), ExportError> {
        let phases = self.phases();
        let (survey, to) = (self.survey, &mut *self.to);
        // A region that begins where the last one ends replaces it, without a 0 in between.
        let mut open: Vec<Option<u64>> = vec![None; survey.objects.threads.len()];
        let (mut unknown, mut sized) = (0, 0);
        each::<Regions>(self.job, |row| {
            let phase = phases.get(row.phase as usize).copied().unwrap_or(0);
            let Some(object) = survey.objects.rank_in(row.rank, phase) else {
                unknown += 1;
                return Ok(());
            };
            sized += u64::from(row.bytes.is_some());
            let begin = row.begin_ns;
            let last = open[object as usize].replace(row.end_ns);
            if let Some(end) = last.filter(|end| *end != begin) {
                to.push(Record::event(end, object, prv::REGION, 0))?;
            }
            let region = Record::event(begin, object, prv::REGION, u64::from(row.kind.code()) + 1);
            to.push(region.and(prv::ITERATION, row.iteration + 1))
        })?;
        for (object, end) in open.into_iter().enumerate() {
            if let Some(end) = end {
                to.push(Record::event(end, object as u32, prv::REGION, 0))?;
            }
        }
        self.unknown_ranks("regions", unknown);
        self.losses.enter(
            "bytes of regions that communicate",
            sized,
            "the trace has the regions without their bytes",
            "export to csv: column `bytes` of table `regions`",
        );
        Ok(())
    }

    fn unknown_ranks(&mut self, what: &str, rows: u64) {
        self.losses.enter(
            format!("{what} of ranks that the manifest does not list"),
            rows,
            "the trace lacks them",
            "export to csv for them",
        );
    }

    /// For each late step the source charged with most of it, as an index + 1; 0 for none.
    fn largest_parts(&mut self) -> Result<Vec<u64>, ExportError> {
        let steps = self.job.run.manifest().tables.iter();
        let steps = steps
            .filter(|t| t.name == LateSteps::NAME)
            .map(|t| t.rows)
            .sum::<u64>();
        // The number of rows is the manifest's; a table has no more rows than its file has bytes.
        let mut largest: Vec<(u64, u64)> = Vec::new();
        let mut others = 0;
        each::<LateParts>(self.job, |row| {
            if u64::from(row.step) < steps {
                let step = row.step as usize;
                if largest.len() <= step {
                    largest.resize(step + 1, (0, 0));
                }
                others += u64::from(largest[step].1 > 0);
                largest[step] = largest[step].max((row.time.get(), u64::from(row.finding) + 1));
            }
            Ok(())
        })?;
        self.losses.enter(
            "parts of late steps other than the largest",
            others,
            "the trace names one source for each late step",
            "export to csv: table `late_parts`, or see `idlewave explain`",
        );
        Ok(largest.into_iter().map(|(_, finding)| finding).collect())
    }

    fn late_steps(&mut self) -> Result<(), ExportError> {
        let phases = self.phases();
        let largest = self.largest_parts()?;
        let (survey, to, mut unknown, mut step) = (self.survey, &mut *self.to, 0, 0);
        each::<LateSteps>(self.job, |row| {
            let because = largest.get(step).copied().unwrap_or(0);
            step += 1;
            let phase = phases.get(row.phase as usize).copied().unwrap_or(0);
            let Some(object) = survey.objects.rank_in(row.rank, phase) else {
                unknown += 1;
                return Ok(());
            };
            let late = Record::event(row.begin_ns, object, prv::LATE, row.lateness.get());
            to.push(late.and(prv::LATE_BECAUSE, because))?;
            let end = Record::event(row.end_ns, object, prv::LATE, 0);
            to.push(end.and(prv::LATE_BECAUSE, 0))
        })?;
        self.unknown_ranks("late steps", unknown);
        Ok(())
    }

    fn calls(&mut self) -> Result<(), ExportError> {
        let (survey, to, names) = (self.survey, &mut *self.to, &mut *self.names);
        let ranks = &self.job.run.manifest().ranks;
        let nodes: HashMap<Rank, NodeId> = ranks.iter().map(|r| (r.rank, r.node)).collect();
        let mut unknown = 0;
        each::<Calls>(self.job, |row| {
            let node = nodes.get(&row.rank).copied();
            let thread = node.and_then(|node| survey.objects.by_pid(node, row.thread));
            let Some(object) = thread.or_else(|| survey.objects.rank(row.rank)) else {
                unknown += 1;
                return Ok(());
            };
            let (kind, value) = names.call(row.operation);
            let begin = row.begin_ns;
            let event = |kind, value| Record::event(begin, object, kind, value);
            let mut call = event(kind, value);
            if let Some(comm) = row.comm.filter(|_| row.sequence.is_some()) {
                call = call.and(prv::COMMUNICATOR, u64::from(comm) + 1);
            }
            to.push(call)?;
            if let Some(sent) = row.sent {
                let received = row.received.map_or(0, |bytes| bytes.get());
                let bytes = event(prv::BYTES_SENT, sent.get());
                to.push(bytes.and(prv::BYTES_RECEIVED, received))?;
            }
            if row.root == Some(row.rank) {
                to.push(event(prv::ROOT, 1))?;
            }
            to.push(Record::event(row.end_ns, object, kind, 0))
        })?;
        self.unknown_ranks("calls", unknown);
        Ok(())
    }

    fn messages(&mut self) -> Result<(), ExportError> {
        let (survey, to) = (self.survey, &mut *self.to);
        let (mut unknown, mut messages) = (0, 0);
        each::<Messages>(self.job, |row| {
            let rank = |rank| survey.objects.rank(rank);
            let (Some(from), Some(other)) = (rank(row.from), rank(row.to)) else {
                unknown += 1;
                return Ok(());
            };
            messages += 1;
            to.cover(row.posted_ns);
            to.cover(row.completed_ns);
            to.push(Record {
                a: row.posted_ns,
                b: row.completed_ns,
                c: row.bytes.get(),
                d: i64::from(row.tag) as u64,
                other,
                ..Record::new(MESSAGE, row.sent_ns, from)
            })
        })?;
        self.unknown_ranks("messages", unknown);
        let tables = self.job.run.manifest().tables.iter();
        let transfers = tables.filter(|t| t.name == Transfers::NAME).map(|t| t.rows);
        let transfers = transfers.sum::<u64>();
        self.losses.enter(
            "ends of messages without a match",
            transfers.saturating_sub(2 * (messages + unknown)),
            "the trace has a communication only where both ends are known",
            "export to csv: table `transfers`",
        );
        self.losses.enter(
            "times at which messages left",
            messages,
            "the physical send of a communication is the start of the call that sent it, like the logical one",
            "nothing: MPI does not tell when a message leaves",
        );
        let several = self.job.run.manifest().ranks.iter();
        let several = several.filter(|rank| rank.threads.len() > 1).count();
        if several > 0 {
            self.losses.enter(
                "threads that sent or received messages",
                messages,
                "communications connect the first threads of their ranks",
                "export to csv: column `thread` of table `transfers`",
            );
        }
        Ok(())
    }

    fn waits(&mut self) -> Result<(), ExportError> {
        let (survey, to, mut unknown) = (self.survey, &mut *self.to, 0);
        each::<Waits>(self.job, |row| {
            let Some(object) = survey.objects.rank(row.rank) else {
                unknown += 1;
                return Ok(());
            };
            let at = |ns, awaited, kind| {
                let wait = Record::event(ns, object, prv::WAIT, awaited);
                wait.and(prv::WAIT_KIND, kind)
            };
            let awaited = u64::from(row.culprit.get()) + 1;
            to.push(at(row.begin_ns, awaited, u64::from(row.kind.code()) + 1))?;
            to.push(at(row.end_ns, 0, 0))
        })?;
        self.unknown_ranks("waits", unknown);
        Ok(())
    }

    fn marks(&mut self) -> Result<(), ExportError> {
        let (survey, to, names) = (self.survey, &mut *self.to, &mut *self.names);
        let (mut open, mut unknown) = (0, 0);
        each::<Marks>(self.job, |row| {
            let thread = survey.objects.by_pid(row.node, row.thread);
            let rank = row.rank.and_then(|rank| survey.objects.rank(rank));
            let Some(object) = thread.or(rank) else {
                unknown += 1;
                return Ok(());
            };
            let value = names.mark(&row.name);
            let at = |ns, kind, value| Record::event(ns, object, kind, value);
            match row.end_ns {
                Some(end) if end == row.begin_ns => to.push(at(end, prv::POINT, value)),
                Some(end) => {
                    to.push(at(row.begin_ns, prv::MARK, value))?;
                    to.push(at(end, prv::MARK, 0))
                }
                None => {
                    open += 1;
                    to.push(at(row.begin_ns, prv::MARK, value))
                }
            }
        })?;
        self.unknown_ranks("marks", unknown);
        self.losses.enter(
            "marked regions that were never left",
            open,
            "in the trace they last until the next mark of their thread",
            "export to csv: table `marks`",
        );
        Ok(())
    }
}
