//! What collectives, worlds of fewer ranks and the split by node must do.

use super::messages::{a_message_too_long_is_an_error, any_source_hears_everyone, quiet, ring};
use crate::{Fabric, FabricError, Reduction, Waits};
use idlewave_units::Rank;

fn own<F: Fabric>(fabric: &F) -> u32 {
    fabric.rank().get()
}

/// A value that encodes the rank and the place; its sums are exact in any order.
fn value(rank: u32, place: usize) -> f64 {
    f64::from(rank * 1_000) + place as f64 - 7.0
}

/// The result of a reduction over `size` ranks at a place.
fn expected(reduction: Reduction, size: u32, place: usize) -> f64 {
    let all = (0..size).map(|rank| value(rank, place));
    match reduction {
        Reduction::Sum => all.sum(),
        Reduction::Min => all.fold(f64::INFINITY, f64::min),
        Reduction::Max => all.fold(f64::NEG_INFINITY, f64::max),
    }
}

const REDUCTIONS: [Reduction; 3] = [Reduction::Sum, Reduction::Min, Reduction::Max];

/// Every rank gets the sum, minimum and maximum of each element, for any length.
pub fn reductions_reach_all_ranks<F: Fabric>(fabric: &mut F) {
    for reduction in REDUCTIONS {
        for length in [0, 1, 2, 7, 5_000] {
            let rank = own(fabric);
            let mut values: Vec<f64> = (0..length).map(|i| value(rank, i)).collect();
            fabric
                .allreduce(&mut values, reduction, &mut quiet)
                .expect("an allreduce");
            for (i, got) in values.iter().enumerate() {
                assert_eq!(
                    *got,
                    expected(reduction, fabric.size(), i),
                    "{reduction:?} at {i}"
                );
            }
        }
    }
}

/// Sums that round are bit-identical on all ranks.
pub fn reductions_agree_to_the_last_bit<F: Fabric>(fabric: &mut F) {
    let mut values: Vec<f64> = (1..100)
        .map(|i| 0.1 * f64::from(i + own(fabric) * 3))
        .collect();
    fabric
        .allreduce(&mut values, Reduction::Sum, &mut quiet)
        .expect("an allreduce");
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut all = vec![0; bytes.len() * fabric.size() as usize];
    fabric
        .allgather(&bytes, &mut all, &mut quiet)
        .expect("an allgather");
    for other in all.chunks_exact(bytes.len()) {
        assert!(other == bytes, "ranks have different sums");
    }
}

/// A reduction to one rank delivers its result there, whichever rank that is.
pub fn reductions_reach_any_root<F: Fabric>(fabric: &mut F) {
    for root in 0..fabric.size() {
        for reduction in REDUCTIONS {
            let rank = own(fabric);
            let mut values: Vec<f64> = (0..33).map(|i| value(rank, i)).collect();
            fabric
                .reduce(Rank::new(root), &mut values, reduction, &mut quiet)
                .expect("a reduction");
            if rank == root {
                for (i, got) in values.iter().enumerate() {
                    assert_eq!(
                        *got,
                        expected(reduction, fabric.size(), i),
                        "{reduction:?} at {i}"
                    );
                }
            }
        }
    }
}

/// A broadcast gives all ranks the bytes of its root, whichever rank that is, for any length.
pub fn broadcasts_reach_all_ranks<F: Fabric>(fabric: &mut F) {
    for root in 0..fabric.size() {
        for length in [0_usize, 1, 13, 70_000] {
            let of = |rank: u32| (0..length).map(move |i| (i as u32 + rank * 31) as u8);
            let mut data: Vec<u8> = of(own(fabric)).collect();
            fabric
                .broadcast(Rank::new(root), &mut data, &mut quiet)
                .expect("a broadcast");
            assert!(of(root).eq(data), "{length} bytes from rank {root}");
        }
    }
}

/// Every pair of ranks exchanges its own block, for any length.
pub fn every_rank_hears_every_other<F: Fabric>(fabric: &mut F) {
    let size = fabric.size();
    for block in [0_usize, 1, 8, 3_001] {
        let byte = |from: u32, to: u32, i: usize| (from * 16 + to + i as u32 * 3) as u8;
        let of = |from: u32, to: u32| (0..block).map(move |i| byte(from, to, i));
        let rank = own(fabric);
        let send: Vec<u8> = (0..size).flat_map(|to| of(rank, to)).collect();
        let mut receive = vec![0xEE; send.len()];
        fabric
            .alltoall(&send, &mut receive, &mut quiet)
            .expect("an alltoall");
        assert!(
            (0..size).flat_map(|from| of(from, rank)).eq(receive),
            "blocks of {block}"
        );

        let mut all = vec![0xEE; block * size as usize];
        let mine: Vec<u8> = of(rank, rank).collect();
        fabric
            .allgather(&mine, &mut all, &mut quiet)
            .expect("an allgather");
        assert!(
            (0..size).flat_map(|from| of(from, from)).eq(all),
            "blocks of {block}"
        );
    }
}

/// Every pair of ranks exchanges blocks of its own lengths, some empty, some long.
pub fn blocks_of_any_length_reach_their_ranks<F: Fabric>(fabric: &mut F) {
    let (rank, size) = (own(fabric), fabric.size());
    for unit in [0, 1, 977, 40_000] {
        // Zero for some pairs, and in general different in the two directions.
        let length = |from: u32, to: u32| unit * ((from * 3 + to * 2) % 5) as usize;
        let byte = |from: u32, to: u32, i: usize| (from * 16 + to + i as u32 * 7) as u8;
        let of = |from: u32, to: u32| (0..length(from, to)).map(move |i| byte(from, to, i));
        let send: Vec<u8> = (0..size).flat_map(|to| of(rank, to)).collect();
        let wanted: Vec<u8> = (0..size).flat_map(|from| of(from, rank)).collect();
        let send_counts: Vec<usize> = (0..size).map(|to| length(rank, to)).collect();
        let receive_counts: Vec<usize> = (0..size).map(|from| length(from, rank)).collect();
        let mut receive = vec![0xEE; wanted.len()];
        fabric
            .alltoallv(
                &send,
                &send_counts,
                &mut receive,
                &receive_counts,
                &mut quiet,
            )
            .expect("an alltoallv");
        assert!(receive == wanted, "blocks of up to {unit} times 4");
    }
}

/// A root outside the world is refused on every rank, and the next collective is unharmed.
pub fn unknown_roots_are_an_error<F: Fabric>(fabric: &mut F) {
    let (rank, size) = (Rank::new(fabric.size()), fabric.size());
    let refused = Err(FabricError::NoSuchRank { rank, size });
    assert_eq!(fabric.broadcast(rank, &mut [1], &mut quiet), refused);
    let got = fabric.reduce(rank, &mut [1.0], Reduction::Sum, &mut quiet);
    assert_eq!(got, refused);
    fabric.barrier(&mut quiet).expect("a barrier");
}

/// Messages of collectives never match those of the user, whatever their tags.
pub fn collectives_leave_messages_alone<F: Fabric>(fabric: &mut F) {
    ring(fabric, |fabric| {
        let mut one = [1.0];
        fabric
            .allreduce(&mut one, Reduction::Sum, &mut quiet)
            .expect("an allreduce");
        assert_eq!(one[0], f64::from(fabric.size()));
    });
}

/// The first ranks form a world of their own, of every size; afterwards all are together again.
pub fn the_first_ranks_are_a_world<F: Fabric>(fabric: &mut F) {
    let (size, rank) = (fabric.size(), own(fabric));
    for first in (1..=size).chain((1..=size).rev()) {
        let members: Vec<Rank> = (0..first).map(Rank::new).collect();
        let done = fabric.with_ranks(&members, |fabric| {
            assert_eq!((fabric.size(), own(fabric)), (first, rank));
            // A different number of barriers in each world.
            for _ in 0..=first {
                fabric.barrier(&mut quiet).expect("a barrier");
            }
            ring(fabric, |_| ());
            let mut sum = [1.0];
            fabric
                .allreduce(&mut sum, Reduction::Sum, &mut quiet)
                .expect("an allreduce");
            let outside = fabric.start_send(Rank::new(first), crate::Tag(0), Vec::new());
            assert!(outside.is_err(), "rank {first} is not among them");
            sum[0]
        });
        let expected = (rank < first).then_some(f64::from(first));
        assert_eq!(done.expect("ranks that exist"), expected);
        assert_eq!(fabric.size(), size);
        for _ in 0..3 {
            fabric.barrier(&mut quiet).expect("a barrier");
        }
        ring(fabric, |_| ());
    }
}

/// Chosen ranks form a world in the order of their list, whatever that is; afterwards all are
/// together again.
pub fn chosen_ranks_are_a_world_in_their_order<F: Fabric>(fabric: &mut F) {
    let (size, rank) = (fabric.size(), own(fabric));
    let lists = [
        (0..size).rev().collect(),
        (0..size).step_by(2).collect(),
        (0..size).skip(1).chain([0]).collect(),
        vec![size - 1],
        (size / 2..size).rev().collect(),
    ];
    // Twice: what the first round leaves behind must not harm the second.
    for list in lists.iter().chain(&lists) {
        let members: Vec<Rank> = list.iter().copied().map(Rank::new).collect();
        let number = members.len() as u32;
        let place = list.iter().position(|&member| member == rank);
        let done = fabric.with_ranks(&members, |fabric| {
            assert_eq!(Some(own(fabric) as usize), place);
            assert_eq!(fabric.size(), number);
            // Applies only to this world: blocking calls would not match those of the ranks that
            // sleep.
            fabric.set_waits(Waits::Blocking);
            fabric.barrier(&mut quiet).expect("a barrier");
            let mut all = vec![0; 4 * number as usize];
            fabric
                .allgather(&rank.to_le_bytes(), &mut all, &mut quiet)
                .expect("an allgather");
            let expected: Vec<u8> = list.iter().flat_map(|r| r.to_le_bytes()).collect();
            assert_eq!(all, expected);
            ring(fabric, |_| ());
            any_source_hears_everyone(fabric);
            a_message_too_long_is_an_error(fabric);
            let outside = fabric.start_send(Rank::new(number), crate::Tag(0), Vec::new());
            let (rank, size) = (Rank::new(number), number);
            assert_eq!(outside.err(), Some(FabricError::NoSuchRank { rank, size }));
            own(fabric)
        });
        let expected = place.map(|place| place as u32);
        assert_eq!(done.expect("ranks that exist"), expected);
        assert_eq!((fabric.size(), own(fabric)), (size, rank));
        fabric.barrier(&mut quiet).expect("a barrier");
        ring(fabric, |_| ());
    }
}

/// Lists that are empty, or that name an unknown rank or one twice, are refused on every rank, and
/// what follows is unharmed.
pub fn impossible_choices_are_an_error<F: Fabric>(fabric: &mut F) {
    let size = fabric.size();
    let zero = Rank::new(0);
    assert!(fabric.with_ranks(&[], |_| ()).is_err());
    let rank = Rank::new(size);
    let refused = fabric.with_ranks(&[zero, rank], |_| ());
    assert_eq!(refused, Err(FabricError::NoSuchRank { rank, size }));
    let refused = fabric.with_ranks(&[zero, zero], |_| ());
    assert_eq!(refused, Err(FabricError::Twice { rank: zero }));
    ring(fabric, |_| ());
}

/// All ranks agree on the nodes, and every rank is on one.
pub fn every_rank_is_on_a_node<F: Fabric>(fabric: &mut F) {
    let nodes = fabric.nodes().expect("nodes");
    assert_eq!(nodes.of_ranks().len(), fabric.size() as usize);
    assert!((1..=fabric.size()).contains(&nodes.count()));
    let node = nodes.of_rank(fabric.rank()).expect("the own node");
    assert!(!nodes.names()[node.get() as usize].is_empty());
    let leader = nodes.leader(node).expect("the lowest rank of the node");
    assert_eq!(nodes.local_rank(leader), Some(0));
    let mut text: Vec<u8> = format!("{nodes:?}").into_bytes();
    let own = text.clone();
    fabric
        .broadcast(Rank::new(0), &mut text, &mut quiet)
        .expect("a broadcast");
    assert!(text == own, "rank 0 sees other nodes");
}

/// Runs all checks, with watched and with blocking waits.
pub fn all<F: Fabric>(fabric: &mut F) {
    for waits in [Waits::Watched, Waits::Blocking] {
        fabric.set_waits(waits);
        reductions_reach_all_ranks(fabric);
        reductions_agree_to_the_last_bit(fabric);
        reductions_reach_any_root(fabric);
        broadcasts_reach_all_ranks(fabric);
        every_rank_hears_every_other(fabric);
        blocks_of_any_length_reach_their_ranks(fabric);
        unknown_roots_are_an_error(fabric);
        collectives_leave_messages_alone(fabric);
        the_first_ranks_are_a_world(fabric);
        chosen_ranks_are_a_world_in_their_order(fabric);
        impossible_choices_are_an_error(fabric);
        every_rank_is_on_a_node(fabric);
    }
    fabric.set_waits(Waits::Watched);
}
