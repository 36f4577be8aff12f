//! Looks at the state pages of a directory again and again.

use crate::error::WatchError;
use crate::look::{Initialised, Job, Look, RankLook};
use crate::process::{Kernel, Kernels};
use crate::records::{Seen, snapshot};
use idlewave_gang::state::{State, judge};
use idlewave_interpose::state::{EXTENSION, mode};
use idlewave_interpose::{InterposeError, StatePage, StatePhase, StateProcess, StateRecord};
use idlewave_units::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is known of CPU times is known to this.
const TICK: Duration = Duration::from_millis(10);
/// Looks of which CPU times are kept.
const SAMPLES: usize = 64;

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
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace: Duration::from_millis(50),
            cpu: Duration::from_millis(20),
            apart: Duration::from_millis(5),
            polls: 10,
        }
    }
}

/// The processes of one job on this node.
#[derive(Debug)]
pub struct Watch {
    directory: PathBuf,
    settings: Settings,
    kernels: Kernels,
    pages: BTreeMap<OsString, Tracked>,
    looks: u64,
    before: Option<Instant>,
    /// The ranks that were found to wait for each other with sends among them that had their time, and since when they are all where they are.
    /// It stays so as long as none moves: one that is frozen then has no more CPU time to show.
    settled: Option<(Instant, Vec<Rank>)>,
}

/// A page, and what earlier looks have seen of it.
#[derive(Debug)]
struct Tracked {
    page: StatePage,
    process: StateProcess,
    record: StateRecord,
    kernel: Kernel,
    /// Look at which it was found, and at which its process was found to be gone.
    found: u64,
    gone: Option<u64>,
    /// CPU time at the look before.
    cpu_before: Option<Duration>,
    /// The first look at which its epoch was what it is.
    since: Instant,
    /// CPU time at looks, the last one at the back; no two within a tick.
    spent: VecDeque<(Instant, Duration)>,
    /// That epoch; `None` if the last look saw it being written, or there was none.
    epoch: Option<u64>,
    /// The epoch at the glance before.
    glanced: Option<u64>,
    polls_before: u64,
    unchanged: u32,
}

impl Watch {
    /// Watches the pages that processes make in a directory: that of `IDLEWAVE_STATE` in their environment.
    pub fn new(directory: &Path) -> Self {
        Self::with(directory, Settings::default())
    }

    /// The same, with other demands on a verdict.
    pub fn with(directory: &Path, settings: Settings) -> Self {
        Self {
            directory: directory.to_owned(),
            settings,
            kernels: Kernels::here(),
            pages: BTreeMap::new(),
            looks: 0,
            before: None,
            settled: None,
        }
    }

    /// Processes of the job that are there, by what they say of themselves: their numbers are those of their own namespace.
    pub fn processes(&self) -> Vec<StateProcess> {
        let there = self.pages.values().filter(|of| of.gone.is_none());
        there.map(|of| of.process.clone()).collect()
    }

    /// How far MPI_Init is. It looks at phases only.
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn initialised(&mut self) -> Result<Initialised, WatchError> {
        self.find()?;
        for of in self.pages.values_mut() {
            of.page.read(&mut of.record);
            of.kernel = self.kernels.ask(&of.process);
        }
        Ok(self.init())
    }

    fn init(&self) -> Initialised {
        let mut init = Initialised::default();
        for of in self.pages.values() {
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

    /// Whether all ranks that are known are in calls that may wait, the same as at the glance before: a look may find a deadlock. Some
    /// loads per rank, where a look reads all of a page and asks the kernel.
    pub fn is_still(&mut self) -> bool {
        let mut still = self.pages.values().any(|of| of.gone.is_none());
        for of in self.pages.values_mut().filter(|of| of.gone.is_none()) {
            let epoch = of.page.epoch();
            let same = of.glanced.replace(epoch) == Some(epoch);
            still &= same && epoch % 2 == 0 && of.page.may_wait();
        }
        still
    }

    /// Looks once.
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn look(&mut self) -> Result<Look, WatchError> {
        self.look_as(true)
    }

    /// Looks once between the looks that come at regular times, for a deadlock alone: what those count from one to the next, CPU time and looks at
    /// which ranks polled, does not change by it. Of ranks that only do nothing it says that they make progress.
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn look_between(&mut self) -> Result<Look, WatchError> {
        self.look_as(false)
    }

    fn look_as(&mut self, regular: bool) -> Result<Look, WatchError> {
        self.find()?;
        self.looks += 1;
        let now = Instant::now();
        // All first epochs before all records, and those before all second epochs.
        for of in self.pages.values_mut() {
            of.record.epochs[0] = of.page.epoch();
        }
        for of in self.pages.values_mut() {
            of.page.read(&mut of.record);
        }
        for of in self.pages.values_mut() {
            of.record.epochs[1] = of.page.close();
        }
        for of in self.pages.values_mut() {
            of.track(&self.kernels, self.looks, now, regular);
        }
        let since = match regular {
            true => self.before.replace(now).map(|before| now - before),
            false => None,
        };
        let mut settled = self.settled.take();
        let look = self.judge(now, since, &mut settled);
        self.settled = settled;
        for of in self.pages.values_mut().filter(|_| regular) {
            of.cpu_before = of.cpu();
        }
        Ok(look)
    }

    /// Opens pages that are new.
    fn find(&mut self) -> Result<(), WatchError> {
        let directory = |source| WatchError::Directory {
            path: self.directory.clone(),
            source,
        };
        for entry in std::fs::read_dir(&self.directory).map_err(directory)? {
            let path = entry.map_err(directory)?.path();
            let name = path.file_name().unwrap_or_default().to_owned();
            if path.extension().is_none_or(|e| e != EXTENSION) || self.pages.contains_key(&name) {
                continue;
            }
            let page = match StatePage::open(&path) {
                Ok(page) => page,
                Err(InterposeError::NotReady(_)) => continue,
                Err(InterposeError::File { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let process = page.process();
            let new = Tracked {
                page,
                process,
                record: StateRecord::default(),
                kernel: Kernel::Unknown,
                found: self.looks + 1,
                gone: None,
                cpu_before: None,
                since: Instant::now(),
                spent: VecDeque::new(),
                epoch: None,
                glanced: None,
                polls_before: 0,
                unchanged: 0,
            };
            self.pages.insert(name, new);
        }
        Ok(())
    }

    /// The pages of the job's ranks, by rank; `Err` where they do not make one job.
    fn ranks(&self) -> Result<BTreeMap<u32, &Tracked>, Job> {
        let there = || self.pages.values().filter(|of| of.gone.is_none());
        let past = |of: &&Tracked| of.record.rank.is_some();
        if there().any(|of| of.record.phase == StatePhase::Initialising) {
            return Err(Job::Initialising);
        }
        // Of a job that has ended before this one began, nothing counts.
        let newest = there().filter(past).map(|of| of.found).max();
        let own = |of: &&Tracked| match (of.gone, newest) {
            (Some(gone), Some(newest)) => newest < gone,
            _ => true,
        };
        let mut ranks: BTreeMap<u32, &Tracked> = BTreeMap::new();
        for of in self.pages.values().filter(past).filter(own) {
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

    fn judge(
        &self,
        now: Instant,
        since: Option<Duration>,
        kept: &mut Option<(Instant, Vec<Rank>)>,
    ) -> Look {
        let before = kept.take();
        let ranks = match self.ranks() {
            Ok(ranks) => ranks,
            Err(job) => {
                return Look {
                    job,
                    verdict: None,
                    ranks: Vec::new(),
                    communicators: Vec::new(),
                    initialised: self.init(),
                };
            }
        };
        let shown = ranks.iter().map(|(rank, of)| of.show(*rank, now)).collect();
        if ranks.values().all(|of| of.ended()) {
            return Look {
                job: Job::Terminated,
                verdict: None,
                ranks: shown,
                communicators: Vec::new(),
                initialised: self.init(),
            };
        }
        let seen: Vec<Seen> = ranks
            .values()
            .map(|of| Seen {
                record: of.record.clone(),
                gone: of.gone.is_some(),
                unchanged: of.unchanged,
            })
            .collect();
        let tracked: Vec<&Tracked> = ranks.values().copied().collect();
        // As if every send were stuck; and if some may not be, as if none were.
        let mut snapped = snapshot(&seen, true, self.settings.polls);
        let mut verdict = judge(&snapped.snapshot);
        if let State::Deadlocked(deadlock) = &verdict.state {
            let dead = deadlock.ranks.iter();
            let dead = dead.filter_map(|rank| tracked.get(rank.index()).copied());
            let since = dead.clone().map(|of| of.since).max();
            let now_dead = since.map(|since| (since, deadlock.ranks.clone()));
            if (now_dead.is_some() && now_dead == before) || settled(dead, now, &self.settings) {
                *kept = now_dead;
            } else {
                snapped = snapshot(&seen, false, self.settings.polls);
                verdict = judge(&snapped.snapshot);
            }
        }
        let job = match &verdict.state {
            State::Terminated => Job::Terminated,
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
            ranks: shown,
            communicators: snapped.communicators,
            initialised: self.init(),
        }
    }
}

/// Whether all of these, which wait for each other, have been where they are for so long, and had so much CPU time there, that whatever ends by
/// itself has ended.
fn settled<'a>(
    dead: impl Iterator<Item = &'a Tracked> + Clone,
    now: Instant,
    settings: &Settings,
) -> bool {
    let Some(since) = dead.clone().map(|of| of.since).max() else {
        return false;
    };
    let had_time = |of: &Tracked| of.cpu_since(since).is_some_and(|cpu| cpu >= settings.cpu);
    now - since >= settings.grace && dead.into_iter().all(had_time)
}

impl Tracked {
    fn cpu(&self) -> Option<Duration> {
        match self.kernel {
            Kernel::There { cpu, .. } => Some(cpu),
            Kernel::Gone | Kernel::Unknown => None,
        }
    }

    fn track(&mut self, kernels: &Kernels, look: u64, now: Instant, regular: bool) {
        // After the page: a process that is gone by now may have written since, and then its page was read too early.
        if self.gone.is_none() {
            self.kernel = kernels.ask(&self.process);
            if self.kernel == Kernel::Gone {
                self.gone = Some(look);
                self.record.epochs[0] = self.page.epoch();
                self.page.read(&mut self.record);
                self.record.epochs[1] = self.page.close();
            }
        }
        let [first, second] = self.record.epochs;
        if first != second || first % 2 == 1 || self.epoch != Some(first) {
            self.epoch = (first == second).then_some(first);
            self.since = now;
            self.unchanged = 0;
            self.polls_before = self.record.polls;
        } else if regular && self.record.mode >= mode::POLL_ALL {
            self.unchanged = match self.record.polls > self.polls_before {
                true => self.unchanged + 1,
                // Frozen or displaced it cannot poll: that look does not count.
                false if self.cpu().is_some() && self.cpu() == self.cpu_before => self.unchanged,
                false => 0,
            };
        }
        if regular {
            self.polls_before = self.record.polls;
        }
        let due = |last: &(Instant, Duration)| now - last.0 >= TICK;
        if let Some(cpu) = self.cpu().filter(|_| self.spent.back().is_none_or(due)) {
            if self.spent.len() == SAMPLES {
                self.spent.pop_front();
            }
            self.spent.push_back((now, cpu));
        }
    }

    fn ended(&self) -> bool {
        let phase = self.record.phase;
        self.gone.is_some() || matches!(phase, StatePhase::Finalising | StatePhase::Finalised)
    }

    /// CPU time that it had since a moment, at least; `None` where it is stopped or that is not known.
    fn cpu_since(&self, moment: Instant) -> Option<Duration> {
        let Kernel::There {
            stopped: false,
            cpu,
        } = self.kernel
        else {
            return None;
        };
        let (_, then) = self.spent.iter().find(|(at, _)| *at >= moment)?;
        Some(cpu.saturating_sub(*then))
    }

    /// Whether it did nothing in the time since the look before.
    fn idle(&self, now: Instant, since: Duration) -> bool {
        let used = match (self.cpu(), self.cpu_before) {
            (Some(cpu), Some(before)) => cpu.saturating_sub(before),
            _ => return self.ended(),
        };
        let stopped = matches!(self.kernel, Kernel::There { stopped: true, .. });
        self.ended() || (!stopped && now - self.since >= since && used < since / 50)
    }

    fn show(&self, rank: u32, now: Instant) -> RankLook {
        let cpu = self.cpu().zip(self.cpu_before);
        RankLook {
            rank,
            pid: self.process.pid,
            host: self.process.host.clone(),
            gone: self.gone.is_some(),
            stopped: matches!(self.kernel, Kernel::There { stopped: true, .. }),
            cpu: cpu.map(|(now, before)| now.saturating_sub(before)),
            still: now - self.since,
            record: self.record.clone(),
        }
    }
}
