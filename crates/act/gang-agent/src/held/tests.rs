//! Gangs made of processes of the tests.

use super::*;
use crate::parcel::Mark;
use crate::testing::{Ended, sleep};
use crate::wait::wait;
use idlewave_freeze::Kind;
use idlewave_sys::Uid;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// For what must succeed, however late.
const LONG: Nanos = Nanos::from_secs(60);

impl Gangs {
    /// Waits until all found processes are under control.
    pub fn settle(&mut self) {
        let limit = clock::now() + LONG;
        while self.held.values().any(Held::is_moving) {
            assert_eq!(wait(&[self.socket()], Some(limit)).unwrap(), [true]);
            self.moved(clock::now());
        }
    }
}

fn spec(token: &str, user: Uid) -> Spec {
    Spec {
        gang: 1,
        user: user.get(),
        mark: Mark::Token(token.to_owned()),
        rows: vec![1],
        end: false,
    }
}

fn state(pid: Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit_once(") ").unwrap().1;
    after.chars().next().unwrap()
}

fn held(gangs: &mut Gangs, user: Uid) -> Ended {
    let process = sleep(&[]);
    let marked = Marked {
        user,
        ..marked(&process)
    };
    let found = Found::from([(GangId::new(1), vec![marked])]);
    assert!(gangs.sighted(&found, clock::now()).is_empty());
    process
}

fn marked(process: &Ended) -> Marked {
    Marked {
        pid: process.pid(),
        start: 0,
        launcher: false,
        rank: None,
        size: None,
        user: Uid::own(),
        step: None,
        tracked: false,
    }
}

#[test]
fn what_was_not_looked_for_is_not_told_to_have_no_processes() {
    let mut gangs = Gangs::new(Freezer::Signals, None, LONG).unwrap();
    gangs.set(&[spec("one", Uid::own())]);
    assert!(gangs.seen(clock::now()).is_empty());
    let _process = held(&mut gangs, Uid::own());
    assert_eq!(gangs.seen(clock::now())[0].processes, 1);
}

#[test]
fn a_gang_that_comes_when_a_watchdog_has_just_ended_has_not_ended_and_is_held_by_the_next() {
    let dog = [
        "sh",
        "-c",
        "echo idlewave-watchdog-ready; exec cat >/dev/null",
    ];
    for freezer in [Freezer::Signals, Freezer::choose().freezer] {
        let guard = Guard::start(dog.map(Into::into).into()).unwrap();
        let watchdog = std::sync::Arc::clone(guard.watchdog());
        let mut gangs = Gangs::new(freezer, Some(guard), LONG).unwrap();
        gangs.set(&[spec("one", Uid::own())]);
        send(watchdog.pids().next().unwrap(), Signal::KILL).unwrap();
        while watchdog.serves() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let process = held(&mut gangs, Uid::own());
        gangs.settle();
        let seen = gangs.seen(clock::now()).remove(0);
        assert_eq!(seen.processes, 1, "{seen:?}");
        assert!(seen.trouble.is_some(), "{seen:?}");
        while !gangs.mend(clock::now()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let found = Found::from([(GangId::new(1), vec![marked(&process)])]);
        assert_eq!(gangs.sighted(&found, clock::now()), []);
        gangs.settle();
        let seen = gangs.seen(clock::now()).remove(0);
        assert_eq!((seen.processes, seen.trouble), (1, None));
        // All of them have gone.
        let nobody = Found::from([(GangId::new(1), Vec::new())]);
        assert_eq!(gangs.sighted(&nobody, clock::now()), [GangId::new(1)]);
    }
}

#[test]
fn another_gang_of_the_same_number_does_not_hold_its_processes() {
    let mut gangs = Gangs::new(Freezer::Signals, None, LONG).unwrap();
    let row = Slot::Gang(GangId::new(1));
    gangs.set(&[spec("one", Uid::own())]);
    let process = held(&mut gangs, Uid::own());
    gangs.freeze(row).unwrap();
    assert_eq!(state(process.pid()), 'T');
    // As sent by a restarted controller, which numbers from one.
    gangs.set(&[spec("another", Uid::own())]);
    assert_ne!(state(process.pid()), 'T');
    gangs.freeze(row).unwrap();
    assert_ne!(state(process.pid()), 'T');
    assert!(gangs.seen(clock::now()).is_empty());
}

#[test]
fn processes_of_other_users_are_counted_and_left_alone() {
    let mut gangs = Gangs::new(Freezer::Signals, None, LONG).unwrap();
    gangs.set(&[spec("one", Uid::own())]);
    let process = held(&mut gangs, Uid::new(Uid::own().get() + 1));
    gangs.freeze(Slot::Gang(GangId::new(1))).unwrap();
    assert_ne!(state(process.pid()), 'T');
    let seen = gangs.seen(clock::now());
    assert_eq!((seen[0].processes, seen[0].others), (0, 1));
}

/// Gangs with a cgroup; each order to the mover waits for the test.
struct Rig {
    // Dropped first, so that a failed test waits for nothing.
    go: Sender<()>,
    begun: Receiver<()>,
    gangs: Gangs,
    parent: PathBuf,
}

impl Rig {
    fn each(test: impl Fn(&mut Rig)) {
        for kind in [Kind::V2, Kind::V1] {
            let freezer = match Freezer::of_kind(kind) {
                Ok(freezer) => freezer,
                Err(e) => {
                    println!("skipped: {e}");
                    continue;
                }
            };
            let parent = freezer.parent().unwrap().to_owned();
            let ((begin, begun), (go, gone)) = (channel(), channel());
            let before = move || {
                // A finished test waits for nothing.
                let _ = begin.send(());
                let _ = gone.recv();
            };
            let mut gangs = Gangs::with(freezer, None, LONG, before).unwrap();
            gangs.set(&[spec("one", Uid::own())]);
            test(&mut Rig {
                gangs,
                begun,
                go,
                parent,
            });
        }
    }

    fn sight(&mut self, processes: &[&Ended]) -> Vec<GangId> {
        let all = processes.iter().map(|process| marked(process)).collect();
        let found = Found::from([(GangId::new(1), all)]);
        self.gangs.sighted(&found, clock::now())
    }

    /// Lets the mover carry out an order.
    fn carry_out(&mut self) {
        self.go.send(()).unwrap();
        let limit = clock::now() + LONG;
        let done = wait(&[self.gangs.socket()], Some(limit)).unwrap();
        assert_eq!(done, [true]);
        self.gangs.moved(clock::now());
    }

    fn await_order(&self) {
        self.begun.recv_timeout(LONG.to_duration()).unwrap();
    }

    fn processes(&self) -> Option<u32> {
        let seen = self.gangs.seen(clock::now());
        assert!(seen.iter().all(|seen| seen.trouble.is_none()), "{seen:?}");
        seen.first().map(|seen| seen.processes)
    }

    /// The gang's processes are frozen, as another row runs.
    fn others_run(&mut self) {
        self.gangs.freeze(Slot::All).unwrap();
        self.gangs.thaw(Slot::Gang(GangId::new(2))).unwrap();
    }

    /// The group of a process, if it is one of the agent's.
    fn group(&self, process: &Ended) -> Option<PathBuf> {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", process.pid())).unwrap();
        let mut names = text.split(['/', '\n']);
        let own = names.find(|name| name.starts_with("idlewave-freeze."));
        own.map(|name| self.parent.join(name))
    }
}

/// Whether a group is frozen, according to the kernel.
fn is_frozen(group: &Path) -> bool {
    let read = |name| std::fs::read_to_string(group.join(name));
    match read("freezer.state") {
        Ok(state) => state.trim() == "FROZEN",
        Err(_) => read("cgroup.events").unwrap().contains("frozen 1"),
    }
}

#[test]
fn what_is_moved_counts_when_it_is_under_control_and_is_frozen_then() {
    Rig::each(|rig| {
        rig.others_run();
        let (one, two) = (sleep(&[]), sleep(&[]));
        rig.sight(&[&one]);
        rig.await_order();
        // Unknown as long as none of its processes is under control.
        assert_eq!((rig.processes(), rig.group(&one)), (None, None));
        rig.sight(&[&one, &two]);
        rig.carry_out();
        // The second process is moved only after that.
        assert_eq!((rig.processes(), rig.group(&two)), (Some(1), None));
        let group = rig.group(&one).unwrap();
        assert!(is_frozen(&group));
        rig.await_order();
        rig.carry_out();
        assert_eq!((rig.processes(), rig.group(&two)), (Some(2), Some(group)));
        assert!(is_frozen(&rig.group(&two).unwrap()));
        rig.gangs.thaw(Slot::All).unwrap();
        assert!(!is_frozen(&rig.group(&one).unwrap()));
    });
}

#[test]
fn a_gang_that_is_dropped_while_it_is_moved_leaves_nothing_frozen_and_no_group() {
    Rig::each(|rig| {
        let (one, two) = (sleep(&[]), sleep(&[]));
        rig.sight(&[&one]);
        rig.await_order();
        rig.carry_out();
        rig.others_run();
        let group = rig.group(&one).unwrap();
        assert!(is_frozen(&group));
        rig.sight(&[&one, &two]);
        rig.await_order();
        // Whether or not more processes are to come, the existing ones run at once.
        rig.gangs.set(&[]);
        assert!(!is_frozen(&group));
        rig.carry_out();
        rig.await_order();
        assert_eq!(rig.group(&two), Some(group.clone()));
        assert!(!is_frozen(&group));
        rig.carry_out();
        assert!(!group.exists());
        assert_eq!((rig.group(&one), rig.group(&two)), (None, None));
        assert_eq!(rig.processes(), None);
    });
}

#[test]
fn gangs_that_go_before_the_first_move_is_done_leave_no_group() {
    for dropped in [false, true] {
        Rig::each(|rig| {
            let one = sleep(&[]);
            rig.others_run();
            rig.sight(&[&one]);
            rig.await_order();
            if dropped {
                rig.gangs.set(&[]);
                rig.carry_out();
                rig.await_order();
            }
            // Also while a switch has frozen everything.
            rig.gangs.freeze(Slot::All).unwrap();
            rig.go.send(()).unwrap();
            // As if the agent had ended; this waits for the mover.
            let freezer = Freezer::Signals;
            rig.gangs = Gangs::new(freezer, None, LONG).unwrap();
            assert_eq!(rig.group(&one), None);
            let stat = state(one.pid());
            assert!(stat == 'S' || stat == 'R', "{stat}");
        });
    }
}

#[test]
fn processes_that_end_while_they_are_moved_are_no_trouble() {
    Rig::each(|rig| {
        let (one, mut two) = (sleep(&[]), sleep(&[]));
        rig.sight(&[&one, &two]);
        rig.await_order();
        two.kill();
        two.0.wait().unwrap();
        rig.carry_out();
        assert_eq!(rig.sight(&[&one]), []);
        assert_eq!(rig.processes(), Some(1));
        // A process that comes when the last one has ended: the gang has not ended.
        let (three, gang) = (sleep(&[]), GangId::new(1));
        assert_eq!(rig.sight(&[&three]), []);
        rig.await_order();
        assert_eq!(rig.processes(), None);
        assert!(rig.gangs.is_moving(gang));
        // If it ends before it was moved, the gang has ended.
        assert_eq!(rig.sight(&[]), []);
        drop(three);
        rig.carry_out();
        assert_eq!(rig.sight(&[]), [gang]);
        assert_eq!(rig.processes(), Some(0));
        assert_eq!(rig.sight(&[]), []);
    });
}

/// Makes it appear to others that a process is being moved for as long as the test runs.
fn while_moving(moves: &Moves, test: impl FnOnce()) {
    let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            moves.go(|| {
                begin.send(()).unwrap();
                // When the test is over, or has failed.
                let _ = ended.recv();
            });
        });
        begun.recv().unwrap();
        // Dropped with the test.
        let _end = end;
        test();
    });
}

#[test]
fn what_would_wait_in_the_kernel_for_a_move_is_refused_or_comes_later() {
    Rig::each(|rig| {
        let one = sleep(&[]);
        rig.sight(&[&one]);
        rig.await_order();
        rig.carry_out();
        let (group, row) = (rig.group(&one).unwrap(), Slot::Gang(GangId::new(1)));
        let moves = Arc::clone(&rig.gangs.moves);
        let waits = rig.gangs.tools.freezer.kind() == Kind::V2;
        let gangs = &mut rig.gangs;
        let refused = |done| match done {
            Err(FreezeError::Moving { .. }) => true,
            other => {
                other.unwrap();
                false
            }
        };
        // What is to be moved waits for a switch.
        let two = sleep(&[]);
        gangs.freeze(row).unwrap();
        let all = vec![marked(&one), marked(&two)];
        gangs.sighted(&Found::from([(GangId::new(1), all)]), clock::now());
        rig.begun.recv_timeout(LONG.to_duration()).unwrap();
        rig.go.send(()).unwrap();
        let soon = clock::now() + Nanos::from_millis(100);
        let done = wait(&[gangs.socket()], Some(soon)).unwrap();
        assert!(!waits || done == [false]);
        gangs.thaw(row).unwrap();
        gangs.settle();
        while_moving(&moves, || {
            if waits {
                gangs.limit = Nanos::from_millis(20);
            }
            assert_eq!(refused(gangs.freeze(row)), waits);
            gangs.limit = LONG;
            assert_ne!(is_frozen(&group), waits);
            // What is not frozen is thawed without waiting.
            gangs.thaw(row).unwrap();
        });
        gangs.freeze(row).unwrap();
        gangs.thaw(Slot::Gang(GangId::new(2))).unwrap();
        assert!(is_frozen(&group));
        while_moving(&moves, || {
            assert_eq!(refused(gangs.thaw(row)), waits);
            // Its row stops being the running one, and then is again.
            for rows in [vec![2], vec![1]] {
                let spec = Spec {
                    rows,
                    ..spec("one", Uid::own())
                };
                gangs.set(&[spec]);
            }
            assert_eq!(is_frozen(&group), waits);
        });
        gangs.moved(clock::now());
        assert!(!is_frozen(&group) && !gangs.owed);
    });
}
