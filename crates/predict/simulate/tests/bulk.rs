//! The bulk-synchronous engine against the LogGOPS engine and closed forms, and its paths against
//! its times.

#![allow(clippy::unwrap_used)]

use idlewave_noise::{Arrivals, Clock, Lengths, Noise, NoiseModel, Source, Timelines};
use idlewave_simulate::bulk::{
    Algorithm, Collective, Engine, OneOff, Phase, Program, Wait, schedule,
};
use idlewave_simulate::goal::{Parameters, PerByte, simulate, simulate_with};
use idlewave_simulate::{Shape, Stencil, Work};
use idlewave_units::{Bytes, Nanos};
use proptest::prelude::*;

fn quiet() -> Noise {
    Noise::new(&NoiseModel::default(), 0, 0, |_| true).unwrap()
}

fn poisson(rate_per_s: f64, length: Lengths) -> Source {
    Source::task("x", Arrivals::Poisson { rate_per_s }, Some(length))
}

fn noise(sources: Vec<Source>, seed: u64) -> Noise {
    let model = NoiseModel {
        sources,
        ..NoiseModel::default()
    };
    Noise::new(&model, seed, 0, |_| true).unwrap()
}

fn costs(latency: u64, overhead: u64) -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(latency),
        overhead: Nanos::from_nanos(overhead),
        gap: Nanos::ZERO,
        gap_per_byte: PerByte::ZERO,
        overhead_per_byte: PerByte::ZERO,
        rendezvous: Bytes::new(65_535),
    }
}

fn run(program: &Program, noise: &Noise, steps: u64, delays: &[OneOff]) -> Vec<u64> {
    let mut engine = Engine::new(program, noise, delays).unwrap();
    for _ in 0..steps {
        engine.step().unwrap();
    }
    engine.times().to_vec()
}

#[test]
fn by_exposure_a_rank_is_struck_as_often_as_it_computes() {
    // 100 ns of computation in steps of 1,000 ns: the regular noise strikes none of them, or one in
    // ten.
    let program = Program {
        ranks: 1,
        phases: vec![Phase::Compute(Work::Same(100)), Phase::Pause(900)],
        costs: costs(0, 0),
    };
    let model = |clock| NoiseModel {
        clock,
        sources: vec![Source::task(
            "x",
            Arrivals::Periodic {
                period_ns: 1_000,
                jitter_ns: 0,
                phase_ns: Some(950),
            },
            Some(Lengths::Fixed { ns: 10 }),
        )],
        ..NoiseModel::default()
    };
    for (clock, struck) in [(Clock::Wall, 0), (Clock::Work, 2)] {
        let noise = Noise::new(&model(clock), 1, 0, |_| true).unwrap();
        assert_eq!(run(&program, &noise, 20, &[]), [20_000 + struck * 10]);
    }
}

fn ring(ranks: u32) -> Stencil {
    Stencil::nearest(Shape {
        x: ranks as usize,
        y: 1,
        z: 1,
    })
}

/// A stencil preceded by computation.
fn stencil_program(stencil: Stencil, work: Work, wait: Wait, costs: Parameters) -> Program {
    Program {
        ranks: stencil.ranks() as u32,
        phases: vec![
            Phase::Compute(work),
            Phase::Exchange {
                stencil,
                bytes: 1,
                wait,
            },
        ],
        costs,
    }
}

fn works(ranks: usize) -> impl Strategy<Value = Work> {
    prop_oneof![
        (0_u64..2_000).prop_map(Work::Same),
        proptest::collection::vec(0_u64..2_000, ranks).prop_map(Work::Each),
    ]
}

fn phases(shape: Shape, bytes: u64) -> impl Strategy<Value = Phase> {
    let ranks = shape.ranks();
    let wait = prop_oneof![
        Just(Wait::Blocking),
        Just(Wait::All),
        works(ranks).prop_map(Wait::Overlapped),
    ];
    let exchange = (1_u32..4, any::<bool>(), any::<bool>(), wait).prop_map(
        move |(reach, periodic, one_sided, wait)| Phase::Exchange {
            stencil: Stencil {
                shape,
                reach,
                periodic,
                one_sided,
            },
            bytes,
            wait,
        },
    );
    let collective = prop_oneof![
        Just((Collective::Barrier, Algorithm::Dissemination)),
        Just((Collective::Barrier, Algorithm::Binomial)),
        Just((Collective::Allreduce, Algorithm::RecursiveDoubling)),
        Just((Collective::Broadcast, Algorithm::Binomial)),
        Just((Collective::Reduce, Algorithm::Binomial)),
        Just((Collective::Alltoall, Algorithm::Pairwise)),
    ]
    .prop_map(move |(operation, algorithm)| Phase::Collective {
        operation,
        algorithm,
        bytes,
    });
    prop_oneof![works(ranks).prop_map(Phase::Compute), exchange, collective]
}

fn programs() -> impl Strategy<Value = (Program, u64, Vec<OneOff>)> {
    let shape = (1_usize..6, 1_usize..4, 1_usize..3).prop_map(|(x, y, z)| Shape { x, y, z });
    (shape, 1_u64..2_000).prop_flat_map(|(shape, bytes)| {
        let ranks = shape.ranks() as u32;
        let delay = (0..ranks, 0_u64..4, 1_u64..20_000).prop_map(|(rank, step, ns)| OneOff {
            rank,
            step,
            ns,
        });
        (
            proptest::collection::vec(phases(shape, bytes), 1..5),
            proptest::collection::vec(delay, 0..3),
            (0_u64..3_000, 0_u64..400, 0_u64..400, 0_u64..3, 0_u64..2),
            1_u64..5,
        )
            .prop_map(move |(phases, delays, (l, o, g, gap, over), steps)| {
                let mut costs = costs(l, o);
                costs.gap_per_byte = PerByte::from_nanos(gap);
                costs.overhead_per_byte = PerByte::from_nanos(over);
                // What a schedule can express: the CPU is busy for at least as long as the wire.
                if over >= gap {
                    costs.gap = Nanos::from_nanos(g.min(o));
                } else {
                    costs.gap_per_byte = PerByte::ZERO;
                }
                let program = Program {
                    ranks,
                    phases,
                    costs,
                };
                (program, steps, delays)
            })
    })
}

/// At most two sources, which leave a rank at least 4 % of its CPU.
fn strikes() -> impl Strategy<Value = Vec<Source>> {
    let one =
        (1e3..1.6e5_f64, 1_u64..3_000).prop_map(|(rate, ns)| poisson(rate, Lengths::Fixed { ns }));
    proptest::collection::vec(one, 0..3)
}

proptest! {
    /// Both engines agree, rank by rank.
    #[test]
    fn both_engines_agree_on_every_rank((program, steps, delays) in programs()) {
        let (schedule, parameters) = schedule(&program, steps, &delays).unwrap();
        let played = simulate(&schedule, &parameters).unwrap();
        prop_assert_eq!(run(&program, &quiet(), steps, &delays), played.finish_ns);
    }

    /// Under noise too, but without delays: in one engine no noise strikes them, in the other they
    /// are computations.
    #[test]
    fn both_engines_agree_under_noise((program, steps, _) in programs(), sources in strikes(), seed: u64) {
        let noise = noise(sources, seed);
        let (schedule, parameters) = schedule(&program, steps, &[]).unwrap();
        let cpus = Timelines::new(&noise, program.ranks, 1);
        let played = simulate_with(&schedule, &parameters, cpus).unwrap();
        prop_assert_eq!(run(&program, &noise, steps, &[]), played.finish_ns);
    }

    #[test]
    fn the_parts_of_a_critical_path_add_up_and_it_is_no_shorter_than_the_work(
        (program, steps, delays) in programs(), sources in strikes(), seed: u64, rendezvous: bool,
    ) {
        let mut program = program;
        if rendezvous {
            program.costs.rendezvous = Bytes::new(0);
        }
        let noise = noise(sources, seed);
        let mut engine = Engine::new(&program, &noise, &delays).unwrap();
        engine.step().unwrap();
        let mut record = engine.record();
        let begin = engine.times().to_vec();
        for _ in 0..steps {
            engine.step_recorded(&mut record).unwrap();
        }
        // Recording changes nothing.
        prop_assert_eq!(engine.times(), &run(&program, &noise, steps + 1, &delays)[..]);
        let Some(path) = record.critical_path() else {
            // A collective of one rank has no operations.
            prop_assert_eq!(program.operations(), Ok(0));
            return Ok(());
        };
        prop_assert_eq!(path.finish_ns, *engine.times().iter().max().unwrap());
        prop_assert_eq!(engine.times()[path.last_rank as usize], path.finish_ns);
        prop_assert_eq!(path.begin_ns, begin[path.first_rank as usize]);
        let noise: u64 = path.noise_ns.iter().map(|n| n.1).sum();
        prop_assert_eq!(path.work_ns + path.communication_ns + noise, path.finish_ns - path.begin_ns);
    }
}

const WORK: u64 = 10_000;
const LATENCY: u64 = 500;

/// How far each rank is behind an undisturbed one.
fn behind(program: &Program, steps: u64, delays: &[OneOff]) -> Vec<u64> {
    let quiet = quiet();
    let reference = run(program, &quiet, steps, &[]);
    let late = run(program, &quiet, steps, delays);
    late.iter().zip(&reference).map(|(l, r)| l - r).collect()
}

/// Idle waves travel the reach of a message per step if a rank awaits all messages together, or the
/// sum of the reaches if it awaits one after the other.
#[test]
fn an_idle_wave_travels_as_far_as_the_waits_let_it_and_keeps_its_height() {
    let delay = [OneOff {
        rank: 50,
        step: 0,
        ns: 3_000,
    }];
    for (reach, wait, per_step) in [
        (1, Wait::All, 1),
        (3, Wait::All, 3),
        (1, Wait::Blocking, 1),
        (2, Wait::Blocking, 3),
        (3, Wait::Blocking, 6),
    ] {
        let stencil = Stencil { reach, ..ring(101) };
        let program = stencil_program(stencil, Work::Same(WORK), wait, costs(0, 0));
        for steps in [1, 2, 5] {
            let late = behind(&program, steps, &delay);
            for (rank, ns) in (0_u64..).zip(&late) {
                let reached = rank.abs_diff(50) <= per_step * steps;
                assert_eq!(*ns, if reached { 3_000 } else { 0 }, "{rank} after {steps}");
            }
        }
    }
}

#[test]
fn a_wave_goes_with_the_messages_and_with_rendezvous_against_them_too() {
    let delay = [OneOff {
        rank: 50,
        step: 0,
        ns: 3_000,
    }];
    for (rendezvous, back) in [(65_535, 0), (0, 4)] {
        let stencil = Stencil {
            one_sided: true,
            ..ring(101)
        };
        let mut costs = costs(0, 0);
        costs.rendezvous = Bytes::new(rendezvous);
        let program = stencil_program(stencil, Work::Same(WORK), Wait::All, costs);
        let late = behind(&program, 4, &delay);
        let reached: Vec<usize> = (0..101).filter(|&r| late[r] > 0).collect();
        assert_eq!(reached, (50 - back..=54).collect::<Vec<_>>());
    }
}

/// Where two waves meet, a rank waits for the longer delay only.
#[test]
fn two_waves_annihilate() {
    let program = stencil_program(ring(101), Work::Same(WORK), Wait::All, costs(0, 0));
    let delay = |rank, ns| OneOff { rank, step: 0, ns };
    let late = behind(&program, 100, &[delay(20, 3_000), delay(60, 5_000)]);
    assert!(late.iter().all(|&ns| ns == 5_000));
    let late = behind(&program, 10, &[delay(20, 3_000), delay(40, 3_000)]);
    for (rank, ns) in (0_u32..).zip(late) {
        let reached = rank.abs_diff(20).min(rank.abs_diff(40)) <= 10;
        assert_eq!(ns, if reached { 3_000 } else { 0 });
    }
}

/// With overlapped messages, a delay within the slack makes no other rank late.
#[test]
fn overlapped_messages_absorb_delays_up_to_the_slack() {
    let wait = Wait::Overlapped(Work::Same(WORK));
    let program = Program {
        ranks: 11,
        phases: vec![Phase::Exchange {
            stencil: ring(11),
            bytes: 1,
            wait,
        }],
        costs: costs(LATENCY, 0),
    };
    let delay = |ns| OneOff {
        rank: 5,
        step: 0,
        ns,
    };
    // The delay comes after the step; the next messages to the neighbours have a whole computation
    // to arrive in.
    let slack = WORK - LATENCY;
    let late = behind(&program, 2, &[delay(slack)]);
    assert_eq!(late.iter().filter(|&&ns| ns > 0).count(), 1);
    let late = behind(&program, 2, &[delay(slack + 7)]);
    assert_eq!([late[3], late[4], late[5], late[6]], [0, 7, slack + 7, 7]);
}

/// Costs by hand, per algorithm: rounds times (o + L + o), with all ranks in step.
#[test]
fn collectives_of_ranks_in_step_cost_their_rounds() {
    let (l, o) = (2_500, 1_500);
    let cost = |operation, algorithm, ranks| {
        let program = Program {
            ranks,
            phases: vec![Phase::Collective {
                operation,
                algorithm,
                bytes: 1,
            }],
            costs: costs(l, o),
        };
        run(&program, &quiet(), 1, &[])
    };
    let hop = l + 2 * o;
    for (ranks, rounds) in [(2, 1), (8, 3), (9, 4), (100, 7)] {
        let times = cost(Collective::Barrier, Algorithm::Dissemination, ranks);
        assert_eq!(times, vec![rounds * hop; ranks as usize]);
    }
    let times = cost(Collective::Allreduce, Algorithm::RecursiveDoubling, 8);
    assert_eq!(times, [3 * hop; 8]);
    // In a binomial tree of 8 the root sends three messages, the first to 4, which sends two; the
    // last leaf is 7.
    let times = cost(Collective::Broadcast, Algorithm::Binomial, 8);
    assert_eq!((times[0], times[7]), (3 * o, 3 * hop));
    assert_eq!(times[4], hop + 2 * o);
    let times = cost(Collective::Reduce, Algorithm::Binomial, 8);
    assert_eq!((times[7], times[0]), (o, 3 * hop - 2 * o + 2 * o));
}

/// The handshake of a long message by hand: requested at o + L, answered, sent, received; then with
/// a late receiver.
#[test]
fn a_rendezvous_pays_its_handshake_and_waits_for_a_late_receiver() {
    let stencil = Stencil {
        periodic: false,
        one_sided: true,
        ..ring(2)
    };
    let mut costs = costs(2_500, 1_500);
    costs.gap_per_byte = PerByte::from_nanos(6);
    let mut program = stencil_program(stencil, Work::Each(vec![0, 0]), Wait::All, costs);
    program.phases[1] = Phase::Exchange {
        stencil,
        bytes: 100_001,
        wait: Wait::All,
    };
    let data = 600_000;
    let times = run(&program, &quiet(), 1, &[]);
    assert_eq!(times, [1_500 + 5_000 + data, 1_500 + 7_500 + data + 1_500]);
    program.phases[0] = Phase::Compute(Work::Each(vec![0, 50_000]));
    let times = run(&program, &quiet(), 1, &[]);
    assert_eq!(
        times,
        [50_000 + 2_500 + data, 50_000 + 5_000 + data + 1_500]
    );
}

/// Without CPU costs, the path consists of computations and hops; the one delay that matters is all
/// of its noise.
#[test]
fn the_critical_path_finds_the_delay_that_made_the_last_rank_late() {
    let program = stencil_program(ring(64), Work::Same(WORK), Wait::All, costs(LATENCY, 0));
    let noise = quiet();
    let delay = OneOff {
        rank: 40,
        step: 3,
        ns: 77_000,
    };
    let mut engine = Engine::new(&program, &noise, &[delay]).unwrap();
    let mut record = engine.record();
    for _ in 0..20 {
        engine.step_recorded(&mut record).unwrap();
    }
    let path = record.critical_path().unwrap();
    assert_eq!(path.noise_ns, [(0, 77_000)]);
    assert_eq!(path.work_ns, 20 * WORK);
    // Ranks at the wave's front waited for a message in every step; the last rank may have been
    // behind the front.
    assert!(path.communication_ns <= 20 * LATENCY && path.communication_ns % LATENCY == 0);
    assert_eq!(path.communication_ns, path.hops * LATENCY);
}

/// Bernoulli noise before a barrier: a step is longer if any rank is struck.
#[test]
fn a_barrier_waits_for_any_struck_rank() {
    let (ranks, work, length) = (64_u32, 100_000_u64, 1_000_u64);
    // Struck with probability 0.004 per step.
    let rate = 40.0;
    let program = Program {
        ranks,
        phases: vec![
            Phase::Compute(Work::Same(work)),
            Phase::Collective {
                operation: Collective::Barrier,
                algorithm: Algorithm::Dissemination,
                bytes: 1,
            },
        ],
        costs: costs(0, 0),
    };
    let noise = noise(vec![poisson(rate, Lengths::Fixed { ns: length })], 5);
    let steps = 20_000;
    let times = run(&program, &noise, steps, &[]);
    let extra = times[0] as f64 / steps as f64 - work as f64;
    let p = 1.0 - (-rate * work as f64 / 1e9).exp();
    let expected = length as f64 * (1.0 - (1.0 - p).powi(ranks as i32));
    // Standard error: 418 / sqrt(20,000) = 3 ns.
    assert!(
        (extra - expected).abs() < 12.0,
        "{extra} instead of {expected}"
    );
}
