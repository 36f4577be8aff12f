//! Verdicts against the truth: every continuation of small programs.

#![allow(clippy::unwrap_used)]

use idlewave_gang::state::testing::{Machine, Op, Program, Random, Seen, walk};
use idlewave_gang::state::{State, judge};
use proptest::prelude::*;

/// More states than any of these programs has.
const LIMIT: usize = 200_000;

fn seen() -> impl Strategy<Value = Seen> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(tags, posted, polling)| Seen {
        tags,
        posted,
        polling,
    })
}

fn program(seed: u64, random: &mut Random) -> Program {
    match seed % 3 {
        0 => Program::any(random, 8),
        1 => Program::ending(random, 4).broken(random),
        _ => Program::ending(random, 4).broken(random).broken(random),
    }
}

fn dead(machine: &Machine, seen: Seen) -> Vec<usize> {
    // The machine has no other way out of a loop of tests, so a suspicion is a fact here.
    match judge(&machine.snapshot(seen)).state {
        State::Unknown(problem) => panic!("{problem}"),
        state => state
            .dead()
            .into_iter()
            .flat_map(|d| &d.ranks)
            .map(|r| r.index())
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 30_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_rank_that_is_called_dead_moves_in_no_continuation(seed in any::<u64>(), seen in seen()) {
        let random = &mut Random::new(seed);
        let program = program(seed, random);
        walk(&program, random, |machine, _| {
            let dead = dead(machine, seen);
            if !dead.is_empty() {
                let moves = machine.can_move(LIMIT).unwrap();
                for rank in dead {
                    assert!(!moves[rank], "rank {rank} moves: {:#?}", machine.snapshot(seen));
                }
            }
        });
    }

    #[test]
    fn where_tags_are_recorded_and_no_receive_is_left_over_every_standstill_is_found(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let program = program(seed, random);
        let end = walk(&program, random, |_, _| {});
        let left: Vec<usize> = (0..program.ranks.len()).filter(|r| !end.exited(*r)).collect();
        if can_be_told(&end) {
            prop_assert_eq!(dead(&end, Seen::ALL), left, "{:#?}", end.snapshot(Seen::ALL));
        }
    }
}

/// What the verdict may miss at a standstill (module documentation of `state`): posted receives
/// outside the wait, wildcards beside other requests of one wait, and a mismatch that a member has
/// already left behind.
fn can_be_told(machine: &Machine) -> bool {
    use idlewave_gang::state::{Doing, Posted, Request, Wait};
    let snapshot = machine.snapshot(Seen::ALL);
    let plain = snapshot.ranks.iter().all(|rank| {
        let wildcards = match &rank.doing {
            Doing::Blocked {
                wait: Wait::All(all),
                ..
            } => {
                let wild = |r: &Request| {
                    matches!(r, Request::Receive(r) if r.from.is_none() || r.tag.is_none())
                };
                all.len() > 1 && all.iter().any(wild)
            }
            _ => false,
        };
        rank.posted == Posted::Known(Vec::new()) && !wildcards
    });
    let behind = snapshot.ranks.iter().any(|rank| {
        let Doing::Blocked { wait, .. } = &rank.doing else {
            return false;
        };
        wait.requests().iter().any(|r| match r {
            Request::Collective {
                communicator,
                number,
                ..
            } => snapshot.ranks.iter().any(|other| {
                other
                    .entered
                    .iter()
                    .any(|e| e.communicator == *communicator && e.number > *number)
            }),
            _ => false,
        })
    });
    plain && !behind
}

#[test]
fn programs_that_end_are_never_called_deadlocked() {
    let random = &mut Random::new(7);
    let mut looks = 0;
    while looks < 100_000 {
        let events = 4 + random.below(16);
        let program = Program::ending(random, events);
        let end = walk(&program, random, |machine, random| {
            let seen = Seen {
                tags: random.one_in(2),
                posted: random.one_in(2),
                polling: random.one_in(2),
            };
            let verdict = judge(&machine.snapshot(seen));
            looks += 1;
            let ended = (0..program.ranks.len()).all(|r| machine.exited(r));
            let expected = if ended {
                State::Terminated
            } else {
                State::Progressing
            };
            assert_eq!(verdict.state, expected, "{program:?}");
            assert_eq!(verdict.mismatches, []);
        });
        assert!(
            (0..program.ranks.len()).all(|r| end.exited(r)),
            "{program:?}"
        );
    }
}

#[test]
fn the_generators_make_what_the_properties_need() {
    let random = &mut Random::new(3);
    let (mut stuck, mut told, mut partial, mut looks) = (0, 0, 0, 0);
    for seed in 0..2000 {
        let program = program(seed, random);
        let end = walk(&program, random, |machine, _| {
            looks += 1;
            let dead = dead(machine, Seen::ALL);
            partial += usize::from(!dead.is_empty() && machine.steps().iter().any(|_| true));
        });
        let left = (0..program.ranks.len()).any(|r| !end.exited(r));
        stuck += usize::from(left);
        told += usize::from(left && can_be_told(&end));
    }
    println!("{looks} looks, {stuck} of 2000 runs stuck, {told} can be told, {partial} early");
    assert!(stuck > 500 && told > 300 && partial > 200);
}

#[test]
fn the_oracle_knows_a_cycle_from_a_late_sender() {
    let cycle = Program::world(vec![
        vec![Op::receive(Some(1), Some(0)), Op::send(1, 0)],
        vec![Op::receive(Some(0), Some(0)), Op::send(0, 0)],
    ]);
    let end = walk(&cycle, &mut Random::new(1), |_, _| {});
    assert_eq!(end.can_move(LIMIT), Some(vec![false, false]));
    let late = Program::world(vec![
        vec![Op::receive(Some(1), Some(0))],
        vec![Op::Compute, Op::send(0, 0)],
    ]);
    assert_eq!(Machine::new(&late).can_move(LIMIT), Some(vec![true, true]));
}
