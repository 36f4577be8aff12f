//! What both renderings say in the same words: the verdict, points of curves, and the combined
//! losses of run and analysis.

mod cpus;
mod rates;
mod ways;

pub(crate) use cpus::*;
pub(crate) use rates::*;
pub(crate) use ways::*;

use crate::number::plain;
use idlewave_explain::catalog::LONG_CALLS;
use idlewave_run::findings::{
    Advice, Curve, CurvePoint, Estimate, Findings, Gain, GainOf, LockstepFindings, Prediction,
    SourceFinding, Topology, WhatIf,
};
use idlewave_run::{Manifest, RunState, SourceKind};
use idlewave_units::show::{self, count, percent};
use idlewave_units::{Nanos, counted, grouped, named};

/// Rank counts that the tables show, if the prediction has them or ones near them.
pub(crate) const SHOWN_RANKS: [u64; 4] = [64, 1 << 10, 1 << 16, 1_000_000];

/// The point of a curve closest to `target` ranks, if one lies within a factor of two.
pub(crate) fn at_ranks(curve: &Curve, target: u64) -> Option<&CurvePoint> {
    let distance = |p: &&CurvePoint| (p.ranks.max(1) as f64 / target.max(1) as f64).ln().abs();
    curve
        .points
        .iter()
        .filter(|p| distance(p) <= 2f64.ln())
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The curve of a topology.
pub(crate) fn curve(curves: &[Curve], topology: Topology) -> Option<&Curve> {
    curves.iter().find(|c| c.topology == topology)
}

/// The point with the most ranks, on the topology that suffers most: the headline of a prediction.
pub(crate) fn worst_point(prediction: &Prediction) -> Option<(Topology, &CurvePoint)> {
    let last = |c: &'_ Curve| c.points.last().map(|p| p.slowdown.value);
    prediction
        .curves
        .iter()
        .filter(|c| last(c).is_some())
        .max_by(|a, b| {
            last(a)
                .partial_cmp(&last(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        })
        .and_then(|c| Some((c.topology, c.points.last()?)))
}

/// "iw-daemon (task)"; the class alone where the name adds nothing.
pub(crate) fn source_name(kind: SourceKind, name: &str) -> String {
    if name == kind.label() || name == LONG_CALLS {
        plain(name)
    } else {
        format!("{} ({})", plain(name), kind.label())
    }
}

/// The source that cost most, not counting unexplained time.
pub(crate) fn culprit(findings: &Findings) -> Option<&SourceFinding> {
    let named = |s: &&SourceFinding| s.kind != SourceKind::Unexplained && s.lateness.get() > 0;
    findings.sources.iter().filter(named).max_by_key(|s| s.lost)
}

/// Share of the lateness that has a name or a class; `None` if nothing was late.
pub(crate) fn named_share(findings: &Findings) -> Option<f64> {
    (findings.lateness.get() > 0).then(|| findings.named.as_f64() / findings.lateness.as_f64())
}

/// A slow-down, or "not known" if its interval says nothing.
pub(crate) fn slowdown(estimate: &Estimate) -> String {
    match estimate.not_known_slowdown() {
        Some(_) => "not known".to_owned(),
        None => show::slowdown(estimate.value),
    }
}

/// The longest detour, if there was one.
pub(crate) fn or_none(length: Option<Nanos>) -> String {
    length.map_or_else(|| "none".to_owned(), |length| length.to_string())
}

/// What one lockstep run cost, as a sentence.
pub(crate) fn lockstep_sentence(run: &LockstepFindings) -> String {
    let end = |end| show::slowdown_beside(run.slowdown.value, end);
    let slowdown = match &run.slowdown_not_known {
        Some(why) => format!(
            "how much slower than undisturbed they ran is {} (95 %: {} to {})",
            plain(why),
            end(run.slowdown.low),
            end(run.slowdown.high),
        ),
        None => format!(
            "they ran {} slower than undisturbed ({} to {})",
            show::slowdown(run.slowdown.value),
            end(run.slowdown.low),
            end(run.slowdown.high),
        ),
    };
    format!(
        "{} with {}: {slowdown}; {} of {} were late.",
        of(u64::from(run.ranks), "rank"),
        plain(&run.name),
        grouped(run.late_steps),
        counted(run.iterations, "step"),
    )
}

/// "1 rank", "2 ranks".
fn of(n: u64, what: &str) -> String {
    format!("{} {}", count(n), named(n, what))
}

/// Slow messages are reported if they take at least this share of a step.
const SLOW_MESSAGES: f64 = 0.01;

/// Extra time of messages over their fastest, mean per step; `None` if small or not known.
pub(crate) fn slow_messages_sentence(run: &LockstepFindings) -> Option<String> {
    let each = run.slow_messages?.as_f64() / run.iterations.max(1) as f64;
    let share = each / run.step.as_f64().max(1.0);
    (share >= SLOW_MESSAGES).then(|| {
        format!(
            "{}: messages took {} longer than at their fastest, {} of a step",
            plain(&run.name),
            show::time(each),
            percent(share)
        )
    })
}

/// What noise costs beside what messages take when nothing disturbs them;
/// `None` if no run knows both.
pub(crate) fn noise_beside_messages_sentence(findings: &Findings) -> Option<String> {
    let of = |run: &LockstepFindings| {
        let messages = run.step.checked_sub(*run.compute.iter().max()?)?;
        let times = |slowdown: f64| slowdown * run.step.as_f64() / messages.as_f64();
        let all = [run.slowdown.value, run.slowdown.low, run.slowdown.high];
        let [value, low, high] = all.map(|slowdown| show::digits(times(slowdown)));
        let known = run.slowdown_not_known.is_none() && messages > Nanos::ZERO;
        known.then(|| format!("{} {value} ({low}..{high})", plain(&run.name)))
    };
    let runs: Vec<String> = findings.lockstep.iter().filter_map(of).collect();
    (!runs.is_empty()).then(|| {
        format!(
            "noise costs, in multiples of the time that undisturbed messages take: {}",
            runs.join(", ")
        )
    })
}

/// Why there is no prediction.
pub(crate) fn not_predicted_sentence(findings: &Findings) -> String {
    match &findings.not_predicted {
        Some(why) => format!("Not predicted: {why}."),
        None => "Not predicted: that needs a lockstep run and the noise of its CPUs.".to_owned(),
    }
}

/// What caused the lateness, as a sentence.
pub(crate) fn blame_sentence(findings: &Findings) -> String {
    let Some(share) = named_share(findings) else {
        return match findings.lockstep.is_empty() {
            true => {
                "No lockstep run was recorded, so no delay can be charged to anybody.".to_owned()
            }
            false => "No step was late enough to be explained one by one.".to_owned(),
        };
    };
    let mut text = format!("{} of the lateness has a name or a class", percent(share));
    if let Some(worst) = culprit(findings) {
        let part = worst.lateness.as_f64() / findings.lateness.as_f64();
        text.push_str(&format!(
            "; the worst is {}: {} of it",
            source_name(worst.kind, &worst.name),
            percent(part)
        ));
        if let Some(period) = &worst.period {
            text.push_str(&format!(", every {}", show::time(period.period.value)));
        }
    }
    text + "."
}

/// When a prediction misses, sources that take more than this share of the lateness are mentioned.
const WORTH_A_WORD: f64 = 0.1;

/// A warning that the model does not reproduce this machine's own runs, with the known reasons;
/// `None` if it does.
pub(crate) fn misfit_sentence(findings: &Findings) -> Option<String> {
    let prediction = findings.prediction.as_ref()?;
    let check = prediction.worst_miss()?;
    let mut text = format!(
        "Do not rely on these numbers: the {} measured here ran {} slower, and the same model predicts {} for it",
        plain(&check.name),
        show::slowdown(check.measured),
        show::slowdown_beside(check.measured, check.predicted.value),
    );
    let late = findings.lateness.as_f64().max(1.0);
    let much = |s: &&SourceFinding| s.lateness.as_f64() / late > WORTH_A_WORD;
    let long = |s: &&SourceFinding| {
        let length = s.length.as_ref();
        length.is_some_and(|length| length.value > prediction.granularity.as_f64())
    };
    let mut reasons = Vec::new();
    if let Some(source) = findings.sources.iter().filter(much).find(long) {
        let length = source.length.as_ref().map_or(0.0, |length| length.value);
        reasons.push(format!(
            "{} lasts {}, longer than a step, and the model lets noise begin only while ranks compute",
            source_name(source.kind, &source.name),
            show::time(length),
        ));
    }
    for (kind, what) in [
        (
            SourceKind::Unexplained,
            "unexplained, which the model leaves out",
        ),
        (
            SourceKind::SlowLevel,
            "a slow level of the CPUs, which the model knows from the fixed work alone",
        ),
    ] {
        let of_kind = findings.sources.iter().filter(|s| s.kind == kind);
        let share = of_kind.map(|s| s.lateness.as_f64()).sum::<f64>() / late;
        if share > WORTH_A_WORD {
            reasons.push(format!("{} of the lateness is {what}", percent(share)));
        }
    }
    for reason in &reasons {
        text.push_str("; ");
        text.push_str(reason);
    }
    Some(text + ".")
}

/// The cost at scale, as a sentence; `None` without a prediction.
pub(crate) fn scale_sentence(findings: &Findings) -> Option<String> {
    let prediction = findings.prediction.as_ref()?;
    let (topology, point) = worst_point(prediction)?;
    let mut text = format!(
        "At {} {} programs are predicted to run {} ({}, {} of computation per step)",
        grouped(point.ranks),
        named(point.ranks, "rank"),
        match point.slowdown.not_known_slowdown() {
            Some(_) => "slower by an amount that is not known".to_owned(),
            None => format!("{} slower", show::slowdown(point.slowdown.value)),
        },
        topology.label(),
        prediction.granularity,
    );
    // A curve without one source may end at fewer ranks.
    let main = curve(&prediction.curves, topology)?;
    let both = main.points.iter().rev().find_map(|with| {
        let without = |w: &'_ WhatIf| -> Option<f64> {
            Some(curve(&w.curves, topology)?.at(with.ranks)?.slowdown.value)
        };
        let values = prediction.without.iter().map(|w| Some((w, without(w)?)));
        let best = values.flatten().min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((with, best))
    });
    if let Some((with, (removed, value))) =
        both.filter(|(with, (_, value))| *value < with.slowdown.value)
    {
        if with.ranks == point.ranks {
            text.push_str(", ");
        } else {
            text.push_str(&format!(
                "; at {} {} {}, ",
                grouped(with.ranks),
                named(with.ranks, "rank"),
                slowdown(&with.slowdown)
            ));
        }
        text.push_str(&format!(
            "{} without {}",
            show::slowdown_beside(with.slowdown.value, value),
            source_name(removed.kind, &removed.name)
        ));
    }
    Some(text + ".")
}

/// What a piece of advice saves, worded to follow "saves": "25.0 points (23.0 to 27.0) of 80.0 %
/// predicted slow-down ...", or "x40.2 (x38.0 to x42.3) of x90.5 predicted slow-down ...".
pub(crate) fn gain(gain: &Gain, of_program: bool) -> String {
    let saved = &gain.saved;
    match gain.of {
        GainOf::PredictedSlowdown => {
            // Differences of percentages are in points.
            let part = |share: f64| show::slowdown_part(gain.now, share);
            let points = |share: f64| part(share).trim_end_matches(" %").to_owned();
            let unit = if part(saved.value).ends_with(" %") {
                " points"
            } else {
                ""
            };
            let ranks = gain.ranks.map_or_else(String::new, |n| {
                format!(" at {} {}", grouped(n), named(n, "rank"))
            });
            let topology = gain
                .topology
                .map_or_else(String::new, |t| format!(" ({})", t.label()));
            format!(
                "{}{unit} ({} to {}) of {} predicted slow-down{ranks}{topology}",
                points(saved.value),
                points(saved.low),
                points(saved.high),
                show::slowdown(gain.now),
            )
        }
        GainOf::RankTime | GainOf::CpuTime => format!(
            "{} of {} ({} to {})",
            percent(saved.value),
            match gain.of {
                GainOf::CpuTime => "the CPU's time",
                _ if of_program => "the time of the program's threads",
                _ => "the time of all ranks",
            },
            percent(saved.low),
            percent(saved.high),
        ),
    }
}

/// Whether the run is of a recorded program without MPI calls.
fn has_no_ranks(findings: &Findings) -> bool {
    findings.program.is_none() && findings.lockstep.is_empty() && findings.cpus.is_empty()
}

/// What a piece of advice saves, as a clause; `None` if it saves nothing by itself.
pub(crate) fn saves(findings: &Findings, advice: &Advice) -> Option<String> {
    let gain = gain(advice.gain.as_ref()?, has_no_ranks(findings));
    Some(match advice.inferred {
        false => format!("saves {gain}"),
        true => format!("cause only inferred; saves up to {gain}"),
    })
}

/// "64 ranks on 4 nodes".
pub(crate) fn size(manifest: &Manifest) -> String {
    let (ranks, nodes) = (manifest.ranks.len() as u64, manifest.nodes.len() as u64);
    format!("{} on {}", of(ranks, "rank"), of(nodes, "node"))
}

/// How the run ended, if not as planned.
pub(crate) fn early_end(manifest: &Manifest) -> Option<String> {
    use idlewave_run::Incomplete::{Error, Killed, Signal};
    let why = match &manifest.incomplete {
        Some(Signal(number)) => format!("signal {number}"),
        Some(Error(text)) => plain(text),
        Some(Killed) => "its recorder was killed".to_owned(),
        None if manifest.state == RunState::Complete => return None,
        None => "it is still being recorded, or its recorder was killed".to_owned(),
    };
    Some(format!(
        "This run ended early ({why}): everything below is about the part recorded until then."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bare_findings;
    use idlewave_run::testing::quiet_lockstep;

    fn points(slowdowns: &[(u64, f64)]) -> Vec<Curve> {
        let point = |&(ranks, value): &(u64, f64)| CurvePoint {
            ranks,
            slowdown: Estimate {
                value,
                low: value,
                high: value,
                n: 10,
                method: String::new(),
            },
        };
        vec![Curve {
            topology: Topology::Barrier,
            points: slowdowns.iter().map(point).collect(),
        }]
    }

    fn sentence(with: &[(u64, f64)], without: &[(u64, f64)]) -> String {
        let mut findings = crate::testing::bare_findings();
        findings.prediction = Some(Prediction {
            granularity: Nanos::from_micros(20),
            method: String::new(),
            caveats: Vec::new(),
            curves: points(with),
            without: vec![WhatIf {
                kind: SourceKind::Task,
                name: "spoiler".to_owned(),
                curves: points(without),
                saved: Vec::new(),
            }],
            by_granularity: Vec::new(),
            by_rate: None,
            checks: Vec::new(),
        });
        scale_sentence(&findings).unwrap()
    }

    #[test]
    fn slow_messages_are_worth_a_word_from_a_hundredth_of_a_step_on() {
        let run = LockstepFindings {
            iterations: 1_000,
            step: Nanos::from_micros(20),
            ..quiet_lockstep()
        };
        let said = |slow_messages| {
            slow_messages_sentence(&LockstepFindings {
                slow_messages,
                ..run.clone()
            })
        };
        let micros = |n| Some(Nanos::from_micros(n));
        assert_eq!(
            said(micros(1_000)).as_deref(),
            Some("barrier: messages took 1.00 us longer than at their fastest, 5.00 % of a step")
        );
        assert!(said(micros(200)).is_some());
        assert_eq!(said(micros(199)), None);
        assert_eq!(said(None), None);
    }

    #[test]
    fn noise_is_told_in_multiples_of_the_messages_where_both_are_known() {
        let micros = Nanos::from_micros;
        let slowdown = |value, low, high| Estimate {
            value,
            low,
            high,
            ..quiet_lockstep().slowdown
        };
        // 10 % of 20 us, beside messages of 0.5 us.
        let run = LockstepFindings {
            step: micros(20),
            compute: vec![micros(19), Nanos::from_nanos(19_500)],
            slowdown: slowdown(0.1, 0.05, 0.2),
            ..quiet_lockstep()
        };
        let said = |run: &LockstepFindings| {
            let mut findings = bare_findings();
            findings.lockstep = vec![run.clone()];
            noise_beside_messages_sentence(&findings)
        };
        let text = said(&run).expect("both are known");
        assert!(text.ends_with(": barrier 4.00 (2.00..8.00)"), "{text}");
        let no_messages = LockstepFindings {
            compute: vec![micros(20)],
            ..run.clone()
        };
        assert_eq!(said(&no_messages), None);
        let not_known = LockstepFindings {
            slowdown_not_known: Some("not known".to_owned()),
            ..run
        };
        assert_eq!(said(&not_known), None);
    }

    #[test]
    fn a_source_is_removed_at_the_number_of_ranks_that_is_named() {
        let with = [(64, 0.2), (1024, 0.5), (4096, 0.8)];
        assert!(sentence(&with, &[(64, 0.1), (4096, 0.3)]).ends_with(
            "80.0 % slower (barrier, 20.0 us of computation per step), 30.0 % without spoiler (task)."
        ));
        assert!(
            sentence(&with, &[(64, 0.1), (1024, 0.2)])
                .ends_with("; at 1,024 ranks 50.0 %, 20.0 % without spoiler (task).")
        );
        // A source whose removal saves nothing is not mentioned.
        assert!(!sentence(&with, &[(4096, 0.8)]).contains("without"));
    }
}
