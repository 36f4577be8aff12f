//! Predictions as a whole: determinism, models at their limits, caveats and errors.

#![allow(clippy::unwrap_used)]

use idlewave_noise::{Arrivals, Lengths, NoiseModel, Source};
use idlewave_run::SourceKind;
use idlewave_run::findings::{Curve, Estimate, Prediction, Topology};
use idlewave_simulate::bulk::{Algorithm, Collective, Phase, Program, Wait};
use idlewave_simulate::goal::Parameters;
use idlewave_simulate::{
    MeasuredRun, PredictConfig, QuietStep, Shape, SimulateError, Stencil, Work, predict,
};
use idlewave_units::Nanos;
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

fn source(name: &str, rate_per_s: f64, ns: u64) -> Source {
    Source::task(
        name,
        Arrivals::Poisson { rate_per_s },
        Lengths::Fixed { ns },
    )
}

fn model(sources: Vec<Source>) -> NoiseModel {
    NoiseModel {
        sources,
        ..NoiseModel::default()
    }
}

fn quiet(work: Nanos) -> QuietStep {
    QuietStep {
        work,
        exchange: Some(Nanos::from_nanos(900)),
        barrier: Some(Nanos::from_micros(1)),
    }
}

/// A fortieth of the usual steps: these tests depend on the points of each curve, not on precision.
const EFFORT: f64 = 0.025;

fn run(
    model: &NoiseModel,
    work: Nanos,
    config: &PredictConfig,
) -> Result<Prediction, SimulateError> {
    predict(
        model,
        &quiet(work),
        config,
        EFFORT,
        &AtomicBool::new(false),
        &|_| {},
    )
}

fn measured(name: &str, ranks: u32, then: Phase) -> MeasuredRun {
    MeasuredRun {
        name: name.to_owned(),
        program: Program {
            ranks,
            phases: vec![Phase::Compute(Work::Same(10_000_000)), then],
            costs: Parameters::FREE,
        },
        step: Nanos::from_millis(10),
        slowdown: Estimate {
            value: 0.1,
            low: 0.0,
            high: 1.0,
            n: 3,
            method: "made up".into(),
        },
    }
}

fn two_sources() -> (NoiseModel, PredictConfig) {
    let barrier = Phase::Collective {
        operation: Collective::Barrier,
        algorithm: Algorithm::Dissemination,
        bytes: 1,
    };
    let exchange = Phase::Exchange {
        stencil: Stencil::nearest(Shape::line(2)),
        bytes: 1,
        wait: Wait::All,
    };
    let config = PredictConfig {
        seed: 3,
        remove: vec![
            (SourceKind::Task, "rarely".into()),
            (SourceKind::Irq, "nobody".into()),
        ],
        measured: vec![
            measured("exchange", 2, exchange),
            measured("barrier", 2, barrier),
        ],
    };
    let sources = vec![
        source("often", 2_000.0, 20_000),
        source("rarely", 100.0, 500_000),
    ];
    (model(sources), config)
}

const WORK: Nanos = Nanos::from_millis(1);

fn barrier(curves: &[Curve]) -> &Curve {
    let mut of_barrier = curves.iter();
    of_barrier
        .find(|c| c.topology == Topology::Barrier)
        .unwrap()
}

#[test]
fn one_two_and_four_threads_give_the_same_bytes_and_another_seed_does_not() {
    let (m, config) = two_sources();
    let reference = run(&m, WORK, &config).unwrap();
    for threads in [1, 2, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let again = pool.unwrap().install(|| run(&m, WORK, &config)).unwrap();
        assert_eq!(again, reference, "{threads} threads");
    }
    let other = run(&m, WORK, &PredictConfig { seed: 4, ..config }).unwrap();
    assert_ne!(other.curves, reference.curves);
}

#[test]
fn what_a_removal_saves_is_known_better_than_either_slow_down() {
    let sources = vec![source("often", 50.0, 500_000), source("small", 50.0, 5_000)];
    let config = PredictConfig {
        seed: 5,
        remove: vec![(SourceKind::Task, "small".into())],
        measured: Vec::new(),
    };
    let prediction = run(&model(sources), WORK, &config).unwrap();
    let without = &prediction.without[0];
    let of_ranks = |curve: &Curve, ranks: u64| {
        let mut points = curve.points.iter();
        let found = points.find(|p| p.ranks == ranks).unwrap();
        found.slowdown.clone()
    };
    for (all, (left, saved)) in prediction
        .curves
        .iter()
        .zip(without.curves.iter().zip(&without.saved))
    {
        assert_eq!(
            (left.topology, saved.topology),
            (all.topology, all.topology)
        );
        // At the largest number of ranks for which the source was left out.
        let [saved] = &saved.points[..] else {
            panic!("{saved:?}");
        };
        assert_eq!(saved.ranks, left.points.last().unwrap().ranks);
        let (with, left) = (of_ranks(all, saved.ranks), of_ranks(left, saved.ranks));
        let half = |e: &Estimate| (e.high - e.low) / 2.0;
        let saved = &saved.slowdown;
        assert!((saved.value - (with.value - left.value)).abs() < 1e-9);
        // The 500 us source, common to both, hardly counts.
        assert!(
            2.0 * half(saved) < half(&with).hypot(half(&left)),
            "{saved:?} {with:?}"
        );
        // 5 us add between nothing and all of themselves to a step.
        assert!(saved.high > 0.0 && saved.low < 0.005, "{saved:?}");
    }
}

#[test]
fn every_part_is_filled_and_what_is_missing_is_said() {
    let (m, config) = two_sources();
    let prediction = run(&m, WORK, &config).unwrap();
    assert_eq!(prediction.curves.len(), 4);
    for curve in &prediction.curves {
        let more = curve.points.windows(2).all(|w| w[0].ranks < w[1].ranks);
        assert!(more && curve.points[0].ranks == 64);
    }
    // This effort cannot simulate 2.1 events per rank and step for a million ranks.
    let said = |begin: &str| prediction.caveats.iter().any(|c| c.starts_with(begin));
    assert!(said("barrier: not computed from"));
    assert!(said("nobody: "));
    assert_eq!(prediction.without.len(), 1);
    assert_eq!(prediction.without[0].name, "rarely");
    let names: Vec<&str> = prediction.checks.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["exchange", "barrier"]);
    // Two ranks, 21 events of 20 us or 500 us each in 10 ms: at least what one rank loses.
    for check in &prediction.checks {
        let predicted = check.predicted.value;
        assert!((0.08..0.3).contains(&predicted), "{check:?}");
    }
    assert_eq!(prediction.by_granularity.len(), 2);
    for curve in &prediction.by_granularity {
        let (first, last) = (curve.points.first().unwrap(), curve.points.last().unwrap());
        assert!(curve.points.len() > 2 && first.1.value > last.1.value);
        assert!(curve.points.windows(2).all(|w| w[0].0 < w[1].0));
    }
}

#[test]
fn removing_a_source_never_slows_a_barrier_down() {
    let (m, config) = two_sources();
    let prediction = run(&m, WORK, &config).unwrap();
    let all = barrier(&prediction.curves);
    let without = barrier(&prediction.without[0].curves);
    assert!(!without.points.is_empty());
    for left in &without.points {
        let all = all.points.iter().find(|p| p.ranks == left.ranks).unwrap();
        assert!(left.slowdown.value < all.slowdown.value, "{left:?} {all:?}");
    }
}

/// Events longer than a step start while ranks wait, too: the longer all wait for one, the more
/// events are in progress when they continue.
#[test]
fn noise_goes_on_while_ranks_wait() {
    let sources = vec![source("long", 100.0, 1_000_000)];
    let work = Nanos::from_micros(20);
    let at_64 = |mut m: NoiseModel| {
        m.cpus_per_node = 1;
        let prediction = run(&m, work, &PredictConfig::default()).unwrap();
        barrier(&prediction.curves).points[0].slowdown.clone()
    };
    let wall = at_64(model(sources.clone()));
    let exposure = at_64(NoiseModel {
        clock: idlewave_noise::Clock::Work,
        ..model(sources)
    });
    // 64 ranks with 2e-3 events per step each, 50 steps long.
    let expected = 50.0 * (1.0 - (-64.0 * 2e-3_f64).exp());
    assert!(
        (exposure.value / expected - 1.0).abs() < 0.4,
        "{exposure:?}"
    );
    assert!(wall.low > 1.5 * exposure.value, "{wall:?} {exposure:?}");
}

#[test]
fn a_model_without_events_predicts_exactly_nothing_and_says_why() {
    let config = PredictConfig::default();
    for sources in [vec![], vec![source("never", 0.0, 5)]] {
        let prediction = run(&model(sources.clone()), Nanos::from_micros(20), &config).unwrap();
        for curve in &prediction.curves {
            assert!(curve.points.len() > 2);
            for point in &curve.points {
                let s = &point.slowdown;
                assert_eq!((s.value, s.low, s.high), (0.0, 0.0, 0.0));
            }
        }
        let said = prediction.caveats.iter().any(|c| c.contains("no events"));
        assert_eq!(said, sources.is_empty());
    }
}

#[test]
fn what_cannot_be_predicted_is_refused() {
    let config = PredictConfig::default();
    let refused = |sources, work, c: &PredictConfig| run(&model(sources), work, c).unwrap_err();
    let work = Nanos::from_micros(20);
    assert_eq!(refused(vec![], Nanos::ZERO, &config), SimulateError::NoWork);
    for source in [source("odd", -1.0, 5), source("greedy", 2_000.0, 600_000)] {
        let error = refused(vec![source], work, &config);
        assert!(matches!(error, SimulateError::Question(_)), "{error}");
    }
    // A million events per step.
    let flood = refused(
        vec![source("flood", 9e8, 1)],
        Nanos::from_millis(1),
        &config,
    );
    assert_eq!(flood, SimulateError::TooManyEvents);
    // Noise that leaves a CPU next to nothing: steps are far longer than their work, and too
    // expensive to simulate.
    let hardly = source("hardly", 27_000.0, 36_500);
    let flood = refused(vec![hardly], Nanos::from_millis(5), &config);
    assert_eq!(flood, SimulateError::TooManyEvents);
    let many = PredictConfig {
        remove: vec![(SourceKind::Task, "x".into()); 4],
        ..PredictConfig::default()
    };
    assert_eq!(
        refused(vec![], work, &many),
        SimulateError::TooManyRemoved { asked: 4, limit: 3 }
    );
}

#[test]
fn progress_rises_to_one_and_stopping_stops() {
    let (m, config) = two_sources();
    let seen = RefCell::new(Vec::new());
    let predict = |stop: bool, progress: &dyn Fn(f64)| {
        predict(
            &m,
            &quiet(WORK),
            &config,
            EFFORT,
            &AtomicBool::new(stop),
            progress,
        )
    };
    predict(false, &|share| seen.borrow_mut().push(share)).unwrap();
    let seen = seen.into_inner();
    assert_eq!((seen.first(), seen.last()), (Some(&0.0), Some(&1.0)));
    assert!(seen.windows(2).all(|w| w[0] <= w[1]));
    assert_eq!(predict(true, &|_| {}), Err(SimulateError::Stopped));
}

/// Slow messages are part of the program, but not of the undisturbed step it is compared with.
#[test]
fn a_measured_run_is_compared_with_its_step_at_its_fastest() {
    let (model, config) = two_sources();
    let as_fast = run(&model, WORK, &config).unwrap();
    let mut slow = config.clone();
    for measured in &mut slow.measured {
        measured.step = Nanos::from_millis(8);
    }
    let slowed = run(&model, WORK, &slow).unwrap();
    assert!(!as_fast.checks.is_empty());
    for (fast, slow) in as_fast.checks.iter().zip(&slowed.checks) {
        let wanted = (1.0 + fast.predicted.value) * 10.0 / 8.0 - 1.0;
        assert!((slow.predicted.value / wanted - 1.0).abs() < 1e-9);
    }
}
