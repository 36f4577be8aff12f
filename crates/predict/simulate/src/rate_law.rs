//! The same noise, struck more rarely or more often, and what a step costs then.

use crate::QuietStep;
use crate::budget::{RATE_RANKS, events_per_ns};
use crate::curve::{Curves, Point};
use crate::question::QuestionError;
use idlewave_noise::{Arrivals, NoiseModel, Source};
use idlewave_run::findings::{Estimate, RateLaw, RatePoint, Topology};
use idlewave_stats::power_law;
use idlewave_stats::random::bits_at;

/// Rates, as powers of two of the measured one: a sixteenth to sixteen times.
pub(crate) const POWERS: std::ops::RangeInclusive<i32> = -4..=4;
/// Exponents between which the square-root law holds.
const SQUARE_ROOT: (f64, f64) = (0.4, 0.6);
/// A point is precise enough for the exponent if its interval reaches no farther than this part of
/// its value.
const PRECISE: f64 = 0.5;

/// The point at 2 to the `power` times the rate of the model; `None` if noise would take all of a
/// CPU, or the budget does not afford it.
pub(crate) fn point(
    curves: &Curves<'_>,
    step: &QuietStep,
    power: i32,
) -> Result<Option<RatePoint>, QuestionError> {
    let factor = 2_f64.powi(power);
    let model = more_often(curves.model, factor);
    let strikes = events_per_ns(&model) * step.work.as_f64();
    if model.check().is_err() || strikes <= 0.0 {
        return Ok(None);
    }
    // Random numbers of their own: what is left over then varies independently of the other points.
    let seed = bits_at(curves.seed, (power - POWERS.start()) as u64);
    let found = Curves {
        model: &model,
        removed: curves.removed,
        budget: curves.budget,
        stop: curves.stop,
        done: curves.done,
        seed,
    }
    .rate(step)?;
    let shares = model.sources.iter();
    let taken: Option<f64> = shares.map(|s| s.stolen(model.cpus_per_node)).sum();
    Ok(found.map(|found| RatePoint {
        factor,
        strikes,
        taken: taken.map(|share| share * step.work.as_f64()),
        extra: extra(&found),
    }))
}

/// Mean step less an undisturbed one.
fn extra(point: &Point) -> Estimate {
    let (step, quiet) = (&point.answer.step_ns, point.answer.quiet_step_ns);
    Estimate {
        value: step.mean - quiet,
        low: (step.low - quiet).max(0.0).min(step.mean - quiet),
        high: step.high - quiet,
        n: u64::from(point.answer.replications),
        method: format!(
            "mean over replications of {} steps, Student's t, 95 %",
            point.steps
        ),
    }
}

/// The model with events at `factor` times the rate, each as long as before. Regular events stay
/// regular, and a recording is played faster.
fn more_often(model: &NoiseModel, factor: f64) -> NoiseModel {
    let sooner = |ns: u64| ((ns as f64 / factor).round() as u64).max(1);
    let arrivals = |arrivals: &Arrivals| match arrivals {
        Arrivals::Poisson { rate_per_s } => Arrivals::Poisson {
            rate_per_s: rate_per_s * factor,
        },
        Arrivals::Periodic {
            period_ns,
            jitter_ns,
            phase_ns,
        } => Arrivals::Periodic {
            period_ns: sooner(*period_ns),
            jitter_ns: (*jitter_ns as f64 / factor) as u64,
            phase_ns: phase_ns.map(|ns| (ns as f64 / factor) as u64),
        },
        Arrivals::Trace {
            watched_ns,
            block_ns,
            events,
        } => Arrivals::Trace {
            watched_ns: sooner(*watched_ns),
            block_ns: block_ns.map(sooner),
            events: events
                .iter()
                .map(|&[begin, length]| [(begin as f64 / factor) as u64, length])
                .collect(),
        },
    };
    let source = |source: &Source| Source {
        arrivals: arrivals(&source.arrivals),
        ..source.clone()
    };
    NoiseModel {
        sources: model.sources.iter().map(source).collect(),
        ..model.clone()
    }
}

/// The law of points in rising order of the rate; `None` without any.
pub(crate) fn law(points: Vec<RatePoint>) -> Option<RateLaw> {
    if points.is_empty() {
        return None;
    }
    let precise: Vec<(f64, f64)> = points
        .iter()
        .filter(|p| p.extra.value > 0.0)
        .filter(|p| p.extra.high - p.extra.value <= PRECISE * p.extra.value)
        .map(|p| (p.strikes, p.extra.value))
        .collect();
    let (exponent, unknown) = match power_law::exponent(&precise) {
        Ok(exponent) => (Some(exponent), None),
        Err(why) => (None, Some(why.to_string())),
    };
    let square_root = power_law::holds(&precise, SQUARE_ROOT.0, SQUARE_ROOT.1);
    Some(RateLaw {
        topology: Topology::Ring1d,
        ranks: RATE_RANKS,
        points,
        exponent,
        unknown,
        square_root: square_root.map(|held| (precise[held.start].0, precise[held.end - 1].0)),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use idlewave_noise::Lengths;
    use idlewave_units::Nanos;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const LENGTH_NS: u64 = 100_000;

    fn law_of(rate_per_s: f64) -> RateLaw {
        let length = Lengths::Fixed { ns: LENGTH_NS };
        let model = NoiseModel {
            sources: vec![Source::task(
                "daemon",
                Arrivals::Poisson { rate_per_s },
                length,
            )],
            ..NoiseModel::default()
        };
        let curves = Curves {
            model: &model,
            removed: &[],
            seed: 3,
            budget: Budget::of(1.0),
            stop: &AtomicBool::new(false),
            done: &AtomicU64::new(0),
        };
        let step = QuietStep {
            work: Nanos::from_micros(100),
            exchange: None,
            barrier: None,
        };
        let points = POWERS.filter_map(|power| point(&curves, &step, power).unwrap());
        law(points.collect()).unwrap()
    }

    #[test]
    fn rare_strikes_of_fixed_length_follow_the_law_of_hammersley() {
        // 1e-3 strikes per rank and step: D sqrt(2 q), measured 0.3 % above for q = 1e-3 and 6 %
        // above for q = 1e-2 on rings of 4,096 ranks and more.
        let found = law_of(10.0);
        assert_eq!(found.points.len(), 9);
        for p in found.points.iter().filter(|p| p.strikes < 3e-3) {
            let expected = LENGTH_NS as f64 * (2.0 * p.strikes).sqrt();
            let off = p.extra.value / expected - 1.0;
            assert!(off.abs() < 0.15, "{p:?}: off by {off}");
            assert!((p.taken.unwrap() - p.strikes * LENGTH_NS as f64).abs() < 1e-6);
        }
        let exponent = found.exponent.unwrap();
        assert!((0.45..0.6).contains(&exponent.value), "{exponent:?}");
        let (from, to) = found.square_root.unwrap();
        assert!(from < 1e-3 && to > 4e-3, "{from} to {to}");
    }

    #[test]
    fn frequent_strikes_end_the_law() {
        // 1/16 to 16 strikes per rank and step would take all of a CPU from the middle on; nothing
        // is said beyond.
        let found = law_of(5_000.0);
        assert!(found.points.len() < 9, "{found:?}");
        assert_eq!(found.square_root, None);
        let costs: Vec<f64> = found.points.iter().map(|p| p.extra.value).collect();
        let doubled: Vec<f64> = costs.windows(2).map(|c| c[1] / c[0]).collect();
        assert!(doubled[0] > 1.5 && doubled.is_sorted(), "{doubled:?}");
    }

    #[test]
    fn events_of_every_kind_come_more_often_and_stay_as_long() {
        let trace = Arrivals::Trace {
            watched_ns: 1_000_000,
            block_ns: Some(500_000),
            events: vec![[0, 10], [400_000, 30]],
        };
        let periodic = Arrivals::Periodic {
            period_ns: 4_000_000,
            jitter_ns: 1_000,
            phase_ns: Some(2_000_000),
        };
        let model = NoiseModel {
            sources: vec![
                Source::task("trace", trace, None),
                Source::task("comb", periodic, Lengths::Fixed { ns: 5_000 }),
            ],
            ..NoiseModel::default()
        };
        let faster = more_often(&model, 4.0);
        faster.check().unwrap();
        for (now, then) in faster.sources.iter().zip(&model.sources) {
            let times = now.stolen(1).unwrap() / then.stolen(1).unwrap();
            assert!((times - 4.0).abs() < 1e-9, "{now:?}");
        }
        assert_eq!(
            faster.sources[0].arrivals,
            Arrivals::Trace {
                watched_ns: 250_000,
                block_ns: Some(125_000),
                events: vec![[0, 10], [100_000, 30]],
            }
        );
    }

    #[test]
    fn no_points_are_no_law_and_few_have_no_exponent() {
        assert_eq!(law(Vec::new()), None);
        let mut found = law_of(10.0);
        found.points.truncate(3);
        let few = law(found.points).unwrap();
        assert_eq!((few.exponent, few.square_root), (None, None));
        assert!(few.unknown.unwrap().starts_with("fewer than 4"));
    }
}
