//! What every implementation of [`Fabric`] must do. Each function is called by all ranks of a world
//! at the same time, and panics where a promise is broken.

use crate::{Fabric, FabricError, Tag};
use idlewave_units::Rank;

/// All of them, one after the other.
pub fn all<F: Fabric>(fabric: &mut F) {
    order_is_kept_per_tag(fabric);
    tags_are_told_apart(fabric);
    any_source_hears_everyone(fabric);
    long_messages_arrive_whole(fabric);
    exchange_with_neighbours_does_not_block(fabric);
    messages_to_oneself_arrive(fabric);
    a_message_too_long_is_an_error(fabric);
    unknown_ranks_are_an_error(fabric);
    no_rank_leaves_a_barrier_early(fabric);
}

fn quiet() {}

fn send<F: Fabric>(fabric: &mut F, to: Rank, tag: u32, data: Vec<u8>) {
    let sending = fabric
        .start_send(to, Tag(tag), data)
        .expect("a send to a rank that exists");
    fabric
        .finish_send(sending, &mut quiet)
        .expect("a send that completes");
}

fn receive<F: Fabric>(fabric: &mut F, from: Option<Rank>, tag: u32) -> (Rank, Vec<u8>) {
    let receiving = fabric
        .start_receive(from, Tag(tag), 1 << 20, Vec::new())
        .expect("a receive");
    let delivery = fabric
        .finish_receive(receiving, &mut quiet)
        .expect("a receive that completes");
    (delivery.from, delivery.data)
}

fn next<F: Fabric>(fabric: &F) -> Rank {
    Rank::new((fabric.rank().get() + 1) % fabric.size())
}

fn previous<F: Fabric>(fabric: &F) -> Rank {
    Rank::new((fabric.rank().get() + fabric.size() - 1) % fabric.size())
}

/// Messages with the same source and tag arrive in the order in which they were sent.
pub fn order_is_kept_per_tag<F: Fabric>(fabric: &mut F) {
    let (to, from) = (next(fabric), previous(fabric));
    let sends: Vec<_> = (0..40_u8)
        .map(|i| fabric.start_send(to, Tag(1), vec![i; 10]).expect("a send"))
        .collect();
    for i in 0..40_u8 {
        assert_eq!(receive(fabric, Some(from), 1).1, vec![i; 10]);
    }
    for sending in sends {
        fabric
            .finish_send(sending, &mut quiet)
            .expect("a send that completes");
    }
}

/// A receive takes only messages of its tag, also if others came first.
pub fn tags_are_told_apart<F: Fabric>(fabric: &mut F) {
    let (to, from) = (next(fabric), previous(fabric));
    for tag in [7, 8, 9] {
        send(fabric, to, tag, vec![tag as u8]);
    }
    for tag in [9, 7, 8] {
        assert_eq!(receive(fabric, Some(from), tag).1, vec![tag as u8]);
    }
}

/// A receive from any rank takes each message once and tells who sent it.
pub fn any_source_hears_everyone<F: Fabric>(fabric: &mut F) {
    if fabric.rank().get() != 0 {
        let own = fabric.rank().get();
        send(fabric, Rank::new(0), 20, own.to_le_bytes().to_vec());
    } else {
        let mut heard: Vec<u32> = (1..fabric.size())
            .map(|_| {
                let (from, data) = receive(fabric, None, 20);
                assert_eq!(data, from.get().to_le_bytes());
                from.get()
            })
            .collect();
        heard.sort_unstable();
        assert!(heard.into_iter().eq(1..fabric.size()));
    }
    fabric.barrier(&mut quiet).expect("a barrier");
}

/// Messages of any length, empty ones and those that need many pieces, arrive unchanged.
pub fn long_messages_arrive_whole<F: Fabric>(fabric: &mut F) {
    let (to, from) = (next(fabric), previous(fabric));
    for length in [0_usize, 1, 1_024, 2_048, 2_049, 300_000] {
        let data: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let receiving = fabric
            .start_receive(Some(from), Tag(30), length, Vec::new())
            .expect("a receive");
        let sending = fabric
            .start_send(to, Tag(30), data.clone())
            .expect("a send");
        let delivery = fabric
            .finish_receive(receiving, &mut quiet)
            .expect("a message");
        assert!(
            delivery.data == data,
            "a message of {length} bytes was changed"
        );
        assert!(fabric.finish_send(sending, &mut quiet).expect("its buffer") == data);
    }
}

/// The pattern of a lockstep run: both receives, both sends, then all waits.
pub fn exchange_with_neighbours_does_not_block<F: Fabric>(fabric: &mut F) {
    let sides = [previous(fabric), next(fabric)];
    for round in 0..100_u8 {
        // What is sent to the left is received from the right.
        let receives: Vec<_> = [(sides[0], 41), (sides[1], 40)]
            .map(|(from, tag)| {
                fabric
                    .start_receive(Some(from), Tag(tag), 1_024, Vec::new())
                    .expect("a receive")
            })
            .into_iter()
            .collect();
        let sends: Vec<_> = [(sides[0], 40), (sides[1], 41)]
            .map(|(to, tag)| {
                fabric
                    .start_send(to, Tag(tag), vec![round; 1_024])
                    .expect("a send")
            })
            .into_iter()
            .collect();
        for receiving in receives {
            while !fabric.is_received(&receiving).expect("living peers") {
                std::thread::yield_now();
            }
            let delivery = fabric
                .finish_receive(receiving, &mut quiet)
                .expect("a message");
            assert_eq!(delivery.data, vec![round; 1_024]);
        }
        for sending in sends {
            fabric
                .finish_send(sending, &mut quiet)
                .expect("a send that completes");
        }
    }
}

/// A rank can send to itself.
pub fn messages_to_oneself_arrive<F: Fabric>(fabric: &mut F) {
    let own = fabric.rank();
    let receiving = fabric
        .start_receive(Some(own), Tag(50), 5_000, Vec::new())
        .expect("a receive");
    send(fabric, own, 50, vec![3; 5_000]);
    let delivery = fabric
        .finish_receive(receiving, &mut quiet)
        .expect("a message");
    assert_eq!((delivery.from, delivery.data), (own, vec![3; 5_000]));
}

/// A message that does not fit is an error at its receive, and the next one is unharmed.
pub fn a_message_too_long_is_an_error<F: Fabric>(fabric: &mut F) {
    let (to, from) = (next(fabric), previous(fabric));
    send(fabric, to, 60, vec![1; 100]);
    send(fabric, to, 60, vec![2; 10]);
    let receiving = fabric
        .start_receive(Some(from), Tag(60), 99, Vec::new())
        .expect("a receive");
    let refused = fabric.finish_receive(receiving, &mut quiet);
    assert_eq!(
        refused,
        Err(FabricError::TooLong {
            from,
            length: Some(100),
            capacity: 99
        })
    );
    assert_eq!(receive(fabric, Some(from), 60).1, vec![2; 10]);
}

/// A rank outside the world is refused.
pub fn unknown_ranks_are_an_error<F: Fabric>(fabric: &mut F) {
    let (rank, size) = (Rank::new(fabric.size()), fabric.size());
    let refused = fabric.start_send(rank, Tag(0), Vec::new()).err();
    assert_eq!(refused, Some(FabricError::NoSuchRank { rank, size }));
    let refused = fabric
        .start_receive(Some(rank), Tag(0), 0, Vec::new())
        .err();
    assert_eq!(refused, Some(FabricError::NoSuchRank { rank, size }));
}

/// When a rank leaves a barrier, all messages that were sent before it can be received.
pub fn no_rank_leaves_a_barrier_early<F: Fabric>(fabric: &mut F) {
    for round in 0..50_u8 {
        let root = Rank::new(u32::from(round) % fabric.size());
        send(fabric, root, 70, vec![round]);
        fabric.barrier(&mut quiet).expect("a barrier");
        if fabric.rank() == root {
            let receives: Vec<_> = (0..fabric.size())
                .map(|_| {
                    fabric
                        .start_receive(None, Tag(70), 1, Vec::new())
                        .expect("a receive")
                })
                .collect();
            for receiving in receives {
                assert!(
                    fabric.is_received(&receiving).expect("living peers"),
                    "sent before the barrier"
                );
                let delivery = fabric
                    .finish_receive(receiving, &mut quiet)
                    .expect("a message");
                assert_eq!(delivery.data, [round]);
            }
        }
        fabric.barrier(&mut quiet).expect("a barrier");
    }
}
