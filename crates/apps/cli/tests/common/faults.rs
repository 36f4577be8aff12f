//! Kills processes of a gang service at a phase of a switch, and observes the surviving ranks.

// Each test program uses only a part of it.
#![allow(dead_code)]

use crate::gang::{Rank, Service, until};
use std::path::Path;
use std::time::{Duration, Instant};

/// No rank may stand still for longer than this: far above two leases of a second and the start of
/// a process, even on a busy machine.
pub const BOUND: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Controller,
    Agent,
    /// One of the two.
    Watchdog,
    /// Both.
    Watchdogs,
    Rank,
    /// Stopped, not killed.
    AgentStill,
    ControllerStill,
    WatchdogStill,
}

impl Who {
    pub fn stands_still(self) -> bool {
        matches!(
            self,
            Who::AgentStill | Who::ControllerStill | Who::WatchdogStill
        )
    }
}

/// The outcome of one fault.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// The time until every surviving rank had run again, or had ended because its network was
    /// lost.
    pub runs: Duration,
    /// The longest time that any of them stood still, from the fault until they were in step.
    pub still: Duration,
    /// The time until both gangs, or their replacements, were switched again.
    pub step: Duration,
}

/// Kills processes when a switch reaches this phase. Waits until it does; returns the time.
pub fn kill_at(service: &Service, phase: &str, pids: &[u32]) -> Instant {
    arm(&service.fault, phase, pids)
}

/// The same, with the fault file at this path.
pub fn arm(fault: &Path, phase: &str, pids: &[u32]) -> Instant {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    arm_words(fault, phase, &pids)
}

/// The same, with the text of the fault file.
pub fn arm_words(fault: &Path, phase: &str, words: &[String]) -> Instant {
    let line = format!("{phase} {}\n", words.join(" "));
    // Write atomically, or a reader may see half of it.
    let part = fault.with_extension("part");
    std::fs::write(&part, line).unwrap();
    std::fs::rename(&part, fault).unwrap();
    until("the phase is passed", || (!fault.exists()).then_some(()));
    Instant::now()
}

/// A rank that should keep running.
struct One {
    rank: Rank,
    count: u64,
    last: Instant,
    ran: bool,
    still: Duration,
}

/// Ranks that should keep running after a fault.
pub struct Watched {
    begin: Instant,
    ranks: Vec<One>,
    runs: Option<Duration>,
    bound: Duration,
}

impl Watched {
    pub fn new<'a>(ranks: impl Iterator<Item = &'a Rank>, begin: Instant) -> Self {
        let one = |rank: &Rank| One {
            rank: Rank(rank.0.clone()),
            count: rank.count(),
            last: begin,
            ran: false,
            still: Duration::ZERO,
        };
        let ranks = ranks.map(one).collect();
        Self {
            begin,
            ranks,
            runs: None,
            bound: BOUND,
        }
    }

    /// Lets ranks stand still for up to `bound`.
    pub fn within(self, bound: Duration) -> Self {
        Self { bound, ..self }
    }

    /// Checks all of them; none may stand still for too long.
    pub fn look(&mut self, what: &str) {
        let now = Instant::now();
        for one in &mut self.ranks {
            let new = one.rank.count();
            one.still = one.still.max(now - one.last);
            if new != one.count {
                (one.count, one.last, one.ran) = (new, now, true);
            }
            let path = &one.rank.0;
            let said = || std::fs::read_to_string(path.with_extension("said")).unwrap_or_default();
            assert!(
                now - one.last < self.bound,
                "{path:?} stands still: {what}: {}",
                said()
            );
        }
        if self.runs.is_none() && self.ranks.iter().all(|one| one.ran) {
            self.runs = Some(self.begin.elapsed());
        }
    }

    /// The time until all had run again.
    pub fn runs(&self) -> Option<Duration> {
        self.runs
    }

    pub fn still(&self) -> Duration {
        let still = self.ranks.iter().map(|one| one.still);
        still.max().unwrap_or_default()
    }
}

fn middle(mut of: Vec<Duration>) -> (f64, f64) {
    of.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    (ms(of[of.len() / 2]), ms(of[of.len() - 1]))
}

/// Prints the outcomes of all faults, by process and phase.
pub fn print_table(cases: &[&[Who]], phases: &[&str], came: &[(&[Who], &str, Came)]) {
    println!(
        "{:22} {:9} {:>3}  {:>19}  {:>19}  {:>19}",
        "killed", "phase", "n", "all run or ended, ms", "stood still, ms", "in step again, ms"
    );
    println!("{:38}{}", "", "    median     worst ".repeat(3));
    for who in cases {
        for phase in phases {
            let of: Vec<Came> = came
                .iter()
                .filter(|(w, p, _)| w == who && p == phase)
                .map(|(_, _, came)| *came)
                .collect();
            if of.is_empty() {
                continue;
            }
            let names: Vec<String> = who
                .iter()
                .map(|w| format!("{w:?}").to_lowercase())
                .collect();
            let by = |get: fn(&Came) -> Duration| middle(of.iter().map(get).collect());
            let (runs, still, step) = (by(|c| c.runs), by(|c| c.still), by(|c| c.step));
            println!(
                "{:22} {phase:9} {:>3}  {:>9.0} {:>9.0}  {:>9.0} {:>9.0}  {:>9.0} {:>9.0}",
                names.join(", "),
                of.len(),
                runs.0,
                runs.1,
                still.0,
                still.1,
                step.0,
                step.1
            );
        }
    }
}
