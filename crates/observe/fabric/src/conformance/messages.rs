//! What messages between two ranks, and barriers, must do.

use crate::{Fabric, FabricError, Reduction, Tag};
use idlewave_units::Rank;

pub(super) fn quiet() {}

// A send may wait for its receive: no test relies on the fabric buffering messages.
fn begin<F: Fabric>(fabric: &mut F, to: Rank, tag: u32, data: Vec<u8>) -> F::Sending {
    fabric
        .start_send(to, Tag(tag), data)
        .expect("a send to a rank that exists")
}

fn finish<F: Fabric>(fabric: &mut F, sends: impl IntoIterator<Item = F::Sending>) {
    for sending in sends {
        fabric
            .finish_send(sending, &mut quiet)
            .expect("a send that completes");
    }
}

fn send<F: Fabric>(fabric: &mut F, to: Rank, tag: u32, data: Vec<u8>) {
    let sending = begin(fabric, to, tag, data);
    finish(fabric, [sending]);
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

/// A receive takes only messages with its tag, even if others came first.
pub fn tags_are_told_apart<F: Fabric>(fabric: &mut F) {
    let (to, from) = (next(fabric), previous(fabric));
    let sends = [7, 8, 9].map(|tag| begin(fabric, to, tag, vec![tag as u8]));
    for tag in [9, 7, 8] {
        assert_eq!(receive(fabric, Some(from), tag).1, vec![tag as u8]);
    }
    finish(fabric, sends);
}

/// A receive from any rank takes each message once and reports its sender.
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

/// Messages of any length arrive unchanged, from empty ones to those that need many pieces.
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
    let sends = [vec![1; 100], vec![2; 10]].map(|data| begin(fabric, to, 60, data));
    let receiving = fabric
        .start_receive(Some(from), Tag(60), 99, Vec::new())
        .expect("a receive");
    match fabric.finish_receive(receiving, &mut quiet) {
        Err(FabricError::TooLong {
            from: sender,
            // Not every library reports it.
            length: None | Some(100),
            capacity: 99,
        }) => assert_eq!(sender, from),
        other => panic!("a message that does not fit gave {other:?}"),
    }
    assert_eq!(receive(fabric, Some(from), 60).1, vec![2; 10]);
    finish(fabric, sends);
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

/// No rank leaves a barrier before the last one has entered it.
pub fn no_rank_leaves_a_barrier_early<F: Fabric>(fabric: &mut F, now: impl Fn() -> u64) {
    for round in 0..50 {
        // A different rank is late each time.
        if fabric.rank().get() == round % fabric.size() {
            (0..round % 7).for_each(|_| std::thread::yield_now());
        }
        let entered = now();
        fabric.barrier(&mut quiet).expect("a barrier");
        let left = now();
        let own: Vec<u8> = [entered, left]
            .iter()
            .flat_map(|t| t.to_le_bytes())
            .collect();
        let mut all = vec![0; 16 * fabric.size() as usize];
        fabric
            .allgather(&own, &mut all, &mut quiet)
            .expect("an allgather");
        let time = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let last_entered = all.chunks_exact(16).map(|t| time(&t[..8])).max();
        let first_left = all.chunks_exact(16).map(|t| time(&t[8..])).min();
        assert!(
            last_entered <= first_left,
            "{last_entered:?} {first_left:?}"
        );
    }
}

/// A rank that waits long enough has its hook called meanwhile.
pub fn waits_call_their_hook<F: Fabric>(fabric: &mut F) {
    let last = fabric.size() - 1;
    let mut calls = u64::from(fabric.rank().get() == last);
    // A rank that arrives late itself does not wait, but over many rounds every rank does.
    for _ in 0..2_000 {
        if fabric.rank().get() == last {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        fabric.barrier(&mut || calls += 1).expect("a barrier");
        let mut least = [calls as f64];
        fabric
            .allreduce(&mut least, Reduction::Min, &mut quiet)
            .expect("an allreduce");
        if least[0] > 0.0 {
            return;
        }
    }
    panic!("a rank waited without being called back");
}

/// After a barrier, a rank can receive every message sent before it, and no others.
pub fn what_was_sent_before_a_barrier_can_be_received<F: Fabric>(fabric: &mut F) {
    for round in 0..50_u8 {
        let root = Rank::new(u32::from(round) % fabric.size());
        let sending = fabric
            .start_send(root, Tag(70), vec![round])
            .expect("a send");
        fabric.barrier(&mut quiet).expect("a barrier");
        if fabric.rank() == root {
            for _ in 0..fabric.size() {
                assert_eq!(receive(fabric, None, 70).1, [round]);
            }
        }
        fabric
            .finish_send(sending, &mut quiet)
            .expect("a send that completes");
        fabric.barrier(&mut quiet).expect("a barrier");
    }
}

/// Operations may be tested and finished in any order, whatever order they were started in.
pub fn operations_complete_in_any_order<F: Fabric>(fabric: &mut F) {
    let (to, from) = (next(fabric), previous(fabric));
    let order = [3_usize, 0, 4, 1, 2];
    let lengths = [10_usize, 40_000, 0, 2_500, 1];
    let mut receives: Vec<Option<F::Receiving>> = Vec::new();
    for (tag, &length) in lengths.iter().enumerate() {
        let tag = Tag(90 + tag as u32);
        let receiving = fabric.start_receive(Some(from), tag, length, Vec::new());
        receives.push(Some(receiving.expect("a receive")));
    }
    let mut sends: Vec<Option<F::Sending>> = (0..5).map(|_| None).collect();
    for &i in order.iter().rev() {
        let data = vec![i as u8; lengths[i]];
        let sending = fabric.start_send(to, Tag(90 + i as u32), data);
        sends[i] = Some(sending.expect("a send"));
    }
    // The first round waits until all have arrived; testing again changes nothing.
    for _ in 0..2 {
        for receiving in receives.iter().flatten() {
            while !fabric.is_received(receiving).expect("living peers") {
                for sending in sends.iter().flatten() {
                    fabric.is_sent(sending).expect("living peers");
                }
                std::thread::yield_now();
            }
        }
    }
    for &i in &order {
        let receiving = receives[i].take().expect("not finished before");
        let delivery = fabric
            .finish_receive(receiving, &mut quiet)
            .expect("a message");
        assert!(delivery.data == vec![i as u8; lengths[i]], "message {i}");
    }
    for &i in &order {
        let sending = sends[i].take().expect("not finished before");
        let data = fabric.finish_send(sending, &mut quiet);
        assert_eq!(data.expect("its buffer").len(), lengths[i]);
    }
}

/// A send returns its buffer: the same memory with the same content.
pub fn buffers_come_back<F: Fabric>(fabric: &mut F) {
    let (to, from) = (next(fabric), previous(fabric));
    let data = vec![9_u8; 500];
    let place = data.as_ptr();
    let (data, delivery) = fabric
        .send_receive(to, data, from, Tag(80), 500, Vec::new(), &mut quiet)
        .expect("an exchange");
    assert_eq!((data.as_ptr(), &data[..]), (place, &[9; 500][..]));
    assert_eq!(delivery.data, [9; 500]);
}

/// Sends a message to the next rank; it is under way while `between` runs.
pub(super) fn ring<F: Fabric>(fabric: &mut F, between: impl FnOnce(&mut F)) {
    let (to, from) = (next(fabric), previous(fabric));
    let receiving = fabric
        .start_receive(Some(from), Tag(0), 16, Vec::new())
        .expect("a receive");
    let data = fabric.rank().get().to_le_bytes().to_vec();
    let sending = fabric.start_send(to, Tag(0), data).expect("a send");
    between(fabric);
    let delivery = fabric
        .finish_receive(receiving, &mut quiet)
        .expect("a message");
    assert_eq!(
        (delivery.from, delivery.data),
        (from, from.get().to_le_bytes().to_vec())
    );
    fabric.finish_send(sending, &mut quiet).expect("its buffer");
}
