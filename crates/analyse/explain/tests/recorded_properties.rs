//! What holds for every recorded program.

#![allow(clippy::unwrap_used)]

use crate::made::Explained;
use crate::made::world::World;
use idlewave_run::tables::Table;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What all ranks do next, or what happens to one of them.
#[derive(Clone, Debug)]
enum Event {
    Compute(u64),
    More(usize, u64),
    Strike(usize, u64, usize),
    Exchange(Vec<i32>),
    Collective(&'static str, usize),
}

fn event() -> impl Strategy<Value = Event> {
    let names = [
        "MPI_Barrier",
        "MPI_Allreduce",
        "MPI_Bcast",
        "MPI_Reduce",
        "MPI_Scan",
    ];
    prop_oneof![
        3 => (1_000u64..80_000).prop_map(Event::Compute),
        2 => (0usize..8, 1_000u64..90_000).prop_map(|(r, ns)| Event::More(r, ns)),
        3 => (0usize..8, 2_000u64..200_000, 0usize..3).prop_map(|(r, ns, i)| Event::Strike(r, ns, i)),
        2 => proptest::sample::select(vec![vec![1], vec![1, -1], vec![2]]).prop_map(Event::Exchange),
        3 => (proptest::sample::select(names.to_vec()), 0usize..8)
            .prop_map(|(name, root)| Event::Collective(name, root)),
    ]
}

fn world(ranks: u32, events: &[Event]) -> World {
    let mut world = World::new(ranks);
    let n = ranks as usize;
    for event in events {
        // If arrivals are equal, the lowest rank counts as the last; this keeps such cases few.
        (0..n).for_each(|r| world.compute(r, 17 * (r * r) as u64));
        match event {
            Event::Compute(ns) => world.compute_all(*ns),
            Event::More(rank, ns) => world.compute(rank % n, *ns),
            Event::Strike(rank, ns, name) => world.strike(rank % n, *ns, *name),
            Event::Exchange(steps) => world.exchange(steps),
            Event::Collective(name, root) => world.collective(name, root % n),
        }
    }
    world
}

fn check(found: &Explained) -> Result<(), TestCaseError> {
    let tables = &found.tables;
    let mut sums = vec![0u64; tables.waits.len()];
    for part in tables.wait_parts.rows() {
        sums[part.wait as usize] += part.time.get();
        prop_assert!(part.time.get() > 0);
    }
    for (i, wait) in tables.waits.rows().enumerate() {
        prop_assert_eq!(sums[i], wait.end_ns - wait.begin_ns);
        prop_assert!(wait.culprit != wait.rank);
        match wait.parent {
            None => prop_assert_eq!(wait.hops, 0),
            Some(parent) => {
                prop_assert!((parent as usize) < i);
                let parent = tables.waits.row(parent as usize);
                prop_assert_eq!(parent.rank, wait.culprit);
                prop_assert_eq!(parent.hops + 1, wait.hops);
            }
        }
    }
    let program = found.program();
    for time in &program.ranks_time {
        let parts = [time.computing, time.taken, time.waiting, time.communicating];
        prop_assert_eq!(
            parts.map(|p| p.get()).iter().sum::<u64>(),
            program.total.get()
        );
    }
    let path = &program.path;
    let sources = path.sources.iter().map(|(_, time)| time.get());
    let parts = sources.sum::<u64>() + path.computing.get() + path.communicating.get();
    prop_assert_eq!(parts, program.total.get());
    let ranks: u64 = path.ranks.iter().map(|(_, time)| time.get()).sum();
    prop_assert_eq!(ranks, program.total.get());
    let all: u64 = program.waits.iter().map(|w| w.time.get()).sum();
    let ranks: u64 = program.ranks_time.iter().map(|t| t.waiting.get()).sum();
    prop_assert_eq!(all, ranks);
    prop_assert!(program.named <= program.waited && program.propagated <= program.waited);
    for wait in &program.latest {
        let parts: u64 = wait.parts.iter().map(|p| p.time.get()).sum();
        prop_assert_eq!(parts, wait.end_ns - wait.begin_ns);
    }
    for source in &found.findings.sources {
        // A delay counts once, and at least the struck rank loses it.
        let most = source.lateness.get() * u64::from(program.ranks);
        prop_assert!(source.lost.get() >= source.lateness.get() || most == 0);
    }
    Ok(())
}

/// Times of the parts of a wait by origin and name.
type Parts = BTreeMap<(u32, String), u64>;

/// Every wait as (start, rank), and (end, culprit, hops, parts), whatever the order of the table.
type Seen = BTreeMap<(u64, u32), (u64, u32, u32, Parts)>;

fn seen(found: &Explained, shift: u64, back: &[u32]) -> Seen {
    let waits = found.tables.waits.rows();
    let mut out = Seen::new();
    for (i, w) in waits.enumerate() {
        let mut parts = Parts::new();
        for (origin, name, ns) in found.parts(i) {
            *parts
                .entry((back[origin as usize], name.to_owned()))
                .or_default() += ns;
        }
        let (rank, culprit) = (back[w.rank.index()], back[w.culprit.index()]);
        let key = (w.begin_ns - shift, rank);
        out.insert(key, (w.end_ns - shift, culprit, w.hops, parts));
    }
    out
}

/// Takes out the parts of all waits; the rest says who waited for whom.
fn take_parts(seen: &mut Seen) -> Vec<Parts> {
    let parts = |wait: &mut (u64, u32, u32, Parts)| std::mem::take(&mut wait.3);
    seen.values_mut().map(parts).collect()
}

/// Parts may differ by a nanosecond: of equal remainders, that of the lowest rank gets it.
fn check_parts(one: &Parts, other: &Parts) -> Result<(), TestCaseError> {
    for part in one.keys().chain(other.keys()) {
        let time = |of: &Parts| of.get(part).copied().unwrap_or_default();
        prop_assert!(time(one).abs_diff(time(other)) <= 1, "{one:?} {other:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parts_add_up(ranks in 1u32..7, events in proptest::collection::vec(event(), 1..60)) {
        check(&world(ranks, &events).made.explain())?;
    }

    #[test]
    fn the_same_run_at_another_time_is_the_same(
        ranks in 2u32..6,
        events in proptest::collection::vec(event(), 1..40),
        shift in 1u64..1_000_000_000_000,
    ) {
        let mut made = world(ranks, &events).made;
        let same: Vec<u32> = (0..ranks).collect();
        let before = made.explain();
        made.shift = shift;
        let after = made.explain();
        prop_assert_eq!(seen(&before, 0, &same), seen(&after, shift, &same));
        prop_assert_eq!(&before.findings.sources, &after.findings.sources);
    }

    #[test]
    fn ranks_with_other_numbers_wait_for_the_same_ranks(
        ranks in 2u32..6,
        events in proptest::collection::vec(event(), 1..40),
        turn in 1u32..5,
    ) {
        let made = world(ranks, &events).made;
        prop_assume!(!made.has_equal_arrivals());
        let to: Vec<u32> = (0..ranks).map(|r| (r + turn) % ranks).collect();
        let mut back = vec![0; ranks as usize];
        for (r, &t) in to.iter().enumerate() {
            back[t as usize] = r as u32;
        }
        let same: Vec<u32> = (0..ranks).collect();
        let (before, after) = (made.explain(), made.relabelled(&to).explain());
        let (mut before, mut after) = (seen(&before, 0, &same), seen(&after, 0, &back));
        let parts = [take_parts(&mut before), take_parts(&mut after)];
        prop_assert_eq!(before, after);
        for (one, other) in parts[0].iter().zip(&parts[1]) {
            check_parts(one, other)?;
        }
    }
}
