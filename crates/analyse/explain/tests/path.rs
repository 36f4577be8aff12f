//! The critical path of synthetic programs, in which it is known.

#![allow(clippy::unwrap_used)]

use crate::made::world::{LATENCY, World};
use crate::made::{Explained, Made};
use idlewave_run::findings::PathFinding;
use proptest::prelude::*;

const US: u64 = 1_000;

fn path(found: &Explained) -> &PathFinding {
    &found.program().path
}

/// Time on the path by name of the source.
fn sources(found: &Explained) -> Vec<(&str, u64)> {
    let name = |source: u32| found.findings.sources[source as usize].name.as_str();
    let sources = path(found).sources.iter();
    sources.map(|&(s, time)| (name(s), time.get())).collect()
}

/// Ranks with their time on the path.
fn ranks(found: &Explained) -> Vec<(u32, u64)> {
    let ranks = path(found).ranks.iter();
    ranks.map(|(rank, time)| (rank.get(), time.get())).collect()
}

#[test]
fn it_goes_where_the_last_rank_waited_for() {
    // Rank 1 computes 100 us and loses 50 us to alpha; rank 0 waits for its message from 60 us on,
    // and computes 48 us after it. Beta strikes rank 0 before it waits, and rank 1 after its send:
    // neither costs anything.
    let mut made = Made::new(2);
    made.strike(1, (30 * US, 80 * US), 0);
    made.strike(0, (10 * US, 40 * US), 1);
    made.message(1, 0, (150 * US, 151 * US), (60 * US, 152 * US));
    made.strike(1, (155 * US, 175 * US), 1);
    made.finalize.insert(0, Some(200 * US));
    made.finalize.insert(1, Some(180 * US));
    let found = made.explain();
    let path = path(&found);
    assert_eq!(sources(&found), [("alpha", 50 * US)]);
    assert_eq!(ranks(&found), [(1, 150 * US), (0, 50 * US)]);
    assert_eq!(path.hops, 1);
    // From the arrival of the message to the end of the receive.
    assert_eq!(path.communicating.get(), 2 * US);
    assert_eq!(path.computing.get(), 148 * US);
}

#[test]
fn ranks_that_wait_for_nobody_have_the_path_of_the_last_one() {
    let mut made = Made::new(3);
    made.strike(2, (10 * US, 20 * US), 2);
    for (rank, end) in [(0, 90), (1, 70), (2, 80)] {
        made.finalize.insert(rank, Some(end * US));
    }
    let found = made.explain();
    assert_eq!(ranks(&found), [(0, 90 * US)]);
    assert_eq!(sources(&found), []);
    assert_eq!(path(&found).hops, 0);
}

#[test]
fn ranks_that_seem_to_wait_for_each_other_do_not_hold_it_up() {
    // Both enter the receive before either send is posted, as clocks that differ can make it look.
    let mut made = Made::new(2);
    made.message(0, 1, (50 * US, 51 * US), (10 * US, 50 * US));
    made.message(1, 0, (50 * US, 51 * US), (10 * US, 50 * US));
    made.finalize.insert(0, Some(60 * US));
    made.finalize.insert(1, Some(60 * US));
    let found = made.explain();
    let total: u64 = ranks(&found).iter().map(|r| r.1).sum();
    assert_eq!(total, 60 * US);
}

#[test]
fn a_chain_of_messages_is_followed_to_its_start() {
    // Each rank sends to the next one once it has heard from the one before.
    let mut world = World::new(4);
    world.strike(0, 40 * US, 0);
    world.compute(0, 10 * US);
    for _ in 0..3 {
        world.exchange(&[1]);
    }
    (0..4).for_each(|r| {
        world
            .made
            .finalize
            .extend([(r, Some(world.now[r as usize]))])
    });
    let found = world.made.explain();
    assert_eq!(sources(&found), [("alpha", 40 * US)]);
    assert_eq!(path(&found).hops, 3);
    // On the last three ranks, the path holds only the calls and the flight of the messages.
    assert!(path(&found).communicating.get() >= 3 * LATENCY);
    assert_eq!(path(&found).computing.get(), 10 * US);
}

#[test]
fn a_call_that_takes_longer_than_its_like_is_on_it_though_nobody_waits() {
    let mut made = Made::new(1);
    for i in 0..12 {
        let length = if i == 6 { 35 * US } else { 10 * US };
        made.call("MPI_Sendrecv", 0, (50 * i * US, 50 * i * US + length));
    }
    made.finalize.insert(0, Some(600 * US));
    let found = made.explain();
    assert_eq!(sources(&found), [("shared-memory transfer", 25 * US)]);
    assert_eq!(path(&found).communicating.get(), 120 * US);
    assert_eq!(path(&found).computing.get(), 455 * US);
}

/// What happens between two collectives: computation of all ranks, and strikes by rank and name.
type Step = (u64, Vec<(usize, usize)>, &'static str, usize);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let names = ["MPI_Barrier", "MPI_Bcast", "MPI_Reduce", "MPI_Scan"];
    let strikes = proptest::collection::vec((0usize..4, 0usize..2), 0..4);
    let name = proptest::sample::select(names.to_vec());
    proptest::collection::vec((1_000u64..50_000, strikes, name, 0usize..4), 1..12)
}

const STRIKE: u64 = 30 * US;

/// The time of the program if every strike of `less` is a nanosecond shorter, and how many of them
/// are on the critical path.
fn play(ranks: u32, steps: &[Step], less: Option<usize>) -> (u64, u64) {
    let mut world = World::new(ranks);
    let n = ranks as usize;
    for (work, strikes, collective, root) in steps {
        for rank in 0..n {
            // Not all ranks have the same work.
            world.compute(
                rank,
                work + 1_013 * ((*work as usize + 7 * rank) % 5) as u64,
            );
        }
        for &(rank, name) in strikes {
            world.strike(rank % n, STRIKE - u64::from(less == Some(name)), name);
            // Uninterrupted time between two strikes.
            world.compute(rank % n, 100);
        }
        world.collective(collective, root % n);
    }
    (0..ranks).for_each(|r| {
        world
            .made
            .finalize
            .extend([(r, Some(world.now[r as usize]))])
    });
    let found = world.made.explain();
    let of_alpha = sources(&found).into_iter().find(|s| s.0 == "alpha");
    let length = STRIKE - u64::from(less == Some(0));
    let on_path = of_alpha.map_or(0, |s| s.1);
    assert_eq!(on_path % length, 0, "a part of a strike is on the path");
    (found.program().total.get(), on_path / length)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The critical path gets a nanosecond shorter with every strike on it that does.
    #[test]
    fn what_is_on_it_costs_time_and_nothing_else_does(ranks in 1u32..5, steps in steps()) {
        let (time, on_path) = play(ranks, &steps, None);
        let (shorter, still) = play(ranks, &steps, Some(0));
        prop_assert!(still <= time - shorter && time - shorter <= on_path,
            "{time} - {shorter} with {on_path}, then {still}, strikes on the path");
    }
}
