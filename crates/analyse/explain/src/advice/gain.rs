//! The possible saving, with its interval.

use super::evidence::Evidence;
use idlewave_run::findings::{Curve, Estimate, Findings, Gain, GainOf, SourceFinding, Topology};
use idlewave_stats::distributions::chi2_quantile;

/// Gains at scale are given for this topology.
const TOLD: Topology = Topology::Torus3d;

/// The difference of two estimates that are independent, or not known to be dependent.
pub(super) fn points(now: &Estimate, then: &Estimate) -> Estimate {
    let value = now.value - then.value;
    Estimate {
        value,
        low: value - (now.value - now.low).hypot(then.high - then.value),
        high: value + (now.high - now.value).hypot(then.value - then.low),
        n: now.n.min(then.n),
        method: "difference of two estimates, errors in quadrature, 95 %".to_owned(),
    }
}

fn curve(curves: &[Curve], topology: Topology) -> Option<&Curve> {
    curves.iter().find(|c| c.topology == topology)
}

/// The point of a curve with the most ranks.
pub(super) fn end_of(curves: &[Curve], topology: Topology) -> Option<(u64, &Estimate)> {
    let last = curve(curves, topology)?.points.last()?;
    Some((last.ranks, &last.slowdown))
}

/// The slow-down at exactly that many ranks.
pub(super) fn at(curves: &[Curve], topology: Topology, ranks: u64) -> Option<&Estimate> {
    Some(&curve(curves, topology)?.at(ranks)?.slowdown)
}

/// What removing a source saves at the largest number of ranks predicted; `None` if the prediction
/// did not remove it.
pub(super) fn at_scale(findings: &Findings, source: &SourceFinding) -> Option<Gain> {
    let prediction = findings.prediction.as_ref()?;
    let is_it = |kind, name: &str| (kind, name) == (source.kind, source.name.as_str());
    let without = prediction.without.iter().find(|w| is_it(w.kind, &w.name))?;
    let (ranks, now) = end_of(&prediction.curves, TOLD)?;
    let saved = match at(&without.saved, TOLD, ranks) {
        Some(saved) => saved.clone(),
        None => points(now, at(&without.curves, TOLD, ranks)?),
    };
    Some(Gain {
        of: GainOf::PredictedSlowdown,
        topology: Some(TOLD),
        ranks: Some(ranks),
        saved,
        now: now.value,
    })
}

/// What a source cost the ranks of this run. The interval is that for a run of the same length:
/// delays are independent (compound Poisson), and unequal ones count by their effective number.
pub(super) fn from_run(findings: &Findings, evidence: &Evidence, index: usize) -> Option<Gain> {
    let source = findings.sources.get(index)?;
    let all = rank_time(findings).unwrap_or(evidence.threads.as_f64());
    let delays = evidence.delays.get(index).copied().unwrap_or(0.0);
    if all <= 0.0 || delays <= 0.0 {
        return None;
    }
    let share = (source.lost.as_f64() / all).min(1.0);
    let low = chi2_quantile(0.025, 2.0 * delays) / 2.0 / delays;
    let high = chi2_quantile(0.975, 2.0 * delays + 2.0) / 2.0 / delays;
    Some(Gain {
        of: GainOf::RankTime,
        topology: None,
        ranks: None,
        saved: Estimate {
            value: share,
            low: share * low,
            high: (share * high).min(1.0),
            n: delays.round().max(1.0) as u64,
            method:
                "delays charged in this run; exact Poisson interval of their effective number, 95 %"
                    .to_owned(),
        },
        now: 1.0,
    })
}

/// Time of all ranks during which a delay could cost them something, in nanoseconds; `None` without
/// ranks.
fn rank_time(findings: &Findings) -> Option<f64> {
    let lockstep = findings
        .lockstep
        .iter()
        .map(|l| l.total.as_f64() * f64::from(l.ranks));
    let program = findings.program.iter().map(|p| {
        let parts = p.ranks_time.iter();
        let of = |r: &idlewave_run::findings::RankTime| {
            (r.computing + r.taken + r.waiting + r.communicating).as_f64()
        };
        let told: f64 = parts.map(of).sum();
        match told > 0.0 {
            true => told,
            false => p.total.as_f64() * f64::from(p.ranks),
        }
    });
    let all: f64 = lockstep.chain(program).sum();
    (all > 0.0).then_some(all)
}
