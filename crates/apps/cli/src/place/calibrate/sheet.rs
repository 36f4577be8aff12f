//! The data for the HTML page of a calibration.

use super::text::quantities;
use idlewave_network::{Calibration, CalibrationSamples, Origin, PointFit, Probe, Quantity};
use idlewave_report::{
    AllToAllPoint, CalibratedParameter, CalibrationSheet, ParameterUnit, PingPongPoint,
    SlowDownPoint, StreamPoint, TypicalMisfit,
};
use idlewave_run::findings::Estimate;
use idlewave_units::counted;

/// Builds the sheet from the samples and the fit.
pub fn sheet(samples: &CalibrationSamples, found: &Calibration) -> CalibrationSheet {
    let about = &found.parameters.about;
    let what = about.strip_prefix("calibrated ").unwrap_or(about);
    let mut sheet = CalibrationSheet {
        what: what.to_owned(),
        details: details(samples),
        notes: samples.notes.clone(),
        warnings: found.warnings.clone(),
        command: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        idlewave: samples.idlewave.clone(),
        seed: found.seed,
        misfit: misfit(found),
        parameters: parameters(found),
        ping_pongs: Vec::new(),
        streams: Vec::new(),
        all_to_all: Vec::new(),
        slow_down: Vec::new(),
    };
    for (point, raw) in found.points.iter().zip(&samples.points) {
        add(&mut sheet, samples, point, raw.seconds.len() as u64);
    }
    sheet
}

/// The misfit of messages between nodes if those were measured, otherwise within a node.
fn misfit(found: &Calibration) -> Option<TypicalMisfit> {
    let outside = found.deviations.outside.map(|d| ("between nodes", d));
    let inside = found.deviations.inside.map(|d| ("within a node", d));
    // The deviation is of logarithms; the page shows a share.
    outside.or(inside).map(|(of, deviation)| TypicalMisfit {
        of: of.to_owned(),
        value: deviation.exp_m1(),
    })
}

fn add(sheet: &mut CalibrationSheet, samples: &CalibrationSamples, point: &PointFit, n: u64) {
    let time_ns = estimate(point.seconds, n, |s| s * 1e9);
    let model_ns = point.model_seconds.map(|s| s * 1e9);
    match point.probe {
        Probe::PingPong { way, bytes, .. } => sheet.ping_pongs.push(PingPongPoint {
            way: way.words().to_owned(),
            bytes,
            time_ns,
            model_ns,
        }),
        Probe::Stream {
            way,
            pairs,
            both_ways,
            bytes,
            messages,
        } => {
            let moved = bytes as f64 * messages as f64;
            sheet.streams.push(StreamPoint {
                way: way.words().to_owned(),
                pairs,
                both_ways,
                bytes,
                per_pair: estimate(point.seconds, n, |s| moved / s),
                model_per_pair: point.model_seconds.map(|s| moved / s),
            });
        }
        Probe::AllToAll {
            nodes,
            per_node,
            bytes,
            ..
        } => sheet.all_to_all.push(AllToAllPoint {
            nodes,
            per_node,
            bytes,
            time_ns,
            model_ns,
        }),
        Probe::Memory { ranks, .. } => sheet.slow_down.push(SlowDownPoint {
            ranks,
            time_ns,
            shared_cpus: ranks > samples.cpus_per_node,
        }),
    }
}

/// Converts a quantity to another unit; `of` may reverse its order.
fn estimate(quantity: Quantity, n: u64, of: impl Fn(f64) -> f64) -> Estimate {
    let (a, b) = (of(quantity.low), of(quantity.high));
    Estimate {
        value: of(quantity.value),
        low: a.min(b),
        high: a.max(b),
        n,
        method: "median over rounds, resampled, 95 %".to_owned(),
    }
}

fn parameters(found: &Calibration) -> Vec<CalibratedParameter> {
    let n = found.points.len() as u64;
    let put = |name: String, unit, quantity: Quantity| CalibratedParameter {
        name,
        unit,
        value: estimate(quantity, n, |v| v),
        assumed: quantity.origin == Origin::Assumed,
    };
    let mut all: Vec<CalibratedParameter> = quantities(found)
        .into_iter()
        .map(|(name, quantity, is_rate)| match is_rate {
            true => put(name.to_owned(), ParameterUnit::BytesPerSecond, quantity),
            false => put(name.to_owned(), ParameterUnit::Nanoseconds, quantity),
        })
        .collect();
    for (name, quantity) in [
        ("one streaming pair, outside", found.stream_outside),
        ("one streaming pair, inside", found.stream_inside),
    ] {
        let rate = |q| put(name.to_owned(), ParameterUnit::BytesPerSecond, q);
        all.extend(quantity.map(rate));
    }
    let both = |q| put("both ways over one".to_owned(), ParameterUnit::Factor, q);
    all.extend(found.both_over_one.map(both));
    for step in &found.parameters.slow_down {
        let name = format!("slow-down by {}", counted(step.ranks, "rank"));
        all.push(put(name, ParameterUnit::Factor, step.factor));
    }
    all
}

fn details(samples: &CalibrationSamples) -> Vec<String> {
    let mut lines = vec![
        format!("nodes: {}", samples.nodes.join(", ")),
        format!(
            "{} and {} on each node",
            counted(samples.ranks_per_node, "rank"),
            counted(samples.cpus_per_node, "CPU")
        ),
        format!("messages over {}", samples.fabric),
        format!(
            "{} over {} in {:.1} s",
            counted(samples.repetitions() as u32, "round"),
            counted(samples.points.len() as u32, "point"),
            samples.seconds
        ),
    ];
    if samples.interrupted {
        lines.push("ended on request".to_owned());
    }
    lines
}
