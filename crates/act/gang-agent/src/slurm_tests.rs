//! Slurm jobs: their processes, how these are stopped, and jobs between their steps.

use crate::control::Stage;
use crate::desk::{Desk, DeskError, DeskSettings, Job, NodeFacts};
use crate::held::Gangs;
use crate::marked::{Marked, Marks, VARIABLE};
use crate::parcel::{Mark, Seen, Spec};
use crate::testing::{Ended, sleep_called, start};
use idlewave_freeze::{Freezer, Kind};
use idlewave_gang::GangId;
use idlewave_gang::policy::{self, Class};
use idlewave_gang::protocol::Slot;
use idlewave_gang_slurm::Step;
use idlewave_sys::Uid;
use idlewave_units::{Nanos, NodeId, Pid};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A number that no other test and no real job has.
fn job(k: u32) -> u32 {
    std::process::id() * 8 % 0x03ff_fff0 + k
}

fn spec(gang: u32, mark: Mark) -> Spec {
    Spec {
        gang,
        user: Uid::own().get(),
        mark,
        rows: vec![0],
        end: false,
    }
}

fn find(specs: &[Spec], wanted: usize) -> BTreeMap<GangId, Vec<Marked>> {
    let mut marks = Marks::new();
    let begun = Instant::now();
    for turn in 0_u64.. {
        let found = marks.find(specs, Nanos::from_millis(turn));
        let late = begun.elapsed() > Duration::from_secs(60);
        if found.values().map(Vec::len).sum::<usize>() >= wanted || late {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    unreachable!()
}

#[test]
fn tasks_of_a_slurm_job_are_ranks_and_its_script_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let srun = dir.path().join("srun");
    sleep_called(&srun);
    let sleep = Path::new("/bin/sleep");
    let (own, other) = (job(0).to_string(), job(1).to_string());
    let token = format!("of-a-job-{own}");
    let of = ("SLURM_JOB_ID", own.as_str());
    let task = start(
        sleep,
        &[
            of,
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_NTASKS", "4"),
        ],
    );
    let with_pmix = start(
        sleep,
        &[
            of,
            ("SLURM_STEP_ID", "1"),
            ("SLURM_PROCID", "0"),
            ("PMIX_RANK", "0"),
            ("SLURM_NTASKS", "3"),
        ],
    );
    let script = start(sleep, &[of, ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2")]);
    let below_mpirun = start(
        sleep,
        &[
            of,
            ("SLURM_STEP_ID", "2"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ],
    );
    let launcher = start(&srun, &[of]);
    let _marked = start(sleep, &[of, (VARIABLE, &token)]);
    let _others = start(sleep, &[("SLURM_JOB_ID", other.as_str())]);
    let mut foreign = spec(3, Mark::Slurm(job(1)));
    foreign.user += 1;
    let specs = [
        spec(1, Mark::Slurm(job(0))),
        spec(2, Mark::Token(token)),
        foreign,
    ];
    let found = find(&specs, 6);
    let told: BTreeMap<Pid, _> = found[&GangId::new(1)]
        .iter()
        .map(|p| {
            assert!(!p.tracked && p.user == Uid::own() && p.start > 0);
            (p.pid, (p.step, p.rank, p.size, p.launcher))
        })
        .collect();
    let step = |n| Some(Step::Number(n));
    let expected = BTreeMap::from([
        (task.pid(), (step(0), Some(1), Some(2), false)),
        (with_pmix.pid(), (step(1), Some(0), Some(3), false)),
        (script.pid(), (None, None, None, false)),
        (below_mpirun.pid(), (step(2), Some(3), Some(4), false)),
        (launcher.pid(), (None, None, None, true)),
    ]);
    assert_eq!(told, expected);
    assert_eq!(found[&GangId::new(2)].len(), 1);
    assert!(found[&GangId::new(3)].is_empty());
}

fn marked(pid: Pid, tracked: bool, launcher: bool) -> Marked {
    Marked {
        pid,
        start: 1,
        launcher,
        rank: None,
        size: None,
        user: Uid::own(),
        step: None,
        tracked,
    }
}

fn of(pid: Pid, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap()
}

fn stopped(pid: Pid) -> bool {
    of(pid, "stat")
        .rsplit_once(") ")
        .unwrap()
        .1
        .starts_with('T')
}

#[test]
fn what_slurm_tracks_stays_in_its_group_and_is_stopped_all_the_same() {
    let process = start(Path::new("/bin/sleep"), &[]);
    let home = of(process.pid(), "cgroup");
    let freezer = Freezer::choose().freezer;
    let moves = freezer.kind() != Kind::Signals;
    for tracked in [true, false] {
        let mut gangs = Gangs::new(freezer.clone(), None, Nanos::from_secs(60)).unwrap();
        gangs.set(&[spec(1, Mark::Slurm(1))]);
        let found = BTreeMap::from([(GangId::new(1), vec![marked(process.pid(), tracked, false)])]);
        gangs.sighted(&found, Nanos::ZERO);
        gangs.settle();
        assert_eq!(gangs.seen(Nanos::ZERO)[0].trouble, None);
        let moved = of(process.pid(), "cgroup") != home;
        assert_eq!(moved, moves && !tracked);
        gangs.freeze(Slot::All).unwrap();
        assert_eq!(stopped(process.pid()), tracked || !moves);
        gangs.thaw(Slot::All).unwrap();
    }
    assert_eq!(of(process.pid(), "cgroup"), home);
}

#[test]
fn a_launcher_that_was_born_in_the_group_leaves_it() {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "sleep 60 & wait"]);
    let shell = Ended(shell.spawn().unwrap());
    let home = of(shell.pid(), "cgroup");
    let children = format!("task/{}/children", shell.pid());
    let child = loop {
        if let Some(child) = of(shell.pid(), &children).split_whitespace().next() {
            break Pid::new(child.parse().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let freezer = Freezer::choose().freezer;
    let moves = freezer.kind() != Kind::Signals;
    let mut gangs = Gangs::new(freezer, None, Nanos::from_secs(60)).unwrap();
    gangs.set(&[spec(1, Mark::Slurm(1))]);
    let mut look = |launchers: Vec<Marked>| {
        let mut all = vec![marked(shell.pid(), false, false)];
        all.extend(launchers);
        gangs.sighted(&BTreeMap::from([(GangId::new(1), all)]), Nanos::ZERO);
        gangs.settle();
        assert_eq!(gangs.seen(Nanos::ZERO)[0].trouble, None);
        gangs.freeze(Slot::All).unwrap();
        let (moved, rests) = (of(child, "cgroup") != home, stopped(child));
        gangs.thaw(Slot::All).unwrap();
        (moved, rests)
    };
    assert_eq!(look(Vec::new()), (moves, !moves));
    assert_eq!(look(vec![marked(child, false, true)]), (false, false));
    assert_eq!(gangs.seen(Nanos::ZERO)[0].processes, 1);
    drop(gangs);
    // Its parent is gone and cannot end it.
    let _ = Command::new("kill").arg(child.to_string()).status();
}

#[test]
fn ranks_count_by_step_and_what_a_script_runs_beside_them_unsettles_nothing() {
    // Numbers that no process has.
    let none = |n| Pid::new(u32::MAX - n);
    let rank = |n, step| Marked {
        rank: Some(0),
        step: Some(Step::Number(step)),
        ..marked(none(n), false, false)
    };
    let beside = |n| marked(none(n), false, false);
    for (mark, steady) in [
        (Mark::Slurm(1), [0, 1, 0]),
        (Mark::Token("t".to_owned()), [0, 0, 0]),
    ] {
        let mut gangs = Gangs::new(Freezer::Signals, None, Nanos::from_secs(5)).unwrap();
        gangs.set(&[spec(1, mark)]);
        let all = [
            vec![beside(0), rank(1, 0), rank(2, 1)],
            vec![beside(3), rank(1, 0), rank(2, 1)],
            vec![beside(3), rank(1, 0)],
        ];
        let told: Vec<_> = (0..)
            .zip(all)
            .map(|(at, all)| {
                let now = Nanos::from_secs(at);
                gangs.sighted(&BTreeMap::from([(GangId::new(1), all)]), now);
                let seen = &gangs.seen(now)[0];
                (seen.ranks, seen.steady)
            })
            .collect();
        let steady = steady.map(Nanos::from_secs);
        assert_eq!(told, [(2, steady[0]), (2, steady[1]), (1, steady[2])]);
    }
}

const NODES: [NodeId; 2] = [NodeId::new(0), NodeId::new(1)];

fn desk() -> Desk {
    let mut desk = Desk::new(DeskSettings {
        policy: policy::Settings::default(),
        rows: 4,
        settle: Nanos::from_millis(100),
        yielding: true,
        copying: crate::contexts::Copying::Pointer,
    })
    .unwrap();
    for node in NODES {
        let facts = NodeFacts {
            host: format!("n{node}"),
            cpus: 2,
            freezer: "signals".to_owned(),
            limits: Vec::new(),
            version: 0,
        };
        assert!(desk.hello(node, facts));
    }
    desk
}

fn bring(desk: &mut Desk, mark: Mark) -> GangId {
    let job = Job {
        name: mark.to_string(),
        own: false,
        user: Uid::new(1000),
        mark,
        class: Class::Production,
        weight: 1,
        contexts: None,
    };
    desk.submit(job, Nanos::ZERO).unwrap()
}

/// Both nodes report their processes and ranks, unchanged for `steady` ms.
fn see(desk: &mut Desk, gang: GangId, nodes: [(u32, u32); 2], steady: u64) -> Stage {
    for (node, (processes, ranks)) in NODES.into_iter().zip(nodes) {
        let seen = Seen {
            gang: gang.get(),
            processes,
            ranks,
            steady: Nanos::from_millis(steady),
            ..Seen::default()
        };
        desk.sight(node, 0, vec![seen]);
    }
    desk.advance(Nanos::from_secs(1));
    desk.gangs(Nanos::from_secs(1))
        .iter()
        .find(|g| g.gang == gang.get())
        .map_or(Stage::Ended, |g| g.stage)
}

fn places(desk: &Desk, gang: GangId) -> usize {
    let cells = |node| {
        let rows = desk.matrix().rows();
        let slots = rows.flat_map(move |row| (0..2).map(move |slot| (row, slot)));
        slots
            .filter(|(row, slot)| {
                let cell = desk.matrix().cell(*row, node, *slot);
                cell == Some(idlewave_gang::matrix::Cell::Home(gang))
            })
            .count()
    };
    NODES.into_iter().map(cells).sum()
}

#[test]
fn a_job_whose_script_starts_a_program_later_gets_its_slots_then() {
    let mut desk = desk();
    let gang = bring(&mut desk, Mark::Slurm(7));
    assert!(!desk.eager(Nanos::ZERO));
    assert_eq!(see(&mut desk, gang, [(1, 0), (0, 0)], 0), Stage::Starting);
    assert!(desk.eager(Nanos::ZERO));
    assert_eq!(see(&mut desk, gang, [(1, 0), (0, 0)], 100), Stage::Running);
    assert_eq!(places(&desk, gang), 1);
    let version = desk.version();
    // Its ranks run freely until they have existed for a while.
    assert_eq!(see(&mut desk, gang, [(3, 2), (1, 1)], 0), Stage::Starting);
    assert_eq!((places(&desk, gang), desk.version()), (0, version + 1));
    assert_eq!(see(&mut desk, gang, [(3, 2), (1, 1)], 99), Stage::Starting);
    assert_eq!(see(&mut desk, gang, [(3, 2), (1, 1)], 100), Stage::Running);
    assert_eq!(places(&desk, gang), 3);
    // A rank that ends changes nothing; after the program's end, the next one's ranks are new.
    assert_eq!(see(&mut desk, gang, [(2, 1), (1, 1)], 0), Stage::Running);
    assert_eq!(see(&mut desk, gang, [(3, 2), (1, 1)], 0), Stage::Running);
    assert_eq!(see(&mut desk, gang, [(1, 0), (0, 0)], 0), Stage::Running);
    assert_eq!(see(&mut desk, gang, [(2, 1), (0, 0)], 0), Stage::Starting);
}

#[test]
fn a_slurm_job_without_processes_waits_for_its_next_step_until_it_is_released() {
    let mut desk = desk();
    let (slurms, tokens) = (Mark::Slurm(7), Mark::Token("t".to_owned()));
    let gang = bring(&mut desk, slurms.clone());
    let other = bring(&mut desk, tokens);
    for gang in [gang, other] {
        see(&mut desk, gang, [(1, 1), (1, 1)], 0);
        assert_eq!(see(&mut desk, gang, [(1, 1), (1, 1)], 100), Stage::Running);
    }
    assert_eq!(see(&mut desk, gang, [(0, 0), (0, 0)], 0), Stage::Waiting);
    assert_eq!(places(&desk, gang), 0);
    assert_eq!(see(&mut desk, other, [(0, 0), (0, 0)], 0), Stage::Ended);
    assert_eq!(see(&mut desk, gang, [(1, 1), (1, 1)], 99), Stage::Starting);
    assert_eq!(see(&mut desk, gang, [(1, 1), (1, 1)], 100), Stage::Running);
    let refused = desk.release(&slurms, Uid::new(1001)).unwrap_err();
    assert!(matches!(refused, DeskError::OtherUser { theirs, .. } if theirs == Uid::new(1000)));
    let none = desk.release(&Mark::Slurm(8), Uid::ROOT).unwrap_err();
    assert_eq!(none, DeskError::NoMark(Mark::Slurm(8)));
    assert!(none.to_string().contains("Slurm job 8"));
    let version = desk.version();
    desk.release(&slurms, Uid::new(1000)).unwrap();
    assert_eq!(places(&desk, gang), 0);
    assert!(desk.version() > version && desk.specs().is_empty());
    // The number may be reused.
    bring(&mut desk, slurms);
}

#[test]
fn a_slurm_job_that_is_cancelled_ends_with_its_processes() {
    let mut desk = desk();
    let gang = bring(&mut desk, Mark::Slurm(7));
    see(&mut desk, gang, [(1, 1), (0, 0)], 0);
    desk.cancel(gang.get(), Uid::new(1000)).unwrap();
    assert_eq!(see(&mut desk, gang, [(1, 1), (0, 0)], 200), Stage::Starting);
    assert_eq!(see(&mut desk, gang, [(0, 0), (0, 0)], 0), Stage::Ended);
}
