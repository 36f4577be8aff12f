//! Advice, with this machine's own numbers.
//!
//! Advice that saves time comes first, with what it saves and its 95 % interval, largest first; it
//! is left out if the interval contains 0. If the prediction removed the source, the gain is the
//! difference of two simulations with the same random numbers; otherwise it is what the source cost
//! the ranks of this run. Advice that saves nothing itself but lets the next run record more
//! follows (docs/method.md, "Advice").

mod cause;
mod evidence;
mod gain;

pub use evidence::{Evidence, Gaps};

use cause::{Cause, RAISE_LIMIT, insight};
use gain::{at, end_of, points};
use idlewave_run::findings::{Advice, CpuNoise, Estimate, Findings, Gain, GainOf, Topology};
use idlewave_run::{HostSheet, Manifest, SourceKind};
use idlewave_units::show::{self, percent};
use idlewave_units::{Nanos, counted};

/// A slow-down that most users would accept.
const TOLERABLE: f64 = 0.05;
/// Advice that saves less than this share of what is lost now is left out.
const WORTH_SAVING: f64 = 0.01;

/// Advice from complete findings (including the prediction): what saves most first, then what lets
/// the next run record more.
pub fn advise(findings: &Findings, evidence: &Evidence, manifest: &Manifest) -> Vec<Advice> {
    let Some(node) = manifest.nodes.first() else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for index in 0..findings.sources.len() {
        let cause = Cause {
            findings,
            evidence,
            manifest,
            index,
        };
        out.extend(cause.advice());
    }
    if findings.nodes.is_none() {
        quieter_cpus(&findings.cpus, &mut out);
    }
    granularity(findings, &mut out);
    synchronisation(findings, &mut out);
    out.retain(|advice| advice.gain.as_ref().is_none_or(is_worth_it));
    contaminated(findings, &mut out);
    throttled(findings, &node.host, &mut out);
    warm_up(findings, &mut out);
    // Stable sort: advice of equal gain keeps the order of the table of sources.
    out.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    out
}

/// Share saved; advice without a gain sorts last.
fn saved(advice: &Advice) -> f64 {
    let gain = advice.gain.as_ref();
    gain.map_or(f64::NEG_INFINITY, |g| g.saved.value)
}

fn is_worth_it(gain: &Gain) -> bool {
    gain.saved.low > 0.0 && gain.saved.value >= WORTH_SAVING * gain.now
}

fn contaminated(findings: &Findings, out: &mut Vec<Advice>) {
    let c = &findings.contamination;
    if !c.is_flagged() {
        return;
    }
    let names: Vec<String> = c
        .top_tasks
        .iter()
        .take(3)
        .map(|(name, ns)| format!("{name} ({})", Nanos::from_nanos(*ns)))
        .collect();
    let who = if names.is_empty() {
        String::new()
    } else {
        format!(": {}", names.join(", "))
    };
    out.push(insight(
        "repeat the run while the machine is idle".to_owned(),
        format!(
            "other programs used {} of its CPU time{who}; the findings describe them as well",
            percent(c.others.unwrap_or(0.0))
        ),
        None,
    ));
}

/// Advises on the CPU limit, unless delay was charged to it: then its cost is known, and it is
/// advised on as a source.
fn throttled(findings: &Findings, host: &HostSheet, out: &mut Vec<Advice>) {
    let charged = findings
        .sources
        .iter()
        .any(|s| s.kind == SourceKind::Throttled && s.lost > Nanos::ZERO);
    if let (Some(quota), Some(times), false) =
        (host.cgroup_quota, findings.contamination.throttled, charged)
    {
        if times > 0 {
            out.push(insight(
                RAISE_LIMIT.to_owned(),
                format!(
                    "the limit of {} per {} stopped all threads {times} during the run; what that cost is not known",
                    quota.quota, quota.period, times = counted(times, "time")),
                None,
            ));
        }
    }
}

/// One look at the beginning tells little; several starts tell what to leave out.
fn warm_up(findings: &Findings, out: &mut Vec<Advice>) {
    let repeated = findings.cpus.iter().filter_map(|c| c.starts.as_ref());
    let warm = repeated.filter(|starts| starts.is_warm_up());
    let skip = warm.max_by(|a, b| a.settled_after.high.total_cmp(&b.settled_after.high));
    if let Some(starts) = skip {
        out.push(insight(
            format!(
                "start measuring after {} of load",
                show::time(starts.settled_after.high)
            ),
            format!(
                "in {} starts, the first 5 ms took {} longer",
                starts.starts,
                percent(starts.slower.value)
            ),
            None,
        ));
    }
    // `measure warmup` measures one node.
    let mut on_one_node = findings.cpus.iter().filter(|_| findings.nodes.is_none());
    let seen_once = on_one_node.find(|c| {
        let seen = c.fixed_work.as_ref().and_then(|f| f.warm_up.settled_after);
        c.starts.is_none() && seen.is_some_and(|after| after > Nanos::ZERO)
    });
    if let Some(noise) = seen_once {
        out.push(insight(
            "see whether the CPUs warm up".to_owned(),
            format!(
                "the same work took longer at first on CPU {}, but that was one look",
                noise.cpu
            ),
            Some("idlewave measure warmup".to_owned()),
        ));
    }
}

fn quieter_cpus(cpus: &[CpuNoise], out: &mut Vec<Advice>) {
    let stolen = |c: &CpuNoise| c.detours.as_ref().map(|d| (c.cpu, d.stolen.clone()));
    let all: Vec<_> = cpus.iter().filter_map(stolen).collect();
    let by = |a: &(_, Estimate), b: &(_, Estimate)| a.1.value.total_cmp(&b.1.value);
    let (Some(quiet), Some(loud)) = (
        all.iter().min_by(|a, b| by(a, b)),
        all.iter().max_by(|a, b| by(a, b)),
    ) else {
        return;
    };
    out.push(Advice {
        action: format!(
            "prefer CPU {} to CPU {} for the rank that matters",
            quiet.0, loud.0
        ),
        reason: format!(
            "detours take {} of CPU {} and {} of CPU {}",
            percent(loud.1.value),
            loud.0,
            percent(quiet.1.value),
            quiet.0
        ),
        command: None,
        gain: Some(Gain {
            of: GainOf::CpuTime,
            topology: None,
            ranks: None,
            saved: points(&loud.1, &quiet.1),
            now: loud.1.value,
        }),
        inferred: false,
    });
}

/// The shortest computation between two synchronisations with tolerable noise, if that of this run
/// is shorter.
fn granularity(findings: &Findings, out: &mut Vec<Advice>) {
    let Some(prediction) = &findings.prediction else {
        return;
    };
    for curve in &prediction.by_granularity {
        let tolerable = |p: &&(Nanos, Estimate)| p.1.value <= TOLERABLE;
        let Some((enough, then)) = curve.points.iter().find(tolerable) else {
            continue;
        };
        // The longest computation on the curve that is not longer than this run's.
        let own = |p: &&(Nanos, Estimate)| p.0 <= prediction.granularity;
        let Some((length, now)) = curve.points.iter().rfind(own) else {
            continue;
        };
        if now.value <= TOLERABLE || length >= enough {
            continue;
        }
        out.push(Advice {
            action: format!(
                "compute for at least {enough} between two synchronisations ({})",
                curve.topology.label(),
            ),
            reason: format!(
                "programs are then {} slower, with {length} of computation {}",
                show::slowdown(then.value),
                show::slowdown(now.value)
            ),
            command: None,
            gain: Some(Gain {
                of: GainOf::PredictedSlowdown,
                topology: Some(curve.topology),
                ranks: Some(curve.ranks),
                saved: points(now, then),
                now: now.value,
            }),
            inferred: false,
        });
    }
}

fn synchronisation(findings: &Findings, out: &mut Vec<Advice>) {
    let Some(prediction) = &findings.prediction else {
        return;
    };
    let curves = &prediction.curves;
    let Some((ranks, barrier)) = end_of(curves, Topology::Barrier) else {
        return;
    };
    let Some(neighbours) = at(curves, Topology::Torus3d, ranks) else {
        return;
    };
    if barrier.value > TOLERABLE && barrier.value > 1.5 * neighbours.value {
        out.push(Advice {
            action: "replace a global barrier in every step by exchanges with neighbours"
                .to_owned(),
            reason: format!(
                "at {ranks} programs with a barrier in every step are {} slower, with exchanges with six neighbours {}",
                show::slowdown(barrier.value),
                show::slowdown_beside(barrier.value, neighbours.value),
                ranks = counted(ranks, "rank")
            ),
            command: None,
            gain: Some(Gain {
                of: GainOf::PredictedSlowdown,
                topology: Some(Topology::Barrier),
                ranks: Some(ranks),
                saved: points(barrier, neighbours),
                now: barrier.value,
            }),
            inferred: false,
        });
    }
}

#[cfg(test)]
mod tests;
