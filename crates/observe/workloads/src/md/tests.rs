//! The fluid as a whole: what physics and the decomposition guarantee.

use super::domain::{Domain, Energy, STEP};
use super::force::{CUTOFF, force_over_distance, potential};
use super::particles::{Particle, Particles, Vector};
use super::rank::{Plan, run as run_rank};
use super::{CELL, REACH, Step, cells_for, particles_in};
use crate::WorkloadError;
use crate::md::grid::Grid;
use crate::testing::on_ranks;
use idlewave_clock::Monotonic;
use idlewave_fabric::Endpoint;
use std::sync::atomic::AtomicBool;

/// One step; `rebuilt` counts rebuilt lists.
fn step(domain: &mut Domain, fabric: &mut Endpoint, rebuilt: &mut u32) {
    use idlewave_fabric::{Fabric, Reduction};
    domain.kick();
    domain.drift();
    let mut moved = [domain.moved_squared()];
    fabric
        .allreduce(&mut moved, Reduction::Max, &mut || ())
        .unwrap();
    if Domain::list_holds(moved[0]) {
        domain.refresh(fabric).unwrap();
    } else {
        *rebuilt += 1;
        domain.migrate(fabric).unwrap();
        domain.list();
    }
    domain.forces();
    domain.kick();
}

/// All particles by number, with their forces, after `steps` steps, and the number of rebuilt
/// lists.
fn after(
    shape: [u32; 3],
    cells: [u32; 3],
    seed: u64,
    steps: u32,
) -> (Vec<(Particle, Vector)>, u32) {
    let parts = on_ranks(shape.iter().product(), |fabric| {
        let mut domain = Domain::new(fabric, shape, cells, seed).unwrap();
        let mut rebuilt = 0;
        for _ in 0..steps {
            step(&mut domain, fabric, &mut rebuilt);
        }
        let p = &domain.particles;
        let all: Vec<_> = (0..p.own()).map(|i| (p.get(i), p.forces[i])).collect();
        (all, rebuilt)
    });
    let rebuilt = parts[0].1;
    assert!(parts.iter().all(|p| p.1 == rebuilt), "ranks disagree");
    let mut all: Vec<_> = parts.into_iter().flat_map(|p| p.0).collect();
    all.sort_by_key(|p| p.0.id);
    (all, rebuilt)
}

/// Forces and potential energy by summing over all pairs with all their images.
fn by_all_pairs(positions: &[Vector], length: Vector) -> (Vec<Vector>, f64) {
    let images = length.map(|l| (CUTOFF / l).ceil() as i32);
    let (mut forces, mut energy) = (vec![[0.0; 3]; positions.len()], 0.0);
    for (i, force) in forces.iter_mut().enumerate() {
        for there in positions {
            for x in -images[0]..=images[0] {
                for y in -images[1]..=images[1] {
                    for z in -images[2]..=images[2] {
                        let image = [x, y, z];
                        let away = [0, 1, 2].map(|d| {
                            let whole = ((positions[i][d] - there[d]) / length[d]).round();
                            positions[i][d] - there[d] - (whole + f64::from(image[d])) * length[d]
                        });
                        let square: f64 = away.iter().map(|a| a * a).sum();
                        if square > 0.0 && square < CUTOFF * CUTOFF {
                            energy += 0.5 * potential(square);
                            for d in 0..3 {
                                force[d] += force_over_distance(square) * away[d];
                            }
                        }
                    }
                }
            }
        }
    }
    (forces, energy)
}

/// Distance of two points in the periodic system: its largest component.
fn apart(a: &Vector, b: &Vector, length: Vector) -> f64 {
    (0..3)
        .map(|d| {
            let off = (a[d] - b[d]).rem_euclid(length[d]);
            off.min(length[d] - off)
        })
        .fold(0.0, f64::max)
}

fn energies(shape: [u32; 3], cells: [u32; 3], steps: u32, every: u32) -> Vec<Energy> {
    let mut all = on_ranks(shape.iter().product(), |fabric| {
        let mut domain = Domain::new(fabric, shape, cells, 3).unwrap();
        let mut energies = vec![domain.energy(fabric).unwrap()];
        for s in 1..=steps {
            step(&mut domain, fabric, &mut 0);
            if s % every == 0 {
                energies.push(domain.energy(fabric).unwrap());
            }
        }
        energies
    });
    let first = all.remove(0);
    assert!(all.iter().all(|e| *e == first), "ranks disagree on energy");
    first
}

#[test]
fn energy_is_conserved_over_two_thousand_steps() {
    for shape in [[1, 1, 1], [2, 1, 1]] {
        let cells = [4, 3, 3];
        let energies = energies(shape, cells, 2_000, 20);
        let first = energies[0];
        // Kinetic turns into potential energy while the lattice melts: more than half of it is
        // converted, but the sum stays.
        let moved = energies.iter().map(|e| (e.kinetic - first.kinetic).abs());
        assert!(moved.fold(0.0, f64::max) > 0.1 * first.kinetic);
        let drift = energies
            .iter()
            .map(|e| (e.total() - first.total()).abs() / first.kinetic)
            .fold(0.0, f64::max);
        // The force jumps by 0.039 at the cut-off, which a finite step misses: 1e-4 in these runs.
        assert!(
            drift < 1e-3,
            "energy drifts by {drift:e} of the kinetic energy"
        );
    }
}

#[test]
fn momentum_stays_zero() {
    let (particles, rebuilt) = after([2, 2, 1], [6, 6, 3], 9, 300);
    assert!(rebuilt > 2);
    for d in 0..3 {
        let sum: f64 = particles.iter().map(|p| p.0.velocity[d]).sum();
        assert!(sum.abs() < 1e-10, "{sum:e}");
    }
}

#[test]
fn forces_by_lists_are_those_of_all_pairs() {
    // In the second system a particle interacts with two images of the same neighbour.
    for (shape, cells) in [
        ([1, 1, 1], [4, 4, 4]),
        ([1, 1, 1], [2, 2, 2]),
        ([2, 1, 1], [4, 2, 3]),
        ([3, 2, 1], [5, 3, 2]),
    ] {
        for steps in [0, 7, 120] {
            let (particles, _) = after(shape, cells, 4, steps);
            let positions: Vec<Vector> = particles.iter().map(|p| p.0.position).collect();
            let (forces, _) = by_all_pairs(&positions, cells.map(|n| f64::from(n) * CELL));
            for (want, (_, got)) in forces.iter().zip(&particles) {
                for d in 0..3 {
                    assert!(
                        (want[d] - got[d]).abs() < 1e-9 * want[d].abs().max(1.0),
                        "{got:?} is not {want:?} ({shape:?}, {cells:?}, {steps} steps)"
                    );
                }
            }
        }
    }
}

#[test]
fn potential_energy_by_lists_is_that_of_all_pairs() {
    let cells = [4, 3, 3];
    let (particles, _) = after([1, 1, 1], cells, 3, 60);
    let positions: Vec<Vector> = particles.iter().map(|p| p.0.position).collect();
    let (_, want) = by_all_pairs(&positions, cells.map(|n| f64::from(n) * CELL));
    for shape in [[1, 1, 1], [2, 1, 1]] {
        let got = energies(shape, cells, 60, 60)[1].potential;
        assert!(
            (got - want).abs() < 1e-9 * want.abs(),
            "{got} is not {want}"
        );
    }
}

#[test]
fn the_number_of_ranks_does_not_change_the_trajectories() {
    let cells = [6, 6, 6];
    let (alone, rebuilt) = after([1, 1, 1], cells, 21, 250);
    assert!(rebuilt >= 3, "{rebuilt}");
    let shapes: &[[u32; 3]] = match idlewave_mpi::testing::long() {
        true => &[[2, 1, 1], [2, 2, 1], [1, 1, 4], [2, 2, 2]],
        false => &[[1, 1, 4], [2, 2, 2]],
    };
    for &shape in shapes {
        let (shared, again) = after(shape, cells, 21, 250);
        assert_eq!(again, rebuilt);
        assert_eq!(shared.len(), alone.len(), "particles got lost on {shape:?}");
        let mut largest = 0.0_f64;
        for ((a, _), (b, _)) in alone.iter().zip(&shared) {
            assert_eq!(a.id, b.id);
            largest = largest.max(apart(&a.position, &b.position, [12.0; 3]));
        }
        // Sums of forces round differently, and the system is chaotic: a few 1e-14 here.
        assert!(largest < 1e-11, "{largest:e} apart on {shape:?}");
    }
}

#[test]
fn the_same_run_twice_is_the_same_to_the_bit() {
    let once = after([2, 2, 1], [4, 4, 3], 8, 100);
    assert_eq!(once, after([2, 2, 1], [4, 4, 3], 8, 100));
    assert_ne!(once.0, after([2, 2, 1], [4, 4, 3], 9, 100).0);
}

#[test]
fn particles_go_over_faces_edges_and_corners_to_their_boxes() {
    for shape in [[2, 2, 2], [3, 3, 3], [2, 3, 1]] {
        // One particle near each corner of the system, flying outwards along the diagonal, and one
        // at rest in each box.
        let length = [9.0, 9.0, 9.0];
        let outwards = |corner: u32| {
            let out = [0, 1, 2].map(|d| if corner >> d & 1 == 1 { 1.0 } else { -1.0 });
            (
                [0, 1, 2].map(|d| if out[d] > 0.0 { 8.99 } else { 0.01 }),
                out.map(|o| 20.0 * o),
            )
        };
        let arrived = on_ranks(shape.iter().product(), |fabric| {
            use idlewave_fabric::PointToPoint;
            let grid = Grid::new(shape, fabric.rank());
            let mut particles = Particles::default();
            let own = |p: &Vector| {
                (0..3).all(|d| super::lattice::box_of(&grid, d, p[d], length[d]) == grid.index(d))
            };
            for corner in 0..8 {
                let (position, velocity) = outwards(corner);
                if own(&position) {
                    particles.push(Particle {
                        id: u64::from(corner),
                        position,
                        velocity,
                    });
                }
            }
            let mut domain = Domain::of_particles(grid, length, particles).unwrap();
            domain.drift();
            domain.migrate(fabric).unwrap();
            let p = &domain.particles;
            assert!(p.positions[..p.own()].iter().all(own));
            (0..p.own()).map(|i| p.get(i)).collect::<Vec<_>>()
        });
        let mut all: Vec<Particle> = arrived.into_iter().flatten().collect();
        all.sort_by_key(|p| p.id);
        assert!(all.iter().map(|p| p.id).eq(0..8));
        for p in &all {
            let (position, velocity) = outwards(p.id as u32);
            let want = [0, 1, 2].map(|d| (position[d] + STEP * velocity[d]).rem_euclid(length[d]));
            assert!(apart(&p.position, &want, length) < 1e-12);
            assert_eq!(p.velocity, velocity);
        }
    }
}

#[test]
fn a_particle_that_flies_apart_is_an_error_not_a_lost_particle() {
    for far in [f64::NAN, 1e9] {
        let ends = on_ranks(2, |fabric| {
            use idlewave_fabric::Fabric;
            let mut domain = Domain::new(fabric, [2, 1, 1], [4, 2, 2], 1).unwrap();
            domain.particles.velocities[0] = [far; 3];
            domain.drift();
            assert!(!Domain::list_holds(domain.moved_squared()));
            let end = domain.migrate(fabric);
            if end.is_err() {
                fabric.fail();
            }
            let _ = fabric.barrier(&mut || ());
            end
        });
        assert!(
            ends.iter()
                .any(|e| matches!(e, Err(WorkloadError::Unstable)))
        );
    }
}

#[test]
fn a_box_narrower_than_the_reach_is_refused_with_its_width() {
    let refused = on_ranks(2, |fabric| {
        Domain::new(fabric, [2, 1, 1], [2, 2, 2], 1).map(|_| ())
    });
    for error in refused {
        let text = error.unwrap_err().to_string();
        assert!(text.contains("2 sigma") && text.contains("2.8"), "{text}");
    }
}

#[test]
fn sizes_are_those_of_the_study() {
    assert_eq!(cells_for(500_000), 50);
    assert_eq!(particles_in(50), 500_000);
    assert_eq!(f64::from(cells_for(1)) * CELL, 4.0);
    const { assert!(2.0 * CELL >= REACH) };
}

#[test]
fn every_step_is_recorded_by_every_rank_and_all_end_after_the_same_one() {
    let halt = AtomicBool::new(false);
    let plan = Plan {
        cells: 3,
        steps: 60,
        duration: u64::MAX,
        energy_every: 25,
        seed: 5,
        halt: &halt,
    };
    let ranks = on_ranks(4, |fabric| {
        let mut steps: Vec<Step> = Vec::new();
        let done = run_rank(fabric, Monotonic, &plan, |s| steps.push(s)).unwrap();
        (done, steps)
    });
    for (done, steps) in &ranks {
        assert_eq!(done.steps, 60);
        assert_eq!(steps.len(), 61);
        assert_eq!(done.particles, 4 * particles_in(3));
        for pair in steps.windows(2) {
            let [s, next] = pair else { unreachable!() };
            assert!(s.begin <= s.exchange && s.exchange <= s.list && s.list <= s.force);
            assert!(s.force <= next.begin);
        }
        assert_eq!(steps[60].begin, done.end);
        let rebuilt = steps.iter().filter(|s| s.list != s.force).count() as u64;
        assert!(rebuilt <= done.rebuilds && done.rebuilds > 0);
        let energy = done.energy.unwrap();
        assert_eq!(energy, ranks[0].0.energy.unwrap());
        assert!(energy.largest < 1e-3 * energy.first.kinetic);
    }
}

#[test]
fn a_run_that_is_halted_ends_on_all_ranks_after_the_same_step() {
    for (duration, halted) in [(0, false), (u64::MAX, true)] {
        let halt = AtomicBool::new(halted);
        let plan = Plan {
            cells: 2,
            steps: 1_000_000,
            duration,
            energy_every: 0,
            seed: 5,
            halt: &halt,
        };
        for done in on_ranks(3, |fabric| {
            run_rank(fabric, Monotonic, &plan, |_| ()).unwrap()
        }) {
            assert_eq!((done.steps, done.energy), (1, None));
        }
    }
}
