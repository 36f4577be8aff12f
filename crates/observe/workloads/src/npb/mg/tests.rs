//! Shares and partners, operators against their definition, the same result to the bit on any number
//! of ranks, and memory.

use super::field::Field;
use super::level::{Level, Waking, sides};
use super::operators::{Lines, interpolate, norms, residual, restrict, smooth};
use super::{Mg, charges, plane};
use crate::npb::Class;
use crate::npb::kernel::Kernel;
use crate::randlc::Randlc;
use crate::stopwatch::Stopwatch;
use crate::testing::on_ranks;
use idlewave_units::Rank;

#[test]
fn shares_cover_every_level_once_and_neighbours_agree() {
    for ranks in [1, 2, 4, 16, 128, 512] {
        let all: Vec<_> = (0..ranks).map(|rank| Level::all(5, rank, ranks)).collect();
        for k in 0..5 {
            let mut covered = vec![0; 1 << (3 * (k + 1))];
            for (rank, levels) in all.iter().enumerate() {
                let (rank, level) = (Rank::new(rank as u32), &levels[k]);
                let cells =
                    |axis: usize| level.before[axis]..level.before[axis] + level.cells[axis];
                for z in cells(2) {
                    for y in cells(1) {
                        for x in cells(0) {
                            covered[(((z << (k + 1)) + y) << (k + 1)) + x] += 1;
                        }
                    }
                }
                for axis in 0..3 {
                    if let (true, Some([below, above])) =
                        (level.is_active(), level.neighbours[axis])
                    {
                        let of = |other: Rank| &all[other.get() as usize][k];
                        let edge = 1 << (k + 1);
                        let end = level.before[axis] + level.cells[axis];
                        assert_eq!(of(above).before[axis], end % edge, "level {k} of {ranks}");
                        assert_eq!(of(above).neighbours[axis].map(|n| n[0]), Some(rank));
                        assert!(of(below).is_active());
                    }
                    if k == 4 || !levels[k + 1].is_active() {
                        continue;
                    }
                    if let Waking::Take([below, above]) = level.waking[axis] {
                        let of = |other: Rank| all[other.get() as usize][k].waking[axis];
                        assert!(matches!(of(below), Waking::Give([_, to]) if to == rank));
                        assert!(matches!(of(above), Waking::Give([to, _]) if to == rank));
                    }
                }
            }
            assert!(
                covered.iter().all(|&times| times == 1),
                "level {k} of {ranks}"
            );
        }
        assert_eq!(sides(ranks).iter().product::<u32>(), ranks);
    }
}

/// A field of random numbers from -1 to 1, border included.
fn random(cells: [usize; 3], seed: u64) -> Field {
    let mut field = Field::new(cells);
    let mut random = Randlc::new(2 * seed + 1).skip(100);
    let [_, ny, nz] = field.sides;
    for z in 0..nz {
        for y in 0..ny {
            field
                .row_mut(y, z)
                .fill_with(|| 2.0 * random.next_unit() - 1.0);
        }
    }
    field
}

fn each(cells: [usize; 3], mut each: impl FnMut([usize; 3])) {
    let [nx, ny, nz] = cells;
    for z in 1..=nz {
        for y in 1..=ny {
            (1..=nx).for_each(|x| each([x, y, z]));
        }
    }
}

fn at(field: &Field, [x, y, z]: [usize; 3]) -> f64 {
    field.row(y, z)[x]
}

/// The weighted sum of the 27 cells around one, by definition.
fn around(field: &Field, cell: [usize; 3], weights: [f64; 4]) -> f64 {
    let mut sum = 0.0;
    for from in 0..27 {
        let step = [from % 3, from / 3 % 3, from / 9];
        let away = step.iter().filter(|&&step| step != 1).count();
        let other = std::array::from_fn(|axis| cell[axis] + step[axis] - 1);
        sum += weights[away] * at(field, other);
    }
    sum
}

const CELLS: [usize; 3] = [6, 4, 8];

#[test]
fn the_residual_is_the_right_hand_side_less_the_laplacian() {
    let (u, v, before) = (random(CELLS, 1), random(CELLS, 2), random(CELLS, 3));
    let mut lines = Lines::new(8);
    for v in [Some(&v), None] {
        let mut r = before.clone();
        residual(&u, v, &mut r, &mut lines);
        let v = v.unwrap_or(&before);
        each(CELLS, |cell| {
            let laplacian = around(&u, cell, [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0]);
            let off = at(&r, cell) - (at(v, cell) - laplacian);
            assert!(off.abs() < 1e-14, "{cell:?}: {off:e}");
        });
    }
}

#[test]
fn the_smoother_is_added() {
    for class in [Class::S, Class::B] {
        let (r, before) = (random(CELLS, 1), random(CELLS, 2));
        let mut u = before.clone();
        let [a, b, c] = class.smoother();
        smooth(&r, &mut u, [a, b, c], &mut Lines::new(8));
        each(CELLS, |cell| {
            let off = at(&u, cell) - at(&before, cell) - around(&r, cell, [a, b, c, 0.0]);
            assert!(off.abs() < 1e-14, "{cell:?}: {off:e}");
        });
    }
}

#[test]
fn every_second_cell_becomes_a_coarse_one() {
    for (fine, coarse, odd) in [
        (CELLS, [3, 2, 4], [0; 3]),
        ([1, 1, 4], [1, 1, 2], [1, 1, 0]),
    ] {
        let r = random(fine, 1);
        let mut s = Field::new(coarse);
        restrict(&r, &mut s, odd, &mut Lines::new(8));
        each(coarse, |cell| {
            let fine = std::array::from_fn(|axis| 2 * cell[axis] - odd[axis]);
            let off = at(&s, cell) - around(&r, fine, [0.5, 0.25, 0.125, 0.0625]);
            assert!(off.abs() < 1e-14, "{cell:?}: {off:e}");
        });
    }
}

#[test]
fn coarse_values_are_interpolated_linearly_between() {
    // A share with several cells; one that keeps its cell; and one that has none of the coarse.
    for (coarse, fine, odd) in [
        ([3, 2, 4], CELLS, [0; 3]),
        ([1, 1, 2], [1, 1, 4], [1, 1, 0]),
        ([0, 1, 0], [1, 1, 1], [0, 1, 0]),
    ] {
        let (z, before) = (random(coarse, 1), random(fine, 2));
        let mut u = before.clone();
        interpolate(&z, &mut u, odd, &mut Lines::new(8));
        let [nx, ny, nz] = u.sides;
        for cell in (0..nx * ny * nz).map(|i| [i % nx, i / nx % ny, i / nx / ny]) {
            let mut sum = 0.0;
            for corner in 0..8 {
                let upper = [corner & 1, corner >> 1 & 1, corner >> 2];
                let from = std::array::from_fn(|axis| {
                    let twice = cell[axis] + odd[axis];
                    (twice + upper[axis]) / 2
                });
                sum += at(&z, from) / 8.0;
            }
            let off = at(&u, cell) - at(&before, cell) - sum;
            assert!(off.abs() < 1e-14, "{cell:?}: {off:e}");
        }
    }
}

#[test]
fn norms_are_those_of_own_cells() {
    let cells = [11, 3, 2];
    let mut r = random(cells, 4);
    r.row_mut(0, 0).fill(9.0);
    r.row_mut(2, 1)[5] = -3.0;
    let mut expected = (0.0, 0.0_f64);
    each(cells, |cell| {
        expected.0 += at(&r, cell).powi(2);
        expected.1 = expected.1.max(at(&r, cell).abs());
    });
    let found = norms(&r);
    assert!((found.0 - expected.0).abs() < 1e-13);
    assert_eq!((found.1, expected.1), (3.0, 3.0));
    r.row_mut(1, 1)[1] = f64::NAN;
    assert!(norms(&r).0.is_nan());
}

#[test]
fn charges_are_where_the_random_numbers_are_largest_and_smallest() {
    let mut sequence = Randlc::new(314_159_265);
    let mut numbers: Vec<(f64, usize)> = (0..1 << 15)
        .map(|cell| (sequence.next_unit(), cell))
        .collect();
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut expected = vec![0.0; 1 << 15];
    numbers[..10]
        .iter()
        .for_each(|&(_, cell)| expected[cell] = -1.0);
    numbers[(1 << 15) - 10..]
        .iter()
        .for_each(|&(_, cell)| expected[cell] = 1.0);
    for ranks in [1, 8] {
        on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let levels = Level::all(5, watch.rank().get(), ranks);
            let level = &levels[4];
            let mut v = Field::new(level.cells);
            v.row_mut(1, 1).fill(7.0);
            charges::set(&mut watch, level, 32, &mut v).expect("no rank fails");
            each(level.cells, |cell| {
                let [x, y, z]: [usize; 3] =
                    std::array::from_fn(|axis| level.before[axis] + cell[axis] - 1);
                assert_eq!(at(&v, cell), expected[(z * 32 + y) * 32 + x], "{cell:?}");
            });
        });
    }
}

#[test]
fn a_cycle_gives_the_same_bits_on_any_number_of_ranks() {
    let after = |ranks: u32| {
        on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            Mg::new(Class::S, &mut watch).expect("no rank fails")
        })
    };
    let one = after(1).remove(0);
    let finest = one.levels.len() - 1;
    // With 16, one rank of two along the last axis has no cell of the coarsest level; with 64, of all
    // axes; with 128, of the two coarsest levels.
    for ranks in [2, 16, 64, 128] {
        for mg in after(ranks) {
            let level = &mg.levels[finest];
            each(level.cells, |cell| {
                let place = std::array::from_fn(|axis| level.before[axis] + cell[axis]);
                let (found, expected) = (at(&mg.r[finest], cell), at(&one.r[finest], place));
                assert_eq!(found.to_bits(), expected.to_bits(), "{place:?} on {ranks}");
            });
        }
    }
}

#[test]
fn the_stated_memory_is_what_the_arrays_take() {
    for ranks in [1, 2, 8, 64, 512] {
        let stated = Mg::memory_per_rank(Class::S, ranks).get() as usize;
        let held = (0..ranks).map(|rank| {
            let mg = Mg::empty(Class::S, rank, ranks);
            // And two messages each way, and 20 charges of 16 bytes from every rank.
            mg.held() + 4 * 8 * plane(mg.levels[4].cells, ranks) + 320 * ranks as usize
        });
        assert_eq!(held.max(), Some(stated), "{ranks}");
    }
}
