//! Turns observations of all ranks into a verdict.

use crate::look::{Doubt, Initialised, Job, Look};
use crate::process::Kernel;
use crate::records::{Seen, Small, Snapped, snapshot};
use crate::sighting::Sighting;
use idlewave_gang::state::{Deadlock, State, Verdict, judge};
use idlewave_interpose::StatePhase;
use idlewave_units::Rank;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Thresholds of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long all ranks of a deadlock must have been in place, together, before a send in it
    /// counts as stuck. A buffered message is sent within microseconds; the rest is for ranks that
    /// share CPUs.
    pub grace: Duration,
    /// CPU time that each of them must have had in that time: a stopped or preempted rank may just
    /// not have got around to sending, or to receiving what blocks others. Resolution: 10 ms.
    pub cpu: Duration,
    /// Least time between two agreeing looks.
    pub apart: Duration,
    /// Successive looks at which a rank polls for the same requests before it counts as waiting.
    pub polls: u32,
    /// How long all ranks of a deadlock must have been in place before small sends between nodes
    /// count as stuck, with a reservation: the speed of the network is not known.
    pub slow: Duration,
    /// How long nothing is reported after a rank ended without MPI_Finalize: its launcher is about
    /// to kill the others.
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

/// Judges successive looks.
#[derive(Debug)]
pub(crate) struct Assessor {
    settings: Settings,
    /// The previous regular look.
    before: Option<Instant>,
    /// The ranks of a deadlock whose sends had enough time, and since when all of them are in
    /// place. This holds for as long as none moves, even if a rank is frozen and gets no more CPU
    /// time.
    settled: Option<(Instant, Vec<Rank>)>,
}

/// The observations of one look.
pub(crate) struct Scene<'a> {
    pub(crate) now: Instant,
    /// All processes.
    pub(crate) all: Vec<&'a Sighting>,
    pub(crate) agree: Agree,
}

/// Which observations are known to hold at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agree {
    /// All: all processes are on this node.
    Here,
    /// Those equal in two looks, of which the second started on every node after the first had
    /// ended on all of them.
    Twice,
    /// None: nodes were not asked since the previous look.
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

    /// The result of a look. One between the regular looks never reports idle ranks.
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
        let unjudged = |job, ranks| Look {
            job,
            verdict: None,
            ranks,
            communicators: Vec::new(),
            initialised: scene.init(),
        };
        let ranks = match scene.ranks() {
            Ok(ranks) => ranks,
            Err(job) => return unjudged(job, Vec::new()),
        };
        let shown = ranks.iter().map(|(rank, of)| of.show(*rank, now)).collect();
        if ranks.values().all(|of| of.ended()) {
            return unjudged(Job::Terminated, shown);
        }
        let tracked: Vec<&Sighting> = ranks.values().copied().collect();
        let seen: Vec<Seen> = tracked.iter().map(|of| seen(of, scene.agree)).collect();
        // Judge as if every send within a node were stuck; if some of them may not be, as if none
        // were.
        let mut snapped = snapshot(&seen, Small::Near, self.settings.polls);
        let mut verdict = judge(&snapped.snapshot);
        let mut hungry = false;
        if let Some(deadlock) = verdict.state.dead() {
            let dead = deadlock.ranks.iter();
            let dead = dead.filter_map(|rank| tracked.get(rank.index()).copied());
            let since = dead.clone().map(|of| of.since).max();
            let now_dead = since.map(|since| (since, deadlock.ranks.clone()));
            if (now_dead.is_some() && now_dead == before) || settled(dead, now, &self.settings) {
                *kept = now_dead;
            } else {
                snapped = snapshot(&seen, Small::Open, self.settings.polls);
                verdict = judge(&snapped.snapshot);
                hungry = true;
            }
        }
        let found = verdict.state.dead().is_some();
        // Ranks that wait for each other within a node need CPU time first, whatever the network
        // does.
        let stuck = match found || hungry || scene.agree == Agree::Here {
            true => None,
            false => self.stuck(&seen, &tracked, now),
        };
        let slow = stuck.is_some();
        if let Some(stuck) = stuck {
            (snapped, verdict) = stuck;
        }
        let job = self.job(&verdict.state, &tracked, now, since, slow);
        Look {
            job,
            verdict: Some(verdict),
            ranks: shown,
            communicators: snapped.communicators,
            initialised: scene.init(),
        }
    }

    /// What to report about the job. `since`: time since the previous look, if this one is regular.
    /// `slow`: whether the ranks may go on if the network is just very slow.
    fn job(
        &self,
        state: &State,
        tracked: &[&Sighting],
        now: Instant,
        since: Option<Duration>,
        slow: bool,
    ) -> Job {
        let crashed = tracked
            .iter()
            .any(|of| of.crashed_within(now, self.settings.crash));
        let again = |deadlock: &Deadlock| {
            deadlock.ranks.iter().all(|rank| {
                tracked
                    .get(rank.index())
                    .is_some_and(|of| now - of.since >= self.settings.apart)
            })
        };
        match state {
            State::Terminated => Job::Terminated,
            State::Deadlocked(_) | State::Suspected(_) if crashed => Job::Progressing,
            State::Deadlocked(deadlock) if again(deadlock) && slow => {
                Job::Suspected(deadlock.clone(), Doubt::Slow)
            }
            State::Deadlocked(deadlock) if again(deadlock) => Job::Deadlocked(deadlock.clone()),
            State::Suspected(deadlock) if again(deadlock) => {
                Job::Suspected(deadlock.clone(), Doubt::Polling)
            }
            _ if since.is_some_and(|since| tracked.iter().all(|of| of.idle(now, since))) => {
                Job::Idle
            }
            _ => Job::Progressing,
        }
    }

    /// Ranks that wait for each other if no small send between nodes is still in flight; only if
    /// all of them have been in place for very long.
    fn stuck(
        &self,
        seen: &[Seen],
        tracked: &[&Sighting],
        now: Instant,
    ) -> Option<(Snapped, Verdict)> {
        let snapped = snapshot(seen, Small::All, self.settings.polls);
        let verdict = judge(&snapped.snapshot);
        let since = verdict
            .state
            .dead()?
            .ranks
            .iter()
            .map(|rank| tracked.get(rank.index()).map(|of| of.since));
        let still = since
            .into_iter()
            .all(|since| since.is_some_and(|at| now >= at + self.settings.slow));
        still.then_some((snapped, verdict))
    }
}

/// A rank for a verdict.
fn seen(of: &Sighting, agree: Agree) -> Seen {
    Seen {
        record: of.record.clone(),
        gone: of.gone.is_some(),
        unchanged: of.unchanged,
        node: of.node,
        moved: match agree {
            Agree::Here => false,
            Agree::Twice => of.fresh,
            Agree::Never => true,
        },
    }
}

impl<'a> Scene<'a> {
    /// Progress of MPI_Init.
    pub(crate) fn init(&self) -> Initialised {
        let mut init = Initialised::default();
        for of in &self.all {
            match of.record.phase {
                StatePhase::Initialising if of.kernel == Kernel::Gone || of.is_torn() => {}
                StatePhase::Initialising => init.within += 1,
                _ => {
                    init.past += 1;
                    init.size = init.size.or(of.record.size);
                }
            }
        }
        init
    }

    /// The pages of the job's ranks, by rank; `Err` if they do not form one job.
    fn ranks(&self) -> Result<BTreeMap<u32, &'a Sighting>, Job> {
        let there = || self.all.iter().copied().filter(|of| of.gone.is_none());
        let past = |of: &&Sighting| of.record.rank.is_some();
        let within = |of: &Sighting| of.record.phase == StatePhase::Initialising && !of.is_torn();
        if there().any(within) {
            return Err(Job::Initialising);
        }
        // Pages of a job that ended before this one started do not count.
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
                    // Successive jobs, all of which have ended.
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

/// Whether all of these ranks, which wait for each other, have been in place long enough, and with
/// enough CPU time, for everything to complete that completes without other ranks.
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
