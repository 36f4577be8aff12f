//! How many steps each point gets: from a budget of work, never of time, so that every machine computes the same.

use crate::noise::{BLOCK_RANKS, BLOCK_STEPS, NoiseField};
use crate::steady::{Rung, STEP_UNIT};
use idlewave_run::findings::Topology;

/// Numbers of ranks of the curves.
pub(crate) const RANKS: [u64; 8] = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_000_000];
/// What the largest point of a curve may cost, in rank-steps of a ring (0.25 ns on a 2023 server core).
pub(crate) const POINT_BUDGET: f64 = 2e9;
/// What the least number of steps of a point may cost.
const POINT_MOST: f64 = 2.5e9;
/// What a point of a curve over granularity costs where the least number of steps does not cost more.
const GRANULARITY_BUDGET: f64 = 2.5e8;
/// What its least number of steps may cost: coarse granularity has many events in every step.
const GRANULARITY_MOST: f64 = 4e9;
/// What the prediction of a measured run may cost.
pub(crate) const CHECK_BUDGET: f64 = 4e8;
/// More steps than this bring nothing any more.
const MOST_STEPS: f64 = 4_194_304.0;
/// Cost of an event, in rank-steps of a ring (measured: `benches/engine.rs`).
const EVENT: f64 = 60.0;
/// Cost of looking for the next event of a source in a block.
const WALK: f64 = 6.0;
/// Cost of a step beside that of its ranks.
const STEP: f64 = 80.0;

/// Cost of one step, in rank-steps of a ring.
pub(crate) fn step_cost(topology: Topology, ranks: u64, field: &NoiseField) -> f64 {
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
pub(crate) fn rung(
    topology: Topology,
    ranks: u64,
    field: &NoiseField,
    budget: f64,
) -> Option<Rung> {
    let per_step = step_cost(topology, ranks, field);
    let units = ((budget / per_step).min(MOST_STEPS) / STEP_UNIT as f64).floor();
    (units >= 1.0).then(|| {
        let steps = units as u64 * STEP_UNIT;
        Rung {
            ranks,
            steps,
            cost: (steps as f64 * per_step) as u64,
        }
    })
}

/// Budget of a point on a curve: smaller numbers of ranks get less, but not as much less as they are smaller, because
/// they need more steps to see rare events.
fn point_budget(ranks: u64) -> f64 {
    let largest = RANKS[RANKS.len() - 1] as f64;
    POINT_BUDGET * (ranks as f64 / largest).max(1.0 / 16.0)
}

/// The points of a curve; those from the first unaffordable one on are missing.
pub(crate) fn curve(topology: Topology, field: &NoiseField) -> Vec<Rung> {
    RANKS
        .iter()
        .map_while(|&r| point(topology, r, field, point_budget(r), POINT_MOST))
        .collect()
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

/// A point of a curve over granularity.
fn grain(topology: Topology, ranks: u64, field: &NoiseField) -> Option<Rung> {
    point(topology, ranks, field, GRANULARITY_BUDGET, GRANULARITY_MOST)
}

/// A ladder up to one number of ranks at one granularity: two smaller ones go before it.
pub(crate) fn single(topology: Topology, ranks: u64, field: &NoiseField) -> Option<Vec<Rung>> {
    let last = grain(topology, ranks, field)?;
    let mut rungs = Vec::new();
    if topology != Topology::Barrier {
        let smaller = [ranks / 64, ranks / 8]
            .into_iter()
            .filter(|&r| r >= RANKS[0]);
        rungs.extend(smaller.filter_map(|r| rung(topology, r, field, GRANULARITY_BUDGET / 4.0)));
    }
    rungs.push(last);
    Some(rungs)
}

/// The largest number of ranks that can be afforded at all granularities, or at the first `kept` of them if all are too
/// many for every number of ranks.
pub(crate) fn largest_granularity(
    topology: Topology,
    fields: &[NoiseField],
) -> Option<(u64, usize)> {
    (1..=fields.len()).rev().find_map(|kept| {
        let affordable = |r: u64| {
            fields[..kept]
                .iter()
                .all(|f| grain(topology, r, f).is_some())
        };
        RANKS
            .into_iter()
            .rev()
            .find(|&r| affordable(r))
            .map(|r| (r, kept))
    })
}
