//! The fit: a time for each point, parameters from all times, intervals from resampling
//! repetitions.
//!
//! The time of a point is the median of its repetitions, so disturbed ones do not count. Intervals
//! are the middle 95 % of the results of [`Resampler::TIMES`] draws of whole rounds of measurements
//! (B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13). Points measured
//! in the same round are drawn together, as a disturbance affects all of them.

use super::judge::{self, Deviations};
use super::model::{Numbers, WayNumbers, numbers};
use super::point_fit::PointFit;
use super::samples::{CalibrationSamples, SamplePoint, ranks};
use crate::{NetworkError, NetworkParameters, Quantity, SlowDown};
use idlewave_stats::quantiles::median_of;
use idlewave_stats::resampling::{Resampler, interval};
use idlewave_units::counted;
use serde::{Deserialize, Serialize};

/// Eager limit if the ping-pong does not show it: the usual one of Open MPI over TCP.
const EAGER_LIMIT: u64 = 64 << 10;
/// Adapter bandwidth if none was measured: a guess.
const UNKNOWN_ADAPTER: f64 = 1.25e9;
/// Directions count as separate if both together move at least this many times as much as one.
const SEPARATE: f64 = 1.9;

/// The result of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The parameters; those not measured are assumed.
    pub parameters: NetworkParameters,
    /// Bandwidth of one pair between nodes, one way with several messages in flight, bytes per
    /// second; `None` if not measured.
    pub stream_outside: Option<Quantity>,
    /// The same inside a node.
    pub stream_inside: Option<Quantity>,
    /// Throughput of both directions of an adapter together over that of one direction; 2 if they
    /// are separate. `None` if not measured.
    pub both_over_one: Option<Quantity>,
    /// Deviations of the model from the points.
    pub deviations: Deviations,
    /// All points, in the order of the samples.
    pub points: Vec<PointFit>,
    /// Index of the point with the largest deviation.
    pub worst: Option<usize>,
    /// Warnings for users of the parameters, one line each.
    pub warnings: Vec<String>,
    /// Seed of the intervals.
    pub seed: u64,
}

/// Fits the model to samples.
///
/// # Errors
/// No ping-pong was measured, or the samples are invalid ([`CalibrationSamples::check`]).
pub fn fit(samples: &CalibrationSamples, seed: u64) -> Result<Calibration, NetworkError> {
    samples.check()?;
    let medians = samples.points.iter().map(|p| median_of(&p.seconds));
    let none = || NetworkError::Samples("a point has no times".to_owned());
    let seconds: Vec<f64> = medians.collect::<Option<_>>().ok_or_else(none)?;
    let found = numbers(samples, &seconds);
    if found.inside.is_none() && found.outside.is_none() {
        let why = "no two ranks exchanged messages of different lengths".to_owned();
        return Err(NetworkError::Samples(why));
    }
    let mut resampler = Resampler::with_seed(samples.repetitions(), seed);
    let mut drawn_seconds: Vec<Vec<f64>> = Vec::with_capacity(Resampler::TIMES);
    for _ in 0..Resampler::TIMES {
        let rounds = resampler.draw();
        let of = |(point, all): (&SamplePoint, &f64)| {
            let drawn = rounds.iter().filter_map(|&r| point.seconds.get(r).copied());
            // A draw may miss points measured less often than others.
            median_of(&drawn.collect::<Vec<_>>()).unwrap_or(*all)
        };
        drawn_seconds.push(samples.points.iter().zip(&seconds).map(of).collect());
    }
    let draws: Vec<Numbers> = drawn_seconds.iter().map(|s| numbers(samples, s)).collect();
    let with_interval = |of: &dyn Fn(&Numbers) -> Option<f64>| -> Option<Quantity> {
        let value = of(&found)?;
        Some(quantity(value, draws.iter().filter_map(of).collect()))
    };
    let points: Vec<PointFit> = samples
        .points
        .iter()
        .enumerate()
        .map(|(i, point)| PointFit {
            probe: point.probe,
            seconds: quantity(seconds[i], drawn_seconds.iter().map(|s| s[i]).collect()),
            model_seconds: found.predicted(&point.probe),
        })
        .collect();
    let both_over_one = with_interval(&both_over_one);
    let mut parameters = parameters(samples, &found, &with_interval);
    let deviations = judge::deviations(&points);
    parameters.misfit = deviations.misfit();
    let worst = judge::worst(&points);
    let warnings = judge::warnings(samples, &found, &points);
    Ok(Calibration {
        parameters,
        stream_outside: with_interval(&|n| Some(n.outside?.filling?.each)),
        stream_inside: with_interval(&|n| Some(n.inside?.filling?.each)),
        both_over_one,
        deviations,
        points,
        worst,
        warnings,
        seed,
    })
}

fn quantity(value: f64, mut draws: Vec<f64>) -> Quantity {
    let (low, high) = interval(&mut draws, value).unwrap_or((value, value));
    Quantity::measured(value, low, high)
}

/// Throughput of both directions of an adapter together over that of one direction; at most 2.
fn both_over_one(numbers: &Numbers) -> Option<f64> {
    let outside = numbers.outside.as_ref()?;
    Some((outside.both?.full / outside.filling?.full).min(2.0))
}

type Interval<'a> = &'a dyn Fn(&dyn Fn(&Numbers) -> Option<f64>) -> Option<Quantity>;

fn parameters(
    samples: &CalibrationSamples,
    found: &Numbers,
    interval: Interval,
) -> NetworkParameters {
    let full = |n: &Numbers| Some(n.outside?.filling?.full);
    let adapter = full(found).unwrap_or(UNKNOWN_ADAPTER);
    let mut out = NetworkParameters::assumed(about(samples), adapter);
    let set = |to: &mut Quantity, of: &dyn Fn(&Numbers) -> Option<f64>| {
        if let Some(quantity) = interval(of) {
            *to = quantity;
        }
    };
    set(&mut out.overhead_ns, &|n| Some(n.overhead * 1e9));
    set(&mut out.inside.latency_ns, &|n| {
        Some(n.inside?.latency * 1e9)
    });
    set(&mut out.inside.bandwidth, &|n| Some(n.inside?.bandwidth));
    set(&mut out.outside.latency_ns, &|n| {
        Some(n.outside?.latency * 1e9)
    });
    set(&mut out.outside.bandwidth, &|n| Some(n.outside?.bandwidth));
    set(&mut out.memory, &|n| n.inside?.most());
    // One-way streams measure the sender's and the receiver's adapter together; nodes are
    // identical.
    set(&mut out.adapter.out, &full);
    set(&mut out.adapter.into, &full);
    // Across leaves, messages pass three switches instead of one.
    set(&mut out.hop_ns, &|n| {
        let more = n.across? - n.outside?.ping_pong.short.at;
        Some(more.max(0.0) * 1e9 / 2.0)
    });
    if both_over_one(found).is_some_and(|ratio| ratio < SEPARATE) {
        out.adapter.both = interval(&|n| Some(n.outside?.both?.full));
    }
    let limit = |n: Option<WayNumbers>| n.and_then(|n| n.ping_pong.last_short);
    let eager = limit(found.outside).or_else(|| limit(found.inside));
    out.eager_limit = eager.map_or(EAGER_LIMIT, |bytes| bytes as u64);
    let step = |(i, &(ranks, _)): (usize, &(u32, f64))| {
        let factor = interval(&|n| n.slow_down.get(i).map(|s| s.1.max(0.5)))?;
        Some(SlowDown { ranks, factor })
    };
    let steps = found.slow_down.iter().enumerate();
    out.slow_down = steps.filter_map(step).collect();
    out
}

fn about(samples: &CalibrationSamples) -> String {
    let ranks = ranks(samples.ranks_per_node);
    match &samples.nodes[..] {
        [only] => format!("calibrated on {only} alone, {ranks}"),
        [first, second] => {
            format!("calibrated between {first} and {second}, {ranks} on each")
        }
        several => format!(
            "calibrated on {} from {} on, {ranks} on each",
            counted(several.len(), "node"),
            several.first().map_or("", String::as_str)
        ),
    }
}
