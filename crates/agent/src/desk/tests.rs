//! What the controller decides, from what it is told and when: no processes, no clock.

use super::*;
use idlewave_gang::policy::Reason;

const SETTLE: Nanos = Nanos::from_secs(1);
const HERE: NodeId = NodeId::new(0);
const THERE: NodeId = NodeId::new(1);

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn facts(cpus: u32) -> NodeFacts {
    NodeFacts {
        host: "host".to_owned(),
        cpus,
        freezer: "signals".to_owned(),
        limits: Vec::new(),
        version: 0,
    }
}

fn job(token: &str) -> Job {
    Job {
        name: token.to_owned(),
        user: 7,
        mark: Mark::Token(token.to_owned()),
        class: Class::Production,
        weight: 1,
    }
}

/// So many ranks of so many, all with a process, there for a while.
fn seen(gang: GangId, ranks: u32, size: Option<u32>, steady: Nanos) -> Seen {
    Seen {
        gang: gang.get(),
        processes: ranks,
        ranks,
        size,
        steady,
        ..Seen::default()
    }
}

fn desk_of(nodes: &[u32], rows: usize) -> Desk {
    let settings = DeskSettings {
        policy: Settings::default(),
        rows,
        settle: SETTLE,
        yielding: true,
    };
    let mut desk = Desk::new(settings).unwrap();
    for (node, cpus) in (0..).zip(nodes) {
        assert!(desk.hello(NodeId::new(node), facts(*cpus)));
    }
    desk
}

/// One node of two CPUs, four rows.
fn desk() -> Desk {
    desk_of(&[2], 4)
}

/// A gang of two ranks that is switched.
fn running(desk: &mut Desk, token: &str) -> GangId {
    let gang = desk.submit(job(token), Nanos::ZERO).unwrap();
    desk.sight(HERE, desk.version(), vec![seen(gang, 2, Some(2), SETTLE)]);
    desk.advance(ms(0));
    desk.advance(ms(20));
    assert_eq!(stage(desk, gang), Stage::Running);
    gang
}

fn status(desk: &Desk, gang: GangId) -> GangStatus {
    let all = desk.gangs(ms(1000));
    all.into_iter().find(|g| g.gang == gang.get()).unwrap()
}

fn stage(desk: &Desk, gang: GangId) -> Stage {
    status(desk, gang).stage
}

fn row(desk: &Desk, gang: GangId) -> RowId {
    desk.matrix().home(gang).unwrap().row
}

/// The gang has the CPUs for so long, and uses so much of it; then its node tells.
fn turn(desk: &mut Desk, gang: GangId, time: Nanos, used: Nanos) {
    desk.ran(row(desk, gang), time, ms(0));
    let before = status(desk, gang);
    let tells = Seen {
        cpu: before.cpu + used,
        ..seen(gang, 2, Some(2), SETTLE)
    };
    desk.sight(HERE, desk.version(), vec![tells]);
}

/// Whose turns come, one after the other, each of 10 ms.
fn turns(desk: &mut Desk, n: u64) -> Vec<RowId> {
    let mut all = Vec::new();
    for i in 0..n {
        let now = ms(10 * i);
        if let Some(Decision::Run { row, .. }) = desk.decide(now) {
            desk.ran(row, ms(10), now + ms(10));
            all.push(row);
        }
    }
    all
}

const DEAD: Observation = Observation::Deadlocked {
    ranks: 2,
    all: true,
    polling: false,
};

#[test]
fn a_gang_is_admitted_when_all_its_ranks_are_there_and_have_been_for_a_while() {
    let mut desk = desk();
    let gang = desk.submit(job("a"), Nanos::ZERO).unwrap();
    desk.advance(ms(0));
    assert_eq!(stage(&desk, gang), Stage::Waiting);
    let steps = [
        (seen(gang, 1, Some(2), SETTLE), Stage::Starting),
        (
            seen(gang, 2, Some(2), SETTLE.saturating_sub(ms(1))),
            Stage::Starting,
        ),
        (seen(gang, 2, Some(2), SETTLE), Stage::Running),
    ];
    for (tells, wanted) in steps {
        desk.sight(HERE, 1, vec![tells]);
        desk.advance(ms(0));
        desk.advance(ms(20));
        assert_eq!(stage(&desk, gang), wanted);
        let rows = &desk.specs()[0].rows;
        assert_eq!(rows.is_empty(), wanted != Stage::Running, "{rows:?}");
    }
}

#[test]
fn ranks_of_all_nodes_count_and_each_of_them_has_to_be_steady() {
    let mut desk = desk_of(&[2, 2], 4);
    let gang = desk.submit(job("a"), Nanos::ZERO).unwrap();
    let mut tell = |node, ranks, steady| {
        desk.sight(node, 1, vec![seen(gang, ranks, Some(4), steady)]);
        desk.advance(ms(0));
        desk.advance(ms(20));
        stage(&desk, gang)
    };
    assert_eq!(tell(HERE, 2, SETTLE), Stage::Starting);
    assert_eq!(tell(THERE, 2, ms(10)), Stage::Starting);
    assert_eq!(tell(THERE, 2, SETTLE), Stage::Running);
    assert_eq!(status(&desk, gang).nodes, [HERE, THERE]);
    assert_eq!(desk.matrix().running(row(&desk, gang)), [gang]);
}

#[test]
fn where_nobody_tells_how_many_ranks_there_are_processes_that_stay_the_same_are_all() {
    let mut desk = desk();
    let gang = desk.submit(job("a"), Nanos::ZERO).unwrap();
    let tells = Seen {
        processes: 5,
        ..seen(gang, 0, None, SETTLE)
    };
    desk.sight(HERE, 1, vec![tells]);
    desk.advance(ms(0));
    desk.advance(ms(20));
    assert_eq!(stage(&desk, gang), Stage::Running);
    // Not more slots than the node has.
    let row = row(&desk, gang);
    assert!((0..2).all(|slot| desk.matrix().cell(row, HERE, slot).is_some()));
}

#[test]
fn a_gang_that_is_in_mpi_init_waits_and_one_that_is_past_it_is_admitted_soon() {
    let mut desk = desk();
    let gang = desk.submit(job("a"), Nanos::ZERO).unwrap();
    let mut after = |initialised, steady| {
        desk.observed(gang, initialised, Observation::Progressing);
        desk.sight(HERE, 1, vec![seen(gang, 2, Some(2), steady)]);
        desk.advance(ms(0));
        desk.advance(ms(20));
        stage(&desk, gang)
    };
    assert_eq!(after(Some(false), Nanos::from_secs(10)), Stage::Starting);
    assert_eq!(after(Some(true), ms(49)), Stage::Starting);
    assert_eq!(after(None, SETTLE.saturating_sub(ms(1))), Stage::Starting);
    assert_eq!(after(Some(true), ms(50)), Stage::Running);
    // Past it, but not all are there.
    let gang = desk.submit(job("b"), Nanos::ZERO).unwrap();
    desk.observed(gang, Some(true), Observation::Progressing);
    desk.sight(HERE, 1, vec![seen(gang, 1, Some(2), SETTLE)]);
    desk.advance(ms(0));
    desk.advance(ms(20));
    assert_eq!(stage(&desk, gang), Stage::Starting);
}

#[test]
fn a_gang_that_enters_mpi_init_again_runs_freely_meanwhile() {
    let mut desk = desk();
    let gang = running(&mut desk, "a");
    let version = desk.version();
    desk.observed(gang, None, Observation::Progressing);
    assert_eq!(stage(&desk, gang), Stage::Running);
    desk.observed(gang, Some(false), Observation::Progressing);
    assert_eq!(stage(&desk, gang), Stage::Starting);
    assert!(desk.version() > version, "agents are to hear of it");
    assert!(desk.specs()[0].rows.is_empty());
    assert_eq!(desk.decide(ms(0)), None);
    desk.observed(gang, Some(true), Observation::Progressing);
    desk.advance(ms(40));
    assert_eq!(stage(&desk, gang), Stage::Running);
}

#[test]
fn that_ranks_are_past_mpi_init_is_not_believed_of_those_that_come_later() {
    let mut desk = desk();
    let gang = desk.submit(job("a"), Nanos::ZERO).unwrap();
    desk.observed(gang, Some(true), Observation::Progressing);
    let see = |desk: &mut Desk, ranks, steady| {
        desk.sight(HERE, 1, vec![seen(gang, ranks, None, steady)]);
        desk.advance(ms(0));
        desk.advance(ms(20));
        stage(desk, gang)
    };
    assert_eq!(see(&mut desk, 1, ms(50)), Stage::Running);
    assert_eq!(see(&mut desk, 2, ms(50)), Stage::Starting);
    assert_eq!(see(&mut desk, 2, ms(999)), Stage::Starting);
    desk.observed(gang, Some(true), Observation::Progressing);
    assert_eq!(see(&mut desk, 2, ms(50)), Stage::Running);
    // Without a word of it, the rule holds.
    assert_eq!(see(&mut desk, 3, ms(50)), Stage::Starting);
    assert_eq!(see(&mut desk, 3, SETTLE), Stage::Running);
}

#[test]
fn a_node_in_trouble_keeps_a_gang_waiting_and_says_why() {
    let mut desk = desk();
    let gang = desk.submit(job("a"), Nanos::ZERO).unwrap();
    let tells = Seen {
        trouble: Some("no freezer".to_owned()),
        ..seen(gang, 2, Some(2), SETTLE)
    };
    desk.sight(HERE, 1, vec![tells]);
    desk.advance(ms(0));
    desk.advance(ms(20));
    assert_eq!(stage(&desk, gang), Stage::Starting);
    assert_eq!(status(&desk, gang).trouble.as_deref(), Some("no freezer"));
}

#[test]
fn a_mark_is_of_one_gang_as_long_as_that_lives_and_weights_start_at_one() {
    let mut desk = desk();
    let first = running(&mut desk, "a");
    assert_eq!(
        desk.submit(job("a"), ms(0)),
        Err(DeskError::Marked(first.get()))
    );
    let weightless = Job {
        weight: 0,
        ..job("b")
    };
    assert!(matches!(
        desk.submit(weightless, ms(0)),
        Err(DeskError::Policy(PolicyError::Weight(_)))
    ));
    desk.sight(HERE, 1, vec![seen(first, 0, None, ms(0))]);
    assert_eq!(desk.advance(ms(0)), [first]);
    let second = desk.submit(job("a"), ms(0)).unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_gang_is_cancelled_by_its_user_and_by_root_only() {
    let mut desk = desk();
    let gang = running(&mut desk, "a");
    let refused = DeskError::OtherUser {
        gang: gang.get(),
        theirs: 7,
        asked: 8,
    };
    assert_eq!(desk.cancel(gang.get(), 8), Err(refused));
    assert_eq!(desk.cancel(99, 0), Err(DeskError::NoGang(99)));
    assert_eq!(
        (stage(&desk, gang), desk.specs()[0].end),
        (Stage::Running, false)
    );
    let version = desk.version();
    desk.cancel(gang.get(), 7).unwrap();
    // It runs freely to its end, and is not admitted again.
    desk.advance(ms(20));
    assert_eq!(stage(&desk, gang), Stage::Starting);
    let spec = &desk.specs()[0];
    assert!(spec.end && spec.rows.is_empty() && desk.version() > version);
    let other = running(&mut desk, "b");
    desk.cancel(other.get(), 0).unwrap();
    assert!(status(&desk, other).ending);
}

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
fn agents_hear_in_which_rows_a_gang_runs() {
    let mut desk = desk();
    let [first, second] = ["a", "b"].map(|token| running(&mut desk, token));
    let specs = desk.specs();
    for (spec, gang) in specs.iter().zip([first, second]) {
        assert_eq!(spec.gang, gang.get());
        assert_eq!(spec.rows, [row(&desk, gang).get()]);
        assert_eq!((spec.user, spec.end), (7, false));
    }
    assert_ne!(specs[0].rows, specs[1].rows);
    assert!(desk.has(Slot::All) && desk.has(Slot::Gang(GangId::new(specs[1].rows[0]))));
    desk.over(second);
    assert!(!desk.has(Slot::Gang(GangId::new(specs[1].rows[0]))));
    assert_eq!(desk.specs().len(), 1);
}

#[test]
fn it_is_settled_when_each_node_has_carried_out_the_last_change() {
    let mut desk = desk_of(&[2, 2], 4);
    desk.submit(job("a"), ms(0)).unwrap();
    let version = desk.version();
    desk.sight(HERE, version, Vec::new());
    desk.sight(THERE, version - 1, Vec::new());
    assert!(!desk.settled());
    desk.sight(THERE, version, Vec::new());
    assert!(desk.settled() && desk.eager());
}

#[test]
fn a_gang_without_processes_has_ended_and_says_so_once() {
    let mut desk = desk();
    let [first, second] = ["a", "b"].map(|token| running(&mut desk, token));
    let version = desk.version();
    desk.sight(HERE, version, vec![seen(first, 0, Some(2), ms(0))]);
    assert_eq!(desk.advance(ms(0)), [first]);
    assert_eq!(desk.advance(ms(20)), []);
    assert_eq!(stage(&desk, first), Stage::Ended);
    assert!(desk.version() > version && desk.specs().len() == 1);
    assert_eq!(turns(&mut desk, 4), [row(&desk, second); 4]);
    desk.over(first);
    assert_eq!(desk.gangs(ms(0)).len(), 1);
}

#[test]
fn a_node_that_comes_back_with_other_cpus_waits_until_no_gang_is_in_the_matrix() {
    let mut desk = desk();
    let gang = running(&mut desk, "a");
    assert!(desk.hello(HERE, facts(2)), "it is the same");
    assert!(!desk.hello(HERE, facts(4)) && !desk.hello(THERE, facts(2)));
    assert_eq!((desk.nodes().len(), desk.matrix().slots(HERE)), (1, 2));
    desk.over(gang);
    assert!(desk.hello(HERE, facts(4)) && desk.hello(THERE, facts(1)));
    assert_eq!(
        (desk.matrix().slots(HERE), desk.matrix().slots(THERE)),
        (4, 1)
    );
}

#[test]
fn a_gang_for_which_there_is_no_row_waits_and_says_so_until_there_is_one() {
    let mut desk = desk_of(&[2], 2);
    let first = running(&mut desk, "a");
    running(&mut desk, "b");
    let third = desk.submit(job("c"), ms(0)).unwrap();
    desk.sight(HERE, 1, vec![seen(third, 2, Some(2), SETTLE)]);
    desk.advance(ms(0));
    desk.advance(ms(20));
    let now = status(&desk, third);
    assert_eq!(now.stage, Stage::Starting);
    assert!(now.trouble.unwrap().starts_with("waits: "));
    desk.over(first);
    desk.advance(ms(40));
    let now = status(&desk, third);
    assert_eq!((now.stage, now.trouble), (Stage::Running, None));
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
    desk.advance(ms(20));
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
    desk.advance(ms(20));
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
    // Too short to tell.
    turn(&mut desk, sleeps, ms(19), Nanos::ZERO);
    assert!(!status(&desk, sleeps).idle);
    turn(&mut desk, sleeps, ms(1), Nanos::ZERO);
    assert!(status(&desk, sleeps).idle);
    for _ in 0..3 {
        turn(&mut desk, works, ms(100), ms(1));
    }
    assert!(!status(&desk, works).idle, "a hundredth is some");
    // A turn each second, to see whether it is still idle.
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
    // What it had before it was first seen so does not count.
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
    // From the start again.
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
    // Not even one a second.
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

#[test]
fn of_a_gang_that_nobody_knows_nothing_is_taken() {
    let mut desk = desk();
    let version = desk.version();
    let stranger = GangId::new(77);
    desk.observed(stranger, Some(false), DEAD);
    desk.sight(HERE, version, vec![seen(stranger, 2, Some(2), SETTLE)]);
    desk.over(stranger);
    assert_eq!((desk.gangs(ms(0)).len(), desk.version()), (0, version));
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
    desk.advance(ms(20));
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
