//! The exchange as a whole: closed forms, independence of the ranks, errors found.

use super::Halo;
use super::block::Block;
use super::run::Worker;
use super::wave::Wave;
use crate::testing::on_ranks;
use crate::{Stopwatch, Verified};
use idlewave_fabric::PointToPoint;
use idlewave_units::{Nanos, Rank};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

fn halo(text: &str) -> Halo {
    text.parse().unwrap()
}

fn verified(halo: &Halo, ranks: u32) -> Vec<Verified> {
    let halt = AtomicBool::new(false);
    let done = on_ranks(ranks, |fabric| halo.run(fabric, &halt, &mut |_| ()));
    done.into_iter().map(Result::unwrap).collect()
}

/// The halo whose blocks make up this grid on this many ranks.
fn divided(grid: [u32; 3], ranks: u32, like: &Halo) -> Option<Halo> {
    let sides = like.sides(ranks);
    let fits = (0..3).all(|d| grid[d] % sides[d] == 0 && grid[d] / sides[d] >= 4);
    let cells = std::array::from_fn(|d| grid[d] / sides[d]);
    fits.then_some(Halo { cells, ..*like })
}

#[test]
fn the_result_is_the_same_to_the_bit_however_the_grid_is_divided() {
    let grid = [24, 24, 12];
    for text in [
        "4,steps=30",
        "4,steps=30,residual=7",
        "4,steps=30,residual=1,open",
    ] {
        let mut results = Vec::new();
        for dims in 1..=3 {
            let like = Halo { dims, ..halo(text) };
            for ranks in [1, 2, 3, 4, 6, 8] {
                let Some(halo) = divided(grid, ranks, &like) else {
                    continue;
                };
                for done in verified(&halo, ranks) {
                    assert_eq!(done.iterations, 30);
                    assert_eq!(done.operations, 30 * 24 * 24 * 12);
                    results.push(done.checksum.unwrap());
                }
            }
        }
        assert!(results.len() > 40, "{}", results.len());
        assert!(results.iter().all(|r| *r == results[0]), "{text}");
    }
    // The checksum changes with the steps and with the border.
    let checksum = |text: &str| verified(&halo(text), 1)[0].checksum;
    assert_ne!(checksum("8,steps=3"), checksum("8,steps=4"));
    assert_ne!(checksum("8,steps=3"), checksum("8,steps=3,open"));
}

#[test]
fn it_is_verified_over_many_lives_of_the_wave_on_all_shapes() {
    for (text, ranks) in [
        ("4,steps=50", 1),
        ("5x4x6,steps=200,residual=3", 2),
        ("4x8x4,steps=120,dims=2", 6),
        ("4,steps=90,dims=1,open", 5),
        ("4x5x6,steps=90,residual=2,open", 12),
        ("6,steps=333,dims=2,residual=10", 4),
    ] {
        verified(&halo(text), ranks);
    }
}

#[test]
fn a_sweep_multiplies_the_wave_by_its_factor() {
    for text in ["6x5x4", "6x5x4,open"] {
        let halo = halo(text);
        let wave = Wave::new(&halo, 1);
        let edges = halo.cells.map(u64::from);
        let at = |cell: [i64; 3]| {
            let border = (0..3).any(|d| cell[d] < 0 || cell[d] >= edges[d] as i64);
            match (border, halo.periodic) {
                (true, false) => 0.0,
                _ => wave.at(std::array::from_fn(|d| {
                    cell[d].rem_euclid(edges[d] as i64) as u64
                })),
            }
        };
        for x in 0..6 {
            for y in 0..5 {
                for z in 0..4 {
                    let mut sum = 0.0;
                    for d in 0..3 {
                        for step in [-1, 1] {
                            let mut there = [x, y, z];
                            there[d] += step;
                            sum += at(there);
                        }
                    }
                    let want = wave.factor * at([x, y, z]);
                    assert!((sum / 6.0 - want).abs() < 1e-15, "{text}: {x} {y} {z}");
                }
            }
        }
    }
}

#[test]
fn a_border_from_the_wrong_side_or_of_the_step_before_is_found() {
    let halo = halo("8");
    let wave = Wave::new(&halo, 1);
    let swept = |fill: fn(&mut Block, usize)| {
        let mut block = Block::new(&halo, 1, 0);
        block.set(&wave);
        for _ in 0..2 {
            (0..3).for_each(|d| fill(&mut block, d));
            block.sweep();
        }
        block.distance(&wave, wave.left(2))
    };
    assert!(swept(Block::wrap) < 1e-15);
    let wrong = |block: &mut Block, d: usize| {
        for upwards in [false, true] {
            let mut bytes = Vec::new();
            block.put_face(d, upwards, &mut bytes);
            block.take_face(d, upwards, &bytes);
        }
    };
    assert!(swept(wrong) > 1e-3);
    let never = |_: &mut Block, _: usize| ();
    assert!(swept(never) > 1e-3);
}

#[test]
fn one_wrong_cell_of_one_rank_is_an_error_on_all() {
    let halo = halo("4,steps=10");
    let halt = AtomicBool::new(false);
    let errors = on_ranks(4, |fabric| {
        let mut worker = Worker::new(&halo, fabric);
        if fabric.rank().get() == 2 {
            worker.block.spoil();
        }
        let done = halo.timed(fabric, &mut worker, &halt, &mut |_| ());
        done.unwrap_err().to_string()
    });
    for error in &errors {
        assert_eq!(error, &errors[0]);
        assert!(
            error.starts_with("verify halo:4,steps=10: a cell is"),
            "{error}"
        );
    }
}

#[test]
fn faces_are_mutual_and_of_the_same_size() {
    for (text, ranks) in [
        ("4x5x6", 12),
        ("4x5x6,open", 12),
        ("4x5x6,dims=1", 2),
        ("4x5x6,dims=2,open", 6),
    ] {
        let halo = halo(text);
        for rank in 0..ranks {
            for face in halo.faces(ranks, Rank::new(rank)) {
                let back = halo.faces(ranks, face.rank);
                let mirrored = back.iter().filter(|other| {
                    other.rank.get() == rank
                        && other.dimension == face.dimension
                        && other.upwards != face.upwards
                        && other.bytes == face.bytes
                });
                assert_eq!(mirrored.count(), 1, "{text}: {face:?}");
            }
        }
    }
    // Three by two by two ranks: 5 x 6 cells across the first dimension, plus the trailer.
    let faces = halo("4x5x6").faces(12, Rank::new(0));
    let told: Vec<(u32, u64)> = faces
        .iter()
        .map(|f| (f.rank.get(), f.bytes.get()))
        .collect();
    let (a, b, c) = (8 * 30 + 8, 8 * 24 + 8, 8 * 20 + 8);
    assert_eq!(told, [(8, a), (4, a), (2, b), (2, b), (1, c), (1, c)]);
    let open = halo("4x5x6,open").faces(12, Rank::new(0));
    assert_eq!(
        open.iter().map(|f| f.rank.get()).collect::<Vec<_>>(),
        [4, 2, 1]
    );
    assert!(halo("4").faces(1, Rank::new(0)).is_empty());
}

#[test]
fn times_add_up_and_collectives_are_those_that_were_asked_for() {
    for (text, collective) in [("8,steps=20", false), ("8,steps=20,residual=5", true)] {
        for ranks in [1, 4] {
            for done in verified(&halo(text), ranks) {
                let p = done.timed.parts;
                assert_eq!(p.collective + p.point_to_point + p.computation(), p.total);
                assert!(p.computation() > Nanos::ZERO);
                assert_eq!(p.collective > Nanos::ZERO, collective);
                assert_eq!(p.point_to_point > Nanos::ZERO, ranks > 1);
            }
        }
    }
}

#[test]
fn where_rank_0_is_halted_all_end_after_the_same_step_with_a_verified_result() {
    for (text, ranks) in [
        ("4,steps=100000", 6),
        ("4,steps=100000,dims=1,open,residual=2", 5),
        ("4,steps=100000", 1),
    ] {
        let halo = halo(text);
        let done = on_ranks(ranks, |fabric| {
            let halt = AtomicBool::new(fabric.rank().get() > 0);
            let leads = fabric.rank().get() == 0;
            halo.run(fabric, &halt, &mut |_| halt.store(leads, Ordering::Relaxed))
                .unwrap()
        });
        // Halted after 500 steps; the farthest rank is a few steps away.
        let steps = done[0].iterations;
        assert!((501..=510).contains(&steps), "{steps}");
        assert!(
            done.iter()
                .all(|d| d.iterations == steps && d.checksum == done[0].checksum)
        );
    }
}

#[test]
fn the_stated_memory_is_what_the_fields_and_messages_take() {
    for (text, ranks) in [
        ("4", 1),
        ("8,steps=5", 8),
        ("4x6x5,dims=1,steps=5", 3),
        ("4,open,steps=5", 27),
    ] {
        let halo = halo(text);
        let stated = halo.memory_per_rank(ranks).get() as usize;
        let held = on_ranks(ranks, |fabric| {
            let mut worker = Worker::new(&halo, fabric);
            let mut watch = Stopwatch::start(fabric);
            for step in 0..u64::from(halo.steps.min(5)) {
                worker.step(&mut watch, step, 1.0).unwrap();
            }
            worker.held()
        });
        // The rank in the middle has all faces.
        assert_eq!(held.iter().max(), Some(&stated), "{text}");
    }
}

proptest! {
    #[test]
    fn sizes_survive_being_written(
        cells in prop::array::uniform3(4_u32..200),
        steps in 1_u32..1_000,
        dims in 1_u32..=3,
        residual_every in 0_u32..20,
        periodic: bool,
    ) {
        let halo = Halo { cells, steps, dims, residual_every, periodic };
        prop_assert_eq!(halo.to_string().parse(), Ok(halo));
    }
}
