//! One lockstep run: its chain of last arrivals, the late steps on it, and how each is charged.

use crate::ExplainError;
use crate::attribute::{Part, split};
use crate::by_rate::{Strikes, Struck, by_rate};
use crate::catalog::SourceId;
use crate::edges::Extra;
use crate::reference::{Reference, late_from};
use crate::steps::{RankSeries, Step, chain, last_ranks};
use crate::watch::{Charge, Charger, Watch};
use idlewave_run::findings::{Estimate, LockstepFindings};
use idlewave_run::tables::{RegionKind, Regions};
use idlewave_run::{Coupling, RunReader, SourceKind, WaitsFor};
use idlewave_stats::hypotheses::slow_ranks;
use idlewave_stats::{blocks, histogram};
use idlewave_units::{Nanos, Rank};

/// A late step with its parts.
#[derive(Clone, Debug)]
pub struct Late {
    /// The step; its rank is the one that was disturbed: last to arrive, or last to send.
    pub step: Step,
    pub lateness: u64,
    pub parts: Vec<Part>,
    /// The longest charged stretches, in order of time; empty unless the step is among the most
    /// delayed.
    pub charged: Vec<Taken>,
}

/// A stretch taken from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub source: SourceId,
    pub rank: Rank,
    pub begin: u64,
    pub end: u64,
    /// The charged part: all of a stretch that the kernel recorded, but only part of a gap around
    /// such stretches.
    pub ns: u64,
}

impl Taken {
    /// Whether most of the stretch is charged, so that it shows where the time went.
    fn has_place(&self) -> bool {
        2 * self.ns >= self.end - self.begin
    }
}

/// Stretches kept for each of the most delayed steps.
const CHARGED_KEPT: usize = 12;

/// The longest of what was taken, in order of time.
fn longest(taken: &[Taken]) -> Vec<Taken> {
    let mut kept: Vec<Taken> = taken.iter().filter(|t| t.has_place()).copied().collect();
    kept.sort_by_key(|t| (std::cmp::Reverse(t.ns), t.begin, t.rank));
    kept.truncate(CHARGED_KEPT);
    kept.sort_by_key(|t| (t.begin, t.rank, t.end));
    kept
}

/// The analysis of one lockstep run.
#[derive(Debug)]
pub struct LockstepAnalysis {
    pub findings: LockstepFindings,
    pub late: Vec<Late>,
    /// What an undisturbed step takes beyond its computation.
    pub communication: Option<Nanos>,
}

/// What the caller knows about the phase.
pub struct LockstepPhase<'a> {
    pub phase: u32,
    pub coupling: Coupling,
    /// Which ranks wait for which.
    pub waits: WaitsFor,
    pub ranks: usize,
    /// One per rank, in order.
    pub watches: &'a [Watch],
    /// Of every watch, in order.
    pub extras: &'a [&'a [Extra]],
    /// Start and length of every strike of a source that counts as noise of the machine, by rank.
    pub strikes: &'a [&'a Strikes],
    /// Bound of the error between the clocks of two ranks: smaller lateness may be an artefact.
    pub clock_error: Nanos,
}

/// Start and arrival of every iteration of every rank, cut to the iterations that all completed.
pub fn read_series(
    run: &RunReader,
    phase: u32,
    ranks: usize,
) -> Result<Vec<RankSeries>, ExplainError> {
    let mut series = vec![RankSeries::default(); ranks];
    let mut wrong = None;
    run.for_each::<Regions>(|r| {
        if r.phase != phase || r.kind != RegionKind::Compute {
            return;
        }
        match series.get_mut(r.rank.index()) {
            Some(s) if r.iteration == s.begin.len() as u64 && r.begin_ns <= r.end_ns => {
                s.begin.push(r.begin_ns);
                s.arrival.push(r.end_ns);
            }
            // After a lost block, the rest of this rank's records cannot be used.
            Some(_) => {}
            None => wrong = Some(r.rank),
        }
    })?;
    if let Some(rank) = wrong {
        return Err(ExplainError::Inconsistent {
            what: "regions",
            reason: format!("rank {rank} is not one of the manifest's {ranks} ranks"),
        });
    }
    let common = series.iter().map(|s| s.begin.len()).min().unwrap_or(0);
    for s in &mut series {
        s.begin.truncate(common);
        s.arrival.truncate(common);
    }
    Ok(series)
}

/// When the last rank arrived, per iteration.
pub fn last_arrivals(series: &[RankSeries]) -> Vec<u64> {
    let mut last = vec![0; series.first().map_or(0, |s| s.arrival.len())];
    for s in series {
        for (last, &arrival) in last.iter_mut().zip(&s.arrival) {
            *last = arrival.max(*last);
        }
    }
    last
}

/// How long a rank took from when it could start to its arrival, per iteration from the second on:
/// the length of the step if this rank alone determined it. `last` has the last arrivals, if all
/// ranks wait for all.
fn local_steps(
    series: &[RankSeries],
    rank: usize,
    waits: &WaitsFor,
    last: Option<&[u64]>,
) -> Vec<u64> {
    let ready = |k: usize| match last {
        Some(last) => last[k],
        None => waits
            .of(rank)
            .map(|j| series[j].arrival[k])
            .max()
            .unwrap_or(0),
    };
    let own = series[rank].arrival.iter().skip(1).enumerate();
    own.map(|(before, arrival)| arrival.saturating_sub(ready(before)))
        .collect()
}

/// Undisturbed durations of every rank.
struct Usual {
    /// Of its part of a step.
    steps: Vec<Reference>,
    /// Of its computation.
    computations: Vec<Reference>,
}

impl Usual {
    fn of(series: &[RankSeries], waits: &WaitsFor) -> Self {
        let last = waits.is_global().then(|| last_arrivals(series));
        // Rank by rank, since the steps of a long run take much memory.
        let steps = series.iter().enumerate().map(|(rank, s)| {
            let steps = local_steps(series, rank, waits, last.as_deref());
            Reference::of(&s.arrival[1..], &steps)
        });
        let computations = series.iter().map(|s| {
            let durations: Vec<u64> = s.begin.iter().zip(&s.arrival).map(|(b, a)| a - b).collect();
            Reference::of(&s.arrival, &durations)
        });
        Self {
            steps: steps.collect(),
            computations: computations.collect(),
        }
    }
}

impl Usual {
    /// What a link of the chain took beyond its undisturbed step at the speed of that time.
    fn excess(&self, step: &Step) -> f64 {
        let reference = &self.steps[step.rank.index()];
        let usual = reference.fast + reference.slow_by(step.end);
        (step.end - step.begin) as f64 - usual as f64
    }
}

/// How late the steps of a chain were, and what is charged for it.
#[derive(Default)]
struct Charged {
    late: Vec<Late>,
    /// Excess of the other steps, nanoseconds.
    small_variation: i64,
    /// What messages took beyond their fastest, nanoseconds.
    slow_messages: u64,
}

/// Charges every step of the chain that exceeds its reference by `limit` nanoseconds or more.
fn charge(
    phase: &LockstepPhase<'_>,
    charger: &mut Charger<'_>,
    series: &[RankSeries],
    chain: &[Step],
    usual: &Usual,
    limit: u64,
) -> Charged {
    let slow_level = charger.catalog.class(SourceKind::SlowLevel);
    let transfer = charger
        .catalog
        .transfer(phase.watches.iter().map(|w| w.node));
    // So that it is numbered before the sources of the steps.
    charger.unexplained(None);
    let mut out = Charged::default();
    let mut taker = Taker {
        phase,
        charger,
        charges: Vec::new(),
    };
    let mut taken: Vec<Taken> = Vec::new();
    for step in chain {
        let rank = step.rank.index();
        let reference = &usual.steps[rank];
        let excess = (step.end - step.begin) as i64 - reference.fast as i64;
        // What slows the step beyond what slows its computation is due to messages.
        let slow_by = reference.slow_by(step.end);
        let slow_work = usual.computations[rank].slow_by(step.end).min(slow_by);
        out.slow_messages += slow_by - slow_work;
        if excess < limit as i64 {
            out.small_variation += excess;
            continue;
        }
        let lateness = excess as u64;
        taken.clear();
        taker.take(rank, step.begin, step.end, &mut taken);
        let mut step = *step;
        if let Some(sender) = held_back(&mut taker, &step, series, limit, &mut taken) {
            step.rank = sender;
        }
        let slow = [(slow_level, slow_work), (transfer, slow_by - slow_work)];
        let disturbed = phase.watches.get(step.rank.index());
        let unexplained = taker.charger.unexplained(disturbed);
        let sums: Vec<(SourceId, u64)> = taken.iter().map(|t| (t.source, t.ns)).collect();
        out.late.push(Late {
            step,
            lateness,
            parts: split(lateness, &sums, &slow, unexplained),
            charged: longest(&taken),
        });
        let late = out.late.len();
        if late >= 2 * LATEST_KEPT && late % LATEST_KEPT == 0 {
            forget(&mut out.late);
        }
    }
    forget(&mut out.late);
    out
}

/// How often each rank was last, and how many steps in a row.
fn lasts(last: &[u32], ranks: usize) -> (Vec<u64>, Vec<f64>) {
    let mut counts = vec![0u64; ranks];
    let mut runs = Vec::new();
    for (k, &rank) in last.iter().enumerate() {
        counts[rank as usize] += 1;
        match runs.last_mut() {
            Some(length) if k > 0 && last[k - 1] == rank => *length += 1.0,
            _ => runs.push(1.0),
        }
    }
    (counts, runs)
}

/// Analyses one phase. `None` if fewer than two iterations were completed by all ranks.
pub fn analyse(
    run: &RunReader,
    phase: &LockstepPhase<'_>,
    charger: &mut Charger<'_>,
) -> Result<Option<LockstepAnalysis>, ExplainError> {
    let series = read_series(run, phase.phase, phase.ranks)?;
    let iterations = series.first().map_or(0, |s| s.begin.len());
    if iterations < 2 {
        return Ok(None);
    }
    let usual = Usual::of(&series, &phase.waits);
    let chain = chain(&series, &phase.waits);
    let limit = late_from(&usual.steps).max(phase.clock_error.get());
    let charged = charge(phase, charger, &series, &chain, &usual, limit);
    let late = charged.late;

    let undisturbed: u64 = chain.iter().map(|s| usual.steps[s.rank.index()].fast).sum();
    let total = chain.last().map_or(0, |s| s.end) - chain.first().map_or(0, |s| s.begin);
    // A reference shorter than the clock error gives no meaningful ratio.
    let least = phase.clock_error.get().max(1);
    let durations: Vec<f64> = chain
        .iter()
        .map(|s| (s.end - s.begin) as f64 / usual.steps[s.rank.index()].fast.max(least) as f64)
        .collect();
    let mut step_refs: Vec<u64> = usual.steps.iter().map(|r| r.fast).collect();
    step_refs.sort_unstable();
    let step_ref = step_refs[step_refs.len() / 2];
    let compute_ref = usual.computations.iter().map(|r| r.fast).max().unwrap_or(0);
    let (last_counts, mut runs) = lasts(&last_ranks(&series), phase.ranks);
    let excess: Vec<f64> = chain.iter().map(|s| usual.excess(s)).collect();
    let struck = Struck {
        series: &series,
        chain: &chain,
        excess: &excess,
        strikes: phase.strikes,
        work: Nanos::from_nanos(compute_ref),
    };
    let steps_ns = chain.iter().map(|s| s.end - s.begin);
    let slowdown = slowdown(total, undisturbed, &durations);
    let findings = LockstepFindings {
        phase: phase.phase,
        name: phase.coupling.name().to_owned(),
        ranks: phase.ranks as u32,
        iterations: iterations as u64,
        compute: usual
            .computations
            .iter()
            .map(|r| Nanos::from_nanos(r.fast))
            .collect(),
        step: Nanos::from_nanos(step_ref),
        total: Nanos::from_nanos(total),
        slowdown_not_known: slowdown.not_known_slowdown(),
        slowdown,
        late_steps: late.len() as u64,
        lateness: Nanos::from_nanos(late.iter().map(|l| l.lateness).sum()),
        small_variation_ns: charged.small_variation,
        late_from: Nanos::from_nanos(limit),
        slow_messages: Some(Nanos::from_nanos(charged.slow_messages)),
        slow_ranks: slow_ranks(&last_counts)
            .into_iter()
            .map(Rank::new)
            .collect(),
        last_counts,
        last_run_length: median(&mut runs),
        histogram: histogram::LogHistogram::of(steps_ns).non_empty(),
        by_rate: by_rate(&struck),
    };
    Ok(Some(LockstepAnalysis {
        findings,
        late,
        communication: step_ref.checked_sub(compute_ref).map(Nanos::from_nanos),
    }))
}

/// Number of late steps that are listed one by one, with the charged stretches.
pub const LATEST_KEPT: usize = 100;

/// Drops the stretches of all but the most delayed steps.
fn forget(late: &mut [Late]) {
    let mut all: Vec<u64> = late.iter().map(|l| l.lateness).collect();
    if all.len() <= LATEST_KEPT {
        return;
    }
    all.sort_unstable();
    let least = all[all.len() - LATEST_KEPT];
    for step in late.iter_mut().filter(|l| l.lateness < least) {
        step.charged = Vec::new();
    }
}

/// Collects what was taken from ranks.
struct Taker<'a, 'c> {
    phase: &'a LockstepPhase<'a>,
    charger: &'a mut Charger<'c>,
    charges: Vec<Charge>,
}

impl Taker<'_, '_> {
    /// Adds what was taken from `rank` in `begin..end`; returns its total length.
    fn take(&mut self, rank: usize, begin: u64, end: u64, taken: &mut Vec<Taken>) -> u64 {
        let Some(watch) = self.phase.watches.get(rank).filter(|_| begin < end) else {
            return 0;
        };
        let before = taken.len();
        self.charges.clear();
        self.charger.charges(watch, begin, end, &mut self.charges);
        let number = Rank::new(rank as u32);
        taken.extend(self.charges.iter().map(|c| Taken {
            source: c.source,
            rank: number,
            begin: c.begin,
            end: c.end,
            ns: c.length(),
        }));
        let extras = overlapping(self.phase.extras[rank], begin, end);
        taken.extend(extras.map(|e| Taken {
            source: e.source,
            rank: number,
            begin: e.begin.max(begin),
            end: e.end.min(end),
            ns: e.within(begin, end),
        }));
        taken[before..].iter().map(|t| t.ns).sum()
    }
}

/// A rank that is interrupted between its arrival and its send delays those that wait for its
/// message, though it was not the last to arrive. Returns such a sender if the wait at the start of
/// `step`, less what was taken from the waiting rank, is longer than `limit`, and if more was taken
/// from the sender during the wait than from the waiting rank. Then `taken` becomes what was taken
/// from the sender until its own wait ended, and from the waiting rank afterwards.
fn held_back(
    taker: &mut Taker<'_, '_>,
    step: &Step,
    series: &[RankSeries],
    limit: u64,
    taken: &mut Vec<Taken>,
) -> Option<Rank> {
    let (k, rank) = (step.iteration as usize, step.rank.index());
    let wait_end = series[rank].begin[k].min(step.end);
    if k == 0 || wait_end <= step.begin {
        return None;
    }
    let waits = &taker.phase.waits;
    let mut in_wait = Vec::new();
    let mut most = taker.take(rank, step.begin, wait_end, &mut in_wait);
    if (wait_end - step.begin).saturating_sub(most) <= limit {
        // The wait is no longer than usual, apart from what was taken from the waiting rank itself.
        return None;
    }
    let mut sender = None;
    let mut candidate = Vec::new();
    let mut consider = |j: usize| {
        candidate.clear();
        let until = wait_end.min(series[j].begin[k]);
        let sum = taker.take(j, step.begin, until, &mut candidate);
        if j != rank && sum > most {
            most = sum;
            sender = Some(j);
            std::mem::swap(&mut in_wait, &mut candidate);
        }
    };
    waits.of(rank).for_each(&mut consider);
    let sender = sender?;
    taker.take(rank, wait_end, step.end, &mut in_wait);
    *taken = in_wait;
    Some(Rank::new(sender as u32))
}

/// Edges and lone gaps in `begin..end`; `extras` is in order of start.
fn overlapping(extras: &[Extra], begin: u64, end: u64) -> impl Iterator<Item = &Extra> {
    // Gaps of one thread do not overlap, so their ends are in order too.
    let first = extras.partition_point(|e| e.end <= begin);
    extras[first..].iter().take_while(move |e| e.begin < end)
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    values.select_nth_unstable_by(middle, f64::total_cmp);
    values[middle]
}

/// Slow-down with an interval over blocks of successive steps.
fn slowdown(total: u64, undisturbed: u64, ratios: &[f64]) -> Estimate {
    let value = total as f64 / undisturbed.max(1) as f64 - 1.0;
    let interval = blocks::mean(ratios, blocks::BLOCKS);
    Estimate {
        value,
        // Nothing is faster than undisturbed, except by the uncertainty of the undisturbed step.
        low: (value - interval.half_width).max(value.min(0.0)),
        high: value + interval.half_width,
        n: ratios.len() as u64,
        method: "run time over undisturbed time, minus 1; 95 % interval over blocks of steps"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_a_rank_counts_from_the_last_that_it_waited_for() {
        let of = |arrival: [u64; 3]| RankSeries {
            begin: vec![0; 3],
            arrival: arrival.to_vec(),
        };
        let series = [of([12, 20, 35]), of([10, 25, 31]), of([11, 22, 33])];
        let last = last_arrivals(&series);
        assert_eq!(last, [12, 25, 35]);
        for coupling in [Coupling::Barrier, Coupling::Neighbours] {
            // Each of three ranks on a ring waits for both others.
            let waits = WaitsFor::new(coupling, &[], 3);
            let last = waits.is_global().then_some(&last[..]);
            let steps = [0, 1, 2].map(|rank| local_steps(&series, rank, &waits, last));
            assert_eq!(steps, [[8, 10], [13, 6], [10, 8]], "{coupling:?}");
        }
    }
}
