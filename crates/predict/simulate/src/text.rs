//! The texts that go with a prediction: its method and its limitations.

use crate::QuietStep;
use crate::budget::RANKS;
use crate::curve::Point;
use idlewave_noise::NoiseModel;
use idlewave_run::findings::Topology;
use idlewave_units::Nanos;
use idlewave_units::{counted, grouped};

/// The method in words.
pub(crate) fn method(seed: u64, curves: &[(Topology, Vec<Point>)]) -> String {
    let steps: Vec<String> = curves
        .iter()
        .filter_map(|(topology, points)| {
            let (first, last) = (points.first()?, points.last()?);
            Some(format!(
                "{} {} at {} to {} at {}",
                topology.label(),
                grouped(first.steps),
                counted(first.simulated, "rank"),
                grouped(last.steps),
                grouped(last.simulated)
            ))
        })
        .collect();
    format!(
        "simulation of compute-and-wait steps on the wall clock, under the model of noise that `idlewave fit` makes of this run: \
         near-cubic tori; noise goes on while ranks wait; seed {seed}; steps per replication: {}; the long run is estimated from how \
         the steps develop",
        steps.join(", ")
    )
}

/// Assumptions of every prediction.
pub(crate) fn caveats(model: &NoiseModel, step: &QuietStep) -> Vec<String> {
    let mut out = vec![
        "nodes are disturbed independently of each other: noise that strikes all nodes at once costs less than shown".to_owned(),
        "no event is much longer than the longest seen: rarer and longer ones, which matter at scale, are not in it".to_owned(),
    ];
    let cost = |name: &str, cost: Option<Nanos>| match cost {
        Some(cost) => format!("{name} {cost}"),
        None => format!("{name} not measured, taken as nothing"),
    };
    out.push(format!(
        "communication costs the same at every number of ranks ({}, {})",
        cost("exchange", step.exchange),
        cost("barrier", step.barrier)
    ));
    if model.sources.is_empty() {
        let why = "the model has no events: every slow-down is zero because no noise was seen";
        out.push(why.to_owned());
    }
    out
}

/// Sources whose events count as random.
pub(crate) fn taken_as_random(model: &NoiseModel, random: &[usize]) -> Option<String> {
    let share = |i: &usize| model.sources[*i].stolen(model.cpus_per_node).unwrap_or(0.0);
    let together: f64 = random.iter().map(share).sum();
    (!random.is_empty()).then(|| {
        format!(
            "{}, which together take {} of the CPUs, strike at random times",
            counted(random.len() as u64, "small source"),
            idlewave_units::show::percent(together)
        )
    })
}

/// Points that would cost too much to compute, and points that stand for more ranks than were
/// simulated.
pub(crate) fn curves(curves: &[(Topology, Vec<Point>)], caveats: &mut Vec<String>) {
    for (topology, points) in curves {
        if let Some(&first) = RANKS.get(points.len()) {
            caveats.push(format!(
                "{}: not computed from {} on: the events of such long steps exceed the budget",
                topology.label(),
                counted(first, "rank")
            ));
        }
        if let Some(last) = points.last().filter(|p| p.simulated < p.ranks) {
            caveats.push(format!(
                "{}: {} stand for more: a delay travels one neighbour per step, and those far away change next to nothing",
                topology.label(),
                counted(last.simulated, "rank")
            ));
        }
    }
}
