//! Predictions as a whole: determinism, degenerate profiles, what is said aloud.

#![allow(clippy::unwrap_used)]

use idlewave_run::findings::{Estimate, Prediction, Topology};
use idlewave_run::{Coupling, LengthBin, NoiseProfile, NoiseSource, SourceKind};
use idlewave_simulate::{MeasuredRun, PredictConfig, SimulateError, predict_with_effort};
use idlewave_units::Nanos;
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

fn source(name: &str, rate_per_s: f64, length_ns: u64) -> NoiseSource {
    NoiseSource {
        kind: SourceKind::Task,
        name: name.into(),
        rate_per_s,
        events: 100,
        watched: Nanos::from_secs(10),
        period: None,
        lengths: vec![LengthBin {
            length_ns,
            count: 100,
        }],
    }
}

fn profile(sources: Vec<NoiseSource>, work: Nanos) -> NoiseProfile {
    NoiseProfile {
        sources,
        work,
        exchange: Some(Nanos::from_nanos(900)),
        barrier: Some(Nanos::from_micros(1)),
    }
}

/// A thousandth and more of the usual steps: what is tested here does not depend on precision.
const EFFORT: f64 = 2e-3;

fn run(profile: &NoiseProfile, config: &PredictConfig) -> Result<Prediction, SimulateError> {
    predict_with_effort(profile, config, EFFORT, &AtomicBool::new(false), &|_| {})
}

fn two_sources() -> (NoiseProfile, PredictConfig) {
    let p = profile(
        vec![
            source("often", 2_000.0, 20_000),
            source("rarely", 100.0, 500_000),
        ],
        Nanos::from_millis(1),
    );
    let estimate = Estimate {
        value: 0.1,
        low: 0.0,
        high: 1.0,
        n: 3,
        method: "made up".into(),
    };
    let measured = [Coupling::Neighbours, Coupling::Barrier].map(|coupling| MeasuredRun {
        name: format!("{coupling:?}"),
        coupling,
        ranks: 2,
        work: Nanos::from_millis(10),
        slowdown: estimate.clone(),
    });
    let config = PredictConfig {
        seed: 3,
        remove: vec![
            (SourceKind::Task, "rarely".into()),
            (SourceKind::Irq, "nobody".into()),
        ],
        measured: measured.to_vec(),
    };
    (p, config)
}

#[test]
fn one_two_and_four_threads_give_the_same_bytes_and_another_seed_does_not() {
    let (p, config) = two_sources();
    let reference = run(&p, &config).unwrap();
    for threads in [1, 2, 4] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert_eq!(
            pool.install(|| run(&p, &config)).unwrap(),
            reference,
            "{threads} threads"
        );
    }
    let other = run(&p, &PredictConfig { seed: 4, ..config }).unwrap();
    assert_ne!(other.curves, reference.curves);
}

#[test]
fn every_part_is_filled_and_what_is_missing_is_said() {
    let (p, config) = two_sources();
    let prediction = run(&p, &config).unwrap();
    assert_eq!(prediction.curves.len(), 4);
    for curve in &prediction.curves {
        assert!(!curve.points.is_empty());
        let more = curve.points.windows(2).all(|w| w[0].ranks < w[1].ranks);
        assert!(more && curve.points[0].ranks == 64);
    }
    // 2.1 events per rank and step cannot be had for a million ranks with this effort.
    assert!(
        prediction
            .caveats
            .iter()
            .any(|c| c.contains("barrier: not computed from"))
    );
    assert!(prediction.caveats.iter().any(|c| c.starts_with("nobody: ")));
    assert_eq!(prediction.without.len(), 1);
    assert_eq!(prediction.without[0].name, "rarely");
    assert_eq!(prediction.checks.len(), 2);
    // Two ranks, 21 events of 20 us or 500 us each in 10 ms: at least what is stolen from one of them.
    for check in &prediction.checks {
        assert!(
            check.predicted.value > 0.08 && check.predicted.value < 0.3,
            "{check:?}"
        );
    }
    for curve in &prediction.by_granularity {
        let (first, last) = (curve.points.first().unwrap(), curve.points.last().unwrap());
        assert!(curve.points.len() > 5 && first.1.value > last.1.value);
    }
    assert_eq!(prediction.by_granularity.len(), 2);
}

#[test]
fn removing_a_source_never_slows_a_barrier_down() {
    let (p, config) = two_sources();
    let prediction = run(&p, &config).unwrap();
    let barrier = |curves: &[idlewave_run::findings::Curve]| {
        let curve = curves
            .iter()
            .find(|c| c.topology == Topology::Barrier)
            .unwrap();
        curve
            .points
            .iter()
            .map(|p| p.slowdown.value)
            .collect::<Vec<_>>()
    };
    let (all, without) = (
        barrier(&prediction.curves),
        barrier(&prediction.without[0].curves),
    );
    assert_eq!(all.len(), without.len());
    assert!(
        all.iter().zip(&without).all(|(a, w)| w < a),
        "{all:?} {without:?}"
    );
}

#[test]
fn a_profile_without_sources_predicts_exactly_nothing_and_says_why() {
    let config = PredictConfig::default();
    let silent = NoiseSource {
        lengths: vec![],
        ..source("silent", 10.0, 1)
    };
    for sources in [vec![], vec![silent], vec![source("never", 0.0, 5)]] {
        let prediction = run(&profile(sources, Nanos::from_micros(20)), &config).unwrap();
        for curve in &prediction.curves {
            assert!(!curve.points.is_empty());
            for point in &curve.points {
                let s = &point.slowdown;
                assert_eq!((s.value, s.low, s.high), (0.0, 0.0, 0.0));
            }
        }
        assert!(prediction.caveats.iter().any(|c| c.contains("no events")));
    }
}

#[test]
fn impossible_profiles_are_refused() {
    let config = PredictConfig::default();
    let work = Nanos::from_micros(20);
    let refused = |p: &NoiseProfile, c: &PredictConfig| run(p, c).unwrap_err();
    assert_eq!(
        refused(&profile(vec![], Nanos::ZERO), &config),
        SimulateError::NoWork
    );
    for rate in [-1.0, f64::INFINITY] {
        let error = refused(&profile(vec![source("odd", rate, 5)], work), &config);
        assert_eq!(
            error,
            SimulateError::BadRate {
                name: "odd".into(),
                rate
            }
        );
    }
    let flood = profile(vec![source("flood", 1e15, 5)], work);
    assert!(matches!(
        refused(&flood, &config),
        SimulateError::TooManyEvents { .. }
    ));
    let many = PredictConfig {
        remove: vec![(SourceKind::Task, "x".into()); 4],
        ..PredictConfig::default()
    };
    assert_eq!(
        refused(&profile(vec![], work), &many),
        SimulateError::TooManyRemoved { asked: 4, limit: 3 }
    );
}

#[test]
fn a_source_that_takes_more_than_the_whole_cpu_is_said_aloud() {
    // 2,000 per second of 600 us each.
    let p = profile(
        vec![source("greedy", 2_000.0, 600_000)],
        Nanos::from_millis(1),
    );
    let prediction = run(&p, &PredictConfig::default()).unwrap();
    assert!(
        prediction
            .caveats
            .iter()
            .any(|c| c.contains("greedy") && c.contains("1.200"))
    );
    assert!(prediction.curves[0].points[0].slowdown.value > 1.1);
}

#[test]
fn progress_rises_to_one_and_stopping_stops() {
    let (p, config) = two_sources();
    let seen = RefCell::new(Vec::new());
    predict_with_effort(&p, &config, EFFORT, &AtomicBool::new(false), &|share| {
        seen.borrow_mut().push(share)
    })
    .unwrap();
    let seen = seen.into_inner();
    assert_eq!((seen.first(), seen.last()), (Some(&0.0), Some(&1.0)));
    assert!(seen.windows(2).all(|w| w[0] <= w[1]));
    let stopped = predict_with_effort(&p, &config, EFFORT, &AtomicBool::new(true), &|_| {});
    assert_eq!(stopped, Err(SimulateError::Stopped));
}
