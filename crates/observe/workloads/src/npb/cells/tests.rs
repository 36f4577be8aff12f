//! Cells, their exchange and the right-hand side against closed forms.

use super::cell::{BORDER, Cell};
use super::flow::Flow;
use super::partition::Partition;
use super::rhs::Terms;
use crate::npb::cfd::{exact_solution, initial_solution};
use crate::stopwatch::Stopwatch;
use crate::testing::on_ranks;
use idlewave_units::Rank;
use std::collections::BTreeSet;

#[test]
fn ranks_share_all_cells_and_each_has_one_in_every_slice() {
    for side in 1..=5_u32 {
        let of = |rank| Partition::new(Rank::new(rank), side * side);
        let mut all = BTreeSet::new();
        for rank in 0..side * side {
            let places: Vec<_> = of(rank).places().collect();
            for d in 0..3 {
                let slices: BTreeSet<_> = places.iter().map(|place| place[d]).collect();
                assert_eq!(slices.len() as u32, side);
                let [next, before] = of(rank).neighbours(d);
                assert_eq!(of(next.get()).neighbours(d)[1], Rank::new(rank));
                assert_eq!(of(before.get()).neighbours(d)[0], Rank::new(rank));
                for place in &places {
                    let mut beyond = *place;
                    beyond[d] += 1;
                    let outside = beyond[d] as u32 == side;
                    assert!(outside || of(next.get()).places().any(|place| place == beyond));
                }
            }
            all.extend(places);
        }
        assert_eq!(all.len() as u32, side.pow(3));
    }
}

/// All cells of a grid that is cut into `side` cells along each direction.
fn cells(side: usize, grid: usize) -> Vec<Cell> {
    let places = (0..side.pow(3)).map(|i| [i % side, i / side % side, i / side / side]);
    places.map(|place| Cell::new(place, side, grid)).collect()
}

fn largest(cell: &Cell, rhs: bool) -> f64 {
    let all = cell.rows().flat_map(|row| {
        let of = if rhs { &cell.rhs } else { &cell.forcing };
        let largest = |row: &[f64]| row.iter().fold(0.0, |most: f64, r| most.max(r.abs()));
        of.rows(row).map(largest)
    });
    all.fold(0.0, f64::max)
}

#[test]
fn the_exact_solution_is_steady_and_the_start_is_not() {
    let terms = Terms::new(12, 0.01);
    for side in [1, 2, 3] {
        for mut cell in cells(side, 12) {
            cell.set(exact_solution);
            cell.set_forcing(&terms);
            assert!(largest(&cell, false) > 1e-2);
            cell.derive();
            cell.compute_rhs(&terms);
            assert!(largest(&cell, true) < 1e-13);
            cell.set(initial_solution);
            cell.derive();
            cell.compute_rhs(&terms);
            assert!(largest(&cell, true) > 1e-3);
        }
    }
}

#[test]
fn terms_are_those_of_the_equations() {
    // Far from the boundary and without forcing. Differences of second order are exact for these.
    let (grid, dt) = (20, 0.01);
    let h = 1.0 / f64::from(grid - 1);
    let terms = Terms::new(grid, dt);
    let mut cell = Cell::new([1; 3], 3, grid as usize);
    let mut rate = |solution: &dyn Fn(f64, f64, f64) -> [f64; 5]| {
        cell.set(solution);
        cell.derive();
        cell.compute_rhs(&terms);
        let at = cell.first + 2 * cell.steps.iter().sum::<usize>();
        cell.rhs.at(at).map(|rate| rate / dt)
    };
    let near = |found: [f64; 5], wanted: [f64; 5]| {
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
    };
    // A uniform gas stays as it is.
    near(rate(&|_, _, _| [2.0, 0.3, -0.4, 0.5, 3.0]), [0.0; 5]);
    for d in 0..3 {
        let along = move |x, y, z| [x, y, z][d];
        let dissipation = [0.75, 0.75, 1.0][d];
        // A gas at rest whose pressure grows: it is pushed back. C2 * 5.
        let mut wanted = [0.0; 5];
        wanted[1 + d] = -2.0;
        near(
            rate(&|x, y, z| [1.0, 0.0, 0.0, 0.0, 9.0 + 5.0 * along(x, y, z)]),
            wanted,
        );
        // Energy conducted, and dissipated: C3 C4 C1 C5 and the dissipation, times the second
        // derivative.
        let energy = |x, y, z| 9.0 + 5.0 * f64::powi(along(x, y, z) - 9.0 * h, 2);
        let found = rate(&|x, y, z| [1.0, 0.0, 0.0, 0.0, energy(x, y, z)]);
        assert!(
            (found[4] - 10.0 * (0.196 + dissipation)).abs() < 1e-9,
            "{found:?}"
        );
        // A flow along `d` that carries a momentum across it, uniform in density and pressure:
        // -v dm/dx.
        let other = 1 + (d + 1) % 3;
        let found = rate(&|x, y, z| {
            let mut state = [1.0, 0.0, 0.0, 0.0, 9.0];
            state[1 + d] = 0.5;
            state[other] = 2.0 * along(x, y, z);
            state
        });
        assert!((found[other] + 1.0).abs() < 1e-9, "{found:?}");
        assert!(found[0].abs() < 1e-9);
        // A flow that is sheared: viscosity and dissipation, times the second derivative.
        let found = rate(&|x, y, z| {
            let mut state = [1.0, 0.0, 0.0, 0.0, 9.0];
            state[other] = along(x, y, z).powi(2);
            state
        });
        assert!(
            (found[other] - 2.0 * (0.1 + dissipation)).abs() < 1e-9,
            "{found:?}"
        );
        // A flow that is diluted: mass is lost.
        let found = rate(&|x, y, z| {
            let mut state = [1.0, 0.0, 0.0, 0.0, 9.0];
            state[1 + d] = 0.25 * along(x, y, z);
            state
        });
        assert!((found[0] + 0.25).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn next_to_the_boundary_the_fourth_order_dissipation_has_another_stencil() {
    let (grid, dt) = (12, 0.01);
    let mut cell = Cell::new([0; 3], 1, grid);
    // A gas at rest whose energy is linear: nothing else changes it.
    for d in 0..3 {
        let energy = |at: f64| 9.0 + 5.0 * at / (grid - 1) as f64;
        cell.set(|x, y, z| [1.0, 0.0, 0.0, 0.0, 9.0 + 5.0 * [x, y, z][d]]);
        cell.derive();
        cell.compute_rhs(&Terms::new(grid as u32, dt));
        // Far from the other boundaries.
        let middle = cell.first + 4 * cell.steps.iter().sum::<usize>();
        for (first, step) in [(1.0, 1.0), (10.0, -1.0)] {
            let e = |away: f64| energy(first + step * away);
            let rate = |away: f64| {
                let to = (first + step * away) as isize - 5;
                let at = middle as isize + to * cell.steps[d] as isize;
                cell.rhs.at(at as usize)[4] / dt
            };
            let one = -0.25 * (5.0 * e(0.0) - 4.0 * e(1.0) + e(2.0));
            let two = -0.25 * (-4.0 * e(0.0) + 6.0 * e(1.0) - 4.0 * e(2.0) + e(3.0));
            assert!((rate(0.0) - one).abs() < 1e-9, "{d}: {} {one}", rate(0.0));
            assert!((rate(1.0) - two).abs() < 1e-9, "{d}: {} {two}", rate(1.0));
        }
    }
}

#[test]
fn faces_come_from_the_neighbours() {
    for ranks in [1, 4, 9, 25] {
        let right = on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let mut flow = Flow::new(12, 0.01, &watch);
            let before = flow.cells.clone();
            for (cell, exact) in flow.cells.iter_mut().zip(&before) {
                cell.set(|_, _, _| [f64::NAN; 5]);
                for row in cell.rows() {
                    for at in row {
                        cell.u.set(at, exact.u.at(at));
                    }
                }
            }
            flow.rhs(&mut watch).unwrap();
            for (cell, before) in flow.cells.iter().zip(&before) {
                for d in 0..3 {
                    for last in [false, true] {
                        if cell.ends[d][usize::from(last)] {
                            continue;
                        }
                        let step = BORDER * cell.steps[d];
                        for at in cell.layers(d, last, BORDER) {
                            let at = if last { at + step } else { at - step };
                            assert_eq!(cell.u.at(at), before.u.at(at));
                        }
                    }
                }
            }
            flow.cells.len()
        });
        assert!(right.iter().all(|cells| (cells * cells) as u32 == ranks));
    }
}
