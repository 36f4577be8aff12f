//! Chrome's trace event format: JSON that many viewers open.
//!
//! The format's times are in microseconds. They are written as decimals with three digits, so that
//! nanoseconds survive, and count from the start of the run: most readers turn them into doubles,
//! which are then exact to the nanosecond for 50 days. Everything is a slice: threads on their CPUs
//! (the idle task is a gap), interrupts beside them, and the tracks that [`view`] draws. Rows of a
//! viewer are threads of processes, so groups and tracks are numbered as such; the run's thread
//! numbers are among the details.
//!
//! Source: "Trace Event Format", Google, 2016.

use crate::export::kernel::{Stream, enter_inferred};
use crate::export::names::Names;
use crate::export::out::Output;
use crate::export::view::{self, Canvas, Detail, Flow, Lanes, Slice, Track};
use crate::export::{Export, ExportError, Job};
use idlewave_run::tables::{
    Bursts, Calls, Detours, EndReason, Interrupts, LateSteps, Marks, Messages, Migrations, Quanta,
    Regions, Syscalls, TaskKind, Waits, Wakeups,
};
use idlewave_run::{Ledger, RunReader, Table};
use idlewave_units::Pid;
use std::fmt::Write;

/// Writes a run in Chrome's trace event format.
///
/// # Errors
/// The run cannot be read, the file cannot be written, or the user asked to stop.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    let findings = job.run.findings()?;
    let names = Names::of(job.run, findings.as_ref())?;
    let mut losses = Ledger::default();
    let tables = &job.run.manifest().tables;
    let mut canvas = Chrome {
        job,
        names: &names,
        out: Output::begin(job.output)?,
        lanes: Lanes::default(),
        origin_ns: first_ns(job.run)?,
        line: String::new(),
        events: 0,
        total: tables.iter().map(|table| table.rows).sum(),
    };
    canvas.begin()?;
    kernel(job, &names, &mut canvas, &mut losses)?;
    view::walk(job, &names, findings.as_ref(), &mut canvas, &mut losses)?;
    losses.enter(
        "slices that overlap others",
        canvas.lanes.overlapping,
        "the viewer may exchange their ends",
        "none needed: rows of the run are out of order",
    );
    canvas.out.write(b"\n]}\n")?;
    let file = canvas.out.finish(Some(canvas.events))?;
    (job.progress)(1.0);
    Ok(Export::one(file, losses))
}

/// The kernel's view as slices.
fn kernel(
    job: &Job<'_>,
    names: &Names,
    canvas: &mut Chrome<'_>,
    losses: &mut Ledger,
) -> Result<(), ExportError> {
    let (mut idle, mut uncertain) = (0, 0);
    for (number, row) in (0_u64..).zip(Stream::<Bursts>::of(job.run)?) {
        let row = row?;
        if number % 4096 == 0 {
            job.go_on()?;
        }
        uncertain += u64::from(!row.certain);
        let task = names.tasks.get(&(row.node, row.pid));
        if row.pid == Pid::IDLE || task.is_some_and(|task| task.kind == TaskKind::Idle) {
            idle += 1;
            continue;
        }
        let details = [
            ("thread", Detail::Number(row.pid.get().into())),
            ("then", Detail::Text(then(row.end_reason))),
        ];
        let track = Track::Threads((row.node, row.cpu));
        let name = names.task(row.node, row.pid);
        let slice = Slice::new(track, row.begin_ns, row.end_ns, name);
        canvas.slice(&slice.details(&details))?;
    }
    for (number, row) in (0_u64..).zip(Stream::<Interrupts>::of(job.run)?) {
        let row = row?;
        if number % 4096 == 0 {
            job.go_on()?;
        }
        uncertain += u64::from(!row.certain);
        let source = names.source(row.source);
        let details = [
            ("class", Detail::Text(source.map_or("", |s| s.kind.label()))),
            ("interrupted", Detail::Number(row.pid.get().into())),
        ];
        let track = Track::Interrupts((row.node, row.cpu));
        let name = source.map_or("interrupt", |s| &s.name);
        let slice = Slice::new(track, row.begin_ns, row.end_ns, name);
        canvas.slice(&slice.details(&details))?;
    }
    wakeups(job, names, canvas)?;
    losses.enter(
        "stretches in which a CPU was idle",
        idle,
        "they are gaps, like stretches that no record covers",
        "export to Perfetto's own format",
    );
    enter_inferred(losses, "bursts and interrupts", uncertain);
    let tables = &job.run.manifest().tables;
    let syscalls = tables.iter().find(|table| table.name == Syscalls::NAME);
    losses.enter(
        "entries into system calls and returns",
        syscalls.map_or(0, |table| table.rows),
        "they are left out",
        "export to Perfetto's own format or to trace.dat",
    );
    Ok(())
}

/// Wake-ups and migrations as points.
fn wakeups(job: &Job<'_>, names: &Names, canvas: &mut Chrome<'_>) -> Result<(), ExportError> {
    for row in Stream::<Wakeups>::of(job.run)? {
        let row = row?;
        let details = [
            ("thread", Detail::Number(row.pid.get().into())),
            ("waker", Detail::Number(row.waker.get().into())),
            ("to CPU", Detail::Number(row.target_cpu.get().into())),
        ];
        let name = format!("wakes {}", names.task(row.node, row.pid));
        let track = Track::Threads((row.node, row.cpu));
        let slice = Slice::new(track, row.time_ns, row.time_ns, &name);
        canvas.slice(&slice.details(&details))?;
    }
    for row in Stream::<Migrations>::of(job.run)? {
        let row = row?;
        let details = [
            ("thread", Detail::Number(row.pid.get().into())),
            ("to CPU", Detail::Number(row.to.get().into())),
        ];
        let name = format!("{} moves away", names.task(row.node, row.pid));
        let track = Track::Threads((row.node, row.from));
        let slice = Slice::new(track, row.time_ns, row.time_ns, &name);
        canvas.slice(&slice.details(&details))?;
    }
    Ok(())
}

const fn then(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Preempted => "preempted",
        EndReason::Sleeping => "asleep",
        EndReason::Uninterruptible => "in uninterruptible sleep",
        EndReason::Stopped => "stopped",
        EndReason::Exited => "ended",
        EndReason::Unknown => "unknown",
    }
}

/// The earliest time in the run; 0 if there is none.
fn first_ns(run: &RunReader) -> Result<u64, ExportError> {
    let mut first = u64::MAX;
    run.for_each::<Bursts>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<Interrupts>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<Wakeups>(|row| first = first.min(row.time_ns))?;
    run.for_each::<Migrations>(|row| first = first.min(row.time_ns))?;
    run.for_each::<Regions>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<Detours>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<Quanta>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<Calls>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<Marks>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<Messages>(|row| first = first.min(row.sent_ns))?;
    run.for_each::<Waits>(|row| first = first.min(row.begin_ns))?;
    run.for_each::<LateSteps>(|row| first = first.min(row.begin_ns))?;
    Ok(if first == u64::MAX { 0 } else { first })
}

struct Chrome<'a> {
    job: &'a Job<'a>,
    names: &'a Names,
    out: Output,
    lanes: Lanes,
    /// Subtracted from all times.
    origin_ns: u64,
    /// The event under construction.
    line: String,
    events: u64,
    /// Estimate of the number of events.
    total: u64,
}

impl Chrome<'_> {
    fn begin(&mut self) -> Result<(), ExportError> {
        let manifest = self.job.run.manifest();
        self.line.clear();
        self.line += "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"idlewave\":";
        text(&mut self.line, &manifest.idlewave);
        self.line += ",\"command\":";
        text(&mut self.line, &manifest.command.join(" "));
        // As text: a reader that uses floating point would lose the last digits of a number.
        let _ = write!(self.line, ",\"origin_ns\":\"{}\"", self.origin_ns);
        self.line += "},\n\"traceEvents\":[";
        self.out.write(self.line.as_bytes())
    }

    /// Writes the event in `line`.
    fn event(&mut self) -> Result<(), ExportError> {
        self.out
            .write(if self.events > 0 { b",\n" } else { b"\n" })?;
        self.events += 1;
        if self.events % 4096 == 0 {
            let share = self.events as f64 / self.total.max(1) as f64;
            (self.job.progress)(share.min(1.0));
        }
        self.out.write(self.line.as_bytes())
    }

    /// Starts an event of this phase; `time_ns` is absolute.
    fn open(&mut self, phase: char, (group, lane): (u64, u64), time_ns: u64) {
        self.line.clear();
        let _ = write!(
            self.line,
            "{{\"ph\":\"{phase}\",\"pid\":{group},\"tid\":{lane}"
        );
        self.line += ",\"ts\":";
        micros(&mut self.line, time_ns.saturating_sub(self.origin_ns));
    }

    /// Names a process or thread of the format.
    fn name(
        &mut self,
        what: &str,
        (group, lane): (u64, u64),
        name: &str,
    ) -> Result<(), ExportError> {
        self.line.clear();
        let _ = write!(
            self.line,
            "{{\"ph\":\"M\",\"pid\":{group},\"tid\":{lane},\"name\":\"{what}\",\"args\":{{\"name\":"
        );
        text(&mut self.line, name);
        self.line += "}}";
        self.event()
    }
}

impl Canvas for Chrome<'_> {
    fn slice(&mut self, slice: &Slice<'_>) -> Result<(), ExportError> {
        let lane = self.lanes.place(slice);
        let manifest = self.job.run.manifest();
        let at = (lane.group, lane.lane);
        if lane.new_group {
            let name = slice.track.group().name(manifest, self.names);
            self.name("process_name", at, &name)?;
        }
        if lane.new_lane {
            let name = slice.track.name(manifest, self.names);
            self.name("thread_name", at, &name)?;
        }
        self.open('X', at, slice.begin_ns);
        self.line += ",\"dur\":";
        micros(&mut self.line, slice.end_ns - slice.begin_ns);
        self.line += ",\"name\":";
        text(&mut self.line, slice.name);
        if !slice.details.is_empty() {
            self.line += ",\"args\":{";
            for (number, (name, detail)) in slice.details.iter().enumerate() {
                if number > 0 {
                    self.line.push(',');
                }
                text(&mut self.line, name);
                self.line.push(':');
                match detail {
                    Detail::Text(value) => text(&mut self.line, value),
                    Detail::Number(value) => {
                        let _ = write!(self.line, "{value}");
                    }
                }
            }
            self.line.push('}');
        }
        self.line.push('}');
        self.event()?;
        for flow in slice.flows {
            let (phase, id) = match *flow {
                Flow::Begin(id) => ('s', id),
                Flow::Step(id) => ('t', id),
                Flow::End(id) => ('f', id),
            };
            self.open(phase, at, slice.begin_ns);
            // Arrows end at the slice around them, just as they start there.
            let _ = write!(
                self.line,
                ",\"id\":{id},\"cat\":\"delay\",\"name\":\"delay\",\"bp\":\"e\"}}"
            );
            self.event()?;
        }
        Ok(())
    }
}

/// Nanoseconds as microseconds with three digits.
fn micros(out: &mut String, ns: u64) {
    let _ = write!(out, "{}.{:03}", ns / 1000, ns % 1000);
}

/// A JSON string (RFC 8259). Names are untrusted input.
fn text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_the_three_digits_after_the_point() {
        let of = |ns| {
            let mut out = String::new();
            micros(&mut out, ns);
            out
        };
        assert_eq!(of(300), "0.300");
        assert_eq!(of(0), "0.000");
        assert_eq!(of(1_234_567), "1234.567");
        assert_eq!(of(u64::MAX), "18446744073709551.615");
    }

    #[test]
    fn any_text_is_a_string_of_json() {
        for name in ["kworker/0:1", "a\"b\\c", "\u{1}\n\u{7f}\u{e9}"] {
            let mut out = String::new();
            text(&mut out, name);
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), name);
        }
    }
}
