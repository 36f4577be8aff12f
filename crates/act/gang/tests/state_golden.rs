//! Verdicts on cases small enough to check by eye: who is dead, and why.

#![allow(clippy::unwrap_used)]

use idlewave_gang::state::testing::{Machine, Op, Program, Random, Seen, Step, walk};
use idlewave_gang::state::{
    Cause, Collective, Count, Deadlock, Doing, Entered, Posted, Problem, RankState, Receive,
    Request, Snapshot, State, Verdict, Wait, judge,
};
use idlewave_units::Rank;

/// The verdict where a program comes to rest.
fn at_rest(ranks: Vec<Vec<Op>>) -> Verdict {
    let program = Program::world(ranks);
    let end = walk(&program, &mut Random::new(1), |_, _| {});
    judge(&end.snapshot(Seen::ALL))
}

fn deadlock(verdict: &Verdict) -> &Deadlock {
    match &verdict.state {
        State::Deadlocked(deadlock) => deadlock,
        other => panic!("{other:?}"),
    }
}

fn dead(verdict: &Verdict) -> Vec<u32> {
    deadlock(verdict).ranks.iter().map(|r| r.get()).collect()
}

/// Which rank waits for which, as (from, to).
fn cycle(verdict: &Verdict) -> Vec<(u32, u32)> {
    match &deadlock(verdict).cause {
        Cause::Cycle { links, smallest } => {
            assert!(smallest);
            links
                .iter()
                .map(|l| (l.from.get(), l.to.unwrap().get()))
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

fn recv(from: usize) -> Op {
    Op::receive(Some(from), Some(0))
}

#[test]
fn a_cycle_of_receives_is_named_with_its_call_and_whoever_waits_for_it_is_dead_too() {
    let verdict = at_rest(vec![
        vec![recv(1)],
        vec![recv(2)],
        vec![recv(1)],
        vec![Op::Compute],
    ]);
    assert_eq!(dead(&verdict), [0, 1, 2]);
    assert_eq!(cycle(&verdict), [(1, 2), (2, 1)]);
    let Cause::Cycle { links, .. } = &deadlock(&verdict).cause else {
        unreachable!()
    };
    assert_eq!(
        links[0].to_string(),
        "rank 1 waits for a message from rank 2 with tag 0 on communicator 0: rank 2"
    );
    assert_eq!(links[0].call, 1);
    assert!(!verdict.moves);
}

#[test]
fn one_rank_in_a_receive_and_the_others_in_a_barrier_are_a_cycle() {
    let verdict = at_rest(vec![
        vec![recv(1), Op::barrier(0)],
        vec![Op::barrier(0), Op::send(0, 0)],
        vec![Op::barrier(0)],
    ]);
    assert_eq!(dead(&verdict), [0, 1, 2]);
    assert_eq!(cycle(&verdict), [(0, 1), (1, 0)]);
}

#[test]
fn a_cycle_of_rendezvous_sends_is_dead_and_one_of_eager_sends_ends() {
    let send = |to| Op::rendezvous(to, 0);
    let verdict = at_rest(vec![vec![send(1), recv(1)], vec![send(0), recv(0)]]);
    assert_eq!(cycle(&verdict), [(0, 1), (1, 0)]);
    let eager = at_rest(vec![
        vec![Op::send(1, 0), recv(1)],
        vec![Op::send(0, 0), recv(0)],
    ]);
    assert_eq!(eager.state, State::Terminated);
    let posted = vec![recv(1).posted(), send(1), Op::WaitAll(vec![0])];
    let other = vec![recv(0).posted(), send(0), Op::WaitAll(vec![0])];
    assert_eq!(at_rest(vec![posted, other]).state, State::Terminated);
}

#[test]
fn receives_from_anyone_die_in_a_knot() {
    let any = || vec![Op::receive(None, Some(0))];
    let verdict = at_rest(vec![any(), any(), any()]);
    assert_eq!(dead(&verdict), [0, 1, 2]);
    let Cause::Knot { links } = &deadlock(&verdict).cause else {
        panic!("{verdict:?}")
    };
    let pairs: Vec<_> = links
        .iter()
        .map(|l| (l.from.get(), l.to.unwrap().get()))
        .collect();
    assert_eq!(pairs, [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
}

#[test]
fn a_set_of_which_one_suffices_lives_by_one_live_rank_and_a_set_of_all_dies_by_one_dead() {
    let sets = |op: fn(Vec<usize>) -> Op, last: Vec<Op>| {
        let program = Program::world(vec![
            vec![recv(1).posted(), recv(2).posted(), op(vec![0, 1])],
            vec![recv(0)],
            last,
        ]);
        let mut machine = Machine::new(&program);
        // All ranks go as far as they can without the last one.
        while let Some(step) = machine
            .steps()
            .into_iter()
            .find(|s| !matches!(s, Step::Begin(2)))
        {
            machine.take(step);
        }
        judge(&machine.snapshot(Seen::ALL))
    };
    assert_eq!(
        sets(Op::WaitAny, vec![Op::Compute]).state,
        State::Progressing
    );
    let all = sets(Op::WaitAll, vec![Op::Compute]);
    assert_eq!(dead(&all), [0, 1]);
    assert_eq!(cycle(&all), [(0, 1), (1, 0)]);
    assert!(all.moves, "the last rank computes");
    let any = sets(Op::WaitAny, vec![]);
    assert_eq!(dead(&any), [0, 1]);
    assert!(matches!(deadlock(&any).cause, Cause::Knot { .. }));
}

#[test]
fn equal_receives_that_must_all_come_need_as_many_messages() {
    let verdict = at_rest(vec![
        vec![recv(1).posted(), recv(1).posted(), Op::WaitAll(vec![0, 1])],
        vec![Op::send(0, 0)],
    ]);
    assert_eq!(dead(&verdict), [0]);
    let Cause::Exited { waits } = &deadlock(&verdict).cause else {
        panic!("{verdict:?}")
    };
    assert_eq!((waits.from.get(), waits.to.map(Rank::get)), (0, Some(1)));
}

#[test]
fn who_waits_for_a_rank_that_is_gone_is_dead() {
    let verdict = at_rest(vec![vec![Op::barrier(0)], vec![Op::barrier(0)], vec![]]);
    assert_eq!(dead(&verdict), [0, 1]);
    let Cause::Exited { waits } = &deadlock(&verdict).cause else {
        panic!("{verdict:?}")
    };
    assert_eq!((waits.from.get(), waits.to.map(Rank::get)), (0, Some(2)));
    let anyone = at_rest(vec![vec![Op::receive(None, None)], vec![]]);
    assert!(matches!(&deadlock(&anyone).cause, Cause::Exited { .. }));
}

#[test]
fn different_collectives_with_one_number_are_named() {
    let reduce = Op::Collective {
        communicator: 0,
        kind: Collective::AllToAll(5),
    };
    let verdict = at_rest(vec![
        vec![Op::barrier(0), Op::barrier(0)],
        vec![Op::barrier(0), reduce],
        vec![Op::barrier(0), Op::barrier(0)],
    ]);
    assert_eq!(dead(&verdict), [0, 1, 2]);
    assert_eq!(verdict.mismatches.len(), 1);
    let m = verdict.mismatches[0];
    assert_eq!((m.communicator, m.number), (0, 2));
    assert_eq!(m.one, (Rank::new(0), Collective::Barrier));
    assert_eq!(m.other, (Rank::new(1), Collective::AllToAll(5)));
    let Cause::Mismatch { waits } = &deadlock(&verdict).cause else {
        panic!("{verdict:?}")
    };
    assert_eq!((waits.from.get(), waits.to.map(Rank::get)), (0, Some(1)));
}

#[test]
fn two_communicators_entered_in_opposite_order_are_a_cycle() {
    let program = Program {
        ranks: vec![
            vec![Op::barrier(0), Op::barrier(1)],
            vec![Op::barrier(1), Op::barrier(0)],
        ],
        communicators: vec![vec![0, 1], vec![0, 1]],
    };
    let end = walk(&program, &mut Random::new(1), |_, _| {});
    let verdict = judge(&end.snapshot(Seen::ALL));
    assert_eq!(cycle(&verdict), [(0, 1), (1, 0)]);
    assert_eq!(verdict.mismatches, []);
}

#[test]
fn a_slow_rank_is_progress_and_input_from_outside_is_idle() {
    let program = Program::world(vec![vec![recv(1)], vec![Op::Outside, Op::send(0, 0)]]);
    let mut machine = Machine::new(&program);
    machine.take(machine.steps()[0]);
    let slow = judge(&machine.snapshot(Seen::ALL));
    assert_eq!((slow.state, slow.moves), (State::Progressing, true));
    machine.take(machine.steps()[0]);
    let idle = judge(&machine.snapshot(Seen::ALL));
    assert_eq!(
        idle.state,
        State::Idle {
            outside: vec![Rank::new(1)]
        }
    );
    assert!(!idle.moves);
}

/// Two ranks that wait for each other.
fn pair() -> Snapshot {
    let program = Program::world(vec![vec![recv(1)], vec![recv(0)]]);
    walk(&program, &mut Random::new(1), |_, _| {}).snapshot(Seen::ALL)
}

#[test]
fn a_rank_that_moved_during_the_read_is_live() {
    assert_eq!(dead(&judge(&pair())), [0, 1]);
    for epochs in [[2, 4], [3, 3]] {
        let mut snapshot = pair();
        snapshot.ranks[1].epochs = epochs;
        assert_eq!(judge(&snapshot).state, State::Progressing);
    }
}

#[test]
fn a_rank_that_polls_counts_as_blocked_after_the_looks_asked_for() {
    let mut snapshot = pair();
    let Doing::Blocked { call, wait } = snapshot.ranks[0].doing.clone() else {
        unreachable!()
    };
    for (unchanged, blocked) in [(1, false), (2, true)] {
        let wait = wait.clone();
        snapshot.ranks[0].doing = Doing::Polling {
            call,
            wait,
            unchanged,
        };
        let verdict = judge(&snapshot);
        assert_eq!(matches!(verdict.state, State::Suspected(_)), blocked);
        assert_eq!(verdict.state.dead().is_some(), blocked);
    }
    assert!(matches!(judge(&pair()).state, State::Deadlocked(_)));
}

#[test]
fn ranks_that_wait_for_each_other_are_dead_for_certain_whoever_polls_beside_them() {
    // Rank 2 waits, by polling, for the two that wait for each other.
    let ranks = vec![vec![recv(1)], vec![recv(0)], vec![recv(1)]];
    let mut snapshot =
        walk(&Program::world(ranks), &mut Random::new(1), |_, _| {}).snapshot(Seen::ALL);
    let Doing::Blocked { call, wait } = snapshot.ranks[2].doing.clone() else {
        unreachable!()
    };
    snapshot.ranks[2].doing = Doing::Polling {
        call,
        wait,
        unchanged: snapshot.polls,
    };
    assert_eq!(dead(&judge(&snapshot)), [0, 1]);
}

#[test]
fn a_snapshot_that_contradicts_itself_gives_no_verdict() {
    let unknown = |change: &dyn Fn(&mut Vec<RankState>)| {
        let mut snapshot = pair();
        change(&mut snapshot.ranks);
        match judge(&snapshot).state {
            State::Unknown(problem) => problem,
            other => panic!("{other:?}"),
        }
    };
    let count = |peer, messages| Count {
        communicator: 0,
        peer: Rank::new(peer),
        tag: None,
        messages,
    };
    assert!(matches!(
        unknown(&|ranks| ranks[0].received = vec![count(1, 1)]),
        Problem::Counts {
            sent: 0,
            received: 1,
            ..
        }
    ));
    assert!(matches!(
        unknown(&|ranks| ranks[0].sent = vec![count(1, 1), count(0, 1)]),
        Problem::Order { .. }
    ));
    let wait_for = |request: Request| {
        unknown(&move |ranks| {
            ranks[0].doing = Doing::Blocked {
                call: 1,
                wait: Wait::One(request),
            }
        })
    };
    let receive = |communicator, from| {
        Request::Receive(Receive {
            communicator,
            from: Some(Rank::new(from)),
            tag: None,
        })
    };
    assert!(matches!(wait_for(receive(0, 9)), Problem::Rank { .. }));
    assert!(matches!(
        wait_for(receive(4, 1)),
        Problem::Communicator { .. }
    ));
    let barrier = Request::Collective {
        communicator: 0,
        number: 1,
        kind: Collective::Barrier,
    };
    assert!(matches!(wait_for(barrier), Problem::NotEntered { .. }));
}

#[test]
fn a_send_to_a_rank_whose_posted_receives_are_not_known_is_never_dead() {
    let program = Program::world(vec![vec![Op::rendezvous(1, 0)], vec![recv(0), recv(0)]]);
    let mut machine = Machine::new(&program);
    let mut snapshot = machine.snapshot(Seen::ALL);
    machine.take(machine.steps()[0]);
    snapshot.ranks[0] = machine.snapshot(Seen::ALL).ranks[0].clone();
    snapshot.ranks[1].doing = Doing::Exited;
    assert_eq!(dead(&judge(&snapshot)), [0]);
    snapshot.ranks[1].posted = Posted::Unknown;
    assert_eq!(judge(&snapshot).state, State::Progressing);
}

/// The named rank and the exited rank that it waits for.
fn exited(verdict: &Verdict) -> (u32, u32) {
    match &deadlock(verdict).cause {
        Cause::Exited { waits } => (waits.from.get(), waits.to.unwrap().get()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_collective_needs_all_who_are_late_not_one_of_them() {
    let program = Program::world(vec![
        vec![Op::barrier(0)],
        vec![Op::Outside, Op::barrier(0)],
        vec![recv(0), Op::barrier(0)],
    ]);
    let mut machine = Machine::new(&program);
    for rank in 0..3 {
        machine.take(Step::Begin(rank));
    }
    let verdict = judge(&machine.snapshot(Seen::ALL));
    assert_eq!(dead(&verdict), [0, 2]);
    assert_eq!(cycle(&verdict), [(0, 2), (2, 0)]);
}

#[test]
fn who_is_late_for_a_collective_is_late_for_all_later_ones() {
    let to_root = Op::Collective {
        communicator: 0,
        kind: Collective::ToRoot {
            which: 0,
            root: Rank::new(1),
        },
    };
    // Rank 0 leaves the first collective early; its root still waits for rank 2.
    let with = |last: Vec<Op>| {
        at_rest(vec![
            vec![to_root.clone(), Op::barrier(0)],
            vec![to_root.clone()],
            last,
        ])
    };
    let verdict = with(vec![recv(0)]);
    assert_eq!(dead(&verdict), [0, 1, 2]);
    assert_eq!(cycle(&verdict), [(0, 2), (2, 0)]);
    assert_eq!(exited(&with(vec![])), (0, 2));
}

#[test]
fn what_hangs_on_a_rank_that_is_gone_is_no_knot_and_who_waits_for_it_is_named() {
    let any = |a, b| vec![recv(a).posted(), recv(b).posted(), Op::WaitAny(vec![0, 1])];
    let verdict = at_rest(vec![any(1, 2), any(0, 2), vec![recv(3)], vec![]]);
    assert_eq!(dead(&verdict), [0, 1, 2]);
    assert_eq!(exited(&verdict), (2, 3));
    let anyone = at_rest(vec![vec![Op::receive(None, None)], vec![recv(2)], vec![]]);
    assert_eq!(dead(&anyone), [0, 1]);
    assert_eq!(exited(&anyone), (1, 2));
}

#[test]
fn a_wait_for_nothing_returns() {
    for wait in [Wait::All(Vec::new()), Wait::Any(Vec::new())] {
        let mut snapshot = pair();
        snapshot.ranks[0].doing = Doing::Blocked { call: 1, wait };
        assert_eq!(judge(&snapshot).state, State::Progressing);
    }
}

#[test]
fn all_lists_of_a_rank_have_to_be_in_order() {
    let count = |peer| Count {
        communicator: 0,
        peer: Rank::new(peer),
        tag: None,
        messages: 0,
    };
    let entered = |communicator| Entered {
        communicator,
        number: 1,
        kind: Collective::Barrier,
    };
    let order = |change: &dyn Fn(&mut RankState)| {
        let mut snapshot = pair();
        change(&mut snapshot.ranks[1]);
        let unknown = State::Unknown(Problem::Order { rank: Rank::new(1) });
        assert_eq!(judge(&snapshot).state, unknown);
    };
    order(&|rank| rank.sent = vec![count(1), count(0)]);
    order(&|rank| rank.received = vec![count(1), count(0)]);
    order(&|rank| rank.entered = vec![entered(0), entered(0)]);
}
