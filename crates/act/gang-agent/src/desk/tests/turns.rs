//! Turns.

use super::*;
use idlewave_gang::policy::Reason;

#[test]
fn a_drained_service_takes_nothing_and_switches_nothing() {
    let mut desk = desk();
    running(&mut desk, "a");
    assert!(desk.decide(ms(0)).is_some());
    desk.drain(true);
    assert_eq!(desk.decide(ms(0)), None);
    assert_eq!(desk.submit(job("b"), ms(0)), Err(DeskError::Draining));
    desk.drain(false);
    assert!(desk.decide(ms(0)).is_some());
    desk.submit(job("b"), ms(0)).unwrap();
}

#[test]
fn turns_go_by_weight_and_interactive_gangs_come_first() {
    let mut desk = desk();
    let light = running(&mut desk, "a");
    let heavy = Job {
        weight: 3,
        ..job("b")
    };
    let heavy = desk.submit(heavy, ms(0)).unwrap();
    desk.sight(HERE, 1, vec![seen(heavy, 2, Some(2), SETTLE)]);
    desk.advance(ms(0));
    let all = turns(&mut desk, 40);
    let of = |gang| all.iter().filter(|r| **r == row(&desk, gang)).count();
    assert_eq!((of(light), of(heavy)), (10, 30));
    let first = Job {
        class: Class::Interactive,
        ..job("c")
    };
    let first = desk.submit(first, ms(0)).unwrap();
    desk.sight(HERE, 1, vec![seen(first, 2, Some(2), SETTLE)]);
    desk.advance(ms(0));
    let Some(Decision::Run {
        row: next, reason, ..
    }) = desk.decide(ms(400))
    else {
        panic!("nobody's turn");
    };
    assert_eq!((next, reason), (row(&desk, first), Reason::Interactive));
}

#[test]
fn a_gang_is_idle_when_it_had_no_use_for_its_turns_twice() {
    let mut desk = desk();
    let [sleeps, works] = ["a", "b"].map(|token| running(&mut desk, token));
    turn(&mut desk, sleeps, ms(20), Nanos::ZERO);
    assert!(!status(&desk, sleeps).idle, "once");
    // Too short.
    turn(&mut desk, sleeps, ms(19), Nanos::ZERO);
    assert!(!status(&desk, sleeps).idle);
    turn(&mut desk, sleeps, ms(1), Nanos::ZERO);
    assert!(status(&desk, sleeps).idle);
    for _ in 0..3 {
        turn(&mut desk, works, ms(100), ms(1));
    }
    assert!(!status(&desk, works).idle, "a hundredth is some");
    // A turn each second, to check whether it is still idle.
    let all = turns(&mut desk, 100);
    assert!(all.iter().filter(|r| **r == row(&desk, sleeps)).count() <= 1);
    turn(&mut desk, sleeps, ms(20), ms(20));
    assert!(!status(&desk, sleeps).idle);
}

#[test]
fn ranks_that_were_seen_to_do_nothing_are_idle_only_if_they_had_turns_meanwhile() {
    let mut desk = desk();
    let [gang, _] = ["a", "b"].map(|token| running(&mut desk, token));
    let idle = |desk: &mut Desk| {
        desk.observed(gang, Some(true), Observation::Idle);
        status(desk, gang).idle
    };
    // Turns before it was first reported idle do not count.
    desk.ran(row(&desk, gang), ms(100), ms(0));
    for _ in 0..50 {
        assert!(!idle(&mut desk), "it is frozen");
    }
    for _ in 0..3 {
        desk.ran(row(&desk, gang), ms(10), ms(0));
        assert!(!idle(&mut desk), "20 ms once");
    }
    desk.ran(row(&desk, gang), ms(10), ms(0));
    assert!(idle(&mut desk), "twice");
    assert_eq!(status(&desk, gang).observed, Some(Observation::Idle));
    desk.observed(gang, Some(true), Observation::Progressing);
    assert!(!status(&desk, gang).idle);
    // Counting starts again.
    desk.ran(row(&desk, gang), ms(50), ms(0));
    assert!(!idle(&mut desk));
    desk.ran(row(&desk, gang), ms(50), ms(0));
    assert!(!idle(&mut desk));
}

#[test]
fn the_turns_of_a_deadlocked_gang_go_to_others_at_once() {
    let mut desk = desk();
    let [dead, works] = ["a", "b"].map(|token| running(&mut desk, token));
    assert!(turns(&mut desk, 4).contains(&row(&desk, dead)));
    desk.observed(dead, Some(true), DEAD);
    assert_eq!(
        desk.policy().ends_early(row(&desk, dead)),
        Some(Reason::Yield),
        "the turn under way as well"
    );
    assert_eq!(status(&desk, dead).observed, Some(DEAD));
    // Not even one turn a second.
    assert_eq!(turns(&mut desk, 500), vec![row(&desk, works); 500]);
    desk.observed(dead, Some(true), Observation::Progressing);
    assert!(turns(&mut desk, 4).contains(&row(&desk, dead)));
}

#[test]
fn a_gang_of_which_ranks_may_still_move_keeps_its_turns() {
    let mut desk = desk();
    let [some, _] = ["a", "b"].map(|token| running(&mut desk, token));
    for polling in [false, true] {
        let part = Observation::Deadlocked {
            ranks: 1,
            all: false,
            polling,
        };
        desk.observed(some, Some(true), part);
        let all = turns(&mut desk, 100);
        let of = all.iter().filter(|r| **r == row(&desk, some)).count();
        assert_eq!(of, 50, "{polling}");
    }
    desk.observed(some, None, Observation::Terminated);
    let all = turns(&mut desk, 100);
    let of = all.iter().filter(|r| **r == row(&desk, some)).count();
    assert_eq!(of, 50, "it may compute after MPI_Finalize");
}

#[test]
fn loops_of_tests_that_may_end_after_all_have_a_short_turn_a_second() {
    let mut desk = desk();
    let [loops, _] = ["a", "b"].map(|token| running(&mut desk, token));
    let polling = Observation::Deadlocked {
        ranks: 2,
        all: true,
        polling: true,
    };
    desk.observed(loops, Some(true), polling);
    let all = turns(&mut desk, 500);
    let of = all.iter().filter(|r| **r == row(&desk, loops)).count();
    assert!((3..=5).contains(&of), "{of}");
}

#[test]
fn a_site_that_lets_nobody_yield_gives_turns_to_all() {
    let mut desk = desk();
    desk.settings.yielding = false;
    let [dead, _] = ["a", "b"].map(|token| running(&mut desk, token));
    desk.observed(dead, Some(true), DEAD);
    let all = turns(&mut desk, 100);
    let of = all.iter().filter(|r| **r == row(&desk, dead)).count();
    assert_eq!(of, 50);
}

/// Gangs of one rank each, two in a row; a rank may have several processes.
fn halves(desk: &mut Desk, weights: [u32; 4]) -> [GangId; 4] {
    let gangs = weights.map(|weight| {
        let half = Job {
            weight,
            ..job(&format!("{}", desk.gangs(ms(0)).len()))
        };
        desk.submit(half, Nanos::ZERO).unwrap()
    });
    let tells = gangs.map(|gang| Seen {
        processes: 3,
        ..seen(gang, 1, Some(1), SETTLE)
    });
    desk.sight(HERE, desk.version(), tells.to_vec());
    desk.advance(ms(0));
    let rows = gangs.map(|gang| row(desk, gang));
    assert!(
        rows[0] == rows[1] && rows[2] == rows[3] && rows[1] != rows[2],
        "{rows:?}"
    );
    gangs
}

#[test]
fn a_row_has_turns_as_long_as_one_of_its_gangs_has_a_use_for_them() {
    let mut desk = desk();
    let [first, second, third, fourth] = halves(&mut desk, [1; 4]);
    let shared = row(&desk, first);
    let of = |desk: &mut Desk| turns(desk, 4).iter().filter(|r| **r == shared).count();
    desk.observed(first, Some(true), DEAD);
    assert_eq!(of(&mut desk), 2);
    desk.observed(second, Some(true), DEAD);
    assert_eq!(of(&mut desk), 0);
    desk.observed(third, Some(true), DEAD);
    desk.observed(fourth, Some(true), DEAD);
    assert_eq!(desk.decide(ms(0)), Some(Decision::Rest { until: None }));
}

#[test]
fn the_share_of_a_row_is_that_of_the_heaviest_of_its_gangs() {
    let mut desk = desk();
    let [first, _, third, _] = halves(&mut desk, [1, 3, 1, 1]);
    let all = turns(&mut desk, 40);
    let of = |gang| all.iter().filter(|r| **r == row(&desk, gang)).count();
    assert_eq!((of(first), of(third)), (30, 10));
}
