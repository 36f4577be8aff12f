//! Compares the engine with the plain one: every stencil, noise, tiling and number of threads.

use super::kernel::Width;
use super::*;
use crate::general::{Graph, step};
use crate::{Shape, Stencil, Work};
use idlewave_noise::{Arrivals, Lengths, Noise, NoiseModel, Scope, Source, Timeline, Together};
use proptest::prelude::*;

fn source(arrivals: Arrivals, length: Option<Lengths>) -> Source {
    Source::task("x", arrivals, length)
}

/// Ranks with their nearest neighbours on a torus of these sides.
fn torus(x: usize, y: usize, z: usize) -> Stencil {
    Stencil::nearest(Shape { x, y, z })
}

fn poisson(rate_per_s: f64, length: Lengths) -> Source {
    source(Arrivals::Poisson { rate_per_s }, Some(length))
}

fn model(sources: Vec<Source>) -> NoiseModel {
    NoiseModel {
        cpus_per_node: 3,
        sources,
        ..NoiseModel::default()
    }
}

/// Noise of every kind, by number. Steps take some microseconds, so that noise strikes a rank in
/// about every second one.
fn noise(kind: usize, seed: u64) -> Noise {
    let mix = || {
        vec![
            poisson(1e5, Lengths::Fixed { ns: 900 }),
            poisson(3e4, Lengths::Exponential { mean_ns: 5_000.0 }),
        ]
    };
    let tick = source(
        Arrivals::Periodic {
            period_ns: 9_000,
            jitter_ns: 500,
            phase_ns: None,
        },
        Some(Lengths::Fixed { ns: 700 }),
    );
    let trace = source(
        Arrivals::Trace {
            watched_ns: 100_000,
            block_ns: Some(30_000),
            events: vec![
                [10, 3_000],
                [40_000, 200],
                [40_100, 5_000],
                [90_000, 12_000],
            ],
        },
        None,
    );
    let sources = match kind {
        0 => vec![],
        1 => mix(),
        2 => vec![tick],
        3 => vec![trace],
        4 => vec![Source {
            together: Together::Node,
            ..poisson(1e5, Lengths::Fixed { ns: 2_000 })
        }],
        5 => {
            let wandering = Source {
                strikes: Scope::OneCpuOfNode,
                ..poisson(2e5, Lengths::Fixed { ns: 1_500 })
            };
            let level = Source {
                keeps: 0.5,
                ..poisson(4e4, Lengths::Exponential { mean_ns: 9_000.0 })
            };
            [mix(), vec![tick, wandering, level]].concat()
        }
        _ => vec![Source {
            cpus: Some(vec![1]),
            ..tick
        }],
    };
    Noise::new(&model(sources), seed, 0, |_| true).unwrap()
}

/// The plain engine: one rank after the other, with a [`Timeline`] each.
fn plain(config: &LockstepConfig, noise: &Noise, steps: u64) -> Vec<Vec<u64>> {
    let stencil = &config.stencil;
    let ranks = stencil.ranks();
    let graph = Graph::new(ranks as u32, |rank| {
        let neighbours = stencil.sources(rank as usize);
        neighbours.map(|n| n as u32).collect::<Vec<_>>()
    });
    let cpu = |r: usize| config.cpus.as_ref().map_or(r as u32, |cpus| cpus[r]);
    let mut lines: Vec<Timeline> = (0..ranks)
        .map(|r| Timeline::new(noise, noise.place(cpu(r))))
        .collect();
    let mut times = vec![0u64; ranks];
    let mut rows = Vec::new();
    for k in 0..steps {
        let begins = times.clone();
        step(&graph, &mut times, 0, config.communication_ns, |rank| {
            let delays = config.delays.iter();
            let delays = delays.filter(|d| d.step == k && d.rank == rank);
            let work = config.work.of(rank as usize) + delays.map(|d| d.work_ns).sum::<u64>();
            let begin = begins[rank as usize];
            lines[rank as usize].end(noise, begin, work, |_| {}) - begin
        });
        rows.push(times.clone());
    }
    rows
}

/// Compares both engines, in every step or after as many steps as the tiles take at once.
fn compare(config: &LockstepConfig, noise: &Noise, steps: u64, tile_ranks: usize, every: u64) {
    let expected = plain(config, noise, steps);
    let mut widths = vec![Width::Portable];
    if Width::widest() != Width::Portable {
        widths.push(Width::widest());
    }
    for width in widths {
        let mut lockstep = Lockstep::new(config.clone(), noise).unwrap();
        lockstep.width = width;
        lockstep.tile_ranks = Some(tile_ranks);
        let mut seen = 0;
        let row = |step: u64, times: &[u64]| -> Result<(), LockstepError> {
            assert_eq!(times, expected[step as usize - 1], "after {step} steps");
            seen += 1;
            Ok(())
        };
        lockstep.run(steps, every, row).unwrap();
        assert_eq!(seen, steps.div_ceil(every));
        assert_eq!(lockstep.times(), expected[steps as usize - 1]);
    }
}

#[test]
fn tiles_of_a_ring_and_of_a_chain_agree_with_the_plain_engine() {
    for (ranks, tile, periodic, reach) in [
        (300, 40, true, 1),
        (301, 37, false, 1),
        (263, 20, true, 3),
        (100, 16, false, 2),
        (64, 8, true, 2),
    ] {
        let stencil = Stencil {
            reach,
            periodic,
            ..torus(ranks, 1, 1)
        };
        let config = LockstepConfig::new(stencil, 4_000, 150);
        for kind in [1, 5] {
            compare(&config, &noise(kind, 3), 70, tile, 70);
            compare(&config, &noise(kind, 4), 41, tile, 7);
        }
    }
}

#[test]
fn slabs_of_planes_and_cuboids_agree_with_the_plain_engine() {
    for (x, y, z) in [(17, 40, 1), (5, 6, 30), (1, 7, 40), (40, 1, 9), (40, 18, 8)] {
        for periodic in [true, false] {
            let stencil = Stencil {
                periodic,
                ..torus(x, y, z)
            };
            let config = LockstepConfig::new(stencil, 4_000, 150);
            compare(&config, &noise(1, 5), 30, 100, 30);
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_times() {
    for (stencil, kind) in [
        (torus(5_000, 1, 1), 1),
        (torus(20, 200, 1), 1),
        (torus(6, 7, 50), 5),
    ] {
        let config = LockstepConfig::new(stencil, 4_000, 150);
        let noise = noise(kind, 8);
        let all: Vec<Vec<u64>> = [1, 2, 3, 7]
            .map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                pool.build().unwrap().install(|| {
                    let mut lockstep = Lockstep::new(config.clone(), &noise).unwrap();
                    lockstep.advance(150).unwrap();
                    lockstep.times()
                })
            })
            .into();
        assert!(all.iter().all(|times| *times == all[0]));
        assert_eq!(all[0], *plain(&config, &noise, 150).last().unwrap());
    }
}

#[test]
fn a_copy_goes_on_like_the_original_and_strides_do_not_matter() {
    let config = LockstepConfig::new(torus(700, 1, 1), 4_000, 150);
    for kind in [1, 5] {
        let noise = noise(kind, 2);
        let mut one = Lockstep::new(config.clone(), &noise).unwrap();
        one.tile_ranks = Some(60);
        one.advance(33).unwrap();
        let mut copy = one.clone();
        copy.tile_ranks = None;
        one.advance(90).unwrap();
        for steps in [1, 2, 3, 84] {
            copy.advance(steps).unwrap();
        }
        assert_eq!((one.times(), one.step()), (copy.times(), copy.step()));
    }
}

fn configs() -> impl Strategy<Value = LockstepConfig> {
    let torus = prop_oneof![
        (1usize..60).prop_map(|x| torus(x, 1, 1)),
        (1usize..14, 1usize..14).prop_map(|(x, y)| torus(x, y, 1)),
        (1usize..8, 1usize..8, 1usize..8).prop_map(|(x, y, z)| torus(x, y, z)),
    ];
    let delays = proptest::collection::vec((0u64..40, any::<u32>(), 0u64..50_000), 0..12);
    let work = prop_oneof![
        (0u64..3).prop_map(|w| (w * 3_000, None)),
        proptest::collection::vec(0u64..9_000, 512).prop_map(|each| (0, Some(each))),
    ];
    (torus, 1u32..4, any::<[bool; 3]>(), 0u64..3, delays, work).prop_map(
        |(torus, reach, [periodic, one_sided, shuffled], comm, delays, (same, each))| {
            let stencil = Stencil {
                reach,
                periodic,
                one_sided,
                ..torus
            };
            let ranks = stencil.ranks();
            let mut config = LockstepConfig::new(stencil, same, comm * 170);
            config.delays = delays
                .into_iter()
                .map(|(step, rank, work_ns)| InjectedDelay {
                    step,
                    rank: rank % ranks as u32,
                    work_ns,
                })
                .collect();
            if let Some(each) = each {
                config.work = Work::Each(each.into_iter().cycle().take(ranks).collect());
            }
            if shuffled {
                config.cpus = Some((0..ranks as u32).map(|r| r * 7 % 1_000).collect());
            }
            config
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_stencil_and_noise_agree_with_the_plain_engine(
        config in configs(), kind in 0usize..7, seed: u64, tile in 1usize..70, every in 1u64..45,
    ) {
        compare(&config, &noise(kind, seed), 40, tile, every);
    }
}
