//! What both renderings say in the same words: the verdict, lookups in curves, losses of run and analysis together.

use crate::number::{count, percent, plain, ranks, time_f64};
use idlewave_run::findings::{
    Curve, CurvePoint, Findings, LockstepFindings, Prediction, SourceFinding, Topology,
};
use idlewave_run::{Ledger, Manifest, RunState, SourceKind};

/// Numbers of ranks that the tables show, where the prediction has them (or a near one).
pub(crate) const SHOWN_RANKS: [u64; 4] = [64, 1 << 10, 1 << 16, 1_000_000];

/// The point of a curve that is nearest to `target` ranks, if one lies within a factor of two.
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

/// The point with most ranks, of the topology that suffers most: what a headline can say of a prediction.
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
    if name == kind.label() {
        plain(name)
    } else {
        format!("{} ({})", plain(name), kind.label())
    }
}

/// The source that cost most, leaving aside what is not named.
pub(crate) fn culprit(findings: &Findings) -> Option<&SourceFinding> {
    let named = |s: &&SourceFinding| s.kind != SourceKind::Unexplained && s.lateness.get() > 0;
    findings.sources.iter().filter(named).max_by_key(|s| s.lost)
}

/// Share of the lateness that has a name or a class; `None` if nothing was late.
pub(crate) fn named_share(findings: &Findings) -> Option<f64> {
    (findings.lateness.get() > 0).then(|| findings.named.as_f64() / findings.lateness.as_f64())
}

/// What one lockstep run cost, as a sentence.
pub(crate) fn lockstep_sentence(run: &LockstepFindings) -> String {
    format!(
        "With {}, {} {} ran {} slower than undisturbed ({} to {}); {} of {} steps were late.",
        plain(&run.name),
        run.ranks,
        if run.ranks == 1 { "rank" } else { "ranks" },
        percent(run.slowdown.value),
        percent(run.slowdown.low),
        percent(run.slowdown.high),
        run.late_steps,
        run.iterations,
    )
}

/// Who is to blame, as a sentence.
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
            text.push_str(&format!(", every {}", time_f64(period.period.value)));
        }
    }
    text + "."
}

/// What it costs at scale, as a sentence; `None` without a prediction.
pub(crate) fn scale_sentence(findings: &Findings) -> Option<String> {
    let prediction = findings.prediction.as_ref()?;
    let (topology, point) = worst_point(prediction)?;
    let mut text = format!(
        "At {} ranks this noise is predicted to cost {} ({}, {} of computation per step)",
        ranks(point.ranks),
        percent(point.slowdown.value),
        topology.label(),
        prediction.granularity,
    );
    let without = |w: &idlewave_run::findings::WhatIf| -> Option<f64> {
        Some(curve(&w.curves, topology)?.points.last()?.slowdown.value)
    };
    let best = prediction
        .without
        .iter()
        .filter_map(|w| Some((w, without(w)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, v)| *v < point.slowdown.value);
    if let Some((removed, value)) = best {
        text.push_str(&format!(
            ", {} without {}",
            percent(value),
            source_name(removed.kind, &removed.name)
        ));
    }
    Some(text + ".")
}

/// Losses of recording and analysis. The findings take over those of the manifest, but a run that was
/// not explained again since has them in the manifest alone.
pub(crate) fn losses(manifest: &Manifest, findings: &Findings) -> Ledger {
    let mut all = findings.losses.clone();
    for loss in manifest.losses.entries() {
        if !findings.losses.entries().contains(loss) {
            let loss = loss.clone();
            all.enter(loss.what, loss.count, loss.consequence, loss.advice);
        }
    }
    all
}

/// "64 ranks on 4 nodes".
pub(crate) fn size(manifest: &Manifest) -> String {
    let of = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{} {what}s", count(n as u64)),
    };
    let (ranks, nodes) = (manifest.ranks.len(), manifest.nodes.len());
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
        "This run ended early ({why}): everything below speaks of what was recorded until then."
    ))
}
