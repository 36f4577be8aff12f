//! How much is simulated for a point: a budget of work, never of time, so that every machine computes the same.

use idlewave_noise::{Arrivals, NoiseModel, Scope};
use idlewave_run::findings::Topology;

/// Numbers of ranks of the curves.
pub(crate) const RANKS: [u64; 8] = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_000_000];
/// Of these, the ones at which sources are left out one by one.
pub(crate) const RANKS_WITHOUT: [u64; 6] = [64, 1024, 4096, 16_384, 65_536, 1_000_000];
/// Ranks of the curves over granularity, the first that the budget affords at the coarsest one.
pub(crate) const GRAIN_RANKS: [u64; 4] = [65_536, 16_384, 1024, 64];
/// What a point may cost with all its replications, in rank-steps (about 25 ns of a core of 2023).
const POINT: f64 = 1.2e7;
/// What a point of a curve over granularity may cost.
const GRAIN: f64 = 2e6;
/// However small the effort, a point may cost this.
const LEAST: f64 = 3e5;
/// So many times its budget a point may cost where fewer steps would tell nothing.
const AT_MOST: f64 = 14.0;
/// What an event costs beside the step that it falls into, in rank-steps.
const EVENT: f64 = 2.0;
/// More steps of a replication bring nothing any more.
const MOST_STEPS: f64 = 1e6;

/// Steps of a replication at least: where all wait for all, a step forgets the one before; where ranks wait for their neighbours, fewer
/// steps show only how a run begins, and the fewer neighbours there are, the longer that takes.
fn least_steps(topology: Topology) -> f64 {
    match topology {
        Topology::Ring1d => 400.0,
        Topology::Torus2d => 128.0,
        Topology::Torus3d => 96.0,
        Topology::Barrier => 10.0,
    }
}

/// How many ranks are simulated in place of so many. Beyond some thousand ranks of a ring or torus, which hear of each other only after as many
/// steps as they are places apart, a longer run tells more than one of more ranks. Where all wait for all, all are simulated.
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
        Budget { effort }
    }

    /// Steps of each of `runs` runs of a point of a curve, in each of which `events` strike a rank; `None` if the least would cost too much.
    pub fn point(&self, topology: Topology, ranks: u64, runs: u32, events: f64) -> Option<u64> {
        self.steps(POINT, topology, ranks, runs, events)
    }

    /// The same of a point of a curve over granularity.
    pub fn grain(&self, topology: Topology, ranks: u64, runs: u32, events: f64) -> Option<u64> {
        self.steps(GRAIN, topology, ranks, runs, events)
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
        let budget = (budget * self.effort).max(LEAST);
        let fit = (budget / step).min(MOST_STEPS);
        let least = least_steps(topology);
        match fit >= least {
            true => Some(fit as u64),
            false => (least * step <= AT_MOST * budget).then_some(least as u64),
        }
    }
}

/// Events of all sources in a nanosecond of the time of a CPU.
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
