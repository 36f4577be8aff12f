//! The messages of `idlewave gang watch`: each deadlock and suspicion once, corrections of wrong
//! ones, and a final line.

use idlewave_hangs::{Doubt, Job, Look, RankLook};
use idlewave_interpose::StatePhase;
use idlewave_interpose::state::unknown;
use idlewave_sys::terminal::say;
use idlewave_units::Nanos;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What was seen, and what was reported.
#[derive(Debug, Default)]
pub struct Words {
    json: bool,
    seen: Counts,
    /// The last verdict reported that has not proved wrong.
    told: Option<Verdict>,
    /// How long ranks must have stood still before a suspicion is reported: twice as long as in the
    /// longest one that proved wrong. Otherwise a program that polls for files would be reported
    /// over and over.
    patience: Duration,
    /// A rank that cannot be followed, and why.
    unknown: Option<String>,
    /// Ranks seen and ranks in total, if the last conclusive look did not see all.
    missing: Option<(u32, u32)>,
    /// The first look that failed.
    trouble: Option<String>,
}

/// The number of looks by result.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    looks: u64,
    starting: u64,
    progressing: u64,
    idle: u64,
    deadlocked: u64,
    suspected: u64,
    unknown: u64,
    ended: u64,
    /// Deadlocks and suspicions reported, without those withdrawn.
    deadlocks: u64,
    suspicions: u64,
    /// Deadlocks and suspicions that proved wrong.
    taken_back: u64,
    #[serde(skip)]
    wrong_deadlocks: u64,
}

/// What was reported about ranks that stand still.
#[derive(Debug)]
struct Verdict {
    ranks: Vec<Stand>,
    certain: bool,
    /// Since when all of them stood still.
    since: Instant,
}

/// Where a rank was when a verdict named it.
#[derive(Debug)]
struct Stand {
    rank: u32,
    pid: u32,
    epoch: u64,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event<'a> {
    Deadlock {
        ranks: &'a [u32],
        lines: &'a [String],
    },
    Suspicion {
        ranks: &'a [u32],
        /// `polling` or `slow`.
        why: &'static str,
        lines: &'a [String],
    },
    TakenBack {
        /// `deadlock` or `suspicion`.
        was: &'static str,
        ranks: &'a [u32],
        /// The rank that went on; `None`: the program ended well.
        rank: Option<u32>,
    },
    Trouble {
        error: &'a str,
    },
    TimeOut {
        seconds: f64,
        lines: &'a [String],
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

    /// Counts a look, reports a new deadlock or suspicion, and withdraws one that proves wrong.
    pub fn look(&mut self, look: &Look) {
        let seen = &mut self.seen;
        seen.looks += 1;
        *match &look.job {
            Job::NoProcess | Job::Initialising => &mut seen.starting,
            Job::Incomplete { .. } | Job::Unclear => &mut seen.unknown,
            Job::Progressing => &mut seen.progressing,
            Job::Idle => &mut seen.idle,
            Job::Deadlocked(_) => &mut seen.deadlocked,
            Job::Suspected(..) => &mut seen.suspected,
            Job::Terminated => &mut seen.ended,
        } += 1;
        match look.job {
            Job::Incomplete { seen, size } => self.missing = Some((seen, size)),
            Job::Progressing | Job::Idle | Job::Deadlocked(_) | Job::Suspected(..) => {
                self.missing = None;
            }
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
        if let Some(rank) = self.told.as_ref().and_then(|told| told.gone_on(look)) {
            self.take_back(Some(rank));
        }
        self.tell(look);
    }

    fn tell(&mut self, look: &Look) {
        let Some(stuck) = look.stuck() else {
            return;
        };
        let ranks: Vec<u32> = stuck.ranks.iter().map(|rank| rank.get()).collect();
        let doubt = look.suspicion().map(|(_, doubt)| doubt);
        let certain = doubt.is_none();
        let told = self.told.as_ref();
        if told.is_some_and(|told| told.certain >= certain && told.is_of(&ranks)) {
            return;
        }
        let of = look.ranks.iter().filter(|of| ranks.contains(&of.rank));
        let still = of.clone().map(|of| of.still).min().unwrap_or_default();
        if !certain && still < self.patience {
            return;
        }
        // It has grown or become certain, but is still the same one.
        match told.map(|told| told.certain) {
            Some(true) => self.seen.deadlocks -= 1,
            Some(false) => self.seen.suspicions -= 1,
            None => {}
        }
        let lines = look.report().unwrap_or_default();
        *match certain {
            true => &mut self.seen.deadlocks,
            false => &mut self.seen.suspicions,
        } += 1;
        match (self.json, doubt) {
            (true, None) => json(&Event::Deadlock {
                ranks: &ranks,
                lines: &lines,
            }),
            (true, Some(doubt)) => json(&Event::Suspicion {
                ranks: &ranks,
                why: match doubt {
                    Doubt::Polling => "polling",
                    Doubt::Slow => "slow",
                },
                lines: &lines,
            }),
            (false, _) => say(&format!("idlewave: {}\n", lines.join("\n"))),
        }
        self.told = Some(Verdict {
            ranks: of.map(Stand::of).collect(),
            certain,
            since: Instant::now()
                .checked_sub(still)
                .unwrap_or_else(Instant::now),
        });
    }

    /// Withdraws the current verdict, because this rank went on.
    fn take_back(&mut self, rank: Option<u32>) {
        let Some(told) = self.told.take() else {
            return;
        };
        let seen = &mut self.seen;
        seen.taken_back += 1;
        match told.certain {
            true => {
                seen.deadlocks -= 1;
                seen.wrong_deadlocks += 1;
            }
            false => {
                seen.suspicions -= 1;
                self.patience = self.patience.max(2 * told.since.elapsed());
            }
        }
        if self.json {
            let ranks: Vec<u32> = told.ranks.iter().map(|of| of.rank).collect();
            return json(&Event::TakenBack {
                was: match told.certain {
                    true => "deadlock",
                    false => "suspicion",
                },
                ranks: &ranks,
                rank,
            });
        }
        let who = rank.map_or_else(
            || "the program ended well".to_owned(),
            |rank| format!("rank {rank} went on"),
        );
        let what = match told.certain {
            true => "this was no deadlock; please report it, with what the program does",
            false => "this was no hang",
        };
        say(&format!("idlewave: withdrawn: {who}; {what}\n"));
    }

    /// Handles the end of the job, `well` if its exit code was 0. Returns whether that proves the
    /// current verdict wrong.
    pub fn ended(&mut self, look: &Look, well: bool) -> bool {
        let Some(told) = &self.told else {
            return false;
        };
        let gone_on = told.gone_on(look);
        // Ranks on other nodes are no longer seen.
        let wrong = gone_on.is_some() || (well && !told.ended_there(look));
        if wrong {
            self.take_back(gone_on);
        }
        wrong
    }

    /// Counts a failed look, and reports the first: nothing is known about that moment.
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

    /// Reports that the job has reached its time limit; `last` is the last look at it.
    pub fn timed_out(&self, after: Duration, last: Option<&Look>) {
        let lines = last.map_or_else(Vec::new, Look::places);
        if self.json {
            let seconds = after.as_secs_f64();
            let lines = &lines;
            return json(&Event::TimeOut { seconds, lines });
        }
        let ending = format!("ending the job after {}", round(after));
        let lines = [vec![ending], lines].concat();
        say(&format!("idlewave: {}\n", lines.join("\n")));
    }

    /// Prints the final line once the job has ended.
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
                let known = match seen.progressing + seen.idle + seen.deadlocked + seen.suspected {
                    0 => "nothing is known".to_owned(),
                    some => format!("{some} of {} looks saw all ranks", seen.looks),
                };
                format!(
                    "{known}: {missing} of {size} ranks are on nodes that sent nothing\n  to see them, pass IDLEWAVE_LOOKOUT on, \
                     let UDP reach this node,\n  and install the same idlewave there as {}",
                    std::env::current_exe().unwrap_or_default().display()
                )
            }
            (true, None) => {
                let kinds = [
                    (seen.progressing, "progressing"),
                    (seen.idle, "idle"),
                    (seen.deadlocked, "deadlocked"),
                    (seen.suspected, "suspected"),
                    (seen.unknown, "not known"),
                    (seen.starting, "starting"),
                    (seen.ended, "ended"),
                ];
                let kinds = kinds.iter().filter(|(count, _)| *count > 0);
                let kinds: Vec<String> = kinds.map(|(n, what)| format!("{n} {what}")).collect();
                format!(
                    "{} looks in {} ({}): {}",
                    seen.looks,
                    round(after),
                    kinds.join(", "),
                    seen.found()
                )
            }
        };
        say(&format!("idlewave: {text}\n"));
        if let Some(unknown) = &self.unknown {
            say(&format!(
                "idlewave: {unknown}; ranks that wait for it are not judged\n"
            ));
        }
    }
}

impl Counts {
    /// `no deadlock was seen; 1 suspicion was withdrawn`.
    fn found(&self) -> String {
        let many = |n: u64, what: &str, verb: &str| match n {
            0 => None,
            1 => Some(format!("1 {what} was {verb}")),
            n => Some(format!("{n} {what}s were {verb}")),
        };
        let wrong = self.taken_back - self.wrong_deadlocks;
        let deadlocks = many(self.deadlocks, "deadlock", "seen");
        let parts = [
            Some(deadlocks.unwrap_or_else(|| "no deadlock was seen".to_owned())),
            many(self.suspicions, "suspicion", "reported"),
            many(self.wrong_deadlocks, "deadlock", "withdrawn"),
            many(wrong, "suspicion", "withdrawn"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("; ")
    }
}

impl Stand {
    fn of(rank: &RankLook) -> Self {
        Self {
            rank: rank.rank,
            pid: rank.pid,
            epoch: rank.record.epochs[0],
        }
    }

    fn find<'a>(&self, look: &'a Look) -> Option<&'a RankLook> {
        let mut same = look.ranks.iter();
        same.find(|of| (of.rank, of.pid) == (self.rank, self.pid))
    }

    /// Whether the rank left the call in which it stood, other than because the job is being
    /// aborted or a partner has failed.
    fn gone_on(&self, look: &Look) -> bool {
        self.find(look).is_some_and(|of| {
            let record = &of.record;
            let moved = record.epochs.iter().any(|epoch| *epoch > self.epoch);
            let unclear = record.unknown & (unknown::FAILED | unknown::TORN) != 0;
            moved && !unclear && record.phase != StatePhase::Aborted
        })
    }
}

impl Verdict {
    fn is_of(&self, ranks: &[u32]) -> bool {
        self.ranks
            .iter()
            .map(|of| of.rank)
            .eq(ranks.iter().copied())
    }

    /// The first of its ranks that went on.
    fn gone_on(&self, look: &Look) -> Option<u32> {
        let mut on = self.ranks.iter().filter(|of| of.gone_on(look));
        on.next().map(|of| of.rank)
    }

    /// Whether one of its ranks is known to have ended where it stood.
    fn ended_there(&self, look: &Look) -> bool {
        let there = |of: &RankLook| of.gone && of.record.phase == StatePhase::Running;
        self.ranks
            .iter()
            .any(|stand| stand.find(look).is_some_and(there))
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

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_gang::state::{Cause, Deadlock};
    use idlewave_interpose::StateRecord;
    use idlewave_units::Rank;

    /// Two ranks with these epochs; the second may be gone.
    fn look(job: Job, epochs: [u64; 2], gone: bool) -> Look {
        let rank = |(rank, epoch): (u32, u64)| RankLook {
            rank,
            pid: 100 + rank,
            gone: gone && rank == 1,
            still: Duration::from_millis(300),
            record: StateRecord {
                phase: StatePhase::Running,
                epochs: [epoch; 2],
                ..StateRecord::default()
            },
            ..RankLook::default()
        };
        Look {
            job,
            verdict: None,
            ranks: (0..).zip(epochs).map(rank).collect(),
            communicators: Vec::new(),
            initialised: Default::default(),
        }
    }

    fn both() -> Deadlock {
        Deadlock {
            ranks: [0, 1].map(Rank::new).to_vec(),
            cause: Cause::Unnamed,
        }
    }

    fn counts(words: &Words) -> [u64; 3] {
        let Counts {
            deadlocks,
            suspicions,
            taken_back,
            ..
        } = words.seen;
        [deadlocks, suspicions, taken_back]
    }

    #[test]
    fn a_deadlock_of_which_a_rank_goes_on_is_taken_back() {
        let mut words = Words::new(true);
        for _ in 0..2 {
            words.look(&look(Job::Deadlocked(both()), [8, 6], false));
        }
        assert_eq!(counts(&words), [1, 0, 0]);
        words.look(&look(Job::Progressing, [8, 8], false));
        assert_eq!(counts(&words), [0, 0, 1]);
        assert_eq!(
            words.seen.found(),
            "no deadlock was seen; 1 deadlock was withdrawn"
        );
    }

    #[test]
    fn a_job_that_ends_well_had_no_deadlock_unless_a_rank_ended_where_it_stood() {
        for (epochs, gone, well, wrong) in [
            ([8, 6], false, true, true),
            ([8, 6], false, false, false),
            ([8, 8], true, false, true),
            ([8, 6], true, true, false),
        ] {
            let mut words = Words::new(true);
            words.look(&look(Job::Deadlocked(both()), [8, 6], false));
            let last = look(Job::Terminated, epochs, gone);
            assert_eq!(words.ended(&last, well), wrong, "{epochs:?} {gone} {well}");
            assert_eq!(counts(&words), [u64::from(!wrong), 0, u64::from(wrong)]);
        }
    }

    #[test]
    fn a_suspicion_that_becomes_certain_is_one_verdict_and_after_a_wrong_one_more_time_is_given() {
        let suspected = || Job::Suspected(both(), Doubt::Polling);
        let mut words = Words::new(true);
        words.look(&look(suspected(), [8, 6], false));
        assert_eq!(counts(&words), [0, 1, 0]);
        words.look(&look(Job::Deadlocked(both()), [8, 6], false));
        assert_eq!(counts(&words), [1, 0, 0]);
        let mut words = Words::new(true);
        words.look(&look(suspected(), [8, 6], false));
        words.look(&look(Job::Progressing, [10, 8], false));
        assert_eq!(counts(&words), [0, 0, 1]);
        // It has lasted as long as the previous one, which was wrong.
        words.look(&look(suspected(), [10, 8], false));
        assert_eq!(counts(&words), [0, 0, 1]);
        words.patience = Duration::ZERO;
        words.look(&look(suspected(), [10, 8], false));
        assert_eq!(counts(&words), [0, 1, 1]);
    }
}
