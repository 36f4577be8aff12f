//! What both renderings say in the same words: the verdict, points of curves, and the combined
//! losses of run and analysis.

use crate::number::plain;
use idlewave_explain::catalog::LONG_CALLS;
use idlewave_run::findings::{
    Advice, Curve, CurvePoint, Estimate, Findings, Gain, GainOf, LoadSweep, LockstepFindings,
    NodeMeasure, NodeRank, NodeReason, NodesFindings, Pattern, Prediction, RateLaw, Relation,
    Repeated, ReservedGaps, SourceFinding, Topology, WarmUp, WhatIf,
};
use idlewave_run::{Conditions, Manifest, ReservedBy, RunState, SourceKind, WorkKernel};
use idlewave_units::show::{self, count, percent};
use idlewave_units::{Bytes, Cpu, Nanos};
use idlewave_units::{counted, grouped, named};

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

/// Under which conditions CPUs were measured, if not the usual ones.
pub(crate) fn conditions(found: &Conditions) -> Option<String> {
    let mut said = Vec::new();
    if found.one_at_a_time {
        said.push("one CPU after the other".to_owned());
    }
    if !found.neighbours.is_empty() {
        let names: Vec<&str> = found.neighbours.iter().map(|n| n.name()).collect();
        said.push(format!("neighbours: {}", names.join(", ")));
    }
    if let Some(realtime) = found.realtime {
        said.push(format!("real-time priority {}", realtime.priority));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// What the kernel took on purpose from a CPU's real-time thread.
pub(crate) fn reserved(cpu: Cpu, found: &ReservedGaps, conditions: &Conditions) -> String {
    let (name, why) = match found.by {
        ReservedBy::Throttling => ("RT throttling", "stops real-time threads"),
        ReservedBy::FairServer => ("fair server", "lets waiting ordinary threads run"),
    };
    let reserve = conditions.realtime.and_then(|r| r.reserve);
    let of = reserve.map(|r| format!(" for {} of every {}", r.time, r.period));
    let every = found.distance.map(|d| format!(", {d} apart"));
    format!(
        "CPU {cpu}: {name}, {} of about {}{} ({} of the time): the kernel {why}{}. Not noise that an ordinary program \
         would suffer.",
        counted(found.count, "gap"),
        show::time(found.length.value),
        every.unwrap_or_default(),
        percent(found.share),
        of.unwrap_or_default(),
    )
}

/// "12,345 steps of integer"; the kind alone is said where it is not the usual.
pub(crate) fn work(steps: u64, kernel: WorkKernel, array: Option<Bytes>) -> String {
    let of = match (kernel, array) {
        (WorkKernel::Fibonacci, _) => String::new(),
        (_, None) => format!(" of {}", kernel.name()),
        (_, Some(array)) => format!(" of {} ({array})", kernel.name()),
    };
    format!("{}{of}", counted(steps, "step"))
}

/// "iw-daemon (task)"; the class alone where the name adds nothing.
pub(crate) fn source_name(kind: SourceKind, name: &str) -> String {
    if name == kind.label() || name == LONG_CALLS {
        plain(name)
    } else {
        format!("{} ({})", plain(name), kind.label())
    }
}

/// How a source strikes the CPUs of a node: in a few words, and in a sentence with the evidence.
pub(crate) fn relation(found: &Relation) -> (String, String) {
    let some = percent(found.coincide);
    let offsets: Vec<String> = found.offsets.iter().map(|o| show::time(o.value)).collect();
    let said = match found.pattern {
        Pattern::Together | Pattern::Partly | Pattern::Independent => format!(
            "{some} of the strikes, beyond chance, start within {} of one on a neighbouring CPU",
            Nanos::from_nanos(found.window_ns)
        ),
        Pattern::EvenlySpread | Pattern::Staggered => format!(
            "one period on all CPUs, and the others are behind the first by {}",
            offsets.join(", ")
        ),
        Pattern::OneAtATime => "the node has a period, each time on one of its CPUs".to_owned(),
    };
    let label = match found.pattern {
        Pattern::Together => "all at once".to_owned(),
        Pattern::EvenlySpread => "evenly spread".to_owned(),
        Pattern::Staggered => "staggered".to_owned(),
        Pattern::OneAtATime => "one at a time".to_owned(),
        Pattern::Partly => format!("{some} at once"),
        Pattern::Independent => "independent".to_owned(),
    };
    let p = match found.p {
        p if p < 1e-4 => "p < 0.0001".to_owned(),
        p => format!("p = {p:.4}"),
    };
    (label, format!("{said} ({p})"))
}

/// What all nodes lost together, and to whom.
pub(crate) fn nodes_total(found: &NodesFindings) -> String {
    let Some(stolen) = &found.stolen else {
        return "detours were not measured".to_owned();
    };
    let mut said = format!(
        "{} ({} to {}) of the time stolen, {} on all CPUs together",
        percent(stolen.value),
        percent(stolen.low),
        percent(stolen.high),
        found.taken
    );
    if let Some(worst) = &found.offender {
        let mut names = found.ranked.iter().filter(|n| n.node == worst.node);
        said.push_str(&format!(
            "; most by {}: {}, {} of it on {}",
            source_name(worst.kind, &worst.name),
            worst.taken,
            worst.taken_there,
            names.next().map_or("", |n| n.name.as_str()),
        ));
    }
    said
}

/// In what a node differs from its peers, and why.
pub(crate) fn node_reason(node: &NodeRank, reason: &NodeReason) -> String {
    let place = match reason.cpu {
        Some(cpu) => format!("{}, CPU {cpu}", node.name),
        None => format!("{}, mean over its CPUs", node.name),
    };
    let value = &reason.value;
    let values = match reason.measure {
        NodeMeasure::Stolen => format!(
            "{} stolen ({} to {}), on its peers {}",
            percent(value.value),
            percent(value.low),
            percent(value.high),
            percent(reason.peers)
        ),
        NodeMeasure::Work => format!(
            "the same work takes {} ({} to {}), on its peers {}",
            show::time(value.value),
            show::time(value.low),
            show::time(value.high),
            show::time(reason.peers)
        ),
    };
    format!("{place}: {values}; {}", reason.because)
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

/// How long a CPU took to settle, and how much slower it was until then.
pub(crate) fn warm_up(found: &WarmUp) -> String {
    match found.settled_after {
        None => "never settled".to_owned(),
        Some(Nanos::ZERO) => "none".to_owned(),
        Some(after) => format!("{after} {}", show::factor(found.ratio)),
    }
}

/// What to make of several starts of a CPU.
pub(crate) fn warm_up_sentence(cpu: Cpu, found: &Repeated) -> String {
    let skip = Nanos::from_nanos(found.settled_after.high as u64);
    match found.is_warm_up() {
        false => format!("CPU {cpu}: no warm-up that repeats"),
        true => format!("CPU {cpu}: leave out the first {skip} of a measurement"),
    }
}

/// What a load sweep shows: does a timer tick last longer, and work take longer, with all CPUs busy;
/// and are the first CPU's ticks longer than those of others. Without a kernel trace, detours of all
/// kinds stand for the ticks.
pub(crate) fn load_sentences(sweep: &LoadSweep) -> Vec<String> {
    let mut out = Vec::new();
    let (Some(one), Some(all)) = (sweep.points.first(), sweep.points.last()) else {
        return out;
    };
    let mut say = |begin: String, a: &Option<Estimate>, b: &Option<Estimate>, end: &str| {
        let (Some(a), Some(b)) = (a, b) else {
            return false;
        };
        let (than, times) = (compared(a, b), [a, b].map(|e| show::time(e.value)));
        out.push(format!(
            "{begin} {than} as {end}: median {} against {}",
            times[0], times[1]
        ));
        true
    };
    let first = sweep.first;
    let busy = format!("with {} busy", counted(all.busy, "CPU"));
    let few = format!("with {}", one.busy);
    let ticks = say(
        format!("{busy} a timer tick on CPU {first} is"),
        &all.tick,
        &one.tick,
        &few,
    );
    if !ticks {
        let begin = format!("{busy} a detour is");
        say(begin, &all.length, &one.length, &few);
    }
    let begin = format!("{busy} the same work on CPU {first} takes");
    say(begin, &all.work, &one.work, &few);
    let ticks = say(
        format!("a timer tick on CPU {first} is"),
        &sweep.tick_of_first,
        &sweep.tick_of_others,
        "one on other CPUs",
    );
    if !ticks {
        say(
            format!("a detour on CPU {first} is"),
            &sweep.length_of_first,
            &sweep.length_of_others,
            "one on other CPUs",
        );
    }
    out
}

/// How long the first is, if their intervals do not overlap: "1.20 times as long", to be followed by
/// "as ...".
fn compared(a: &Estimate, b: &Estimate) -> String {
    match a.low > b.high || a.high < b.low {
        true => format!("{} times as long", show::digits(a.value / b.value)),
        false => "about as long".to_owned(),
    }
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

/// How the cost of a step grows with the rate of the noise.
pub(crate) fn rate_law_sentence(law: &RateLaw) -> String {
    let Some(exponent) = &law.exponent else {
        let why = law.unknown.as_deref().unwrap_or("too few points");
        return format!("how the cost grows with the rate of this noise cannot be said: {why}");
    };
    let [value, low, high] = [exponent.value, exponent.low, exponent.high].map(show::digits);
    let law_holds = match law.square_root {
        Some((from, to)) => format!(
            "the square-root law holds from {} to {} strikes per rank and step",
            show::digits(from),
            show::digits(to)
        ),
        None => "it does not follow the square-root law".to_owned(),
    };
    let here = law.points.iter().find(|p| p.factor == 1.0);
    let amplified = here.and_then(|p| {
        let times = p.extra.value / p.taken.filter(|&ns| ns > 0.0)?;
        Some(format!(
            ", and at the measured {} costs {} what strikes take from a rank",
            show::digits(p.strikes),
            show::factor(times)
        ))
    });
    format!(
        "on a ring of {} ranks this noise costs its rate to the power {value} ({low} to {high}); {law_holds}{}",
        grouped(law.ranks),
        amplified.unwrap_or_default()
    )
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
    use idlewave_run::findings::LoadPoint;
    use idlewave_run::testing::quiet_lockstep;
    use idlewave_units::{Cpu, CpuSet};

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
    fn a_load_sweep_tells_of_ticks_and_without_a_trace_of_detours() {
        let estimate = |value: f64| Estimate {
            value,
            low: 0.99 * value,
            high: 1.01 * value,
            n: 100,
            method: String::new(),
        };
        let point = |busy, length, tick: Option<f64>| LoadPoint {
            busy,
            cpus: CpuSet::new(),
            stolen: estimate(0.01),
            rate: estimate(100.0),
            length: Some(estimate(length)),
            tick: tick.map(estimate),
            work: None,
        };
        let sweep = |ticks: bool| LoadSweep {
            first: Cpu::new(0),
            points: vec![
                point(1, 1_000.0, ticks.then_some(4_000.0)),
                point(2, 9_000.0, ticks.then_some(5_000.0)),
            ],
            length_of_first: Some(estimate(9_000.0)),
            length_of_others: Some(estimate(3_000.0)),
            tick_of_first: ticks.then(|| estimate(5_000.0)),
            tick_of_others: ticks.then(|| estimate(5_010.0)),
        };
        assert_eq!(
            load_sentences(&sweep(true)),
            [
                "with 2 CPUs busy a timer tick on CPU 0 is 1.25 times as long as with 1: median 5.00 us against 4.00 us",
                "a timer tick on CPU 0 is about as long as one on other CPUs: median 5.00 us against 5.01 us",
            ]
        );
        assert_eq!(
            load_sentences(&sweep(false)),
            [
                "with 2 CPUs busy a detour is 9.00 times as long as with 1: median 9.00 us against 1.00 us",
                "a detour on CPU 0 is 3.00 times as long as one on other CPUs: median 9.00 us against 3.00 us",
            ]
        );
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
