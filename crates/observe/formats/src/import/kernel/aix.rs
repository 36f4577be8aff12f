//! The text report of AIX's `trcrpt`.
//!
//! ```text
//! ID  PROCESS NAME   CPU PID      TID      I SYSTEM CALL    ELAPSED_SEC     DELTA_MSEC   APPL ...
//! 106 solver         3   21004    30004                     0.000306500       0.000300   dispatch: ...
//! ```
//! Written from IBM's published documentation alone: "Reading a trace report", the commands
//! `trcrpt` and `curt`, "Trace Hook IDs". No report from a real machine was available, and all
//! fixtures are synthetic; the ledger of every such run says so.

mod columns;
mod facts;
mod hooks;
mod lanes;
mod threads;

use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::kernel::text::Lines;
use columns::Columns;
use facts::Facts;
use idlewave_ftrace::{DecodeSummary, Feed, MOST_CPUS, SeenTask};
use idlewave_run::{Ledger, RunWriter};
use idlewave_units::{Cpu, NodeId};
use lanes::{At, Lanes};

pub(crate) use columns::is_header;
pub(crate) use threads::is_kernel_name;

/// How to make a report that can be imported.
const MAKE: &str = "record with trace -a -j 001,002,005,006,100,102,103,106,10C,11F,134,135,139,200,462,463 \
                    and print with trcrpt -O exec=on,pid=on,tid=on,cpuid=on";

/// A report that has been read.
pub(crate) struct Read {
    pub(crate) summary: DecodeSummary,
    pub(crate) host: Option<String>,
    /// System and version.
    pub(crate) system: Option<String>,
    pub(crate) losses: Ledger,
    /// Fewest decimal places of the seconds.
    pub(crate) digits: u32,
}

/// Reads the lines of a report as the importer does, and returns how many of them it uses. For
/// fuzzing.
pub fn read_report_lines(report: &[u8]) -> u64 {
    let mut columns = None;
    let mut used = 0;
    for line in report.split(|byte| *byte == b'\n') {
        if is_header(line) {
            columns = Columns::parse(line).ok();
        }
        Facts::default().note(line);
        if let Some(Ok(line)) = columns.as_ref().and_then(|c| c.line(line)) {
            hooks::cpu(line.text);
            used += u64::from(hooks::parse(line.hook, line.text).is_ok());
        }
    }
    used
}

/// Turns the report into tables. `settle` may correct the kinds of the threads.
pub(crate) fn read(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Read, ImportError> {
    let mut lines = Lines::open(ask.input)?;
    let mut pass = Pass {
        feed: Feed::new(out, NodeId::new(0), &[])?,
        lanes: Lanes::default(),
        facts: Facts::default(),
        columns: None,
        digits: 9,
        used: 0,
        unread: Tally::default(),
        foreign: Tally::default(),
    };
    let stopped = lines.each(ask.stop, ask.progress, |number, line| {
        if !is_header(line) {
            return pass.line(number, line);
        }
        let columns = Columns::parse(line).map_err(|lack| ImportError::Lacks {
            path: ask.input.to_owned(),
            what: format!("line {number}: {lack}"),
            next: MAKE.to_owned(),
        });
        pass.columns = Some(columns?);
        Ok(())
    })?;
    if pass.lanes.switches == 0 && !stopped {
        let first = pass.unread.first.map(|f| format!(" ({f})"));
        return Err(ImportError::Lacks {
            path: ask.input.to_owned(),
            what: format!(
                "it holds no dispatch (hook 106) that can be read{}",
                first.unwrap_or_default()
            ),
            next: MAKE.to_owned(),
        });
    }
    let losses = pass.losses(lines.long());
    let threads = pass.lanes.threads;
    let named = |seen: &mut [SeenTask]| {
        threads.settle(seen);
        settle(seen);
    };
    Ok(Read {
        summary: pass.feed.finish(out, stopped, named)?,
        host: pass.facts.host,
        system: pass.facts.system,
        losses,
        digits: pass.digits,
    })
}

/// Lines that are not used.
#[derive(Default)]
struct Tally {
    count: u64,
    /// The first of them, in words.
    first: Option<String>,
}

impl Tally {
    #[cold]
    fn add(&mut self, number: u64, reason: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| match reason {
            "" => format!("the first: line {number}"),
            reason => format!("the first: line {number}, {reason}"),
        });
    }

    fn named(&self, what: &str) -> String {
        format!("{what} ({})", self.first.as_deref().unwrap_or("none"))
    }
}

/// One pass over the lines.
struct Pass {
    feed: Feed,
    lanes: Lanes,
    facts: Facts,
    /// `None` before the first header.
    columns: Option<Columns>,
    digits: u32,
    /// Lines that were read.
    used: u64,
    unread: Tally,
    foreign: Tally,
}

impl Pass {
    fn line(&mut self, number: u64, line: &[u8]) -> Result<(), ImportError> {
        let Some(columns) = &self.columns else {
            self.facts.note(line);
            return Ok(());
        };
        let line = match columns.line(line) {
            Some(Ok(line)) => line,
            Some(Err(lack)) => {
                self.unread.add(number, lack);
                return Ok(());
            }
            None if line.trim_ascii().is_empty() => return Ok(()),
            None => {
                self.foreign.add(number, "");
                return Ok(());
            }
        };
        let hook = match hooks::parse(line.hook, line.text) {
            Ok(hook) => hook,
            Err(lack) => {
                self.unread.add(number, lack);
                return Ok(());
            }
        };
        let Some(cpu) = line.cpu.or_else(|| hooks::cpu(line.text)) else {
            self.unread.add(number, "it names no CPU");
            return Ok(());
        };
        if cpu >= MOST_CPUS {
            self.unread.add(number, "no machine has such a CPU");
            return Ok(());
        }
        self.used += 1;
        self.digits = self.digits.min(line.digits);
        // On a dispatch, the columns may describe either thread.
        let switch = matches!(hook, hooks::Hook::Switch { .. });
        if let (Some(tid), false) = (line.tid, switch) {
            self.lanes.threads.see_at_line(tid, line.pid, line.name);
        }
        let at = At {
            cpu: Cpu::new(cpu),
            time_ns: line.time_ns,
            tid: line.tid,
        };
        self.lanes.hook(at, hook, &mut self.feed)
    }

    fn losses(&self, long: u64) -> Ledger {
        let mut losses = Ledger::default();
        losses.enter(
            "reports of AIX, whose form is known from IBM's documentation alone",
            1,
            "the wording of your version may differ, and what is worded otherwise is missing here",
            "compare the CPU times of processes with those of curt",
        );
        losses.enter(
            "times rounded down to a microsecond or more",
            if self.digits < 9 { self.used } else { 0 },
            "what is shorter has no length or a whole microsecond",
            "print the report without timestamp=1",
        );
        losses.enter(
            self.unread.named("lines of the report that cannot be read"),
            self.unread.count,
            "they are not used",
            MAKE,
        );
        losses.enter(
            self.foreign.named("lines of the report without a hook"),
            self.foreign.count,
            "they are not used",
            "none needed: trcrpt continues long lines on the next one",
        );
        losses.enter(
            "lines longer than 64 KiB",
            long,
            "they are not used",
            "the file may be damaged: print the report again",
        );
        losses.enter(
            "returns from interrupt handlers whose start is not in the report",
            self.lanes.strays,
            "their time is charged to what they interrupted",
            "record the hooks 100 and 102 too",
        );
        losses.enter(
            "threads that left their CPU for a reason that the report does not tell",
            self.lanes.unexplained,
            "whether they were preempted or went to sleep is not known",
            "record the hooks 11F, 135, 462 and 463 too",
        );
        losses
    }
}
