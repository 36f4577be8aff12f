use super::*;
use crate::general::{Graph, step};
use idlewave_run::{LengthBin, NoiseSource, SourceKind};
use idlewave_units::Nanos;
use proptest::prelude::*;

fn field(rate_per_s: f64, seed: u64) -> NoiseField {
    let sources =
        [(1.0, 1_000), (0.3, 20_000), (0.01, 3_000_000)].map(|(part, length_ns)| NoiseSource {
            kind: SourceKind::Task,
            name: "x".into(),
            rate_per_s: rate_per_s * part,
            events: 1,
            watched: Nanos::from_secs(1),
            period: None,
            lengths: vec![
                LengthBin {
                    length_ns,
                    count: 2,
                },
                LengthBin {
                    length_ns: 2 * length_ns,
                    count: 1,
                },
            ],
        });
    NoiseField::new(&sources, Nanos::from_micros(100), seed, |_| true)
}

/// The noise of all ranks in the given steps, as the blocks give it all at once.
fn noise(field: &NoiseField, ranks: usize, steps: u64) -> Vec<Vec<u64>> {
    let mut all = vec![vec![0; ranks]; steps as usize];
    for begin in (0..steps).step_by(BLOCK_STEPS as usize) {
        for (block, first) in (0..ranks).step_by(BLOCK_RANKS).enumerate() {
            let width = BLOCK_RANKS.min(ranks - first);
            field.for_each(
                block,
                begin,
                width * BLOCK_STEPS as usize,
                |cell, length| {
                    all[begin as usize + cell / width][first + cell % width] += length;
                },
            );
        }
    }
    all
}

/// Both engines, compared rank by rank.
fn compare<T: Time>(shape: Shape, steps: u64, rate: f64, seed: u64) {
    let field = field(rate, seed);
    let noise = noise(&field, shape.ranks(), steps);
    let (work, comm) = (100_000, 3_000);
    let graph = if shape.y * shape.z == 1 {
        Graph::ring(shape.ranks() as u32)
    } else {
        Graph::torus(shape)
    };
    let mut times = vec![0u64; shape.ranks()];
    let mut grid = Grid::<T>::new(shape);
    let mut done = 0;
    while done < steps {
        let sum = grid.advance(&field).unwrap();
        for k in done..done + grid.stride() {
            step(&graph, &mut times, work, comm, |rank| {
                noise[k as usize][rank as usize]
            });
        }
        done += grid.stride();
        let undisturbed = done * (work + comm);
        let expected: i128 = times.iter().map(|&t| i128::from(t - undisturbed)).sum();
        assert_eq!(sum, expected, "{shape:?} after {done} steps");
    }
    for (d, t) in grid.now.iter().zip(&times) {
        assert_eq!(d.wide() + grid.base, (t - steps * (work + comm)) as i64);
    }
}

#[test]
fn tiles_of_a_long_ring_agree_with_the_plain_engine() {
    for ranks in [
        TILE_RANKS + 1,
        TILE_RANKS + 63,
        2 * TILE_RANKS,
        3 * TILE_RANKS - 1_000,
    ] {
        compare::<i32>(
            Shape {
                x: ranks,
                y: 1,
                z: 1,
            },
            2 * TILE_STEPS,
            20.0,
            7,
        );
    }
}

#[test]
fn a_torus_of_several_blocks_agrees_with_the_plain_engine() {
    compare::<i32>(
        Shape {
            x: 100,
            y: 61,
            z: 1,
        },
        64,
        30.0,
        8,
    );
    compare::<i32>(
        Shape {
            x: 21,
            y: 20,
            z: 19,
        },
        64,
        30.0,
        9,
    );
}

#[test]
fn without_noise_nothing_ever_deviates() {
    for shape in [
        Shape {
            x: 2 * TILE_RANKS,
            y: 1,
            z: 1,
        },
        Shape { x: 7, y: 5, z: 3 },
    ] {
        let mut grid = Grid::<i32>::new(shape);
        let silent = NoiseField::new(&[], Nanos::from_micros(20), 1, |_| true);
        for _ in 0..4 {
            assert_eq!(grid.advance(&silent), Ok(0));
        }
    }
}

#[test]
fn a_deviation_beyond_the_number_type_is_noticed_and_held_by_the_wider_one() {
    let source = NoiseSource {
        kind: SourceKind::Task,
        name: "x".into(),
        rate_per_s: 1e4,
        events: 1,
        watched: Nanos::from_secs(1),
        period: None,
        lengths: vec![LengthBin {
            length_ns: 2_000_000_000,
            count: 1,
        }],
    };
    let field = NoiseField::new(&[source], Nanos::from_micros(100), 3, |_| true);
    let shape = Shape { x: 10, y: 1, z: 1 };
    assert_eq!(Grid::<i32>::new(shape).advance(&field), Err(Overflow));
    assert!(Grid::<i64>::new(shape).advance(&field).unwrap() > 20_000_000_000);
}

#[test]
fn rebasing_keeps_times_beyond_the_range_of_the_narrow_type() {
    // Above 2^31 ns of deviation after some hundred steps of 3 ms and more.
    compare::<i32>(Shape { x: 40, y: 1, z: 1 }, 1_600, 3_000.0, 4);
}

#[test]
fn a_larger_grid_begins_with_copies_of_the_smaller_one() {
    let mut small = Grid::<i32>::new(Shape { x: 4, y: 4, z: 2 });
    small.advance(&field(500.0, 1)).unwrap();
    let (now, step) = (small.now.clone(), small.step);
    let large = small.enlarged(Shape { x: 8, y: 4, z: 4 });
    assert_eq!(large.step, step);
    for (i, d) in large.now.iter().enumerate() {
        let (x, y, z) = (i % 8, i / 8 % 4, i / 32);
        assert_eq!(*d, now[(z % 2 * 4 + y) * 4 + x % 4]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn small_grids_agree_with_the_plain_engine(
        x in 1usize..9, y in 1usize..7, z in 1usize..5, rate in 0.0f64..2_000.0, seed: u64,
    ) {
        compare::<i32>(Shape { x, y, z }, 48, rate, seed);
        compare::<i64>(Shape { x, y, z }, 48, rate, seed);
    }
}
