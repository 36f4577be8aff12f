//! From what was seen of all ranks to what follows.

use crate::look::{Initialised, Job, Look};
use crate::process::Kernel;
use crate::records::{Seen, Small, Snapped, snapshot};
use crate::sighting::Sighting;
use idlewave_gang::state::{State, Verdict, judge};
use idlewave_interpose::StatePhase;
use idlewave_units::Rank;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How much a verdict needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long all ranks of a deadlock must have been where they are, together, before a send in it counts as stuck. A message that is copied is on its
    /// way in microseconds; the rest is for ranks that share CPUs.
    pub grace: Duration,
    /// CPU time that each of them must have had meanwhile: one that was stopped or displaced may just not have come to it, or to take what fills the way
    /// of others. Tick: 10 ms.
    pub cpu: Duration,
    /// The least time between two looks that are to agree.
    pub apart: Duration,
    /// Looks in a row at which a rank polls for the same before that counts as waiting.
    pub polls: u32,
    /// How long all ranks of a deadlock must have been where they are before small sends between nodes count as stuck, with a remark: how fast a network
    /// takes them is not known.
    pub slow: Duration,
    /// How long after a rank ended without MPI_Finalize nothing is told: its launcher is about to end the others.
    pub crash: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace: Duration::from_millis(50),
            cpu: Duration::from_millis(20),
            apart: Duration::from_millis(5),
            polls: 10,
            slow: Duration::from_secs(10),
            crash: Duration::from_secs(3),
        }
    }
}

/// Judges looks, one after the other.
#[derive(Debug)]
pub(crate) struct Assessor {
    settings: Settings,
    /// The regular look before.
    before: Option<Instant>,
    /// The ranks that were found to wait for each other with sends among them that had their time, and since when they are all where they are.
    /// It stays so as long as none moves: one that is frozen then has no more CPU time to show.
    settled: Option<(Instant, Vec<Rank>)>,
}

/// What one look has seen.
pub(crate) struct Scene<'a> {
    pub(crate) now: Instant,
    /// All processes.
    pub(crate) all: Vec<&'a Sighting>,
    pub(crate) agree: Agree,
}

/// What is known to have been so at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agree {
    /// Everything: all processes are of this node.
    Here,
    /// What two looks have found the same, of which the second began on any node after the first had ended on all of them.
    Twice,
    /// Nothing: nodes were not asked since the look before.
    Never,
}

impl Assessor {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            before: None,
            settled: None,
        }
    }

    /// What a look shows. Of one between the regular ones it is not said that ranks are idle.
    pub(crate) fn assess(&mut self, scene: &Scene<'_>, regular: bool) -> Look {
        let since = match regular {
            true => self
                .before
                .replace(scene.now)
                .map(|before| scene.now - before),
            false => None,
        };
        let mut settled = self.settled.take();
        let look = self.judge(scene, since, &mut settled);
        self.settled = settled;
        look
    }

    fn judge(
        &self,
        scene: &Scene<'_>,
        since: Option<Duration>,
        kept: &mut Option<(Instant, Vec<Rank>)>,
    ) -> Look {
        let (now, before) = (scene.now, kept.take());
        let ranks = match scene.ranks() {
            Ok(ranks) => ranks,
            Err(job) => {
                return Look {
                    job,
                    verdict: None,
                    slow: false,
                    ranks: Vec::new(),
                    communicators: Vec::new(),
                    initialised: scene.init(),
                };
            }
        };
        let shown = ranks.iter().map(|(rank, of)| of.show(*rank, now)).collect();
        if ranks.values().all(|of| of.ended()) {
            return Look {
                job: Job::Terminated,
                verdict: None,
                slow: false,
                ranks: shown,
                communicators: Vec::new(),
                initialised: scene.init(),
            };
        }
        let seen: Vec<Seen> = ranks
            .values()
            .map(|of| Seen {
                record: of.record.clone(),
                gone: of.gone.is_some(),
                unchanged: of.unchanged,
                node: of.node,
                moved: match scene.agree {
                    Agree::Here => false,
                    Agree::Twice => of.fresh,
                    Agree::Never => true,
                },
            })
            .collect();
        let tracked: Vec<&Sighting> = ranks.values().copied().collect();
        // As if every send were stuck that does not leave its node; and if some may not be, as if none were.
        let mut snapped = snapshot(&seen, Small::Near, self.settings.polls);
        let mut verdict = judge(&snapped.snapshot);
        if let State::Deadlocked(deadlock) = &verdict.state {
            let dead = deadlock.ranks.iter();
            let dead = dead.filter_map(|rank| tracked.get(rank.index()).copied());
            let since = dead.clone().map(|of| of.since).max();
            let now_dead = since.map(|since| (since, deadlock.ranks.clone()));
            if (now_dead.is_some() && now_dead == before) || settled(dead, now, &self.settings) {
                *kept = now_dead;
            } else {
                snapped = snapshot(&seen, Small::Open, self.settings.polls);
                verdict = judge(&snapped.snapshot);
            }
        }
        let found = matches!(verdict.state, State::Deadlocked(_));
        let stuck = match found || scene.agree == Agree::Here {
            true => None,
            false => self.stuck(&seen, &tracked, now),
        };
        let slow = stuck.is_some();
        if let Some(stuck) = stuck {
            (snapped, verdict) = stuck;
        }
        let crashed = ranks
            .values()
            .any(|of| of.crashed_within(now, self.settings.crash));
        let job = match &verdict.state {
            State::Terminated => Job::Terminated,
            State::Deadlocked(_) if crashed => Job::Progressing,
            State::Deadlocked(deadlock)
                if deadlock.ranks.iter().all(|rank| {
                    tracked
                        .get(rank.index())
                        .is_some_and(|of| now - of.since >= self.settings.apart)
                }) =>
            {
                Job::Deadlocked(deadlock.clone())
            }
            _ if since.is_some_and(|since| ranks.values().all(|of| of.idle(now, since))) => {
                Job::Idle
            }
            _ => Job::Progressing,
        };
        Look {
            job,
            verdict: Some(verdict),
            slow,
            ranks: shown,
            communicators: snapped.communicators,
            initialised: scene.init(),
        }
    }

    /// Ranks that wait for each other if no small send between nodes is on its way any more: all of them have been where they are for very long.
    fn stuck(
        &self,
        seen: &[Seen],
        tracked: &[&Sighting],
        now: Instant,
    ) -> Option<(Snapped, Verdict)> {
        let snapped = snapshot(seen, Small::All, self.settings.polls);
        let verdict = judge(&snapped.snapshot);
        let State::Deadlocked(deadlock) = &verdict.state else {
            return None;
        };
        let since = deadlock
            .ranks
            .iter()
            .map(|rank| tracked.get(rank.index()).map(|of| of.since));
        let still = since
            .into_iter()
            .all(|since| since.is_some_and(|at| now >= at + self.settings.slow));
        still.then_some((snapped, verdict))
    }
}

impl<'a> Scene<'a> {
    /// How far MPI_Init is.
    pub(crate) fn init(&self) -> Initialised {
        let mut init = Initialised::default();
        for of in &self.all {
            match of.record.phase {
                StatePhase::Initialising if of.kernel == Kernel::Gone => {}
                StatePhase::Initialising => init.within += 1,
                _ => {
                    init.past += 1;
                    init.size = init.size.or(of.record.size);
                }
            }
        }
        init
    }

    /// The pages of the job's ranks, by rank; `Err` where they do not make one job.
    fn ranks(&self) -> Result<BTreeMap<u32, &'a Sighting>, Job> {
        let there = || self.all.iter().copied().filter(|of| of.gone.is_none());
        let past = |of: &&Sighting| of.record.rank.is_some();
        if there().any(|of| of.record.phase == StatePhase::Initialising) {
            return Err(Job::Initialising);
        }
        // Of a job that has ended before this one began, nothing counts.
        let newest = there().filter(past).map(|of| of.found).max();
        let own = |of: &&Sighting| match (of.gone, newest) {
            (Some(gone), Some(newest)) => newest < gone,
            _ => true,
        };
        let mut ranks: BTreeMap<u32, &'a Sighting> = BTreeMap::new();
        for of in self.all.iter().copied().filter(past).filter(own) {
            let rank = of.record.rank.unwrap_or_default();
            let place = ranks.entry(rank).or_insert(of);
            if !std::ptr::eq(*place, of) {
                match newest {
                    Some(_) => return Err(Job::Unclear),
                    // Jobs one after the other, all of which have ended.
                    None if place.process.start < of.process.start => *place = of,
                    None => {}
                }
            }
        }
        let mut sizes = ranks.values().filter_map(|of| of.record.size);
        let Some(size) = sizes.next() else {
            return Err(Job::NoProcess);
        };
        if newest.is_some() && sizes.any(|other| other != size) {
            return Err(Job::Unclear);
        }
        if newest.is_some() && ranks.len() as u32 != size {
            return Err(Job::Incomplete {
                seen: ranks.len() as u32,
                size,
            });
        }
        Ok(ranks)
    }
}

/// Whether all of these, which wait for each other, have been where they are for so long, and had so much CPU time there, that whatever ends by
/// itself has ended.
fn settled<'a>(
    dead: impl Iterator<Item = &'a Sighting> + Clone,
    now: Instant,
    settings: &Settings,
) -> bool {
    let Some(since) = dead.clone().map(|of| of.since).max() else {
        return false;
    };
    let had_time = |of: &Sighting| of.cpu_since(since).is_some_and(|cpu| cpu >= settings.cpu);
    now - since >= settings.grace && dead.into_iter().all(had_time)
}
