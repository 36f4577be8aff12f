//! How much is simulated for a point: the budget is work, not time, so every machine computes the
//! same.

use idlewave_noise::{Arrivals, NoiseModel, Scope};
use idlewave_run::findings::Topology;

/// Rank counts of the curves.
pub(crate) const RANKS: [u64; 8] = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_000_000];
/// The rank counts at which sources are left out one by one.
pub(crate) const RANKS_WITHOUT: [u64; 6] = [64, 1024, 4096, 16_384, 65_536, 1_000_000];
/// Candidate rank counts of the curves over granularity: the first that the budget affords at the
/// coarsest granularity is taken.
pub(crate) const GRAIN_RANKS: [u64; 4] = [65_536, 16_384, 1024, 64];
/// Ranks of the curve over the rate of the noise: on a ring of so many, delays do not go round within
/// the steps of a point.
pub(crate) const RATE_RANKS: u64 = 1024;
/// Largest cost of a point with all its replications, in rank-steps (about 25 ns each on a core of
/// 2023).
const POINT: f64 = 1.2e7;
/// Largest cost of a point of a curve over granularity, in rank-steps.
const GRAIN: f64 = 2e6;
/// The smallest effort: below it, too few points of a curve could be simulated.
const LEAST_EFFORT: f64 = 0.005;
/// A point may cost this many times its budget if fewer steps would not be meaningful.
const AT_MOST: f64 = 14.0;
/// A run is abandoned at this multiple of what it may cost, as the length of its steps is an
/// estimate.
const GIVEN_UP: f64 = 2.0;
/// Cost of an event, in rank-steps, in addition to the step that it falls into.
const EVENT: f64 = 2.0;
/// Steps of a replication beyond which accuracy no longer improves.
const MOST_STEPS: f64 = 1e6;

/// Least number of steps of a replication. Where all ranks wait for all, a step forgets the
/// previous one. Where ranks wait for their neighbours, too few steps show only the start of a run;
/// the fewer neighbours, the longer the start lasts.
fn least_steps(topology: Topology) -> f64 {
    match topology {
        Topology::Ring1d => 400.0,
        Topology::Torus2d => 128.0,
        Topology::Torus3d => 96.0,
        Topology::Barrier => 10.0,
    }
}

/// Number of ranks simulated in place of `ranks`. On a ring or torus, ranks affect each other only
/// after as many steps as their distance, so beyond some thousand ranks a longer run says more than
/// a larger one. Where all wait for all, all ranks are simulated.
pub(crate) fn stand_in(topology: Topology, ranks: u64) -> u64 {
    match topology {
        Topology::Ring1d => ranks.min(4096),
        Topology::Torus2d | Topology::Torus3d => ranks.min(16_384),
        Topology::Barrier => ranks,
    }
}

/// Budgets, all multiplied by the same effort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    effort: f64,
}

impl Budget {
    pub fn of(effort: f64) -> Self {
        Budget {
            effort: effort.max(LEAST_EFFORT),
        }
    }

    /// Steps of each of `runs` runs of a point of a curve, where `events` events strike a rank per
    /// step; `None` if even the fewest steps would cost too much.
    pub fn point(&self, topology: Topology, ranks: u64, runs: u32, events: f64) -> Option<u64> {
        self.steps(POINT, topology, ranks, runs, events)
    }

    /// Like [`Budget::point`], for a point of a curve over granularity.
    pub fn grain(&self, topology: Topology, ranks: u64, runs: u32, events: f64) -> Option<u64> {
        self.steps(GRAIN, topology, ranks, runs, events)
    }

    /// Mean time of the ranks, in nanoseconds, at which one of `runs` runs of a point of a curve is
    /// abandoned: with `per_ns` events per nanosecond, it then costs a multiple of what the most
    /// expensive point may cost.
    pub fn longest_point(&self, ranks: u64, runs: u32, per_ns: f64) -> f64 {
        self.longest(POINT, ranks, runs, per_ns)
    }

    /// Like [`Budget::longest_point`], for a point of a curve over granularity.
    pub fn longest_grain(&self, ranks: u64, runs: u32, per_ns: f64) -> f64 {
        self.longest(GRAIN, ranks, runs, per_ns)
    }

    fn longest(&self, budget: f64, ranks: u64, runs: u32, per_ns: f64) -> f64 {
        let rank_steps = GIVEN_UP * AT_MOST * budget * self.effort;
        rank_steps / (ranks as f64 * f64::from(runs) * EVENT * per_ns)
    }

    fn steps(
        &self,
        budget: f64,
        topology: Topology,
        ranks: u64,
        runs: u32,
        events: f64,
    ) -> Option<u64> {
        let step = ranks as f64 * f64::from(runs) * (1.0 + EVENT * events);
        let budget = budget * self.effort;
        let fit = (budget / step).min(MOST_STEPS);
        let least = least_steps(topology);
        match fit >= least {
            true => Some(fit as u64),
            false => (least * step <= AT_MOST * budget).then_some(least as u64),
        }
    }
}

/// Lower bound on the mean step of ranks that wait for each other, as a multiple of its work: the
/// rank on the busiest CPU computes only in the time that noise leaves. Infinite if that is none.
pub(crate) fn stretched(model: &NoiseModel) -> f64 {
    let taken = model.busiest().map_or(0.0, |(_, share)| share);
    1.0 / (1.0 - taken).max(0.0)
}

/// Events of all sources per nanosecond of CPU time.
pub(crate) fn events_per_ns(model: &NoiseModel) -> f64 {
    let cpus = f64::from(model.cpus_per_node.max(1));
    let per_s = model.sources.iter().map(|source| {
        let each = match &source.arrivals {
            Arrivals::Poisson { rate_per_s } => *rate_per_s,
            Arrivals::Periodic { period_ns, .. } => 1e9 / *period_ns as f64,
            Arrivals::Trace {
                watched_ns, events, ..
            } => 1e9 * events.len() as f64 / *watched_ns as f64,
        };
        let struck = source.cpus.as_ref().map_or(cpus, |c| c.len() as f64) / cpus;
        match source.strikes {
            Scope::EachCpu => each * struck,
            Scope::OneCpuOfNode => each * struck / cpus,
        }
    });
    per_s.sum::<f64>() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_noise::{Lengths, Source};

    fn model(shares: &[f64]) -> NoiseModel {
        let source = |share: &f64| {
            let rate_per_s = share * 1e4;
            let length = Lengths::Fixed { ns: 100_000 };
            Source::task("x", Arrivals::Poisson { rate_per_s }, Some(length))
        };
        NoiseModel {
            sources: shares.iter().map(source).collect(),
            ..NoiseModel::default()
        }
    }

    #[test]
    fn what_noise_leaves_of_the_busiest_cpu_is_all_that_there_is_to_compute_on() {
        for (shares, expected) in [(&[][..], 1.0), (&[0.5], 2.0), (&[0.5, 0.25], 4.0)] {
            assert!((stretched(&model(shares)) - expected).abs() < 1e-9);
        }
        assert_eq!(stretched(&model(&[0.75, 0.5])), f64::INFINITY);
        let mut uneven = model(&[0.5, 0.25]);
        (uneven.cpus_per_node, uneven.sources[0].cpus) = (2, Some(vec![1]));
        assert!((stretched(&uneven) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_as_long_as_estimated_is_never_given_up_and_one_of_thrice_the_dearest_always() {
        let budget = Budget::of(1.0);
        let (runs, per_ns) = (8, 1e-3);
        let mut dearest: f64 = 0.0;
        for ranks in RANKS {
            let longest = budget.longest_point(ranks, runs, per_ns);
            for step_ns in (0..80).map(|i| 1e3 * 1.2_f64.powi(i)) {
                let events = per_ns * step_ns;
                let Some(steps) = budget.point(Topology::Ring1d, ranks, runs, events) else {
                    continue;
                };
                let estimate = steps as f64 * step_ns / longest;
                assert!(estimate <= 0.5, "{ranks} ranks, {step_ns} ns");
                dearest = dearest.max(estimate);
            }
        }
        assert!(dearest > 0.33, "{dearest}");
        let grain = budget.longest_grain(64, runs, per_ns);
        assert!(grain < budget.longest_point(64, runs, per_ns));
    }
}
