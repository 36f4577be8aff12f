//! LU's parts against what defines them: blocks against the derivative of the right-hand side, norms
//! and integrals against closed forms, ranks against one rank.

use super::block::Blocks;
use super::field::{Field, HALO};
use super::residual::Residual;
use super::share::{DIVIDED, Share};
use super::{Lu, RELAXATION, halo, norms};
use crate::Call;
use crate::npb::Class;
use crate::npb::cfd::{C2, DISSIPATION, State, exact_solution, initial_solution};
use crate::npb::kernel::Kernel;
use crate::stopwatch::Stopwatch;
use crate::testing::on_ranks;
use idlewave_units::Rank;

fn alone(grid: usize) -> Share {
    Share::new(grid, 1, Rank::new(0))
}

fn combine(a: &State, factor: f64, b: &State) -> State {
    std::array::from_fn(|m| a[m] + factor * b[m])
}

/// Largest difference, relative to the largest element.
fn distance(a: &State, b: &State) -> f64 {
    let largest = |s: &State| s.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    largest(&combine(a, -1.0, b)) / largest(b)
}

#[test]
fn blocks_are_the_derivative_of_the_right_hand_side_without_its_fourth_order_dissipation() {
    let share = alone(12);
    let mut residual = Residual::new(&share);
    let (mut u, mut low, mut high) = (Field::new(&share), Field::new(&share), Field::new(&share));
    let forcing = Field::new(&share);
    u.set(&share, initial_solution);
    let at = u.index([5, 6, 5]);
    let middle = u.states[at];
    let dt = 0.01;
    let blocks = Blocks::new(dt, 1.0 / 11.0, RELAXATION);
    let point = blocks.point(&middle);
    for s in [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
        [0.3, -0.4, 0.8, 0.5, -0.7],
    ] {
        // Central differences: their error is of second order in the distance.
        let far = 1e-4;
        for (sign, result) in [(-1.0, &mut low), (1.0, &mut high)] {
            u.states[at] = combine(&middle, sign * far, &s);
            residual.apply(&share, &u, &forcing, result);
        }
        let derivative = |index: usize, fourth: f64| {
            let rise = combine(&high.states[index], -1.0, &low.states[index]);
            combine(&rise.map(|x| x / (2.0 * far)), fourth * DISSIPATION, &s)
        };
        let down = blocks.passed_on::<false>(&point, &s);
        let up = blocks.passed_on::<true>(&point, &s);
        for d in 0..3 {
            for (found, neighbour) in [(up, at + u.strides[d]), (down, at - u.strides[d])] {
                let wanted = derivative(neighbour, -4.0).map(|x| RELAXATION * dt * x);
                assert!(distance(&found[d], &wanted) < 1e-7, "{s:?} along {d}");
            }
        }
        let product = combine(&s, -dt, &derivative(at, 3.0 * 6.0));
        assert!(
            distance(&blocks.solve(&point, &product), &s) < 1e-7,
            "{s:?}"
        );
    }
}

#[test]
fn the_result_is_the_same_to_the_bit_however_the_grid_is_divided() {
    let after = |ranks: u32| {
        let parts = on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let mut lu = Lu::new(Class::S, &mut watch).expect("set up");
            for iteration in 1..=3 {
                lu.iterate(&mut watch, iteration).expect("a step");
            }
            let [x, y, z] = lu.share.origin;
            let mut states = Vec::new();
            for k in 0..lu.share.size[2] {
                for j in 0..lu.share.size[1] {
                    let row = lu.u.row(0..lu.share.size[0], j, k);
                    let place = |i: usize| [z + k, y + j, x + i];
                    states.extend(row.iter().enumerate().map(|(i, s)| (place(i), *s)));
                }
            }
            states
        });
        let mut all = parts.concat();
        all.sort_by_key(|(place, _)| *place);
        all
    };
    let one = after(1);
    assert_eq!(one.len(), 12 * 12 * 12);
    for ranks in [2, 4, 8, 16] {
        assert!(after(ranks) == one, "{ranks} ranks");
    }
}

#[test]
fn the_neighbours_points_arrive_in_the_halo() {
    let value = |x: f64, y: f64, z: f64| [x, y, z, x * y, y - z];
    for ranks in [2, 4, 8] {
        on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let share = Share::new(13, ranks, watch.rank());
            let mut wanted = Field::new(&share);
            wanted.set(&share, value);
            let mut field = Field::new(&share);
            for k in 0..13 {
                for j in 0..share.size[1] {
                    let first = field.index([0, j, k]);
                    let row = wanted.row(0..share.size[0], j, k);
                    field.states[first..][..row.len()].copy_from_slice(row);
                }
            }
            halo::exchange(&mut field, &share, &mut Vec::new(), &mut watch).expect("arrives");
            // Around one own point, as far as the halo reaches.
            for d in DIVIDED {
                for upper in [false, true] {
                    let mut point = [0, 0, 7];
                    point[d] = if upper { share.size[d] - 1 } else { 0 };
                    for step in 1..=HALO {
                        let far = step * field.strides[d];
                        let at = field.index(point);
                        let at = if upper { at + far } else { at - far };
                        match share.neighbours[d][usize::from(upper)] {
                            Some(_) => assert_eq!(field.states[at], wanted.states[at]),
                            None => assert_eq!(field.states[at], [0.0; 5]),
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn every_point_has_one_rank_and_neighbours_are_mutual() {
    for (grid, ranks) in [(12, 1), (12, 2), (12, 16), (33, 8), (102, 64), (408, 128)] {
        let shares: Vec<_> = (0..ranks)
            .map(|rank| Share::new(grid, ranks, Rank::new(rank)))
            .collect();
        let points: usize = shares.iter().map(|s| s.size[0] * s.size[1]).sum();
        assert_eq!(points, grid * grid);
        let inner: usize = shares
            .iter()
            .map(|s| s.inner(0).len() * s.inner(1).len() * s.inner(2).len())
            .sum();
        assert_eq!(inner, (grid - 2).pow(3));
        for (rank, share) in shares.iter().enumerate() {
            for d in DIVIDED {
                assert!(share.size[d] >= 3);
                let end = share.origin[d] + share.size[d];
                match share.neighbours[d][1] {
                    None => assert_eq!(end, grid),
                    Some(other) => {
                        let other = &shares[other.get() as usize];
                        assert_eq!(other.origin[d], end);
                        assert_eq!(other.origin[1 - d], share.origin[1 - d]);
                        assert_eq!(other.size[1 - d], share.size[1 - d]);
                        assert_eq!(other.neighbours[d][0], Some(Rank::new(rank as u32)));
                    }
                }
                assert_eq!(share.origin[d] == 0, share.neighbours[d][0].is_none());
            }
        }
    }
    let most = Class::ALL.map(|class| Lu::allowed(class).most());
    assert_eq!(most, [16, 64, 256, 1024, 1024, 16_384]);
}

#[test]
fn a_constant_pressure_integrates_to_the_surface_of_the_box() {
    for ranks in [1, 4] {
        on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let share = Share::new(12, ranks, watch.rank());
            let mut u = Field::new(&share);
            // The pressure is 3 everywhere, at any velocity.
            let energy = 3.0 / C2;
            u.set(&share, |x, y, z| {
                let kinetic = 0.5 * (x * x + y * y + z * z) / 2.0;
                [2.0, x, y, z, energy + kinetic]
            });
            let found = norms::surface_integral(&u, &share, &mut watch).expect("a sum");
            let [a, b, c] = [9.0 / 11.0, 8.0 / 11.0, 8.0 / 11.0];
            assert!((found - 3.0 * 2.0 * (a * b + b * c + c * a)).abs() < 1e-12);
        });
    }
}

#[test]
fn norms_are_root_mean_squares_over_inner_points() {
    for ranks in [1, 8] {
        on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let share = Share::new(12, ranks, watch.rank());
            let mut u = Field::new(&share);
            let off = [0.5, -2.0, 0.0, 3.0, 1.0];
            u.set(&share, |_, _, _| off);
            let found = norms::norms(&u, &share, &mut watch).expect("a sum");
            assert!(distance(&found, &off.map(f64::abs)) < 1e-14);
            u.set(&share, |x, y, z| {
                combine(&exact_solution(x, y, z), -1.0, &off)
            });
            let found = norms::errors(&u, &share, &mut watch).expect("a sum");
            assert!(distance(&found, &off.map(f64::abs)) < 1e-13);
            // Points on the faces do not count.
            u.set(&share, |x, y, z| {
                let face = [x, y, z].iter().any(|&c| c == 0.0 || c == 1.0);
                [f64::from(u8::from(face)); 5]
            });
            let found = norms::norms(&u, &share, &mut watch).expect("a sum");
            assert_eq!(found, [0.0; 5]);
        });
    }
}

#[test]
fn a_step_sends_the_edge_of_every_plane_and_two_layers_of_every_face() {
    for ranks in [1, 2, 8] {
        let records = on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let mut lu = Lu::new(Class::S, &mut watch).expect("set up");
            watch.restart(1);
            lu.iterate(&mut watch, 1).expect("a step");
            (lu.share.clone(), watch.record())
        });
        for (share, record) in records {
            let planes = share.grid - 2;
            let (mut count, mut states) = (0, 0);
            for d in DIVIDED {
                // Each neighbour lies ahead in one of the sweeps.
                let neighbours = share.neighbours[d].iter().flatten().count();
                count += neighbours * (planes + 1);
                let edge = share.inner(1 - d).len();
                states += neighbours * (planes * edge + 2 * share.size[1 - d] * share.grid);
            }
            for call in [Call::Send, Call::Receive] {
                let calls = record.calls.of(call);
                assert_eq!(calls.count, count as u64, "{call:?} on {ranks}");
                assert_eq!(calls.bytes.get(), 40 * states as u64, "{call:?} on {ranks}");
            }
            assert_eq!(record.calls.of(Call::Allreduce).count, 0);
        }
    }
}

#[test]
fn the_stated_memory_is_what_the_arrays_take() {
    for (class, ranks) in [(Class::S, 1), (Class::S, 2), (Class::S, 8), (Class::W, 16)] {
        let held = on_ranks(ranks, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let mut lu = Lu::new(class, &mut watch).expect("set up");
            lu.iterate(&mut watch, class.steps()).expect("a step");
            assert_eq!(lu.held(), Lu::bytes(&lu.share), "{class} on {ranks}");
            lu.held() + 40 * halo::messages(&lu.share)
        });
        let stated = Lu::memory_per_rank(class, ranks).get() as usize;
        let most = held.into_iter().max().expect("a rank");
        match class {
            // Equal shares.
            Class::S => assert_eq!(most, stated, "on {ranks}"),
            _ => assert!((most..most * 5 / 4).contains(&stated), "{most} of {stated}"),
        }
    }
}
