//! Threads that run again and again: how often, how regularly, for how long, where, at what cost.
//!
//! A *run* of a thread is the time from when it is woken until it blocks; what preempts it in
//! between interrupts the run and does not end it. Its length is the CPU time in it. Periods are
//! those of `idlewave_stats::periodicity`, of the times at which the thread was woken (or, where no
//! wake-up was recorded, began to run).
//!
//! Bias: of a thread with more than [`STARTS`] runs only the first are searched for a period.

use super::lengths::{LengthSummary, Lengths};
use super::scope::Scope;
use super::seen::Seen;
use super::threads::{Thread, Threads};
use super::walk::{Gap, GapKind, Ran, Step, walk};
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_run::findings::{Estimate, Periodicity};
use idlewave_run::tables::{EndReason, TaskKind};
use idlewave_stats::periodicity;
use idlewave_units::{CpuSet, Nanos, NodeId, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::sync::atomic::AtomicBool;

/// Starts kept per thread: 128 KiB.
const STARTS: usize = 1 << 14;
/// A thread that ran less often does not run again and again.
const RUNS_NEEDED: u64 = 5;
/// Starts whose mean direction is shorter are spread over the whole period.
const CONCENTRATED: f64 = 0.5;

/// Threads that run repeatedly, most CPU time first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Daemons {
    /// From the first to the last burst in the scope.
    pub watched: Nanos,
    /// The threads.
    pub daemons: Vec<Daemon>,
}

/// A thread that runs repeatedly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Daemon {
    /// Who it is.
    pub thread: Thread,
    /// How often it ran.
    pub runs: u64,
    /// The period between the starts of its runs; `None` if they are not regular.
    pub period: Option<Periodicity>,
    /// When in the period it runs; `None` without a period, or if that changes.
    pub phase: Option<Phase>,
    /// Time between the starts of its runs, regular or not, in nanoseconds.
    pub between: LengthSummary,
    /// CPU time of a run.
    pub length: LengthSummary,
    /// Time from the wake-up to the switch-in.
    pub ready: LengthSummary,
    /// CPUs on which it ran.
    pub cpus: CpuSet,
    /// CPU time that it took.
    pub cost: Nanos,
    /// The same as a share of one CPU's time, 0..=1.
    pub share: f64,
}

/// When in its period a thread starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// Mean start modulo the period, counted from the start of the run.
    pub offset: Nanos,
    /// Length of the mean direction of the starts on the circle of the period, 0..=1: 1 if all
    /// starts are exactly one period apart.
    pub concentration: f64,
}

#[derive(Debug, Default)]
struct Life {
    starts: Vec<u64>,
    last_start: Option<u64>,
    between: Lengths,
    length: Lengths,
    ready: Lengths,
    cpus: CpuSet,
    time: u64,
    /// From its first burst to the end of its last.
    span: Option<(u64, u64)>,
    /// CPU time of the run in progress; `None` between runs.
    running: Option<u64>,
}

impl Life {
    fn gap(&mut self, gap: &Gap) {
        if gap.kind == GapKind::ReadyWoken {
            self.ready.add(gap.end - gap.begin);
        }
    }

    fn ran(&mut self, ran: &Ran) {
        if !ran.resumed || self.running.is_none() {
            let start = ran.woken.unwrap_or(ran.begin);
            if let Some(last) = self.last_start.replace(start) {
                self.between.add(start.saturating_sub(last));
            }
            if self.starts.len() < STARTS {
                self.starts.push(start);
            }
            self.running = Some(0);
        }
        let length = ran.end - ran.begin;
        self.time += length;
        let first = self.span.map_or(ran.begin, |(first, _)| first);
        self.span = Some((first, ran.end));
        self.cpus.insert(ran.cpu);
        let so_far = self.running.take().unwrap_or(0) + length;
        match ran.end_reason {
            EndReason::Preempted => self.running = Some(so_far),
            // Its end is not known.
            EndReason::Unknown => {}
            _ => self.length.add(so_far),
        }
    }

    /// Whether it has a CPU most of the time.
    fn is_busy(&self) -> bool {
        self.span
            .is_some_and(|(first, last)| self.time > (last - first) / 2)
    }

    fn finish(self, thread: Thread, scope: &Scope, watched: u64) -> Option<Daemon> {
        let runs = self.between.count() + 1;
        if runs < RUNS_NEEDED {
            return None;
        }
        let period = periodicity::periods(&self.starts).into_iter().next();
        let phase = period
            .as_ref()
            .and_then(|p| phase(&self.starts, &p.period, scope.start));
        Some(Daemon {
            thread,
            runs,
            period,
            phase,
            between: self.between.summary(),
            length: self.length.summary(),
            ready: self.ready.summary(),
            cpus: self.cpus,
            cost: Nanos::from_nanos(self.time),
            share: self.time as f64 / watched.max(1) as f64,
        })
    }
}

/// The view. Ranks and idle tasks do not count as daemons, nor do the threads of idlewave that
/// measure, which keep their CPUs busy.
pub fn daemons(
    run: &RunReader,
    threads: &Threads,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<Daemons, ExplainError> {
    let mut lives: BTreeMap<(NodeId, Pid), Life> = BTreeMap::new();
    let mut seen = Seen::default();
    walk(run, scope, stop, |step| match step {
        Step::Gap(gap) => lives.entry((gap.node, gap.pid)).or_default().gap(&gap),
        Step::Ran(ran) => {
            if let Some((begin, end)) = scope.clip(ran.begin, ran.end) {
                seen.add(&ran, begin, end);
                let cut = Ran { begin, end, ..ran };
                lives.entry((ran.node, ran.pid)).or_default().ran(&cut);
            }
        }
    })?;
    let watched = seen.watched();
    let mut rows: Vec<Daemon> = lives
        .into_iter()
        .filter_map(|((node, pid), life)| {
            let thread = threads.of(node, pid);
            let works = match thread.kind {
                TaskKind::Rank | TaskKind::Idle => true,
                TaskKind::Own => life.is_busy(),
                _ => false,
            };
            let thread = Some(thread).filter(|_| !works)?;
            life.finish(thread, scope, watched)
        })
        .collect();
    rows.sort_by_key(|d| (Reverse(d.cost), d.thread.node, d.thread.pid));
    Ok(Daemons {
        watched: Nanos::from_nanos(watched),
        daemons: rows,
    })
}

/// Mean direction of the starts on the circle of the period (Mardia and Jupp, *Directional
/// Statistics*, section 2.2).
fn phase(starts: &[u64], period: &Estimate, origin: u64) -> Option<Phase> {
    let (mut x, mut y) = (0.0, 0.0);
    for &start in starts {
        let angle = TAU * ((start as f64 - origin as f64) / period.value).fract();
        (x, y) = (x + angle.cos(), y + angle.sin());
    }
    let concentration = x.hypot(y) / starts.len().max(1) as f64;
    let offset = (y.atan2(x) / TAU).rem_euclid(1.0) * period.value;
    (concentration >= CONCENTRATED).then(|| Phase {
        offset: Nanos::from_nanos(offset.round() as u64),
        concentration,
    })
}
