//! What `idlewave gang watch` says: each deadlock once, and one line at the end.

use idlewave_units::Nanos;
use idlewave_watch::{Job, Look};
use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// What was seen, and what of it was said.
#[derive(Debug, Default)]
pub struct Words {
    json: bool,
    seen: Counts,
    /// Ranks of the deadlock that was told last.
    told: Vec<u32>,
    /// Ranks that are not followed, and why.
    unknown: Option<String>,
    /// Ranks seen and there are, where the last look that tells did not see all.
    missing: Option<(u32, u32)>,
    /// The first look that failed.
    trouble: Option<String>,
}

/// Looks by what they showed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    looks: u64,
    starting: u64,
    progressing: u64,
    idle: u64,
    deadlocked: u64,
    unknown: u64,
    ended: u64,
    /// Deadlocks told.
    deadlocks: u64,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event<'a> {
    Deadlock {
        ranks: &'a [u32],
        polling: bool,
        /// Whether messages to other nodes may just be slow.
        slow: bool,
        lines: &'a [String],
    },
    Trouble {
        error: &'a str,
    },
    TimeOut {
        seconds: f64,
    },
    End {
        seconds: f64,
        #[serde(flatten)]
        counts: Counts,
        mpi: bool,
        not_followed: Option<&'a str>,
    },
}

impl Words {
    pub fn new(json: bool) -> Self {
        Self {
            json,
            ..Self::default()
        }
    }

    /// Counts a look, and tells of a deadlock that is new.
    pub fn look(&mut self, look: &Look) {
        let seen = &mut self.seen;
        seen.looks += 1;
        *match &look.job {
            Job::NoProcess | Job::Initialising => &mut seen.starting,
            Job::Incomplete { .. } | Job::Unclear => &mut seen.unknown,
            Job::Progressing => &mut seen.progressing,
            Job::Idle => &mut seen.idle,
            Job::Deadlocked(_) => &mut seen.deadlocked,
            Job::Terminated => &mut seen.ended,
        } += 1;
        match look.job {
            Job::Incomplete { seen, size } => self.missing = Some((seen, size)),
            Job::Progressing | Job::Idle | Job::Deadlocked(_) => self.missing = None,
            Job::Terminated => {
                let ranks = look.ranks.len() as u32;
                self.missing = self.missing.filter(|(_, size)| ranks < *size);
            }
            Job::NoProcess | Job::Initialising | Job::Unclear => {}
        }
        if let Some(rank) = look.ranks.iter().find(|rank| rank.record.unknown != 0) {
            let text = || format!("rank {} is {}", rank.rank, look.place(rank));
            self.unknown.get_or_insert_with(text);
        }
        let Some(deadlock) = look.deadlock() else {
            return;
        };
        let ranks: Vec<u32> = deadlock.ranks.iter().map(|rank| rank.get()).collect();
        if ranks == self.told {
            return;
        }
        let lines = look.report().unwrap_or_default();
        let polling = deadlock.polling;
        self.seen.deadlocks += 1;
        match self.json {
            true => json(&Event::Deadlock {
                ranks: &ranks,
                polling,
                slow: look.slow,
                lines: &lines,
            }),
            false => say(&format!("idlewave: {}\n", lines.join("\n"))),
        }
        self.told = ranks;
    }

    /// A look failed: nothing is known of that moment.
    pub fn trouble(&mut self, error: &str) {
        self.seen.looks += 1;
        self.seen.unknown += 1;
        if self.trouble.is_none() {
            self.trouble = Some(error.to_owned());
            match self.json {
                true => json(&Event::Trouble { error }),
                false => say(&format!("idlewave: failed to {error}\n")),
            }
        }
    }

    /// The time of the job is over.
    pub fn timed_out(&self, after: Duration) {
        match self.json {
            true => json(&Event::TimeOut {
                seconds: after.as_secs_f64(),
            }),
            false => say(&format!(
                "idlewave: the job is ended after {}\n",
                round(after)
            )),
        }
    }

    /// The job has ended.
    pub fn end(&self, after: Duration) {
        let seen = self.seen;
        let mpi = seen.looks > seen.starting;
        if self.json {
            json(&Event::End {
                seconds: after.as_secs_f64(),
                counts: seen,
                mpi,
                not_followed: self.unknown.as_deref(),
            });
            return;
        }
        let text = match (mpi, self.missing) {
            (false, _) => format!(
                "no MPI program was watched in {}:\n  none was started, it is linked statically, or it ended before the first look",
                round(after)
            ),
            (true, Some((ranks, size))) => {
                let missing = size - ranks;
                let known = match seen.progressing + seen.idle + seen.deadlocked {
                    0 => "nothing is known".to_owned(),
                    some => format!("{some} of {} looks saw all ranks", seen.looks),
                };
                format!(
                    "{known}: {missing} of {size} ranks are on nodes that were not heard of\n  what that takes: the launcher passes IDLEWAVE_LOOKOUT on, \
                     UDP reaches this node,\n  and the same idlewave is there as {}",
                    std::env::current_exe().unwrap_or_default().display()
                )
            }
            (true, None) => {
                let kinds = [
                    (seen.progressing, "progressing"),
                    (seen.idle, "idle"),
                    (seen.deadlocked, "deadlocked"),
                    (seen.unknown, "not known"),
                    (seen.starting, "starting"),
                    (seen.ended, "ended"),
                ];
                let kinds = kinds.iter().filter(|(count, _)| *count > 0);
                let kinds: Vec<String> = kinds.map(|(n, what)| format!("{n} {what}")).collect();
                let found = match seen.deadlocks {
                    0 => "no deadlock was seen".to_owned(),
                    1 => "1 deadlock was seen".to_owned(),
                    n => format!("{n} deadlocks were seen"),
                };
                format!(
                    "{} looks in {} ({}): {found}",
                    seen.looks,
                    round(after),
                    kinds.join(", ")
                )
            }
        };
        say(&format!("idlewave: {text}\n"));
        if let Some(unknown) = &self.unknown {
            say(&format!(
                "idlewave: {unknown}; what waits for it is not judged\n"
            ));
        }
    }
}

fn round(time: Duration) -> Nanos {
    Nanos::from_nanos(time.as_millis() as u64 * 1_000_000)
}

fn json(event: &Event) {
    if let Ok(line) = serde_json::to_string(event) {
        say(&format!("{line}\n"));
    }
}

fn say(text: &str) {
    // Nobody is there to be told that nobody is there.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
