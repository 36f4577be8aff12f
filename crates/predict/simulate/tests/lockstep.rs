//! Lockstep on the wall clock against exact results: idle waves, last-passage percolation,
//! symmetries.

#![allow(clippy::unwrap_used)]

use crate::draws::uniform;
use idlewave_noise::{Arrivals, Clock, Lengths, Noise, NoiseModel, Source};
use idlewave_simulate::lockstep::{InjectedDelay, Lockstep, LockstepConfig, LockstepError};
use idlewave_simulate::{Shape, Stencil, Work};

fn source(arrivals: Arrivals, length: Lengths) -> Source {
    Source::task("x", arrivals, Some(length))
}

fn poisson(rate_per_s: f64, length: Lengths) -> Source {
    source(Arrivals::Poisson { rate_per_s }, length)
}

fn noise(sources: Vec<Source>, seed: u64) -> Noise {
    let model = NoiseModel {
        sources,
        ..NoiseModel::default()
    };
    Noise::new(&model, seed, 0, |_| true).unwrap()
}

fn quiet() -> Noise {
    noise(vec![], 0)
}

fn line(ranks: usize) -> Stencil {
    Stencil::nearest(Shape::line(ranks))
}

fn one_sided(ranks: usize) -> Stencil {
    Stencil {
        one_sided: true,
        ..line(ranks)
    }
}

fn close(seen: f64, expected: f64, relative: f64) {
    assert!(
        (seen / expected - 1.0).abs() < relative,
        "{seen} instead of {expected}"
    );
}

#[test]
fn without_noise_a_step_takes_work_and_communication() {
    let quiet = quiet();
    for (x, y, z) in [(70_000, 1, 1), (300, 40, 1), (13, 12, 11)] {
        let stencil = Stencil::nearest(Shape { x, y, z });
        let config = LockstepConfig::new(stencil, 700, 30);
        let mut lockstep = Lockstep::new(config, &quiet).unwrap();
        assert_eq!(lockstep.ends(), None);
        lockstep.advance(100).unwrap();
        assert!(lockstep.times().iter().all(|&t| t == 73_000));
        assert!(lockstep.ends().unwrap().iter().all(|&t| t == 72_970));
    }
}

/// How late each rank is after `steps` steps of 330 ns.
fn lateness(config: LockstepConfig, steps: u64) -> Vec<u64> {
    let quiet = quiet();
    let mut lockstep = Lockstep::new(config, &quiet).unwrap();
    lockstep.advance(steps).unwrap();
    let times = lockstep.times();
    times.into_iter().map(|t| t - steps * 330).collect()
}

#[test]
fn an_idle_wave_moves_as_many_ranks_per_step_as_the_reach_and_keeps_its_height() {
    for (reach, steps) in [(1, 4_000), (3, 1_000), (1, 1)] {
        let mut config = LockstepConfig::new(
            Stencil {
                reach,
                ..line(20_000)
            },
            300,
            30,
        );
        config.delays = vec![InjectedDelay {
            step: 0,
            rank: 10_000,
            work_ns: 5_000,
        }];
        let late = lateness(config.clone(), steps);
        let front = steps * u64::from(reach);
        for (rank, &late) in (0_u64..).zip(&late) {
            let expected = if rank.abs_diff(10_000) <= front {
                5_000
            } else {
                0
            };
            assert_eq!(late, expected, "rank {rank}, reach {reach}");
        }
        (config.stencil.one_sided, config.stencil.periodic) = (true, false);
        let late = lateness(config, steps);
        for (rank, &late) in (0_u64..).zip(&late) {
            let hit = (10_000..=10_000 + front).contains(&rank);
            assert_eq!(late, if hit { 5_000 } else { 0 }, "rank {rank}");
        }
    }
}

#[test]
fn two_idle_waves_annihilate_and_the_larger_one_goes_on() {
    let delay = |rank, work_ns| InjectedDelay {
        step: 3,
        rank,
        work_ns,
    };
    let mut config = LockstepConfig::new(line(101), 300, 30);
    config.delays = vec![delay(20, 5_000), delay(60, 5_000)];
    // They met long ago and added up nowhere.
    assert!(
        lateness(config.clone(), 60)
            .iter()
            .all(|&late| late == 5_000)
    );
    config.delays = vec![delay(20, 5_000), delay(60, 9_000)];
    assert!(
        lateness(config.clone(), 100)
            .iter()
            .all(|&late| late == 9_000)
    );
    // Two delays of the same rank and step add up.
    config.delays = vec![delay(20, 5_000), delay(20, 4_000)];
    assert!(lateness(config, 100).iter().all(|&late| late == 9_000));
}

#[test]
fn an_idle_wave_in_space_reaches_the_ranks_within_so_many_hops() {
    let (x, y, z) = (31, 32, 33);
    let mut config = LockstepConfig::new(Stencil::nearest(Shape { x, y, z }), 300, 30);
    config.stencil.periodic = false;
    config.delays = vec![InjectedDelay {
        step: 0,
        rank: (16 * 32 + 15) * 31 + 14,
        work_ns: 5_000,
    }];
    let late = lateness(config, 10);
    for (rank, &late) in (0_i64..).zip(&late) {
        let hops = (rank % 31 - 14).abs() + (rank / 31 % 32 - 15).abs() + (rank / 992 - 16).abs();
        assert_eq!(late, if hops <= 10 { 5_000 } else { 0 });
    }
}

#[test]
fn what_strikes_a_waiting_rank_costs_nothing() {
    // Rank 1 computes ten times as long as the others; noise strikes their CPUs while they wait for
    // it.
    let tick = source(
        Arrivals::Periodic {
            period_ns: 10_000,
            jitter_ns: 0,
            phase_ns: Some(5_000),
        },
        Lengths::Fixed { ns: 2_000 },
    );
    let away = Source {
        cpus: Some(vec![0, 2]),
        ..tick
    };
    let model = NoiseModel {
        cpus_per_node: 3,
        sources: vec![away],
        ..NoiseModel::default()
    };
    let noise = Noise::new(&model, 1, 0, |_| true).unwrap();
    let mut config = LockstepConfig::new(line(3), 0, 0);
    config.work = Work::Each(vec![1_000, 10_000, 1_000]);
    let mut lockstep = Lockstep::new(config, &noise).unwrap();
    lockstep.advance(50).unwrap();
    assert_eq!(lockstep.times(), [500_000; 3]);
}

#[test]
fn one_rank_alone_loses_the_share_that_is_stolen() {
    // 5 % of the CPU: work takes 1 / (1 - 0.05) times as long.
    let noise = noise(vec![poisson(1e4, Lengths::Exponential { mean_ns: 5e3 })], 3);
    let mut lockstep = Lockstep::new(LockstepConfig::new(line(1), 100_000, 0), &noise).unwrap();
    let step = lockstep.mean_step(40_000).unwrap();
    close(step.mean_ns, 100_000.0 / 0.95, 0.003);
    assert!((step.mean_ns - 100_000.0 / 0.95).abs() < 2.0 * step.half_width_ns);
}

/// What rare events of fixed length add to a step, in units of their length, and its half-width.
fn cost_of_rare_events(stencil: Stencil, per_step: f64, steps: u64) -> (f64, f64) {
    // Long work and short events: hardly any event falls into a wait, for which the law does not
    // account.
    let (work, length) = (100_000_000, 10_000);
    let rate = per_step * 1e9 / work as f64;
    let noise = noise(vec![poisson(rate, Lengths::Fixed { ns: length })], 5);
    let mut lockstep = Lockstep::new(LockstepConfig::new(stencil, work, 0), &noise).unwrap();
    // The ranks need about 1 / per_step steps to become as uneven as they will get.
    lockstep.advance(steps / 4).unwrap();
    let step = lockstep.mean_step(steps).unwrap();
    let extra = (step.mean_ns - work as f64) / length as f64;
    (extra, step.half_width_ns / length as f64)
}

#[test]
fn rare_noise_costs_the_square_root_of_its_rate() {
    let q = 1e-3_f64;
    let (one, width) = cost_of_rare_events(one_sided(20_000), q, 12_000);
    // At finite q geometric weights bound it: sqrt(q) / (1 - sqrt(q)) (Johansson, Commun. Math.
    // Phys. 209 (2000) 437).
    assert!(
        (0.98 * q.sqrt()..1.02 * q.sqrt() / (1.0 - q.sqrt())).contains(&one),
        "{one}"
    );
    assert!(width < 0.02 * one);
    let (two, _) = cost_of_rare_events(line(20_000), q, 12_000);
    close(two, (2.0 * q).sqrt(), 0.015);
    let (far, _) = cost_of_rare_events(
        Stencil {
            reach: 2,
            ..line(20_000)
        },
        q,
        6_000,
    );
    // Distance d: sqrt(2 d q), from the same derivation.
    close(far, (4.0 * q).sqrt(), 0.04);
}

#[test]
fn exponential_work_and_one_neighbour_cost_twice_the_mean() {
    // Only a delay of exponential length for every rank in every step.
    let mean = 1e6;
    let model = NoiseModel {
        sources: vec![],
        ..NoiseModel::default()
    };
    let none = Noise::new(&model, 1, 0, |_| true).unwrap();
    let ranks = 600_u32;
    let steps = 3_000_u64;
    let mut delays = Vec::new();
    for step in 0..steps {
        for rank in 0..ranks {
            let u = uniform(u64::from(rank), step);
            let work_ns = (-mean * u.ln()) as u64;
            delays.push(InjectedDelay {
                step,
                rank,
                work_ns,
            });
        }
    }
    let mut config = LockstepConfig::new(one_sided(ranks as usize), 0, 0);
    config.delays = delays;
    let mut lockstep = Lockstep::new(config, &none).unwrap();
    lockstep.advance(steps / 4).unwrap();
    let step = lockstep.mean_step(steps - steps / 4).unwrap();
    close(step.mean_ns, 2.0 * mean, 0.015);
}

#[test]
fn ranks_that_move_with_their_cpus_find_the_same_times() {
    let noise = noise(vec![poisson(5e4, Lengths::Fixed { ns: 3_000 })], 9);
    let ranks = 5_000_u32;
    let run = |by: u32| {
        let mut config = LockstepConfig::new(line(ranks as usize), 10_000, 500);
        config.cpus = Some((0..ranks).map(|r| (r + by) % ranks).collect());
        let mut lockstep = Lockstep::new(config, &noise).unwrap();
        lockstep.advance(200).unwrap();
        lockstep.times()
    };
    let (times, mut moved) = (run(0), run(1_234));
    moved.rotate_right(1_234);
    assert_eq!(times, moved);
    assert!(times.iter().any(|t| *t != times[0]));
}

#[test]
fn no_nanosecond_is_lost_in_a_million_steps() {
    let quiet = quiet();
    let mut config = LockstepConfig::new(line(8), 999_999_937, 3);
    config.delays = vec![InjectedDelay {
        step: 17,
        rank: 5,
        work_ns: 40_000_000_001,
    }];
    let mut lockstep = Lockstep::new(config, &quiet).unwrap();
    lockstep.advance(1_000_000).unwrap();
    // Eleven and a half days, and a delay of 40 s: both far beyond 32 bits.
    assert_eq!(lockstep.times(), [999_999_940_000_000 + 40_000_000_001; 8]);
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let quiet = quiet();
    let new = |config| Lockstep::new(config, &quiet).map(|_| ()).unwrap_err();
    let base = LockstepConfig::new(line(10), 100, 10);
    let mut config = base.clone();
    config.work = Work::Each(vec![1; 9]);
    let error = new(config);
    assert!(
        error.to_string().contains("10 ranks: 9 values of 'work'"),
        "{error}"
    );
    let mut config = base.clone();
    config.cpus = Some(vec![0; 11]);
    assert!(matches!(
        new(config),
        LockstepError::BadLength { what: "cpus", .. }
    ));
    let mut config = base.clone();
    config.work = Work::Each([vec![1; 7], vec![1 << 50; 3]].concat());
    let expected = LockstepError::StepTooLong {
        rank: 7,
        ns: (1 << 50) + 10,
    };
    assert_eq!(new(config), expected);
    let mut config = base.clone();
    let far = InjectedDelay {
        step: 0,
        rank: 10,
        work_ns: 1,
    };
    config.delays = vec![far];
    assert_eq!(
        new(config),
        LockstepError::NoSuchRank {
            rank: 10,
            ranks: 10
        }
    );
    let mut lockstep = Lockstep::new(base.clone(), &quiet).unwrap();
    let error = lockstep.mean_step(79).unwrap_err();
    assert_eq!(
        error,
        LockstepError::TooFewSteps {
            steps: 79,
            least: 80
        }
    );
    // A delay so long that time overflows.
    let mut config = base;
    config.delays = vec![InjectedDelay {
        step: 2,
        rank: 3,
        work_ns: u64::MAX,
    }];
    let mut lockstep = Lockstep::new(config, &quiet).unwrap();
    assert_eq!(lockstep.advance(5), Err(LockstepError::TooLong { step: 5 }));
}

#[test]
fn shapes_without_ranks_stencils_without_reach_and_other_clocks_are_refused() {
    let quiet = quiet();
    let refused = |stencil| Lockstep::new(LockstepConfig::new(stencil, 300, 30), &quiet).err();
    for (x, y, z) in [
        (0, 1, 1),
        (5, 0, 1),
        (1 << 16, 1 << 16, 1),
        (usize::MAX, 2, 1),
    ] {
        let stencil = Stencil::nearest(Shape { x, y, z });
        assert_eq!(refused(stencil), Some(LockstepError::BadShape { x, y, z }));
    }
    let reachless = Stencil {
        reach: 0,
        ..line(5)
    };
    assert_eq!(refused(reachless), Some(LockstepError::NoReach));
    assert_eq!(refused(line(5)), None);
    let model = NoiseModel {
        clock: Clock::Work,
        ..NoiseModel::default()
    };
    let exposed = Noise::new(&model, 1, 0, |_| true).unwrap();
    let engine = Lockstep::new(LockstepConfig::new(line(5), 300, 30), &exposed);
    assert_eq!(engine.err(), Some(LockstepError::Exposure));
}
