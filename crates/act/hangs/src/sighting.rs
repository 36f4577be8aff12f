//! Observations of one process so far.

use crate::look::RankLook;
use crate::process::Kernel;
use idlewave_interpose::state::{mode, unknown};
use idlewave_interpose::{StatePhase, StateProcess, StateRecord};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many CPU times are kept. No two are equal, so they reach back at least 630 ms of CPU time,
/// however few looks see it grow.
pub(crate) const SAMPLES: usize = 64;

/// A process, as its page and the kernel show it.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) process: StateProcess,
    pub(crate) record: StateRecord,
    pub(crate) kernel: Kernel,
    /// Look at which it was found, and at which its process was found gone.
    pub(crate) found: u64,
    pub(crate) gone: Option<u64>,
    /// When that was.
    pub(crate) gone_at: Option<Instant>,
    /// Its node, by an arbitrary number.
    pub(crate) node: u32,
    /// CPU time at the previous look.
    pub(crate) cpu_before: Option<Duration>,
    /// Time of the first look with its current epoch.
    pub(crate) since: Instant,
    /// CPU times, the current one at the back, and the last look at which each was observed.
    pub(crate) spent: VecDeque<(Instant, Duration)>,
    /// The epoch at the last look; `None` if that look found the page changing, or if there was
    /// none.
    pub(crate) epoch: Option<u64>,
    /// Whether the last look was the first with this epoch, or found the process gone.
    pub(crate) fresh: bool,
    pub(crate) polls_before: u64,
    /// Successive looks at which it polled for the same requests, with new polls at each.
    pub(crate) unchanged: u32,
}

impl Sighting {
    /// For a newly found process, before its record is read.
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

    /// Whether its record is complete: past MPI_Init, it has at least MPI_COMM_WORLD.
    pub(crate) fn has_tables(&self) -> bool {
        !self.record.communicators.is_empty()
    }

    /// Whether its program truncated its page: its state is unknown now.
    pub(crate) fn is_torn(&self) -> bool {
        self.record.unknown & unknown::TORN != 0
    }

    pub(crate) fn cpu(&self) -> Option<Duration> {
        match self.kernel {
            Kernel::There { cpu, .. } => Some(cpu),
            Kernel::Gone | Kernel::Unknown => None,
        }
    }

    /// Applies what a look read. Values that count from one regular look to the next change only if
    /// it is `regular`.
    pub(crate) fn track(&mut self, now: Instant, look: u64, regular: bool) {
        let [first, second] = self.record.epochs;
        let moved = first != second || first % 2 == 1 || self.epoch != Some(first);
        // A process killed while writing keeps an odd epoch forever.
        self.fresh = self.gone.map_or(moved, |gone| gone == look);
        if moved {
            self.epoch = (first == second).then_some(first);
            self.since = now;
            self.unchanged = 0;
            self.polls_before = self.record.polls;
        } else if regular && self.record.mode >= mode::POLL_ALL {
            self.unchanged = match self.record.polls > self.polls_before {
                true => self.unchanged + 1,
                // A frozen or preempted process cannot poll, so such a look does not count.
                false if self.cpu().is_some() && self.cpu() == self.cpu_before => self.unchanged,
                false => 0,
            };
        }
        if regular {
            self.polls_before = self.record.polls;
        }
        match (self.cpu(), self.spent.back_mut()) {
            (None, _) => {}
            (Some(cpu), Some((last, same))) if *same == cpu => *last = now,
            (Some(cpu), _) => {
                if self.spent.len() == SAMPLES {
                    self.spent.pop_front();
                }
                self.spent.push_back((now, cpu));
            }
        }
    }

    pub(crate) fn ended(&self) -> bool {
        let phase = self.record.phase;
        self.gone.is_some() || matches!(phase, StatePhase::Finalising | StatePhase::Finalised)
    }

    /// Whether it ended before MPI_Finalize was over, by itself or by a signal, less than `time`
    /// ago: its launcher is about to kill the others.
    pub(crate) fn crashed_within(&self, now: Instant, time: Duration) -> bool {
        let over = matches!(self.record.phase, StatePhase::Finalised);
        !over && self.gone_at.is_some_and(|at| now < at + time)
    }

    /// A lower bound on the CPU time that it has had since a moment; `None` if it is stopped or the
    /// time is unknown.
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

    /// Whether it did nothing since the previous look.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_that_grows_by_a_tick_in_hundreds_of_looks_adds_up() {
        let begin = Instant::now();
        let mut seen = Sighting::new(StateProcess::default(), 1);
        for look in 0..1_000_u32 {
            let cpu = Duration::from_millis(10) * (look / 300);
            seen.kernel = Kernel::There {
                stopped: false,
                cpu,
            };
            let now = begin + Duration::from_millis(50) * look;
            seen.track(now, u64::from(look) + 1, true);
            assert_eq!(seen.cpu_since(begin), Some(cpu));
        }
        assert_eq!(seen.spent.len(), 4);
        // Since a moment between two looks: CPU time seen at the second look counts as used before
        // the moment.
        let moment = begin + Duration::from_millis(50 * 599 + 1);
        assert_eq!(seen.cpu_since(moment), Some(Duration::from_millis(10)));
        assert_eq!(seen.cpu_since(begin + Duration::from_secs(60)), None);
    }
}
