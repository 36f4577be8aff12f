//! The owner of a frozen group is killed: its watchdog, or the next one that looks, thaws the
//! group.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Act, Counters, LIMIT, STILL, await_that, cgroups, freezers, left_behind, watchdog};
use idlewave_freeze::{FreezeError, Freezer, Group, Kind, Watchdog, recover};
use idlewave_sys::Uid;
use idlewave_units::{Nanos, Pid};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Not a test: what the children of the tests do.
#[test]
fn acts_in_a_child() {
    common::act(&[("watch", watch), ("own", own)]);
}

fn watch(_: &str) {
    Watchdog::serve(Some(51)).unwrap();
    // The test harness would print more, which no one reads.
    std::process::exit(0);
}

/// Freezes a process and waits to be killed: `KIND PID HOW [PARENT]`.
fn own(argument: &str) {
    let words: Vec<&str> = argument.splitn(4, ' ').collect();
    let [kind, pid, guarded, parent @ ..] = words.as_slice() else {
        panic!("{argument}");
    };
    let freezer = match parent.first() {
        Some(parent) => Freezer::under(freezer(kind).kind(), Path::new(parent)).unwrap(),
        None => freezer(kind),
    };
    let mut group = Group::create(&freezer, Uid::own()).unwrap();
    // In whatever order this happens, the watchdog learns of everything.
    let watchdog = (*guarded != "alone").then(|| watchdog().unwrap());
    let pid = Pid::new(pid.parse().unwrap());
    if *guarded == "added" {
        group.add(pid).unwrap();
    }
    if *guarded == "frozen" {
        group.add(pid).unwrap();
        group.freeze(LIMIT).unwrap();
    }
    if let Some(watchdog) = &watchdog {
        group.guard(watchdog).unwrap();
    }
    group.add(pid).unwrap();
    if *guarded != "running" {
        group.freeze(LIMIT).unwrap();
    }
    let mut heirs = Vec::new();
    if *guarded == "heir" {
        // A child that inherits the write end of the pipe, so that the pipe does not end.
        for fd in 3..40 {
            // SAFETY: numbers only; a descriptor that is not open is an error that changes nothing.
            unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        }
        let heir = Command::new("sleep").arg("600").spawn().unwrap();
        println!("\nheir: {}", heir.id());
        heirs.push(heir);
    }
    if let Some(watchdog) = &watchdog {
        let pids: Vec<String> = watchdog.pids().map(|pid| pid.to_string()).collect();
        println!("\ndogs: {}", pids.join(" "));
    }
    println!("\nready");
    std::thread::sleep(Duration::from_secs(600));
    for mut heir in heirs {
        heir.wait().unwrap();
    }
    drop((group, watchdog));
}

fn name(freezer: &Freezer) -> &'static str {
    match freezer.kind() {
        Kind::V2 => "v2",
        Kind::V1 => "v1",
        Kind::Signals => "signals",
    }
}

fn freezer(name: &str) -> Freezer {
    let kinds = [
        ("v2", Kind::V2),
        ("v1", Kind::V1),
        ("signals", Kind::Signals),
    ];
    let (_, kind) = kinds.into_iter().find(|(n, _)| *n == name).unwrap();
    Freezer::of_kind(kind).unwrap()
}

fn owner(freezer: &Freezer, pid: Pid, guarded: &str) -> Act {
    let parent = freezer.parent().map(|p| format!(" {}", p.display()));
    let parent = parent.unwrap_or_default();
    Act::start(&mut common::command(
        "own",
        &format!("{} {pid} {guarded}{parent}", name(freezer)),
    ))
}

/// An owner that has frozen that process, and its watchdogs.
fn owner_and_dogs(freezer: &Freezer, pid: Pid) -> (Act, Vec<Pid>) {
    let mut command = common::command("own", &format!("{} {pid} first", name(freezer)));
    let (dogs, mut owner) = Act::start_saying(&mut command, "dogs:");
    owner.hear("ready");
    let dogs = dogs.split(' ').map(|pid| Pid::new(pid.parse().unwrap()));
    (owner, dogs.collect())
}

fn signal(name: &str, pid: Pid) {
    let mut kill = Command::new("kill");
    let status = kill.args([name, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// A counting process in a group that a watchdog guards, frozen.
fn frozen_and_guarded(freezer: &Freezer) -> (Counters, Act, Watchdog, Group) {
    let counters = Counters::new(1);
    let act = counters.busy(1);
    let dog = watchdog().unwrap();
    let mut group = Group::create(freezer, Uid::own()).unwrap();
    group.guard(&dog).unwrap();
    group.add(act.pid()).unwrap();
    group.freeze(LIMIT).unwrap();
    (counters, act, dog, group)
}

#[test]
fn the_watchdog_thaws_what_a_killed_owner_had_frozen() {
    for freezer in freezers() {
        for guarded in ["first", "added", "frozen"] {
            let counters = Counters::new(2);
            let act = counters.busy(2);
            let before = cgroups(act.pid());
            let mut owner = owner(&freezer, act.pid(), guarded);
            assert!(counters.stand_still(STILL), "{freezer:?} {guarded}");
            owner.kill();
            counters.await_progress();
            await_that("the group is removed", || {
                left_behind(&freezer, owner.pid()).is_empty()
            });
            assert_eq!(cgroups(act.pid()), before, "{freezer:?} {guarded}");
        }
    }
}

#[test]
fn the_watchdog_sends_every_process_back_to_where_it_came_from() {
    for freezer in freezers() {
        let Some(parent) = freezer.parent() else {
            continue;
        };
        // The first process of the tree is at home in one group, its child in the other.
        let (given, other) = (
            common::Given::new(parent, "a"),
            common::Given::new(parent, "b"),
        );
        let mut shell = Command::new("sh");
        let mut shell = Act::start(shell.args(["-c", "sleep 600 & echo ready; wait"]));
        let children = || {
            let path = format!("/proc/{0}/task/{0}/children", shell.pid());
            std::fs::read_to_string(path).unwrap()
        };
        let child = Pid::new(children().trim().parse().unwrap());
        given.enter(shell.pid());
        other.enter(child);
        let before = [cgroups(shell.pid()), cgroups(child)];
        assert_ne!(before[0], before[1]);
        let mut owner = owner(&freezer, shell.pid(), "first");
        let inside = [cgroups(shell.pid()), cgroups(child)];
        assert!(inside.iter().all(|text| text.contains("idlewave-freeze.")));
        owner.kill();
        await_that("the group is removed", || {
            left_behind(&freezer, owner.pid()).is_empty()
        });
        assert_eq!([cgroups(shell.pid()), cgroups(child)], before);
        Command::new("kill")
            .args(["-KILL", &child.to_string()])
            .status()
            .unwrap();
        shell.kill();
    }
}

#[test]
fn the_watchdog_sends_what_was_born_in_the_group_to_where_its_first_process_came_from() {
    for freezer in freezers() {
        let Some(parent) = freezer.parent() else {
            continue;
        };
        let given = common::Given::new(parent, "born");
        let directory = tempfile::tempdir().unwrap();
        let flag = directory.path().join("go");
        let script = format!(
            "echo ready; while [ ! -e {} ]; do sleep 0.01; done; sleep 633 & wait",
            flag.display()
        );
        let mut shell = Act::start(Command::new("sh").args(["-c", &script]));
        given.enter(shell.pid());
        let mut owner = owner(&freezer, shell.pid(), "running");
        std::fs::write(&flag, "").unwrap();
        let children = format!("/proc/{0}/task/{0}/children", shell.pid());
        let mut born = None;
        await_that("a child is born", || {
            let pids = std::fs::read_to_string(&children).unwrap();
            born = pids.split_whitespace().find_map(|pid| {
                let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                (command == b"sleep\x00633\x00").then(|| Pid::new(pid.parse().unwrap()))
            });
            born.is_some()
        });
        let born = born.unwrap();
        assert!(cgroups(born).contains("idlewave-freeze."));
        owner.kill();
        await_that("the group is removed", || {
            left_behind(&freezer, owner.pid()).is_empty()
        });
        assert!(cgroups(born).contains("idlewave-test-born."));
        Command::new("kill")
            .args(["-KILL", &born.to_string()])
            .status()
            .unwrap();
        shell.kill();
    }
}

#[test]
fn a_pipe_that_another_process_inherited_does_not_keep_the_watchdog_waiting() {
    let counters = Counters::new(1);
    let act = counters.busy(1);
    let mut command = common::command("own", &format!("signals {} heir", act.pid()));
    // `ready` comes after the heir's number.
    let mut owner = Act::start_saying(&mut command, "heir:");
    let heir = owner.0;
    owner.1.hear("ready");
    assert!(counters.stand_still(STILL));
    owner.1.kill();
    counters.await_progress();
    let pid = Pid::new(heir.parse().unwrap());
    await_that("the heir sleeps", || common::states(pid).contains('S'));
    Command::new("kill")
        .args(["-KILL", &heir])
        .status()
        .unwrap();
}

#[test]
fn a_group_that_an_owner_without_a_watchdog_left_is_found_by_its_name() {
    for freezer in freezers() {
        let Some(parent) = freezer.parent() else {
            continue;
        };
        // Other processes recover in the usual parent.
        let given = common::Given::new(parent, "left");
        let freezer = Freezer::under(freezer.kind(), &given.0).unwrap();
        let counters = Counters::new(1);
        let act = counters.busy(1);
        let mut owner = owner(&freezer, act.pid(), "alone");
        // As long as the owner lives, recovery leaves its group alone.
        recover(&freezer).unwrap();
        assert!(counters.stand_still(STILL));
        owner.kill();
        assert!(counters.stand_still(STILL));
        assert_eq!(left_behind(&freezer, owner.pid()).len(), 1);
        recover(&freezer).unwrap();
        counters.await_progress();
        await_that("the group is removed", || {
            left_behind(&freezer, owner.pid()).is_empty()
        });
        assert!(!cgroups(act.pid()).contains("idlewave-freeze."));
    }
}

#[test]
fn without_its_watchdog_a_guarded_group_is_not_frozen() {
    for freezer in freezers() {
        let (counters, _act, dog, mut group) = frozen_and_guarded(&freezer);
        group.thaw().unwrap();
        // Signals that end a session or a service do not end a watchdog.
        for pid in dog.pids() {
            for name in ["-TERM", "-HUP", "-INT"] {
                signal(name, pid);
            }
        }
        std::thread::sleep(STILL);
        group.freeze(LIMIT).unwrap();
        group.thaw().unwrap();
        assert!(dog.serves());
        // One of the two is not enough.
        signal("-KILL", dog.pids().last().unwrap());
        await_that("the watchdog's end is seen", || match group.freeze(LIMIT) {
            Err(FreezeError::Unguarded) => true,
            Ok(_) => {
                group.thaw().unwrap();
                false
            }
            Err(e) => panic!("{e}"),
        });
        counters.await_progress();
        group.remove().unwrap();
        counters.await_progress();
    }
}

#[test]
fn a_watchdog_leaves_without_touching_anything_when_it_is_dropped() {
    for freezer in freezers() {
        let (counters, _act, dog, group) = frozen_and_guarded(&freezer);
        let path = |pid: Pid| std::path::Path::new("/proc").join(pid.to_string());
        let paths: Vec<_> = dog.pids().map(path).collect();
        assert!(paths.len() == 2 && paths.iter().all(|path| path.exists()));
        drop(dog);
        assert!(!paths.iter().any(|path| path.exists()));
        assert!(counters.stand_still(STILL));
        group.remove().unwrap();
        counters.await_progress();
    }
}

#[test]
fn a_watchdog_has_a_session_of_its_own() {
    for pid in watchdog().unwrap().pids() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        // State, parent, process group, session.
        assert_eq!(rest.split(' ').nth(3), Some(pid.to_string().as_str()));
    }
}

#[test]
fn of_an_owner_that_is_killed_with_one_of_its_watchdogs_the_other_thaws() {
    for freezer in freezers() {
        for which in 0..2 {
            let counters = Counters::new(1);
            let act = counters.busy(1);
            let (mut owner, dogs) = owner_and_dogs(&freezer, act.pid());
            assert!(counters.stand_still(STILL), "{freezer:?}");
            signal("-KILL", dogs[which]);
            owner.kill();
            counters.await_progress();
            await_that("the group is removed", || {
                left_behind(&freezer, owner.pid()).is_empty()
            });
        }
    }
}

#[test]
fn what_is_left_when_all_are_killed_at_once_the_next_start_thaws() {
    for freezer in freezers() {
        let counters = Counters::new(1);
        let act = counters.busy(1);
        let (mut owner, dogs) = owner_and_dogs(&freezer, act.pid());
        for dog in dogs {
            signal("-KILL", dog);
        }
        owner.kill();
        // Another test may be recovering at the same time.
        recover(&freezer).unwrap();
        counters.await_progress();
        let left = std::fs::read_dir("/dev/shm").unwrap().flatten();
        let names = left.map(|entry| entry.file_name().into_string().unwrap_or_default());
        let own = format!(".{}.", owner.pid());
        let mut left = names.filter(|n| n.starts_with("idlewave-stopped.") && n.contains(&own));
        assert_eq!(left.next(), None);
    }
}

#[test]
fn while_its_lease_is_over_an_owner_freezes_nothing_and_everything_runs() {
    for freezer in freezers() {
        let (counters, act, dog, mut group) = frozen_and_guarded(&freezer);
        assert!(!dog.renew(LIMIT).unwrap());
        assert!(counters.stand_still(STILL), "{freezer:?}");
        // From here on this process behaves as if it were stopped.
        assert!(!dog.renew(Nanos::from_millis(20)).unwrap());
        counters.await_progress();
        assert!(matches!(group.freeze(LIMIT), Err(FreezeError::LeaseOver)));
        counters.await_progress();
        // It resumes in the middle of a freeze, and is stopped again.
        match group.directory() {
            None => signal("-STOP", act.pid()),
            Some(directory) => {
                let (file, word) = match freezer.kind() {
                    Kind::V2 => ("cgroup.freeze", "1"),
                    _ => ("freezer.state", "FROZEN"),
                };
                std::fs::write(directory.join(file), word).unwrap();
            }
        }
        counters.await_progress();
        // It is told once that everything ran.
        assert!(dog.renew(LIMIT).unwrap());
        assert!(!dog.renew(LIMIT).unwrap());
        group.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL), "{freezer:?}");
        group.remove().unwrap();
        counters.await_progress();
    }
}

#[test]
fn a_program_that_does_not_serve_is_no_watchdog() {
    let told = |command: &mut Command| Watchdog::start(command).unwrap_err().to_string();
    assert!(told(&mut Command::new("true")).contains("it ended during its start"));
    assert!(told(&mut Command::new("/nowhere/at/all")).contains("No such file"));
}

#[test]
fn nothing_is_left_by_a_whole_life() {
    for freezer in freezers() {
        let (counters, _act, _dog, group) = frozen_and_guarded(&freezer);
        let directory = group.directory().map(ToOwned::to_owned);
        assert!(directory.as_ref().is_none_or(|d| d.exists()));
        group.remove().unwrap();
        counters.await_progress();
        assert!(directory.is_none_or(|d| !d.exists()));
    }
}
