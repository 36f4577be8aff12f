//! Fits events drawn from a known model: the laws come back, the true parameters lie in the
//! intervals about as often as stated, and a program meets the same delay under the fitted model.

#![allow(clippy::unwrap_used)]

use idlewave_fit::{Fitted, Input, Line, SourceEvents, fit};
use idlewave_noise::{
    Arrivals, CpuTime, Lengths, Noise, NoiseModel, Scope, Source, Tail, Timelines, Together,
};
use idlewave_run::SourceKind;

fn source(name: &str, arrivals: Arrivals, length: Lengths) -> Source {
    Source::task(name, arrivals, Some(length))
}

fn poisson(rate_per_s: f64, length: Lengths) -> Source {
    source("daemon", Arrivals::Poisson { rate_per_s }, length)
}

fn periodic(period_ns: u64, jitter_ns: u64) -> Source {
    let arrivals = Arrivals::Periodic {
        period_ns,
        jitter_ns,
        phase_ns: None,
    };
    source("tick", arrivals, Lengths::Exponential { mean_ns: 3_000.0 })
}

fn model(cpus_per_node: u32, sources: Vec<Source>) -> NoiseModel {
    NoiseModel {
        cpus_per_node,
        sources,
        ..NoiseModel::default()
    }
}

const SECOND: u64 = 1_000_000_000;

/// What is seen of a model on this many nodes in two stretches of time with a hole between them.
fn seen(model: &NoiseModel, nodes: u32, time: u64, seed: u64) -> Input {
    let noise = Noise::new(model, seed, 0, |_| true).unwrap();
    let (half, hole) = (time / 2, time / 5);
    let watched = vec![(0, half), (half + hole, time + hole)];
    let mut sources: Vec<SourceEvents> = model
        .sources
        .iter()
        .map(|s| SourceEvents {
            kind: s.kind,
            name: s.name.clone(),
            keeps: s.keeps,
            lines: Vec::new(),
        })
        .collect();
    for cpu in 0..nodes * model.cpus_per_node {
        let events = noise.events(cpu, time + hole);
        for (number, source) in sources.iter_mut().enumerate() {
            source.lines.push(Line {
                node: cpu / model.cpus_per_node,
                cpu: cpu % model.cpus_per_node,
                watched: watched.clone(),
                events: events
                    .iter()
                    .filter(|e| e.source as usize == number)
                    .filter(|e| e.begin < half || e.begin >= half + hole)
                    .map(|e| (e.begin, e.length))
                    .collect(),
            });
        }
    }
    Input {
        about: "a test".into(),
        cpus_per_node: model.cpus_per_node,
        common_clock: true,
        sources,
        watched_ns: time * u64::from(nodes * model.cpus_per_node),
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}

fn fitted(model: &NoiseModel, nodes: u32, time: u64, seed: u64) -> Fitted {
    fit(seen(model, nodes, time, seed), seed).unwrap()
}

/// Mean delay per step, over work, of ranks that compute and meet at a barrier.
fn barrier_delay(model: &NoiseModel, ranks: u32, work: u64, steps: u64) -> f64 {
    let mut delay = 0.0;
    const REPLICATIONS: u32 = 4;
    for replication in 0..REPLICATIONS {
        let noise = Noise::new(model, 99, replication, |_| true).unwrap();
        let mut ranks_time = Timelines::new(&noise, ranks, 1);
        let mut now = 0;
        for _ in 0..steps {
            now = (0..ranks)
                .map(|r| ranks_time.end(r, 0, now, work))
                .max()
                .unwrap();
        }
        delay += now as f64 / (steps * work) as f64 - 1.0;
    }
    delay / f64::from(REPLICATIONS)
}

#[track_caller]
fn same_delay(original: &NoiseModel, fitted: &NoiseModel, within: f64) {
    let (a, b) = (
        barrier_delay(original, 32, 200_000, 4_000),
        barrier_delay(fitted, 32, 200_000, 4_000),
    );
    assert!((b / a - 1.0).abs() < within, "{a} and {b}");
}

#[track_caller]
fn only(fitted: &Fitted) -> &Source {
    let [source] = fitted.model.sources.as_slice() else {
        panic!("{} sources", fitted.model.sources.len());
    };
    source
}

#[test]
fn poisson_noise_comes_back_with_the_stated_coverage() {
    let truth = model(
        2,
        vec![poisson(40.0, Lengths::Exponential { mean_ns: 50_000.0 })],
    );
    let (mut poisson, mut rate, mut share) = (0, 0, 0);
    for seed in 0..40 {
        let found = fitted(&truth, 1, 5 * SECOND, seed);
        let source = only(&found);
        assert_eq!(
            (source.strikes, source.together),
            (Scope::EachCpu, Together::Alone)
        );
        poisson += u32::from(matches!(source.arrivals, Arrivals::Poisson { .. }));
        let fit = source.fit.as_ref().unwrap();
        assert!(fit.rate_per_s[1] <= fit.rate_per_s[0] && fit.rate_per_s[0] <= fit.rate_per_s[2]);
        rate += u32::from(fit.rate_per_s[1] <= 40.0 && 40.0 <= fit.rate_per_s[2]);
        share += u32::from(fit.stolen[1] <= 0.002 && 0.002 <= fit.stolen[2]);
    }
    assert!(poisson >= 38, "{poisson} of 40");
    assert!(rate >= 35, "{rate} of 40");
    assert!(share >= 34, "{share} of 40");
}

#[test]
fn a_program_meets_the_same_delay_under_what_was_fitted_to_random_noise() {
    let truth = model(
        2,
        vec![poisson(100.0, Lengths::Exponential { mean_ns: 50_000.0 })],
    );
    same_delay(&truth, &fitted(&truth, 2, 40 * SECOND, 3).model, 0.05);
}

#[test]
fn ticks_come_back_with_period_and_jitter() {
    let truth = model(2, vec![periodic(4_000_000, 30_000)]);
    for seed in 0..3 {
        let found = fitted(&truth, 1, 6 * SECOND, seed);
        let source = only(&found);
        let Arrivals::Periodic {
            period_ns,
            jitter_ns,
            phase_ns: None,
        } = source.arrivals
        else {
            panic!("{source:?}");
        };
        assert!(period_ns.abs_diff(4_000_000) <= 5, "{period_ns}");
        assert!(
            (jitter_ns as f64 / 30_000.0 - 1.0).abs() < 0.03,
            "{jitter_ns}"
        );
        assert!(found.report.sources[0].p.unwrap() > 1e-3);
        assert_eq!(source.together, Together::Alone);
    }
    same_delay(&truth, &fitted(&truth, 2, 10 * SECOND, 9).model, 0.05);
}

#[test]
fn what_strikes_a_node_together_does_so_again() {
    let mut random = poisson(50.0, Lengths::Exponential { mean_ns: 60_000.0 });
    let mut regular = periodic(10_000_000, 5_000);
    (random.together, regular.together) = (Together::Node, Together::Node);
    for source in [random, regular] {
        let truth = model(4, vec![source.clone()]);
        let found = fitted(&truth, 1, 20 * SECOND, 5);
        let back = only(&found);
        assert_eq!(back.together, Together::Node);
        assert_eq!(
            std::mem::discriminant(&back.arrivals),
            std::mem::discriminant(&source.arrivals)
        );
        let fit = back.fit.as_ref().unwrap();
        let rate = found.report.sources[0].rate_per_s;
        assert_eq!(rate, fit.rate_per_s);
        let expected = match source.arrivals {
            Arrivals::Poisson { rate_per_s } => rate_per_s,
            _ => 100.0,
        };
        assert!(rate[1] <= expected && expected <= rate[2], "{rate:?}");
        // One node was watched for 20 s: the rate itself is uncertain by 3 %.
        same_delay(&truth, &found.model, 0.1);
    }
}

#[test]
fn a_daemon_that_wanders_regularly_strikes_one_cpu_at_a_time_again() {
    let mut wandering = periodic(20_000_000, 100_000);
    wandering.strikes = Scope::OneCpuOfNode;
    wandering.length = Some(Lengths::Fixed { ns: 300_000 });
    let truth = model(4, vec![wandering]);
    let found = fitted(&truth, 1, 20 * SECOND, 1);
    let back = only(&found);
    assert_eq!(back.strikes, Scope::OneCpuOfNode);
    let Arrivals::Periodic { period_ns, .. } = back.arrivals else {
        panic!("{back:?}");
    };
    assert!(period_ns.abs_diff(20_000_000) < 200, "{period_ns}");
    // A CPU has a quarter of the node's 50 events per second.
    let rate = found.report.sources[0].rate_per_s;
    assert!(rate[1] <= 12.5 && 12.5 <= rate[2], "{rate:?}");
    let stolen = found.report.sources[0].stolen[0];
    assert!((stolen / 0.00375 - 1.0).abs() < 0.02, "{stolen}");
    same_delay(&truth, &found.model, 0.05);
}

#[test]
fn a_heavy_tail_comes_back_with_its_shape_in_the_interval() {
    let law = Tail {
        count: 1,
        threshold_ns: 2_000,
        scale_ns: 8_000.0,
        shape: 0.3,
        limit_ns: None,
    };
    let truth = model(1, vec![poisson(300.0, Lengths::Pareto(law))]);
    let (mut tails, mut held) = (0, 0);
    for seed in 0..40 {
        let found = fitted(&truth, 1, 2 * SECOND, seed);
        if let Some([shape, low, high]) = found.report.sources[0].tail_shape {
            assert!(low < shape && shape < high);
            tails += 1;
            held += u32::from(low <= 0.3 && 0.3 <= high);
        }
    }
    assert!(tails >= 37, "{tails} of 40");
    assert!(held * 10 >= tails * 8, "{held} of {tails}");
    same_delay(&truth, &fitted(&truth, 1, 60 * SECOND, 2).model, 0.08);
}

#[test]
fn slower_speeds_come_back_with_what_they_keep() {
    let mut slow = source(
        "half speed",
        Arrivals::Poisson { rate_per_s: 2.0 },
        Lengths::Exponential { mean_ns: 50e6 },
    );
    (slow.kind, slow.keeps) = (SourceKind::SlowLevel, 0.5);
    let truth = model(2, vec![slow]);
    let found = fitted(&truth, 2, 60 * SECOND, 4);
    let back = only(&found);
    assert_eq!(back.keeps, 0.5);
    // A tenth of the time at half the speed.
    let stolen = back.fit.as_ref().unwrap().stolen;
    assert!(stolen[1] <= 0.05 && 0.05 <= stolen[2], "{stolen:?}");
    let (a, b) = (
        barrier_delay(&truth, 4, 10_000_000, 5_000),
        barrier_delay(&found.model, 4, 10_000_000, 5_000),
    );
    assert!((b / a - 1.0).abs() < 0.12, "{a} and {b}");
}

#[test]
fn bursts_are_replayed_as_seen_and_cost_the_same() {
    // Ten strikes within a millisecond, then nothing for a long random time.
    let mut random = idlewave_stats::random::SplitMix::new(6);
    let mut line = |cpu: u32| {
        let mut events = Vec::new();
        let mut at = 0.0;
        while at < 60e9 {
            at -= 50e6 * random.uniform().ln();
            for _ in 0..10 {
                at += 100_000.0 * random.uniform();
                events.push((at as u64, 20_000));
            }
        }
        events.retain(|e| e.0 < 60 * SECOND);
        Line {
            node: 0,
            cpu,
            watched: vec![(0, 60 * SECOND)],
            events,
        }
    };
    let input = Input {
        about: String::new(),
        cpus_per_node: 2,
        common_clock: true,
        watched_ns: 120 * SECOND,
        sources: vec![SourceEvents {
            kind: SourceKind::Irq,
            name: "disk".into(),
            keeps: 0.0,
            lines: vec![line(0), line(1)],
        }],
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    let seen: u64 = input.sources[0]
        .lines
        .iter()
        .map(|l| l.events.len() as u64)
        .sum();
    let found = fit(input, 1).unwrap();
    let Arrivals::Trace {
        block_ns: Some(block),
        ref events,
        ..
    } = only(&found).arrivals
    else {
        panic!("{:?}", found.report);
    };
    assert!(block > 100_000_000, "{block}");
    assert!(
        events.len() as u64 <= seen && events.len() >= 18_000,
        "{}",
        events.len()
    );
    let noise = Noise::new(&found.model, 1, 0, |_| true).unwrap();
    let again = noise.events(0, 60 * SECOND).len() as f64;
    assert!(
        (again / (seen as f64 / 2.0) - 1.0).abs() < 0.15,
        "{again} of {seen}"
    );
    let rate = found.report.sources[0].rate_per_s;
    // Bursts of ten: ten times the variance of a Poisson process.
    let exact = 2.0 * 1.96 * (seen as f64).sqrt() / 120.0;
    assert!(rate[2] - rate[1] > 2.0 * exact, "{rate:?}");
}

#[test]
fn a_source_of_some_cpus_strikes_only_those_again() {
    let mut bound = poisson(30.0, Lengths::Fixed { ns: 9_000 });
    bound.cpus = Some(vec![1, 3]);
    let found = fitted(&model(4, vec![bound]), 1, 10 * SECOND, 8);
    let back = only(&found);
    assert_eq!(back.cpus, Some(vec![1, 3]));
    assert_eq!(back.length, Some(Lengths::Fixed { ns: 9_000 }));
    let rate = found.report.sources[0].rate_per_s;
    assert!(rate[1] <= 30.0 && 30.0 <= rate[2], "{rate:?}");
}

#[test]
fn the_same_input_gives_the_same_model_and_the_model_reads_back() {
    let truth = model(
        2,
        vec![
            poisson(100.0, Lengths::Exponential { mean_ns: 40_000.0 }),
            periodic(1_000_000, 2_000),
        ],
    );
    let (a, b) = (
        fitted(&truth, 1, 5 * SECOND, 1),
        fitted(&truth, 1, 5 * SECOND, 1),
    );
    assert_eq!(a, b);
    assert_eq!(NoiseModel::read(&a.model.write()).unwrap(), a.model);
    assert_eq!(a.model.sources.len(), 2);
    // Worst first.
    assert!(a.report.sources[0].stolen[0] >= a.report.sources[1].stolen[0]);
}

#[test]
fn teeth_that_strike_nobody_keep_the_share_of_the_time() {
    // Every fourth tick is missing.
    let events = (0..4_000_u64).filter(|i| i % 4 != 2);
    let line = Line {
        node: 0,
        cpu: 0,
        watched: vec![(0, 4 * SECOND)],
        events: events.map(|i| (i * 1_000_000 + 5, 10_000)).collect(),
    };
    let input = Input {
        about: String::new(),
        cpus_per_node: 1,
        common_clock: true,
        watched_ns: 4 * SECOND,
        sources: vec![SourceEvents {
            kind: SourceKind::Irq,
            name: "disk".into(),
            keeps: 0.0,
            lines: vec![line],
        }],
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    let found = fit(input, 1).unwrap();
    assert!(matches!(only(&found).arrivals, Arrivals::Periodic { .. }));
    let noise = Noise::new(&found.model, 1, 0, |_| true).unwrap();
    let again: u64 = noise.events(0, 40 * SECOND).iter().map(|e| e.length).sum();
    assert!((again as f64 / 40e9 / 0.0075 - 1.0).abs() < 0.02, "{again}");
}

#[test]
fn sources_too_rare_to_tell_the_cpus_apart_leave_each_cpu_the_time_that_it_had() {
    // The hog takes CPU 0 for 9 of 10 s and CPU 1 for 1 s, in ten strikes and five, which may be
    // chance. Another source takes 70 % of CPU 1. If the hog struck both alike, CPU 1 would have no
    // time left.
    let line = |cpu, events: Vec<(u64, u64)>| Line {
        node: 0,
        cpu,
        watched: vec![(0, 10 * SECOND)],
        events,
    };
    let hog = |n: u64, ns| (0..n).map(|i| (i * SECOND + 1_000 * i * i, ns)).collect();
    let source = |name: &str, lines| SourceEvents {
        kind: SourceKind::Task,
        name: name.into(),
        keeps: 0.0,
        lines,
    };
    let often = (0..1_000_u64).map(|i| (i * 10_000_000 + 1_000 * (i * i % 977), 7_000_000));
    let input = Input {
        about: String::new(),
        cpus_per_node: 2,
        common_clock: true,
        watched_ns: 20 * SECOND,
        sources: vec![
            source(
                "hog",
                vec![line(0, hog(10, 900_000_000)), line(1, hog(5, 200_000_000))],
            ),
            source("other", vec![line(0, Vec::new()), line(1, often.collect())]),
        ],
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    let found = fit(input, 1).unwrap();
    let (cpu, share) = found.model.busiest().unwrap();
    assert_eq!(cpu, Some(0));
    assert!((share - 0.9).abs() < 0.01, "{share}");
    assert!(found.report.warnings[0].contains("each CPU has the events that struck it"));
}

#[test]
fn nothing_that_struck_is_a_model_without_sources_and_nothing_watched_is_an_error() {
    let quiet = seen(
        &model(2, vec![poisson(1e-9, Lengths::Fixed { ns: 1 })]),
        1,
        SECOND,
        1,
    );
    let found = fit(quiet.clone(), 1).unwrap();
    assert!(found.model.sources.is_empty());
    let blind = Input {
        watched_ns: 0,
        ..quiet
    };
    assert!(fit(blind, 1).is_err());
}
