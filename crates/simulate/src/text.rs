//! The words that go with a prediction: how it was made and what limits its truth.

use crate::noise::NoiseField;
use crate::plan::RANKS;
use crate::steady::Rung;
use idlewave_run::findings::Topology;
use idlewave_run::{NoiseProfile, NoiseSource};
use idlewave_units::Nanos;

/// How it was computed.
pub(crate) fn method<'a>(
    seed: u64,
    curves: &[(Topology, usize)],
    rungs: &dyn Fn(usize) -> &'a [Rung],
) -> String {
    let steps: Vec<String> = curves
        .iter()
        .filter_map(|&(topology, job)| {
            let (first, last) = (rungs(job).first()?, rungs(job).last()?);
            Some(format!(
                "{} {} at {} ranks to {} at {}",
                topology.label(),
                first.steps,
                first.ranks,
                last.steps,
                last.ranks
            ))
        })
        .collect();
    format!(
        "bulk-synchronous simulation in integer nanoseconds: a rank begins a step when it and its neighbours have ended the \
         one before; near-cubic tori; noise as compound Poisson events over the computing time, lengths as measured; seed {seed}; \
         steps: {}; a quarter of them discarded as transient (none with a barrier), each number of ranks beginning with \
         copies of the end of the smaller one; block means",
        steps.join(", ")
    )
}

/// What is assumed whatever the result.
pub(crate) fn caveats(profile: &NoiseProfile) -> Vec<String> {
    let mut out = vec![
        "ranks are disturbed independently of each other: noise that strikes all at once costs less than shown".to_string(),
        "exposure model: noise strikes a rank only while it computes, at random moments, not while it waits; regular sources \
         are taken as random ones of the same rate"
            .to_string(),
        "no event is longer than the longest seen: rarer and longer ones, which matter at scale, are not in it".to_string(),
    ];
    let cost = |name: &str, cost: Option<Nanos>| match cost {
        Some(cost) => format!("{name} {cost}"),
        None => format!("{name} not measured, taken as nothing"),
    };
    out.push(format!(
        "communication costs the same at every number of ranks ({}, {})",
        cost("exchange", profile.exchange),
        cost("barrier", profile.barrier)
    ));
    for source in &profile.sources {
        let stolen = source.stolen_fraction();
        if stolen >= 1.0 {
            out.push(format!(
                "{}: {stolen:.3} of the CPU's time is more than there is; simulated as if it fitted",
                source.name
            ));
        }
    }
    let seen = |s: &&NoiseSource| s.rate_per_s > 0.0 && s.lengths.iter().any(|b| b.count > 0);
    if !profile.sources.iter().any(|s| seen(&s)) {
        out.push(
            "the profile has no events: every slow-down is zero because no noise was seen"
                .to_string(),
        );
    }
    out
}

/// Points that are not computed because they would cost too much.
pub(crate) fn missing_points(
    topology: Topology,
    computed: usize,
    field: &NoiseField,
    caveats: &mut Vec<String>,
) {
    if let Some(first) = RANKS.get(computed) {
        caveats.push(format!(
            "{}: not computed from {first} ranks on: {:.3} events per rank and step exceed the budget",
            topology.label(),
            field.events_per_step()
        ));
    }
}

/// No curve over granularity at all.
pub(crate) fn no_granularity(topology: Topology) -> String {
    format!(
        "{} over granularity: not computed, the events exceed the budget",
        topology.label()
    )
}

/// At how many ranks a curve over granularity was made.
pub(crate) fn granularity_ranks(topology: Topology, ranks: u64, longest: Nanos) -> String {
    format!(
        "{} over granularity: at {ranks} ranks, the most that the budget affords up to {longest}",
        topology.label()
    )
}

/// Sources so rare that a point saw few of their waves meet: its interval does not tell all of its uncertainty.
pub(crate) fn few_events<'a>(
    profile: &NoiseProfile,
    curves: &[(Topology, usize)],
    rungs: &dyn Fn(usize) -> &'a [Rung],
    caveats: &mut Vec<String>,
) {
    for &(topology, job) in curves {
        let mut points: Vec<String> = Vec::new();
        let mut rare: Vec<&str> = Vec::new();
        for rung in rungs(job) {
            let few = |s: &&NoiseSource| {
                let events = s.rate_per_s * profile.work.as_secs_f64() * reached(topology, rung);
                s.rate_per_s > 0.0 && events < FEW
            };
            let names: Vec<&str> = profile
                .sources
                .iter()
                .filter(few)
                .map(|s| s.name.as_str())
                .collect();
            if !names.is_empty() {
                points.push(rung.ranks.to_string());
            }
            for name in names {
                if !rare.contains(&name) {
                    rare.push(name);
                }
            }
        }
        if !rare.is_empty() {
            caveats.push(format!(
                "{} at {} ranks: fewer than {FEW} events of some sources ({}) decide a point; its true uncertainty \
                 exceeds the interval",
                topology.label(),
                points.join(", "),
                rare.join(", ")
            ));
        }
    }
}

/// Fewer events than this are few.
const FEW: f64 = 20.0;

/// Rank-steps that can have delayed one rank within a run: those in its past, but no more than there are.
fn reached(topology: Topology, rung: &Rung) -> f64 {
    let steps = rung.steps as f64;
    let past = match topology {
        Topology::Ring1d => steps.powi(2),
        Topology::Torus2d => 2.0 / 3.0 * steps.powi(3),
        Topology::Torus3d => steps.powi(4) / 3.0,
        Topology::Barrier => f64::INFINITY,
    };
    past.min(rung.ranks as f64 * steps)
}
