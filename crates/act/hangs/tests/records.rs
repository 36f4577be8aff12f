//! How records become snapshots: what is not known well enough does not count as awaited.

use idlewave_gang::state::{Collective, Doing, Posted, Request, Wait};
use idlewave_hangs::{Seen, Small, snapshot};
use idlewave_interpose::state::{class, mode, unknown};
use idlewave_interpose::{
    StateCollective, StateCommunicator, StateCount, StatePair, StatePhase, StateRecord, StateWant,
};
use idlewave_units::Rank;

const WORLD: u64 = 9;

fn receive(from: u32, slot: Option<u32>) -> StateWant {
    StateWant::Receive {
        communicator: WORLD,
        from: Some(from),
        tag: Some(1),
        slot,
    }
}

fn send(to: u32, synchronous: bool, large: bool) -> StateWant {
    StateWant::Send {
        communicator: WORLD,
        to,
        tag: Some(1),
        number: 1,
        synchronous,
        large,
    }
}

/// One of two ranks, in a call that waits.
fn rank(mode: u8, wants: &[StateWant]) -> Seen {
    let world = StateCommunicator {
        key: WORLD,
        members: 2,
        world: true,
        entered: 0,
        last: StateCollective::default(),
    };
    Seen {
        record: StateRecord {
            phase: StatePhase::Running,
            rank: Some(0),
            size: Some(2),
            epochs: [4, 4],
            mode,
            function: 3,
            wants: wants.to_vec(),
            communicators: vec![world],
            ..StateRecord::default()
        },
        gone: false,
        unchanged: 0,
        moved: false,
        node: 0,
    }
}

fn doing(of: Seen, settled: bool) -> Doing {
    let other = rank(mode::NONE, &[]);
    let small = match settled {
        true => Small::Near,
        false => Small::Open,
    };
    let snapped = snapshot(&[of, other], small, 10);
    snapped.snapshot.ranks[0].doing.clone()
}

/// How many receives and how many sends it waits for, and whether any one of them is enough.
fn waits(mode: u8, wants: &[StateWant], settled: bool) -> Option<(usize, usize, bool)> {
    let wait = match doing(rank(mode, wants), settled) {
        Doing::Blocked { call: 3, wait } => wait,
        Doing::Computing => return None,
        other => panic!("{other:?}"),
    };
    let count = |send: bool| {
        let all = wait.requests().iter();
        all.filter(|r| matches!(r, Request::Send(_)) == send)
            .count()
    };
    Some((count(false), count(true), matches!(wait, Wait::Any(_))))
}

#[test]
fn a_small_send_is_waited_for_only_where_it_alone_holds_a_settled_call() {
    let (small, large, sync) = (
        send(1, false, false),
        send(1, false, true),
        send(1, true, false),
    );
    let get = receive(1, None);
    assert_eq!(waits(mode::ALL, &[small], true), Some((0, 1, false)));
    assert_eq!(waits(mode::ALL, &[small], false), None);
    assert_eq!(waits(mode::ALL, &[small, get], true), Some((1, 0, false)));
    assert_eq!(waits(mode::ALL, &[small, get], false), Some((1, 0, false)));
    // Where only small sends are awaited, one of them is open, but it is not known which.
    assert_eq!(waits(mode::ALL, &[small, small], true), Some((0, 2, true)));
    assert_eq!(waits(mode::ALL, &[large, get], true), Some((1, 1, false)));
    assert_eq!(waits(mode::ALL, &[large, get], false), Some((1, 1, false)));
    assert_eq!(waits(mode::ANY, &[large, get], false), Some((1, 1, true)));
    assert_eq!(waits(mode::ALL, &[sync, get], false), Some((1, 1, false)));
    assert_eq!(waits(mode::ANY, &[small, get], true), Some((1, 1, true)));
    assert_eq!(waits(mode::ANY, &[small, get], false), None);
    assert_eq!(waits(mode::ANY, &[sync, get], false), Some((1, 1, true)));
}

#[test]
fn a_small_send_to_another_node_is_under_way_however_long_it_takes() {
    let of = rank(mode::ALL, &[send(1, false, false)]);
    let mut other = rank(mode::NONE, &[]);
    let doing = |other: &Seen, small| {
        let snapped = snapshot(&[of.clone(), other.clone()], small, 10);
        snapped.snapshot.ranks[0].doing.clone()
    };
    assert!(matches!(doing(&other, Small::Near), Doing::Blocked { .. }));
    other.node = 7;
    assert_eq!(doing(&other, Small::Near), Doing::Computing);
    assert!(matches!(doing(&other, Small::All), Doing::Blocked { .. }));
}

#[test]
fn what_is_left_out_may_end_a_call_that_needs_one_and_not_one_that_needs_all() {
    let get = receive(1, None);
    let small = send(1, false, false);
    let mut of = rank(mode::ALL, &[get]);
    of.record.partial = true;
    assert!(matches!(doing(of.clone(), true), Doing::Blocked { .. }));
    of.record.mode = mode::ANY;
    assert_eq!(doing(of.clone(), true), Doing::Computing);
    // The open request may not be the send.
    of.record.mode = mode::ALL;
    of.record.wants = vec![small];
    assert_eq!(doing(of, true), Doing::Computing);
}

#[test]
fn a_communicator_of_which_a_member_is_not_seen_is_waited_for_by_nobody() {
    let mut of = rank(mode::ALL, &[receive(1, None)]);
    assert!(matches!(doing(of.clone(), true), Doing::Blocked { .. }));
    of.record.communicators[0].members = 3;
    let mut other = rank(mode::NONE, &[]);
    other.record.communicators[0].members = 3;
    let snapped = snapshot(&[of.clone(), other], Small::Near, 10);
    assert_eq!(snapped.snapshot.ranks[0].doing, Doing::Computing);
    // The members do not agree on their number.
    of.record.communicators[0].members = 1;
    assert_eq!(doing(of, true), Doing::Computing);
}

#[test]
fn a_rank_that_is_not_followed_moves_and_one_that_has_ended_sends_nothing() {
    let mut of = rank(mode::ALL, &[receive(1, None)]);
    of.record.unknown = unknown::FAILED;
    let other = rank(mode::NONE, &[]);
    let state = |of: &Seen| {
        snapshot(&[of.clone(), other.clone()], Small::Near, 10)
            .snapshot
            .ranks[0]
            .clone()
    };
    assert!(state(&of).moved());
    assert_eq!(state(&of).doing, Doing::Computing);
    // Messages that were not counted may still be on their way.
    of.gone = true;
    assert!(state(&of).moved());
    of.record.unknown = 0;
    of.record.epochs = [5, 5];
    assert_eq!(state(&of).doing, Doing::Exited);
    assert!(!state(&of).moved(), "killed while it wrote");
    of.moved = true;
    assert!(state(&of).moved(), "not known at the moment of the others");
    of.moved = false;
    of.gone = false;
    assert!(state(&of).moved());
    for (phase, expected) in [
        (StatePhase::Finalising, Doing::Exited),
        (StatePhase::Finalised, Doing::Exited),
        (StatePhase::Aborted, Doing::Computing),
        (StatePhase::Initialising, Doing::Computing),
    ] {
        of.record.phase = phase;
        assert_eq!(state(&of).doing, expected, "{phase:?}");
    }
}

#[test]
fn polls_say_for_how_long() {
    for mode in [mode::POLL_ALL, mode::POLL_ANY] {
        let mut of = rank(mode, &[receive(1, None)]);
        of.unchanged = 7;
        let polling = matches!(doing(of, true), Doing::Polling { unchanged: 7, .. });
        assert!(polling);
    }
    assert_eq!(doing(rank(mode::POLL, &[]), true), Doing::Computing);
}

#[test]
fn receives_of_the_present_wait_are_not_posted_beside_it() {
    let mut of = rank(mode::ALL, &[receive(1, Some(4))]);
    of.record.posted = vec![receive(1, Some(4)), receive(1, Some(5))];
    let snapped = snapshot(&[of, rank(mode::NONE, &[])], Small::Near, 10);
    let Posted::Known(posted) = &snapped.snapshot.ranks[0].posted else {
        panic!("they are known");
    };
    assert_eq!(posted.len(), 1);
}

#[test]
fn counters_are_in_order_by_communicator_peer_and_tag() {
    let mut of = rank(mode::NONE, &[]);
    let more = StateCommunicator {
        key: 5,
        entered: 3,
        last: StateCollective {
            class: class::FROM_ROOT,
            which: 8,
            root: 1,
        },
        ..of.record.communicators[0]
    };
    of.record.communicators.push(more);
    let pair = |communicator, peer, sent| StatePair {
        communicator,
        peer,
        sent,
        received: StateCount::Sum(2),
    };
    of.record.pairs = vec![
        pair(WORLD, 1, StateCount::Tags(vec![(7, 2), (3, 1)])),
        pair(5, 1, StateCount::Sum(8)),
        pair(5, 0, StateCount::Tags(vec![])),
    ];
    let mut other = rank(mode::NONE, &[]);
    other.record.communicators.push(more);
    let snapped = snapshot(&[of, other], Small::Near, 10);
    // By key: 5 is the first communicator, the world the second.
    assert_eq!(snapped.communicators, [(5, true), (WORLD, true)]);
    let state = &snapped.snapshot.ranks[0];
    let sent: Vec<_> = state
        .sent
        .iter()
        .map(|c| (c.communicator, c.peer.get(), c.tag, c.messages))
        .collect();
    assert_eq!(
        sent,
        [(0, 1, None, 8), (1, 1, Some(3), 1), (1, 1, Some(7), 2)]
    );
    assert_eq!(state.entered.len(), 1);
    let root = Rank::new(1);
    assert_eq!(
        state.entered[0].kind,
        Collective::FromRoot { which: 8, root }
    );
    assert_eq!(state.entered[0].number, 3);
}
