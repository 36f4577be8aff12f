//! The engine against exact results: hand arithmetic, order statistics, last-passage percolation.

#![allow(clippy::unwrap_used)]

use crate::draws::uniform;
use idlewave_noise::{Arrivals, Clock, Lengths, Noise, NoiseModel, Source, Timeline};
use idlewave_simulate::bulk::{Algorithm, Collective, Phase, Program, Wait};
use idlewave_simulate::goal::Parameters;
use idlewave_simulate::question::{Effort, Interval, Question, answer};
use idlewave_simulate::{Graph, Shape, Stencil, Work, step};
use std::sync::atomic::AtomicBool;

/// Work of a step in nanoseconds.
const WORK: u64 = 100_000;

/// `per_step` events per rank-step.
fn source(per_step: f64, lengths: Lengths) -> Source {
    let rate_per_s = per_step * 1e9 / WORK as f64;
    Source::task("x", Arrivals::Poisson { rate_per_s }, lengths)
}

fn fixed(per_step: f64, ns: u64) -> Source {
    source(per_step, Lengths::Fixed { ns })
}

fn barrier() -> Phase {
    Phase::Collective {
        operation: Collective::Barrier,
        algorithm: Algorithm::Dissemination,
        bytes: 1,
    }
}

fn exchange(shape: Shape) -> Phase {
    Phase::Exchange {
        stencil: Stencil::nearest(shape),
        bytes: 1,
        wait: Wait::All,
    }
}

/// Mean step beyond the work, in nanoseconds, over 4 replications. The noise is by exposure, the
/// only kind that the closed forms cover.
fn mean_delay(
    ranks: u32,
    work: u64,
    then: Phase,
    sources: &[Source],
    steps: u64,
    seed: u64,
) -> Interval {
    let program = Program {
        ranks,
        phases: vec![Phase::Compute(Work::Same(work)), then],
        costs: Parameters::FREE,
    };
    let model = NoiseModel {
        clock: Clock::Work,
        sources: sources.to_vec(),
        ..NoiseModel::default()
    };
    let question = Question {
        program: &program,
        model: &model,
        steps: steps / 4,
        warm_up: steps / 16,
        delays: &[],
        without: &[],
        approach: None,
    };
    let effort = Effort {
        seed,
        least: 4,
        most: 4,
        precision: 1.0,
    };
    let found = answer(&question, &effort, &AtomicBool::new(false), &|_, _| {}).unwrap();
    let beyond = |ns: f64| ns - work as f64;
    Interval {
        mean: beyond(found.step_ns.mean),
        low: beyond(found.step_ns.low),
        high: beyond(found.step_ns.high),
    }
}

/// Mean advance per step and rank of the plain engine after a transient, in nanoseconds.
fn plain(graph: &Graph, transient: u64, steps: u64, noise: impl Fn(u32, u64) -> u64) -> f64 {
    let mut times = vec![0; graph.ranks() as usize];
    let mut begin = 0;
    for k in 0..transient + steps {
        if k == transient {
            begin = times.iter().sum();
        }
        step(graph, &mut times, 0, 0, |rank| noise(rank, k));
    }
    let end: u64 = times.iter().sum();
    (end - begin) as f64 / times.len() as f64 / steps as f64
}

fn close(seen: f64, expected: f64, relative: f64) {
    assert!(
        (seen / expected - 1.0).abs() < relative,
        "{seen} instead of {expected}"
    );
}

#[test]
fn without_noise_a_step_takes_work_and_communication() {
    let mut times = vec![0; 50];
    for k in 1..=20 {
        step(&Graph::ring(50), &mut times, 700, 30, |_| 0);
        assert!(times.iter().all(|&t| t == 730 * k));
    }
}

#[test]
fn exponential_work_and_one_neighbour_cost_twice_the_mean() {
    let mean = 1e6;
    let seen = plain(&Graph::one_sided_ring(1_000), 1_000, 6_000, |rank, k| {
        (-mean * uniform(u64::from(rank), k).ln()) as u64
    });
    close(seen, 2.0 * mean, 0.01);
}

#[test]
fn rare_noise_costs_the_square_root_of_its_rate_with_one_neighbour() {
    let (q, length) = (1e-3, 1_000_000u64);
    let seen = plain(&Graph::one_sided_ring(12_000), 1_500, 6_000, |rank, k| {
        u64::from(uniform(u64::from(rank), k) < q) * length
    });
    // sqrt(q) is the law for q -> 0. At finite q several events share a rank or a step; geometric
    // weights bound that by sqrt(q) / (1 - sqrt(q)) (Johansson, Commun. Math. Phys. 209 (2000)
    // 437). At this size results scatter by 0.8 %.
    let law = length as f64 * q.sqrt();
    let bound = law / (1.0 - q.sqrt());
    assert!(
        0.98 * law < seen && seen < 1.02 * bound,
        "{seen}: {law} to {bound}"
    );
}

#[test]
fn rare_noise_costs_the_square_root_of_twice_its_rate_with_two_neighbours() {
    let (q, length) = (1e-3, 1_000_000);
    let (ranks, steps) = (4_000, 12_000);
    let ring = exchange(Shape::line(ranks as usize));
    let delay = mean_delay(ranks, WORK, ring, &[fixed(q, length)], steps, 3);
    close(delay.mean, length as f64 * (2.0 * q).sqrt(), 0.03);
    assert!(delay.half_width() < 0.03 * delay.mean, "{delay:?}");
}

/// Rank-steps of each barrier run.
const STEPS_OF_BARRIERS: u64 = 40_000_000;

#[test]
fn a_barrier_costs_the_probability_that_anyone_is_hit() {
    // So short that hardly any event starts during another.
    let length = 500;
    for (ranks, q) in [(10, 1e-3f64), (1_000, 1e-3), (50_000, 1e-5), (5_000, 1e-2)] {
        // Bernoulli with p = 1 - exp(-q): D (1 - (1 - p)^P). Two hits on one rank cost 2 D, and so
        // on: one term for each number of hits, 1 - F(n)^P with the Poisson distribution F.
        let (mut term, mut below, mut expected) = ((-q).exp(), 0.0, 0.0);
        for n in 1..8 {
            below += term;
            term *= q / f64::from(n);
            expected += 1.0 - f64::powi(below, ranks as i32);
        }
        let steps = STEPS_OF_BARRIERS / u64::from(ranks).max(100);
        let delay = mean_delay(ranks, WORK, barrier(), &[fixed(q, length)], steps, 9);
        let expected = expected * length as f64;
        assert!(
            (delay.mean - expected).abs() < 1.8 * delay.half_width(),
            "{ranks} {q}: {expected}, {delay:?}"
        );
        assert!(
            delay.half_width() < 0.25 * expected,
            "{ranks} {q}: {delay:?}"
        );
        if q * q * f64::from(ranks) < 0.01 {
            let bernoulli = length as f64 * (1.0 - (-q * f64::from(ranks)).exp());
            close(expected, bernoulli, 0.001);
        }
    }
}

#[test]
fn rare_noise_at_a_barrier_follows_its_law_in_ranks_rate_and_granularity() {
    // E[step] = g + L (1 - exp(-P rate g)) with L = 5 us. Columns: g in us, P, events per second,
    // the delay in ns.
    for (micros, ranks, rate_per_s, expected) in [
        (100, 500, 0.1, 24.938f64),
        (100, 2_000, 1.0, 906.346),
        (1_000, 500, 0.1, 243.853),
    ] {
        let source = Source::task(
            "x",
            Arrivals::Poisson { rate_per_s },
            Lengths::Fixed { ns: 5_000 },
        );
        let steps = STEPS_OF_BARRIERS / ranks;
        let delay = mean_delay(ranks as u32, micros * 1_000, barrier(), &[source], steps, 2);
        let error = (delay.mean - expected).abs();
        assert!(
            error < 1.8 * delay.half_width() && error < 0.1 * expected,
            "{expected}: {delay:?}"
        );
    }
}

#[test]
fn the_same_share_of_noise_costs_what_its_pattern_makes_it_cost() {
    // A step of 1 ms; columns: events per second, their length in us, ranks, and the published step
    // g + L (1 - exp(-P rate g)) in ms, which knows one hit per step only.
    let published = [
        (1.0, 1_000, 64, 1.0620f64),
        (1.0, 1_000, 1_024, 1.6408),
        (1.0, 1_000, 8_192, 1.9997),
        (0.1, 10_000, 64, 1.0638),
        (0.1, 10_000, 1_024, 1.973),
        (0.1, 10_000, 8_192, 6.592),
        (0.1, 10_000, 100_000, 10.9996),
        (10.0, 2_500, 64, 2.182),
        (10.0, 2_500, 1_024, 3.50),
        (1_000.0, 25, 64, 1.025),
        (1_000.0, 25, 1_024, 1.025),
    ];
    // All of them take a minute of one CPU.
    let every = match std::env::var_os("IDLEWAVE_LONG") {
        Some(_) => 1,
        None => 3,
    };
    for (rate_per_s, micros, ranks, published) in published.into_iter().step_by(every) {
        let length = micros as f64 * 1e-3;
        let (in_work, in_event) = (rate_per_s * 1e-3, rate_per_s * 1e-3 * length);
        let once = 1.0 + length * (1.0 - (-in_work * f64::from(ranks)).exp());
        close(once, published, 3e-4);
        // Events that strike during another follow it. So a rank is hit n times in a step with
        // probability a (a + n b)^(n - 1) exp(-a - n b) / n!, where a and b events are expected in
        // the work and in an event (Consul and Jain, Technometrics 15 (1973) 791).
        let (mut below, mut hits, mut factorial) = (0.0, 0.0, 1.0);
        for n in 0..40 {
            factorial *= f64::from(n.max(1));
            let events = in_work + f64::from(n) * in_event;
            below += in_work * events.powi(n - 1) * (-events).exp() / factorial;
            hits += 1.0 - f64::powi(below.min(1.0), ranks as i32);
        }
        let arrivals = Arrivals::Poisson { rate_per_s };
        let lengths = Lengths::Fixed { ns: micros * 1_000 };
        let source = Source::task("x", arrivals, lengths);
        let steps = (STEPS_OF_BARRIERS / u64::from(ranks)).min(100_000);
        let delay = mean_delay(ranks, 1_000_000, barrier(), &[source], steps, 5);
        let expected = 1e6 * length * hits;
        let error = (delay.mean - expected).abs();
        assert!(
            error < 1.8 * delay.half_width(),
            "{rate_per_s} {micros} {ranks}: {expected}, {delay:?}"
        );
        assert!(delay.half_width() < 0.05 * (1e6 + expected), "{delay:?}");
    }
}

#[test]
fn a_barrier_with_exponential_lengths_grows_with_the_harmonic_number() {
    // Every rank is hit about once: N ~ Poisson(1) hits of exponential length. E[max] is the
    // integral of 1 - F^P, where F sums gamma distributions over N = 0, 1, 2, ... The mean is so
    // short that hardly any event starts during another.
    let mean = 200.0f64;
    let ranks = 64;
    let noise = source(1.0, Lengths::Exponential { mean_ns: mean });
    let delay = mean_delay(ranks, WORK, barrier(), &[noise], 40_000, 4);
    let below = |x: f64| {
        let (mut poisson, mut tail_term, mut tail, mut sum) =
            ((-1.0f64).exp(), (-x).exp(), 0.0, 0.0);
        sum += poisson; // no hit
        for n in 1..30 {
            poisson /= f64::from(n);
            tail += tail_term;
            tail_term *= x / f64::from(n);
            sum += poisson * (1.0 - tail);
        }
        sum
    };
    let width = 1e-3;
    let expected: f64 = (0..40_000)
        .map(|i| (1.0 - below((f64::from(i) + 0.5) * width).powi(ranks as i32)) * width)
        .sum();
    close(delay.mean, mean * expected, 0.015);
}

#[test]
fn the_slowest_of_exponential_ranks_takes_the_harmonic_number() {
    // One exponential disturbance per rank and step; all ranks wait for all.
    let (ranks, mean) = (40u32, 1e6);
    let all = Graph::new(ranks, |_| 0..ranks);
    let seen = plain(&all, 0, 20_000, |rank, k| {
        (-mean * uniform(u64::from(rank), k).ln()) as u64
    });
    let harmonic: f64 = (1..=ranks).map(|i| 1.0 / f64::from(i)).sum();
    close(seen, mean * harmonic, 0.01);
}

#[test]
fn an_idle_wave_moves_one_rank_per_step_and_two_annihilate() {
    let (ranks, delay, work, comm) = (101u32, 5_000u64, 300, 20);
    let graph = Graph::ring(ranks);
    let mut times = vec![0; ranks as usize];
    for k in 1..=60u64 {
        let hit = |rank: u32| {
            if k == 1 && (rank == 20 || rank == 60) {
                delay
            } else {
                0
            }
        };
        step(&graph, &mut times, work, comm, hit);
        let late = |rank: u32| times[rank as usize] - k * (work + comm);
        for rank in 0..ranks {
            let distance = |from: u32| {
                let d = rank.abs_diff(from);
                u64::from(d.min(ranks - d))
            };
            // Constant height, even where both have passed: the larger delay, never the sum.
            let reached = distance(20).min(distance(60)) <= k;
            assert_eq!(
                late(rank),
                if reached { delay } else { 0 },
                "rank {rank} step {k}"
            );
        }
    }
}

#[test]
fn relabelling_ranks_relabels_times_and_nothing_else() {
    let ranks = 97u32;
    let new = |rank: u32| (rank * 35 + 11) % ranks;
    let old = |label: u32| (0..ranks).find(|&r| new(r) == label).unwrap();
    let graph = Graph::ring(ranks);
    let relabelled = Graph::new(ranks, |label| {
        let r = old(label);
        [new((r + 1) % ranks), new((r + ranks - 1) % ranks)]
    });
    let noise = |rank: u32, k: u64| (1e6 * uniform(u64::from(rank), k).powi(8)) as u64;
    let (mut a, mut b) = (vec![0; ranks as usize], vec![0; ranks as usize]);
    for k in 0..200 {
        step(&graph, &mut a, 100, 7, |rank| noise(rank, k));
        step(&relabelled, &mut b, 100, 7, |label| noise(old(label), k));
    }
    for rank in 0..ranks {
        assert_eq!(a[rank as usize], b[new(rank) as usize]);
    }
}

#[test]
fn three_ranks_on_a_ring_are_a_barrier() {
    let sources = [fixed(0.2, 900), fixed(0.01, 40_000)];
    let ring = mean_delay(3, WORK, exchange(Shape::line(3)), &sources, 400_000, 5);
    let all = mean_delay(3, WORK, barrier(), &sources, 400_000, 6);
    assert!((ring.mean - all.mean).abs() < ring.half_width() + all.half_width());
}

#[test]
fn a_tick_hits_one_quantum_in_two_hundred_and_makes_it_longer_by_itself() {
    // Every 4 ms for 10 us: of quanta of 20 us, 20 / (4,000 - 10) are hit, 501 of 100,000.
    let arrivals = Arrivals::Periodic {
        period_ns: 4_000_000,
        jitter_ns: 0,
        phase_ns: Some(2_000_000),
    };
    let tick = Source::task("tick", arrivals, Lengths::Fixed { ns: 10_000 });
    let model = NoiseModel {
        clock: Clock::Wall,
        sources: vec![tick],
        ..NoiseModel::default()
    };
    let noise = Noise::new(&model, 1, 0, |_| true).unwrap();
    let mut timeline = Timeline::new(&noise, noise.place(0));
    let (mut now, mut hit) = (0, 0);
    for _ in 0..100_000 {
        let end = timeline.end(&noise, now, 20_000, |_| {});
        match end - now {
            20_000 => {}
            30_000 => hit += 1,
            other => panic!("a quantum of {other} ns"),
        }
        now = end;
    }
    assert_eq!(hit, 501);
    // Slow-down s = f / (1 - f) with f = 0.25 %.
    close(now as f64 / 2e9 - 1.0, 0.002_506, 1e-3);
}

#[test]
fn one_rank_alone_pays_what_is_stolen() {
    let sources = [fixed(0.2, 900), fixed(0.01, 40_000)];
    for then in [barrier(), exchange(Shape::line(1))] {
        let delay = mean_delay(1, WORK, then, &sources, 800_000, 5);
        close(delay.mean, 0.2 * 900.0 + 0.01 * 40_000.0, 0.05);
    }
}
