//! What looks have seen of one process so far.

use crate::look::RankLook;
use crate::process::Kernel;
use idlewave_interpose::state::mode;
use idlewave_interpose::{StatePhase, StateProcess, StateRecord};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What is known of CPU times is known to this.
const TICK: Duration = Duration::from_millis(10);
/// Looks of which CPU times are kept.
pub(crate) const SAMPLES: usize = 64;

/// A process, by its page and by the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) process: StateProcess,
    pub(crate) record: StateRecord,
    pub(crate) kernel: Kernel,
    /// Look at which it was found, and at which its process was found to be gone.
    pub(crate) found: u64,
    pub(crate) gone: Option<u64>,
    /// When that was.
    pub(crate) gone_at: Option<Instant>,
    /// Its node, by any number.
    pub(crate) node: u32,
    /// CPU time at the look before.
    pub(crate) cpu_before: Option<Duration>,
    /// The first look at which its epoch was what it is.
    pub(crate) since: Instant,
    /// CPU time at looks, the last one at the back; no two within a tick.
    pub(crate) spent: VecDeque<(Instant, Duration)>,
    /// That epoch; `None` if the last look saw it being written, or there was none.
    pub(crate) epoch: Option<u64>,
    /// Whether the last look was the first one that saw this epoch, or that the process is gone.
    pub(crate) fresh: bool,
    pub(crate) polls_before: u64,
    /// Looks in a row at which it polled for the same, and polled again at each.
    pub(crate) unchanged: u32,
}

impl Sighting {
    /// Of a process that was found just now, before anything of it was read.
    pub(crate) fn new(process: StateProcess, found: u64) -> Self {
        Self {
            process,
            record: StateRecord::default(),
            kernel: Kernel::Unknown,
            found,
            gone: None,
            gone_at: None,
            node: 0,
            cpu_before: None,
            since: Instant::now(),
            spent: VecDeque::new(),
            epoch: None,
            fresh: true,
            polls_before: 0,
            unchanged: 0,
        }
    }

    /// Whether its record is whole: one past MPI_Init has MPI_COMM_WORLD at least.
    pub(crate) fn has_tables(&self) -> bool {
        !self.record.communicators.is_empty()
    }

    pub(crate) fn cpu(&self) -> Option<Duration> {
        match self.kernel {
            Kernel::There { cpu, .. } => Some(cpu),
            Kernel::Gone | Kernel::Unknown => None,
        }
    }

    /// Takes in what a look of this number has read. What counts from look to look does so with `regular` ones alone.
    pub(crate) fn track(&mut self, now: Instant, look: u64, regular: bool) {
        let [first, second] = self.record.epochs;
        let moved = first != second || first % 2 == 1 || self.epoch != Some(first);
        // Who was killed while it wrote has an odd one for ever.
        self.fresh = self.gone.map_or(moved, |gone| gone == look);
        if moved {
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

    pub(crate) fn ended(&self) -> bool {
        let phase = self.record.phase;
        self.gone.is_some() || matches!(phase, StatePhase::Finalising | StatePhase::Finalised)
    }

    /// Whether it ended by itself, or by a signal, where it was, and not longer than `time` ago: its launcher is about to end the others.
    pub(crate) fn crashed_within(&self, now: Instant, time: Duration) -> bool {
        let over = matches!(self.record.phase, StatePhase::Finalised);
        !over && self.gone_at.is_some_and(|at| now < at + time)
    }

    /// CPU time that it had since a moment, at least; `None` where it is stopped or that is not known.
    pub(crate) fn cpu_since(&self, moment: Instant) -> Option<Duration> {
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
    pub(crate) fn idle(&self, now: Instant, since: Duration) -> bool {
        let used = match (self.cpu(), self.cpu_before) {
            (Some(cpu), Some(before)) => cpu.saturating_sub(before),
            _ => return self.ended(),
        };
        let stopped = matches!(self.kernel, Kernel::There { stopped: true, .. });
        self.ended() || (!stopped && now - self.since >= since && used < since / 50)
    }

    pub(crate) fn show(&self, rank: u32, now: Instant) -> RankLook {
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
