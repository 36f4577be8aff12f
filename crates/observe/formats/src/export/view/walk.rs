//! From tables to slices.

use super::slice::{Canvas, Detail, Flow, Slice};
use super::track::Track;
use crate::export::kernel::Stream;
use crate::export::names::Names;
use crate::export::{ExportError, Job};
use idlewave_run::findings::Findings;
use idlewave_run::tables::{
    Calls, Counters, Detours, LatePart, LateParts, LateSteps, Marks, Messages, Quanta, RegionKind,
    Regions, TaskTimes, Transfers, WaitKind, WaitPart, WaitParts, Waits,
};
use idlewave_run::{Ledger, RunError, Table};
use std::iter::Peekable;

/// Draws everything but the kernel's own view, and enters what no slice can show.
pub(crate) fn walk(
    job: &Job<'_>,
    names: &Names,
    findings: Option<&Findings>,
    canvas: &mut dyn Canvas,
    losses: &mut Ledger,
) -> Result<(), ExportError> {
    let mut walk = Walk {
        job,
        names,
        canvas,
        arrows: 0,
    };
    walk.regions()?;
    walk.measured()?;
    walk.calls()?;
    walk.marks(losses)?;
    walk.messages()?;
    walk.waits(losses)?;
    walk.late_steps(losses)?;
    walk.charged(findings)?;
    let rows = |name: &str| {
        let tables = &job.run.manifest().tables;
        tables.iter().find(|t| t.name == name).map_or(0, |t| t.rows)
    };
    losses.enter(
        "rows of the tables task_times and counters",
        rows(TaskTimes::NAME) + rows(Counters::NAME),
        "they are left out: they are sums over time, not events",
        "read them in the run itself",
    );
    losses.enter(
        "ends of messages",
        rows(Transfers::NAME).saturating_sub(2 * rows(Messages::NAME)),
        "only messages with both ends are shown",
        "run `idlewave explain` first: it matches the ends",
    );
    let late = rows(LateSteps::NAME);
    let placed = findings.map_or(0, |found| found.latest.len() as u64);
    losses.enter(
        "late steps without arrows",
        late.saturating_sub(placed),
        "their causes are named, but not where in the step each struck",
        "the most delayed steps have arrows; the others are in the kernel's view",
    );
    Ok(())
}

struct Walk<'a> {
    job: &'a Job<'a>,
    names: &'a Names,
    canvas: &'a mut dyn Canvas,
    /// Arrows drawn so far: their numbers count from 1.
    arrows: u64,
}

impl Walk<'_> {
    fn arrow(&mut self) -> u64 {
        self.arrows += 1;
        self.arrows
    }

    /// Visits the rows of a table with their numbers; stops if the user asked to.
    fn rows<T: Table>(
        &mut self,
        mut visit: impl FnMut(&mut Self, u64, T::Row) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        for (number, row) in (0..).zip(Stream::<T>::of(self.job.run)?) {
            if number % 4096 == 0 {
                self.job.go_on()?;
            }
            visit(self, number, row?)?;
        }
        Ok(())
    }

    fn regions(&mut self) -> Result<(), ExportError> {
        self.rows::<Regions>(|walk, _, row| {
            let all = [
                ("iteration", Detail::Number(row.iteration)),
                ("bytes", Detail::Number(row.bytes.map_or(0, |b| b.get()))),
            ];
            let details = &all[..1 + usize::from(row.bytes.is_some())];
            let track = Track::Regions(row.rank);
            let slice = Slice::new(track, row.begin_ns, row.end_ns, region(row.kind));
            walk.canvas.slice(&slice.details(details))
        })
    }

    fn measured(&mut self) -> Result<(), ExportError> {
        self.rows::<Detours>(|walk, _, row| {
            let track = Track::Gaps(row.phase, row.cpu);
            let end_ns = row.begin_ns.saturating_add(row.length.get());
            walk.canvas
                .slice(&Slice::new(track, row.begin_ns, end_ns, "gap"))
        })?;
        self.rows::<Quanta>(|walk, _, row| {
            let track = Track::Quanta(row.phase, row.cpu);
            let end_ns = row.begin_ns.saturating_add(row.duration.get());
            walk.canvas
                .slice(&Slice::new(track, row.begin_ns, end_ns, "quantum"))
        })
    }

    fn calls(&mut self) -> Result<(), ExportError> {
        self.rows::<Calls>(|walk, _, row| {
            let details: Vec<(&str, Detail<'_>)> = [
                ("communicator", row.comm.map(u64::from)),
                ("sequence", row.sequence.map(u64::from)),
                ("root", row.root.map(|r| u64::from(r.get()))),
                ("sent", row.sent.map(|b| b.get())),
                ("received", row.received.map(|b| b.get())),
                ("request", row.request),
            ]
            .into_iter()
            .filter_map(|(name, value)| Some((name, Detail::Number(value?))))
            .collect();
            let track = Track::Calls(row.rank, row.thread);
            let name = walk.names.operation(row.operation);
            let slice = Slice::new(track, row.begin_ns, row.end_ns, name);
            walk.canvas.slice(&slice.details(&details))
        })
    }

    fn marks(&mut self, losses: &mut Ledger) -> Result<(), ExportError> {
        let mut open = 0;
        self.rows::<Marks>(|walk, _, row| {
            let track = match row.rank {
                Some(rank) => Track::Marks(rank, row.thread),
                None => Track::OtherMarks(row.node, row.thread),
            };
            let never = [("end", Detail::Text("never left"))];
            let details = &never[..usize::from(row.end_ns.is_none())];
            open += details.len() as u64;
            let end_ns = row.end_ns.unwrap_or(row.begin_ns);
            let slice = Slice::new(track, row.begin_ns, end_ns, &row.name);
            walk.canvas.slice(&slice.details(details))
        })?;
        losses.enter(
            "marked regions that were never left",
            open,
            "they are shown as points at their start",
            "none needed",
        );
        Ok(())
    }

    fn messages(&mut self) -> Result<(), ExportError> {
        self.rows::<Messages>(|walk, _, row| {
            let arrow = walk.arrow();
            let details = [
                ("bytes", Detail::Number(row.bytes.get())),
                ("communicator", Detail::Number(row.comm.into())),
            ];
            let (sent, got) = (row.sent_ns, row.completed_ns);
            let name = format!("to rank {}", row.to);
            let slice = Slice::new(Track::Messages(row.from), sent, sent, &name);
            let flows = [Flow::Begin(arrow)];
            walk.canvas.slice(&slice.details(&details).flows(&flows))?;
            let name = format!("from rank {}", row.from);
            let slice = Slice::new(Track::Messages(row.to), got, got, &name);
            let flows = [Flow::End(arrow)];
            walk.canvas.slice(&slice.details(&details).flows(&flows))
        })
    }

    fn waits(&mut self, losses: &mut Ledger) -> Result<(), ExportError> {
        let mut parts = Parts::<WaitParts>::of(self.job)?;
        self.rows::<Waits>(|walk, number, row| {
            let charged = parts.of_row(number, |p: &WaitPart| (p.wait, p.finding, p.time.get()))?;
            let charged = charged.text(walk.names);
            let details = [
                ("awaited rank", Detail::Number(row.culprit.get().into())),
                ("hops", Detail::Number(row.hops.into())),
                ("charged to", Detail::Text(&charged)),
            ];
            let name = wait(row.kind);
            let slice = Slice::new(Track::Waits(row.rank), row.begin_ns, row.end_ns, name);
            walk.canvas.slice(&slice.details(&details))?;
            // The arrow leads from the arrival of the awaited rank to where the other goes on, at
            // the same time.
            let arrow = walk.arrow();
            let name = format!("awaited by rank {}", row.rank);
            let slice = Slice::new(Track::Waits(row.culprit), row.end_ns, row.end_ns, &name);
            walk.canvas.slice(&slice.flows(&[Flow::Begin(arrow)]))?;
            let name = format!("released by rank {}", row.culprit);
            let slice = Slice::new(Track::Waits(row.rank), row.end_ns, row.end_ns, &name);
            walk.canvas.slice(&slice.flows(&[Flow::End(arrow)]))
        })?;
        parts.enter(losses);
        Ok(())
    }

    fn late_steps(&mut self, losses: &mut Ledger) -> Result<(), ExportError> {
        let mut parts = Parts::<LateParts>::of(self.job)?;
        self.rows::<LateSteps>(|walk, number, row| {
            let charged = parts.of_row(number, |p: &LatePart| (p.step, p.finding, p.time.get()))?;
            let charged = charged.text(walk.names);
            let details = [
                ("iteration", Detail::Number(row.iteration)),
                ("late by ns", Detail::Number(row.lateness.get())),
                ("charged to", Detail::Text(&charged)),
            ];
            let track = Track::Late(row.rank);
            let slice = Slice::new(track, row.begin_ns, row.end_ns, "late step");
            walk.canvas.slice(&slice.details(&details))
        })?;
        parts.enter(losses);
        Ok(())
    }

    /// The most delayed steps: an arrow from what struck to the rank that it struck, and on to the end
    /// of the step.
    fn charged(&mut self, findings: Option<&Findings>) -> Result<(), ExportError> {
        for step in findings.map_or(&[][..], |found| &found.latest) {
            self.job.go_on()?;
            let mut ends = Vec::new();
            for charge in &step.charged {
                let arrow = self.arrow();
                let (begin_ns, end_ns) = (charge.begin_ns, charge.end_ns);
                let name = self.names.finding(charge.source);
                let track = Track::Charged(charge.source, charge.rank);
                let flows = [Flow::Begin(arrow)];
                let slice = Slice::new(track, begin_ns, end_ns, name);
                self.canvas.slice(&slice.flows(&flows))?;
                let name = format!("taken by {name}");
                let flows = [Flow::Step(arrow)];
                let slice = Slice::new(Track::Taken(charge.rank), begin_ns, end_ns, &name);
                self.canvas.slice(&slice.flows(&flows))?;
                ends.push(Flow::End(arrow));
            }
            let name = format!("late by {} ns", step.lateness.get());
            let track = Track::Late(step.last_rank);
            let slice = Slice::new(track, step.end_ns, step.end_ns, &name);
            self.canvas.slice(&slice.flows(&ends))?;
        }
        Ok(())
    }
}

/// The parts of the rows of another table, in the order of these rows.
struct Parts<T: Table> {
    rows: Peekable<Stream<T>>,
    passed: u64,
}

/// Parts of one row: source of the findings and nanoseconds.
struct Charged(Vec<(u32, u64)>);

impl<T: Table> Parts<T> {
    fn of(job: &Job<'_>) -> Result<Self, RunError> {
        Ok(Self {
            rows: Stream::of(job.run)?.peekable(),
            passed: 0,
        })
    }

    /// The parts of a row; `read` gives row, source and time of a part.
    fn of_row(
        &mut self,
        number: u64,
        read: impl Fn(&T::Row) -> (u32, u32, u64),
    ) -> Result<Charged, RunError> {
        let mut charged = Vec::new();
        let due = |part: &Result<T::Row, RunError>| {
            part.as_ref()
                .map_or(true, |part| u64::from(read(part).0) <= number)
        };
        while let Some(part) = self.rows.next_if(due) {
            match read(&part?) {
                (row, source, time) if u64::from(row) == number => charged.push((source, time)),
                _ => self.passed += 1,
            }
        }
        Ok(Charged(charged))
    }

    fn enter(self, losses: &mut Ledger) {
        losses.enter(
            format!("rows of the table {} out of order", T::NAME),
            self.passed,
            "these parts are not shown",
            "explain the run again",
        );
    }
}

impl Charged {
    /// "66000 ns crond (task), 4000 ns timer tick".
    fn text(self, names: &Names) -> String {
        let of = |(source, time): &(u32, u64)| format!("{time} ns {}", names.finding(*source));
        self.0.iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

/// The name of a part of a step.
pub(crate) const fn region(kind: RegionKind) -> &'static str {
    match kind {
        RegionKind::Compute => "compute",
        RegionKind::Exchange => "exchange",
        RegionKind::Barrier => "barrier",
        RegionKind::Force => "forces",
        RegionKind::Rebuild => "rebuild",
        RegionKind::Update => "update",
        RegionKind::Allreduce => "allreduce",
        RegionKind::Reduce => "reduce",
        RegionKind::Alltoall => "all-to-all",
        RegionKind::Communication => "communication",
        RegionKind::RoundTrip => "round trip",
    }
}

const fn wait(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::LateSender => "late sender",
        WaitKind::LateReceiver => "late receiver",
        WaitKind::Collective => "wait at a collective",
    }
}
