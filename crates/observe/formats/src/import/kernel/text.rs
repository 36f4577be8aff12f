//! Text: the files `trace` and `trace_pipe` of tracefs, and what `trace-cmd report` and
//! `perf script` print.
//!
//! ```text
//!           sh-17814   [001] d..2.  3458.296365: sched_switch: prev_comm=sh prev_pid=17814 ...
//!           sh-9358    [001]  3075.110441: sched_switch:         sh:9358 [125] R ==> cat:9347 [120]
//!           sh 14994 [000]  3384.115757:  sched:sched_switch: prev_comm=sh prev_pid=14994 ...
//! ```
//! Every line is taken as it is, so one reader does for all tools. Lines that are no events are
//! counted, and what the tools say about lost events becomes gaps.

mod body;
mod head;
mod lines;
mod notes;

use crate::import::ask::Ask;
use crate::import::error::ImportError;
use body::Body;
use head::Head;
use idlewave_ftrace::{DecodeSummary, Feed, SeenTask};
use idlewave_run::{Ledger, RunWriter};
use idlewave_units::{NodeId, Pid};
use std::collections::HashMap;

pub(crate) use lines::Lines;
pub(crate) use notes::Facts;

/// Whether a line is an event with a CPU and a time.
pub(crate) fn is_event(line: &[u8]) -> bool {
    Head::parse(line).is_some()
}

/// Reads one line as an importer does; returns whether it is an event that the timeline uses. For
/// fuzzing.
pub fn read_line(line: &[u8]) -> bool {
    let Some(head) = Head::parse(line) else {
        notes::lost(line);
        Facts::default().note(line);
        return false;
    };
    matches!(body::parse(head.event, head.body), Body::Event(_))
}

/// A text that has been read.
pub(crate) struct Read {
    pub(crate) summary: DecodeSummary,
    pub(crate) facts: Facts,
    /// What the text lacks.
    pub(crate) losses: Ledger,
    /// Fewest decimal places of the seconds.
    pub(crate) digits: u32,
    /// Which tool wrote it, in words.
    pub(crate) tool: &'static str,
    /// The program that dropped the records of lost events.
    pub(crate) hides_losses: Option<&'static str>,
}

/// Turns the text into tables. `settle` may correct the kinds of the threads.
pub(crate) fn read(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Read, ImportError> {
    let mut lines = Lines::open(ask.input)?;
    let mut pass = Pass {
        feed: Feed::new(out, NodeId::new(0), &[])?,
        facts: Facts::default(),
        processes: HashMap::new(),
        last: None,
        digits: 9,
        perf: false,
        foreign: 0,
        first_foreign: None,
        garbled: 0,
    };
    let stopped = lines.each(ask.stop, ask.progress, |number, line| {
        pass.line(number, line)
    })?;
    let (long, facts) = (lines.long(), pass.facts);
    let mut losses = Ledger::default();
    let rounded = pass.digits < 9;
    losses.enter(
        "times rounded to a microsecond or more",
        if rounded { pass.feed.events() } else { 0 },
        "what is shorter has no length or a whole microsecond",
        "import the binary trace, or print nanoseconds: perf script --ns, trace-cmd report -t",
    );
    let first = pass
        .first_foreign
        .map(|n| format!(" (the first: line {n})"));
    losses.enter(
        format!("lines that are no events{}", first.unwrap_or_default()),
        pass.foreign,
        "they are not used",
        "none needed if the file holds other output too",
    );
    losses.enter(
        "events whose fields could not be read",
        pass.garbled,
        "they are not used",
        "print the events in their own layout: without -R or a format of your own",
    );
    losses.enter(
        "lines longer than 64 KiB",
        long,
        "they are not used",
        "the file may be damaged: record again",
    );
    losses.enter(
        "events overwritten in the ring buffer before the trace was saved",
        facts.overwritten,
        "the trace begins later than the recording",
        "record with a larger buffer, or read trace_pipe meanwhile",
    );
    let processes = pass.processes;
    let named = |seen: &mut [SeenTask]| {
        for task in seen.iter_mut() {
            task.process = task.process.or(processes.get(&task.pid).copied());
        }
        settle(seen);
    };
    let tool = match (pass.perf, facts.report) {
        (true, _) => "text of perf script",
        (false, true) => "text of trace-cmd report",
        (false, false) => "ftrace text",
    };
    let summary = pass.feed.finish(out, stopped, named)?;
    Ok(Read {
        summary,
        facts,
        losses,
        digits: pass.digits,
        tool,
        hides_losses: pass.perf.then_some("perf script"),
    })
}

/// One pass over the lines.
struct Pass {
    feed: Feed,
    facts: Facts,
    processes: HashMap<Pid, Pid>,
    /// The thread of the previous line.
    last: Option<Pid>,
    digits: u32,
    perf: bool,
    foreign: u64,
    first_foreign: Option<u64>,
    garbled: u64,
}

impl Pass {
    fn line(&mut self, number: u64, line: &[u8]) -> Result<(), ImportError> {
        let Some(head) = Head::parse(line) else {
            self.other(number, line);
            return Ok(());
        };
        if head.pid.is_some() && head.pid != self.last {
            self.last = head.pid;
            self.name(&head);
        }
        self.digits = self.digits.min(head.digits);
        self.perf |= head.perf;
        if let (Some(pid), Some(process)) = (head.pid, head.process) {
            self.processes.insert(pid, process);
        }
        let event = match body::parse(head.event, head.body) {
            Body::Event(event) => event,
            Body::Unknown => {
                self.feed.unknown(head.cpu);
                return Ok(());
            }
            Body::Garbled => {
                self.garbled += 1;
                return Ok(());
            }
        };
        self.feed.event(head.cpu, head.time_ns, head.pid, event)?;
        Ok(())
    }

    /// Names a thread. Only the lines name a thread that never switches.
    fn name(&mut self, head: &Head<'_>) {
        let known = !head.name.starts_with(b"<") && !head.name.starts_with(b":");
        if let (Some(pid), true) = (head.pid, known) {
            self.feed.name(pid, head.name);
        }
    }

    #[cold]
    fn other(&mut self, number: u64, line: &[u8]) {
        if let Some((cpu, count)) = notes::lost(line) {
            self.feed.lose(cpu, count);
        } else if !self.facts.note(line) {
            self.foreign += 1;
            self.first_foreign.get_or_insert(number);
        }
    }
}
