//! Blocks and partners, the matrix against its definition, what is solved, and memory.

use super::layout::Layout;
use super::matrix::{Definition, Matrix};
use super::{Cg, RowSums, dot};
use crate::npb::Class;
use crate::npb::kernel::Kernel;
use crate::stopwatch::Stopwatch;
use crate::testing::on_ranks;
use idlewave_units::Rank;

fn layouts(order: u32, ranks: u32) -> Vec<Layout> {
    (0..ranks)
        .map(|rank| Layout::of(order, rank, ranks))
        .collect()
}

#[test]
fn blocks_cover_the_matrix_once_and_what_a_rank_sums_up_are_its_partners_columns() {
    for (order, ranks) in [
        (12, 1),
        (12, 2),
        (13, 4),
        (23, 8),
        (23, 16),
        (1_400, 32),
        (97, 64),
    ] {
        let all = layouts(order, ranks);
        let mut covered = vec![0; (order * order) as usize];
        for layout in &all {
            for row in layout.rows.clone() {
                for column in layout.columns.clone() {
                    covered[(row * order + column) as usize] += 1;
                }
            }
        }
        assert!(covered.iter().all(|&times| times == 1), "{order} {ranks}");
        for (rank, layout) in all.iter().enumerate() {
            let rank = Rank::new(rank as u32);
            let other = &all[layout.transposed().get() as usize];
            assert_eq!(other.transposed(), rank);
            let first = layout.rows.start as usize;
            let own = layout.own();
            let columns = other.columns.start as usize..other.columns.end as usize;
            assert_eq!(first + own.start..first + own.end, columns);
            for (step, partner) in layout.partners().enumerate() {
                let partner = &all[partner.get() as usize];
                assert_eq!(partner.rows, layout.rows);
                assert_eq!(partner.partners().nth(step), Some(rank));
                let passed = if step == 0 {
                    layout.other()
                } else {
                    own.clone()
                };
                assert_eq!(partner.own(), passed, "step {step} of {ranks}");
            }
        }
    }
}

/// A block's matrix, dense: what it gives for every unit vector.
fn dense(matrix: &Matrix, layout: &Layout) -> Vec<Vec<f64>> {
    let (rows, columns) = (layout.rows.len(), layout.columns.len());
    let column = |at: usize| {
        let mut unit = vec![0.0; columns];
        unit[at] = 1.0;
        let mut product = vec![f64::NAN; rows];
        matrix.times(&unit, &mut product);
        product
    };
    (0..columns).map(column).collect()
}

#[test]
fn without_random_elements_the_matrix_is_diagonal_with_falling_weights() {
    let definition = Definition {
        order: 8,
        nonzeros: 0,
        shift: 3.0,
    };
    let layout = Layout::of(8, 0, 1);
    for (at, column) in dense(&Matrix::new(definition, &layout), &layout)
        .iter()
        .enumerate()
    {
        for (row, &found) in column.iter().enumerate() {
            let weight = 0.1_f64.powf(at as f64 / 8.0);
            let expected = if row == at {
                0.25 * weight + 0.1 - 3.0
            } else {
                0.0
            };
            assert!(
                (found - expected).abs() < 1e-14,
                "{row} {at}: {found} for {expected}"
            );
        }
    }
}

#[test]
fn the_matrix_is_symmetric_and_blocks_are_parts_of_it() {
    let definition = Definition {
        order: 53,
        nonzeros: 4,
        shift: 2.0,
    };
    let whole = Layout::of(53, 0, 1);
    let all = dense(&Matrix::new(definition, &whole), &whole);
    let mut elements = 0;
    for (at, column) in all.iter().enumerate() {
        for (row, &here) in column.iter().enumerate() {
            let there = all[row][at];
            assert!((here - there).abs() < 1e-15, "{here} {there}");
            elements += usize::from(here != 0.0);
        }
    }
    // 20 off the diagonal per vector, few of them in the same place.
    assert!((900..=53 * 21).contains(&elements), "{elements}");
    for ranks in [2, 4, 8] {
        for layout in layouts(53, ranks) {
            let block = dense(&Matrix::new(definition, &layout), &layout);
            for (column, of) in layout.columns.clone().zip(&block) {
                for (row, &found) in layout.rows.clone().zip(of) {
                    assert_eq!(all[column as usize][row as usize], found);
                }
            }
        }
    }
}

#[test]
fn sums_of_rows_arrive_where_they_are_columns() {
    for ranks in [1, 2, 4, 8, 16] {
        let order = 21;
        on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let layout = Layout::of(order, watch.rank().get(), ranks);
            let columns = 1 << ranks.ilog2().div_ceil(2);
            let mut sums = RowSums {
                own: layout.rows.clone().map(f64::from).collect(),
                received: vec![0.0; layout.received()],
            };
            let mut found = vec![0.0; layout.columns.len()];
            layout
                .exchange(&mut watch, &mut sums, &mut found)
                .expect("no rank fails");
            let expected = layout.columns.clone().map(|row| f64::from(row * columns));
            assert_eq!(found, expected.collect::<Vec<_>>());
            let all = layout.sum(&mut watch, [dot(&found, &vec![1.0; found.len()])]);
            let expected = columns * order * (order - 1) / 2;
            assert_eq!(all.expect("no rank fails"), [f64::from(expected)]);
        });
    }
}

#[test]
fn the_linear_system_is_solved() {
    for ranks in [1, 4] {
        on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let mut cg = Cg::new(Class::S, &mut watch).expect("no rank fails");
            let residual = cg.power_step(&mut watch).expect("no rank fails");
            // The start vector has a norm of 37.
            assert!(residual < 1e-11, "{residual:e}");
        });
    }
}

#[test]
fn the_stated_memory_is_what_the_arrays_take() {
    // How far the most elements may be above those of the fullest block: the fewer, the more.
    for (class, ranks, above) in [
        (Class::W, 1, 1.001),
        (Class::W, 2, 1.05),
        (Class::S, 8, 1.15),
        (Class::S, 64, 1.5),
    ] {
        let stated = Cg::memory_per_rank(class, ranks).get() as usize;
        let layout = Layout::of(class.definition().order, 0, ranks);
        let most = class.definition().most_elements(&layout) as usize;
        let blocks: Vec<_> = (0..ranks)
            .map(|rank| Cg::empty(class, rank, ranks))
            .collect();
        let held = blocks.iter().map(|cg| {
            // And a message each way.
            cg.held() + 2 * 8 * cg.layout.received() - 12 * cg.matrix.elements()
        });
        assert_eq!(held.max(), Some(stated - 12 * most), "{class} {ranks}");
        let fullest = blocks.iter().map(|cg| cg.matrix.elements()).max();
        let ratio = most as f64 / fullest.expect("there are ranks") as f64;
        assert!(
            (1.0..above).contains(&ratio),
            "{class} {ranks}: {most} for {fullest:?}"
        );
    }
}
