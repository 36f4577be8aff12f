//! How many steps each point gets: from a budget of work, never of time, so that every machine computes the same.

use crate::noise::{BLOCK_RANKS, BLOCK_STEPS, NoiseField};
use crate::steady::{Rung, STEP_UNIT};
use idlewave_run::findings::Topology;

/// Numbers of ranks of the curves.
pub(crate) const RANKS: [u64; 8] = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_000_000];
/// What the largest point of a curve may cost, in rank-steps of a ring (0.25 ns on a 2023 server core).
const POINT_BUDGET: f64 = 2e9;
/// What the least number of steps of a point may cost.
const POINT_MOST: f64 = 2.5e9;
/// What a point of a curve over granularity costs where the least number of steps does not cost more.
const GRANULARITY_BUDGET: f64 = 2.5e8;
/// What its least number of steps may cost: coarse granularity has many events in every step.
const GRANULARITY_MOST: f64 = 4e9;
/// What the prediction of a measured run may cost.
const CHECK_BUDGET: f64 = 4e8;
/// More steps than this bring nothing any more.
const MOST_STEPS: f64 = 4_194_304.0;
/// Cost of an event, in rank-steps of a ring (measured: `benches/engine.rs`).
const EVENT: f64 = 60.0;
/// Cost of looking for the next event of a source in a block.
const WALK: f64 = 6.0;
/// Cost of a step beside that of its ranks.
const STEP: f64 = 80.0;

/// Cost of one step, in rank-steps of a ring.
fn step_cost(topology: Topology, ranks: u64, field: &NoiseField) -> f64 {
    let p = ranks as f64;
    let events = p * field.events_per_step() * EVENT;
    let walks = ranks.div_ceil(BLOCK_RANKS as u64) as f64 * field.sources() as f64;
    let begin = walks * EVENT / BLOCK_STEPS as f64;
    match topology {
        Topology::Ring1d => p + events + walks * WALK + begin + STEP,
        Topology::Torus2d => 2.0 * p + events + walks * WALK + begin + STEP,
        Topology::Torus3d => 3.0 * p + events + walks * WALK + begin + STEP,
        Topology::Barrier => events + begin + STEP,
    }
}

/// As many steps as the budget affords; `None` if these are fewer than the least that tell something.
fn rung(topology: Topology, ranks: u64, field: &NoiseField, budget: f64) -> Option<Rung> {
    let per_step = step_cost(topology, ranks, field);
    // Without noise nothing ever deviates, and more steps cannot show it better.
    let most = if field.sources() == 0 {
        STEP_UNIT as f64
    } else {
        MOST_STEPS
    };
    let units = ((budget / per_step).min(most) / STEP_UNIT as f64).floor();
    (units >= 1.0).then(|| {
        let steps = units as u64 * STEP_UNIT;
        let cost = (steps as f64 * per_step) as u64;
        Rung { ranks, steps, cost }
    })
}

/// As many steps as `budget` affords, or the least number of steps if these cost no more than `most`.
fn point(
    topology: Topology,
    ranks: u64,
    field: &NoiseField,
    budget: f64,
    most: f64,
) -> Option<Rung> {
    rung(topology, ranks, field, budget)
        .or_else(|| rung(topology, ranks, field, most).map(|r| r.shortened(STEP_UNIT)))
}

/// The budgets, all multiplied by the same factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// 1 for the budgets above.
    pub effort: f64,
}

impl Plan {
    /// The points of a curve; those from the first unaffordable one on are missing.
    pub(crate) fn curve(self, topology: Topology, field: &NoiseField) -> Vec<Rung> {
        let largest = RANKS[RANKS.len() - 1] as f64;
        // Smaller numbers of ranks get less, but not as much less as they are smaller: they need more steps to see
        // rare events.
        let budget = |r: u64| self.effort * POINT_BUDGET * (r as f64 / largest).max(1.0 / 16.0);
        let most = self.effort * POINT_MOST;
        RANKS
            .iter()
            .map_while(|&r| point(topology, r, field, budget(r), most))
            .collect()
    }

    /// The prediction of a measured run.
    pub(crate) fn check(self, topology: Topology, ranks: u64, field: &NoiseField) -> Option<Rung> {
        rung(topology, ranks, field, self.effort * CHECK_BUDGET)
    }

    /// A ladder up to a point of a curve over granularity: two smaller numbers of ranks go before it.
    pub(crate) fn grain(
        self,
        topology: Topology,
        ranks: u64,
        field: &NoiseField,
    ) -> Option<Vec<Rung>> {
        let budget = self.effort * GRANULARITY_BUDGET;
        let last = point(
            topology,
            ranks,
            field,
            budget,
            self.effort * GRANULARITY_MOST,
        )?;
        let mut rungs = Vec::new();
        if topology != Topology::Barrier {
            let smaller = [ranks / 64, ranks / 8]
                .into_iter()
                .filter(|&r| r >= RANKS[0]);
            rungs.extend(smaller.filter_map(|r| rung(topology, r, field, budget / 4.0)));
        }
        rungs.push(last);
        Some(rungs)
    }

    /// The largest number of ranks that can be afforded at all granularities, or at the first `kept` of them if all are
    /// too many for every number of ranks.
    pub(crate) fn grain_ranks(
        self,
        topology: Topology,
        fields: &[NoiseField],
    ) -> Option<(u64, usize)> {
        (1..=fields.len()).rev().find_map(|kept| {
            let affordable = |r: u64| {
                fields[..kept]
                    .iter()
                    .all(|f| self.grain(topology, r, f).is_some())
            };
            RANKS
                .into_iter()
                .rev()
                .find(|&r| affordable(r))
                .map(|r| (r, kept))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::{LengthBin, NoiseSource, SourceKind};
    use idlewave_units::Nanos;

    fn field(per_step: f64) -> NoiseField {
        let work = Nanos::from_micros(20);
        let source = NoiseSource {
            kind: SourceKind::Task,
            name: "x".into(),
            rate_per_s: per_step / work.as_secs_f64(),
            events: 1,
            watched: Nanos::from_secs(1),
            period: None,
            lengths: vec![LengthBin {
                length_ns: 5,
                count: 1,
            }],
        };
        NoiseField::new(&[source], work, 1, |_| true)
    }

    #[test]
    fn no_point_costs_more_than_its_budget_and_none_has_too_few_steps() {
        let plan = Plan { effort: 1.0 };
        for per_step in [1e-9, 1e-4, 0.05, 0.5, 5.0, 500.0] {
            for topology in Topology::ALL {
                for rung in plan.curve(topology, &field(per_step)) {
                    assert!(rung.cost as f64 <= POINT_MOST);
                    assert!(rung.steps >= STEP_UNIT && rung.steps % STEP_UNIT == 0);
                }
            }
        }
        assert_eq!(plan.curve(Topology::Ring1d, &field(0.1)).len(), 8);
        assert!(plan.curve(Topology::Ring1d, &field(1e6)).is_empty());
    }

    #[test]
    fn coarse_granularity_is_dropped_only_if_no_number_of_ranks_affords_it() {
        let plan = Plan { effort: 1.0 };
        let (ranks, kept) = plan
            .grain_ranks(Topology::Torus3d, &[field(0.01), field(50.0)])
            .unwrap();
        assert_eq!((ranks, kept), (16_384, 2));
        let (_, kept) = plan
            .grain_ranks(Topology::Torus3d, &[field(0.01), field(1e7)])
            .unwrap();
        assert_eq!(kept, 1);
    }
}
