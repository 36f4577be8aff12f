//! Which gangs are admitted, run freely, and have ended.

use super::*;

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
    assert_eq!(stage(&desk, gang), Stage::Running);
    // At most the slots of the node.
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
        stage(&desk, gang)
    };
    assert_eq!(after(Some(false), Nanos::from_secs(10)), Stage::Starting);
    assert_eq!(after(Some(true), ms(49)), Stage::Starting);
    assert_eq!(after(None, SETTLE.saturating_sub(ms(1))), Stage::Starting);
    assert_eq!(after(Some(true), ms(50)), Stage::Running);
    // Past MPI_Init, but not all ranks have arrived.
    let gang = desk.submit(job("b"), Nanos::ZERO).unwrap();
    desk.observed(gang, Some(true), Observation::Progressing);
    desk.sight(HERE, 1, vec![seen(gang, 1, Some(2), SETTLE)]);
    desk.advance(ms(0));
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
        stage(desk, gang)
    };
    assert_eq!(see(&mut desk, 1, ms(50)), Stage::Running);
    assert_eq!(see(&mut desk, 2, ms(50)), Stage::Starting);
    assert_eq!(see(&mut desk, 2, ms(999)), Stage::Starting);
    desk.observed(gang, Some(true), Observation::Progressing);
    assert_eq!(see(&mut desk, 2, ms(50)), Stage::Running);
    // Without a report, the usual time applies.
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
    desk.advance(ms(0));
    let second = desk.submit(job("a"), ms(0)).unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_gang_is_cancelled_by_its_user_and_by_root_only() {
    let mut desk = desk();
    let gang = running(&mut desk, "a");
    let refused = DeskError::OtherUser {
        gang: gang.get(),
        theirs: Uid::new(7),
        asked: Uid::new(8),
    };
    assert_eq!(desk.cancel(gang.get(), Uid::new(8)), Err(refused));
    assert_eq!(desk.cancel(99, Uid::ROOT), Err(DeskError::NoGang(99)));
    assert_eq!(
        (stage(&desk, gang), desk.specs()[0].end),
        (Stage::Running, false)
    );
    let version = desk.version();
    desk.cancel(gang.get(), Uid::new(7)).unwrap();
    // It runs freely to its end, and is not admitted again.
    desk.advance(ms(20));
    assert_eq!(stage(&desk, gang), Stage::Starting);
    let spec = &desk.specs()[0];
    assert!(spec.end && spec.rows.is_empty() && desk.version() > version);
    let other = running(&mut desk, "b");
    desk.cancel(other.get(), Uid::ROOT).unwrap();
    assert!(status(&desk, other).ending);
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
    assert!(desk.settled() && desk.eager(Nanos::ZERO));
}

#[test]
fn a_gang_without_processes_has_ended_and_says_so_once() {
    let mut desk = desk();
    let [first, second] = ["a", "b"].map(|token| running(&mut desk, token));
    let version = desk.version();
    desk.sight(HERE, version, vec![seen(first, 0, Some(2), ms(0))]);
    desk.advance(ms(0));
    assert_eq!(stage(&desk, first), Stage::Ended);
    let after = desk.version();
    desk.advance(ms(20));
    assert!(after > version && desk.version() == after, "once");
    assert_eq!(desk.specs().len(), 1);
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
fn the_end_of_one_gang_makes_room_for_another_at_once() {
    let mut desk = desk_of(&[2], 2);
    let early = desk.submit(job("early"), ms(0)).unwrap();
    let [first, _] = ["a", "b"].map(|token| running(&mut desk, token));
    desk.sight(HERE, 1, vec![seen(early, 2, Some(2), SETTLE)]);
    desk.advance(ms(0));
    assert_eq!(stage(&desk, early), Stage::Starting);
    // It is checked before the gang that ends.
    desk.sight(HERE, 1, vec![seen(first, 0, Some(2), ms(0))]);
    desk.advance(ms(20));
    assert_eq!(stage(&desk, early), Stage::Running);
}

#[test]
fn a_gang_for_which_there_is_no_row_waits_and_says_so_until_there_is_one() {
    let mut desk = desk_of(&[2], 2);
    let first = running(&mut desk, "a");
    running(&mut desk, "b");
    let third = desk.submit(job("c"), ms(0)).unwrap();
    desk.sight(HERE, 1, vec![seen(third, 2, Some(2), SETTLE)]);
    desk.advance(ms(0));
    let now = status(&desk, third);
    assert_eq!(now.stage, Stage::Starting);
    assert!(now.trouble.unwrap().starts_with("waits: "));
    desk.over(first);
    desk.advance(ms(40));
    let now = status(&desk, third);
    assert_eq!((now.stage, now.trouble), (Stage::Running, None));
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
