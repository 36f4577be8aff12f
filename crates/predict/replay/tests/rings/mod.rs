//! Loops of made-up ranks, and what their messages cost.

use crate::made::Made;
use crate::made::world::{CALL, LATENCY, World};
use idlewave_replay::{Like, LikeOptions, like};
use idlewave_simulate::goal::Parameters;
use idlewave_units::Nanos;

pub const US: u64 = 1_000;
pub const STEPS: u64 = 20;
pub const WORK: u64 = 100 * US;

/// Ranks on a ring: they compute, exchange with the ranks `steps` away, and meet in an allreduce.
pub fn ring(ranks: u32, steps: &[i32]) -> World {
    let mut world = World::new(ranks);
    // Before the loop: not part of its work.
    world.compute_all(7 * WORK);
    for _ in 0..STEPS {
        world.compute_all(WORK);
        world.exchange(steps);
        world.compute_all(5 * US);
        meet(&mut world);
    }
    world
}

/// An allreduce that ends when its rounds are over, counted from its last member's entry.
pub fn meet(world: &mut World) {
    let ranks = world.now.len() as u32;
    let rounds = u64::from(ranks.next_power_of_two().trailing_zeros());
    let end = world.now.iter().max().unwrap() + rounds * LATENCY;
    let members: Vec<(u32, u64, u64)> = (0..ranks)
        .zip(&world.now)
        .map(|(r, &t)| (r, t, end))
        .collect();
    world.made.collective("MPI_Allreduce", 0, None, &members);
    world.now.fill(end);
}

/// What a message of the made-up world costs: [`LATENCY`] in total, of which [`CALL`] is the
/// sender's.
pub fn costs() -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(LATENCY - 2 * CALL),
        overhead: Nanos::from_nanos(CALL),
        ..Parameters::FREE
    }
}

pub fn options() -> LikeOptions {
    LikeOptions {
        costs: Some(costs()),
        ..LikeOptions::default()
    }
}

pub fn of(made: &Made, options: &LikeOptions) -> Like {
    like(&made.write().open(), options).unwrap()
}
