//! One rank's CPU over time, as rows: the rank, the threads that took its place, and the
//! interrupts.

use super::threads::{Names, Who};
use idlewave_noise::{Charge, Noise, NoiseModel, Served, ServedEvents, Timeline};
use idlewave_run::tables::{Burst, EndReason, Interrupt};
use idlewave_units::{Cpu, NodeId, Pid};

/// Receives the rows.
pub trait Rows {
    /// A burst.
    fn burst(&mut self, burst: Burst);
    /// An interrupt.
    fn interrupt(&mut self, interrupt: Interrupt);
}

/// The CPU of one rank.
pub struct RankCpu {
    rank: u32,
    node: NodeId,
    cpu: Cpu,
    pid: Pid,
    events: ServedEvents,
    /// A second timeline of the same CPU, for sources that slow it down without stopping it; `None`
    /// if there are none.
    levels: Option<Timeline>,
    /// Since when the rank has had the CPU.
    since: u64,
    /// Events served since the last computation began.
    recent: Vec<Served>,
}

impl RankCpu {
    pub fn new(model: &NoiseModel, noise: &Noise, rank: u32) -> Self {
        let place = noise.place(rank);
        let levels = model.sources.iter().any(|s| s.keeps > 0.0);
        RankCpu {
            rank,
            node: NodeId::new(place.node),
            cpu: Cpu::new(place.cpu),
            pid: Names::rank(rank),
            events: ServedEvents::new(noise, place),
            levels: levels.then(|| Timeline::new(noise, place)),
            since: 0,
            recent: Vec::new(),
        }
    }

    /// Serves all events that reached the CPU before `until`.
    pub fn serve(&mut self, noise: &Noise, names: &mut Names, until: u64, rows: &mut impl Rows) {
        while let Some(event) = self.events.next_before(noise, until) {
            match names.who(self.rank, event.source) {
                Who::Thread(pid) => {
                    self.rank_burst(event.begin, EndReason::Preempted, rows);
                    rows.burst(self.burst(pid, event.begin, event.end, EndReason::Sleeping));
                    self.since = event.end;
                }
                Who::Interrupt(source) => {
                    rows.interrupt(self.interrupt(source, event.begin, event.end));
                }
            }
            self.recent.push(event);
        }
    }

    /// The rank computed from `begin` to `end`, for this much work. Time lost to sources that only
    /// slow the CPU down is placed at the end, where nothing else is. Events up to `end` have been
    /// served.
    pub fn computed(
        &mut self,
        noise: &Noise,
        model: &NoiseModel,
        begin: u64,
        end: u64,
        work: u64,
        rows: &mut impl Rows,
    ) {
        let Some(timeline) = &mut self.levels else {
            return;
        };
        let mut slowed: Vec<(u32, u64)> = Vec::new();
        timeline.end(noise, begin, work, |Charge { source, ns }| {
            if model.sources[source as usize].keeps > 0.0 {
                slowed.push((source, ns));
            }
        });
        let mut at = end;
        for (source, mut left) in slowed {
            while left > 0 && at > begin {
                let (from, to) = self.free_before(at, begin);
                let from = from.max(to.saturating_sub(left));
                if from < to {
                    rows.interrupt(self.interrupt(source, from, to));
                    left -= to - from;
                }
                at = from;
            }
        }
    }

    /// The rank stood still: one delay, minus what was served meanwhile.
    pub fn delayed(&self, source: u32, begin: u64, end: u64, rows: &mut impl Rows) {
        let mut at = end;
        while at > begin {
            let (from, to) = self.free_before(at, begin);
            if from < to {
                rows.interrupt(self.interrupt(source, from, to));
            }
            at = from;
        }
    }

    /// The next computation begins. An event that reaches into it can be ignored: the time lost to
    /// levels is shorter than the free time behind the event, and is placed from the end.
    pub fn forget(&mut self) {
        self.recent.clear();
    }

    /// The program has ended: the rank and the last thread on the CPU give it up.
    pub fn finish(&mut self, end: u64, rows: &mut impl Rows) {
        self.rank_burst(end, EndReason::Exited, rows);
    }

    /// The last stretch before `at` in which no event was served. If it is empty, both ends equal
    /// `begin` or the start of an event.
    fn free_before(&self, mut at: u64, begin: u64) -> (u64, u64) {
        for event in self.recent.iter().rev() {
            match event.end >= at {
                // The event reaches up to here.
                true => at = at.min(event.begin.max(begin)),
                false => return (event.end.max(begin).min(at), at),
            }
        }
        (begin.min(at), at)
    }

    fn rank_burst(&self, until: u64, reason: EndReason, rows: &mut impl Rows) {
        if self.since < until {
            rows.burst(self.burst(self.pid, self.since, until, reason));
        }
    }

    fn burst(&self, pid: Pid, begin_ns: u64, end_ns: u64, end_reason: EndReason) -> Burst {
        Burst {
            node: self.node,
            cpu: self.cpu,
            pid,
            begin_ns,
            end_ns,
            end_reason,
            certain: true,
        }
    }

    fn interrupt(&self, source: u32, begin_ns: u64, end_ns: u64) -> Interrupt {
        Interrupt {
            node: self.node,
            cpu: self.cpu,
            source,
            pid: self.pid,
            begin_ns,
            end_ns,
            depth: 0,
            certain: true,
        }
    }
}
