//! Real processes in the control groups of this machine, or stopped by signals.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Act, Counters, LIMIT, STILL, await_that, cgroups, end, freezers, states};
use idlewave_freeze::{FreezeError, Freezer, Group, Kind, Moves};
use idlewave_sys::Uid;
use idlewave_units::{Nanos, Pid};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Not a test: what the children of the tests do.
#[test]
fn acts_in_a_child() {
    common::act(&[("vfork", |_| have_children_that_are_waited_for())]);
}

#[test]
fn a_frozen_busy_loop_makes_no_progress_and_a_thawed_one_does() {
    for freezer in freezers() {
        let counters = Counters::new(3);
        let act = counters.busy(3);
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        let before = cgroups(act.pid());
        let added = group.add(act.pid()).unwrap();
        assert_eq!(Vec::from_iter(added.processes), [act.pid()]);
        assert!(group.add(act.pid()).unwrap().processes.is_empty());
        assert_eq!(group.members().unwrap(), [act.pid()]);
        assert_eq!(cgroups(act.pid()) == before, freezer == Freezer::Signals);
        for _ in 0..3 {
            assert!(!group.is_frozen().unwrap());
            let frozen = group.freeze(LIMIT).unwrap();
            assert!(frozen.after < LIMIT);
            assert!(group.is_frozen().unwrap());
            assert!(counters.stand_still(STILL), "{freezer:?}");
            if freezer == Freezer::Signals {
                assert!(states(act.pid()).chars().all(|s| s == 'T'));
            }
            // A freeze is confirmed as often as requested.
            group.freeze(LIMIT).unwrap();
            assert!(counters.stand_still(STILL));
            group.thaw().unwrap();
            assert!(!group.is_frozen().unwrap());
            counters.await_progress();
        }
        group.remove().unwrap();
        counters.await_progress();
        assert_eq!(cgroups(act.pid()), before, "{freezer:?}");
    }
}

#[test]
fn what_another_thread_adds_to_a_frozen_group_is_frozen_until_it_thaws() {
    for freezer in freezers() {
        let moves = Arc::new(Moves::new(freezer.kind()));
        let (counters, others) = (Counters::new(1), Counters::new(1));
        let (first, second) = (counters.busy(1), others.busy(1));
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        group.yield_to(&moves);
        group.add(first.pid()).unwrap();
        let Some(brake) = group.brake() else {
            assert_eq!(freezer, Freezer::Signals);
            continue;
        };
        moves.pause(LIMIT).unwrap();
        brake.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL), "{freezer:?}");
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| group.add(second.pid()).unwrap());
            if freezer.kind() == Kind::V2 {
                others.await_progress();
                assert_eq!(brake.members().unwrap(), [first.pid()]);
            }
            moves.resume();
            adding.join().unwrap();
        });
        // Confirmed again, including the added process.
        brake.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL) && others.stand_still(STILL));
        brake.thaw().unwrap();
        counters.await_progress();
        others.await_progress();
        group.remove().unwrap();
        brake.freeze(LIMIT).unwrap_err();
        others.await_progress();
    }
}

#[test]
fn every_process_goes_back_to_where_it_came_from() {
    for freezer in freezers() {
        let Some(parent) = freezer.parent() else {
            continue;
        };
        let given = common::Given::new(parent, "home");
        let (counters, others) = (Counters::new(1), Counters::new(1));
        let (first, second) = (counters.busy(1), others.busy(1));
        given.enter(second.pid());
        let before = [cgroups(first.pid()), cgroups(second.pid())];
        assert_ne!(before[0], before[1]);
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        group.add(first.pid()).unwrap();
        group.add(second.pid()).unwrap();
        group.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL) && others.stand_still(STILL));
        group.remove().unwrap();
        assert_eq!([cgroups(first.pid()), cgroups(second.pid())], before);
        others.await_progress();
        // A process that starts in the group goes to where the first one came from.
        let directory = tempfile::tempdir().unwrap();
        let flag = directory.path().join("go");
        let script = format!(
            "echo ready; while [ ! -e {} ]; do sleep 0.01; done; sleep 600 & wait",
            flag.display()
        );
        let shell = Act::start(Command::new("sh").args(["-c", &script]));
        given.enter(shell.pid());
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        group.add(shell.pid()).unwrap();
        std::fs::write(&flag, "").unwrap();
        let mut born = Vec::new();
        await_that("a child is born", || {
            born = group.members().unwrap();
            born.retain(|pid| *pid != shell.pid() && commanded(*pid) == "sleep\u{0}600\u{0}");
            !born.is_empty()
        });
        group.remove().unwrap();
        assert_eq!(cgroups(born[0]), cgroups(shell.pid()));
        assert!(cgroups(born[0]).contains("idlewave-test-home"));
        end(born[0]);
        drop((first, second, shell));
    }
}

/// The command line of a process.
fn commanded(pid: Pid) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_group_that_is_dropped_or_whose_owner_panics_is_thawed_and_gone() {
    for freezer in freezers() {
        let counters = Counters::new(1);
        let act = counters.busy(1);
        let before = cgroups(act.pid());
        let mut directory = None;
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut group = Group::create(&freezer, Uid::own()).unwrap();
            group.add(act.pid()).unwrap();
            group.freeze(LIMIT).unwrap();
            directory = group.directory().map(ToOwned::to_owned);
            assert!(counters.stand_still(STILL));
            panic!("on purpose");
        }));
        assert!(caught.is_err());
        counters.await_progress();
        assert_eq!(cgroups(act.pid()), before);
        assert_eq!(directory.is_some(), freezer != Freezer::Signals);
        assert!(directory.is_none_or(|d| !d.exists()));
    }
}

#[test]
fn a_limit_of_nothing_is_an_error_that_leaves_all_running() {
    for freezer in freezers() {
        let counters = Counters::new(2);
        let acts = [counters.busy(2), counters.busy(2)];
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        for act in &acts {
            group.add(act.pid()).unwrap();
        }
        // Signals need at least two readings of /proc, and the threads need the CPU; a control
        // group may be faster.
        for _ in 0..20 {
            match group.freeze(Nanos::ZERO) {
                Ok(_) => drop(group.thaw().unwrap()),
                Err(FreezeError::NotFrozen { limit, .. }) => assert_eq!(limit, Nanos::ZERO),
                Err(e) => panic!("{e}"),
            }
            assert!(!group.is_frozen().unwrap());
        }
        counters.await_progress();
    }
}

/// A shell that keeps starting shells until it is ended.
fn forks() -> Act {
    let script = "e=$(($(date +%s)+600)); \
        f() { while [ $(date +%s) -lt $e ]; do (:) & (sleep 0.01) & wait; done; }; \
        f & f & f & setsid sh -c 'while [ $(date +%s) -lt '$e' ]; do sleep 0.005; done' & echo ready; wait";
    let mut command = Command::new("sh");
    Act::start(command.args(["-c", script]).stderr(Stdio::null()))
}

#[test]
fn processes_that_fork_while_they_are_frozen_all_end_up_frozen() {
    for freezer in freezers() {
        let act = forks();
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        group.add(act.pid()).unwrap();
        for _ in 0..10 {
            group.freeze(LIMIT).unwrap();
            let members = group.members().unwrap();
            assert!(members.len() >= 4, "{members:?}");
            std::thread::sleep(Duration::from_millis(30));
            // No process has started or ended.
            assert_eq!(group.members().unwrap(), members, "{freezer:?}");
            assert!(group.is_frozen().unwrap());
            group.thaw().unwrap();
            std::thread::sleep(Duration::from_millis(7));
        }
        let last = group.members().unwrap();
        for pid in last {
            end(pid);
        }
    }
}

/// Waits for one child after the other as `vfork` does, for minutes at most.
fn have_children_that_are_waited_for() {
    println!("\nready");
    for _ in 0..30_000 {
        // SAFETY: without CLONE_VM the child has its own memory, and it only sleeps and exits.
        unsafe {
            let flags = libc::CLONE_VFORK | libc::SIGCHLD;
            let child = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
            if child == 0 {
                libc::usleep(20_000);
                libc::_exit(0);
            }
            libc::waitpid(-1, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn a_parent_that_waits_for_its_child_to_execute_is_stopped_too() {
    for freezer in freezers() {
        let act = Act::start(&mut common::command("vfork", ""));
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        group.add(act.pid()).unwrap();
        for _ in 0..5 {
            await_that("it waits", || states(act.pid()).contains('D'));
            group.freeze(LIMIT).unwrap();
            let members = group.members().unwrap();
            std::thread::sleep(STILL);
            assert_eq!(group.members().unwrap(), members);
            group.thaw().unwrap();
        }
    }
}

#[test]
fn an_exempt_process_runs_on_while_its_children_are_frozen() {
    for freezer in freezers() {
        let counters = Counters::new(1);
        let mut command = Command::new("sh");
        let child = counters.command(1);
        let child_program = child.get_program().to_str().unwrap().to_owned();
        let arguments: Vec<_> = child.get_args().map(|a| a.to_str().unwrap()).collect();
        let script = format!(
            "{child_program} {} & c=$!; trap 'kill -9 $c' EXIT; while read x; do echo heard $x; done",
            arguments.join(" ")
        );
        for (name, value) in child.get_envs() {
            command.env(name, value.unwrap());
        }
        let mut launcher = command
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = launcher.stdin.take().unwrap();
        counters.await_progress();
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        let launcher_pid = Pid::new(launcher.id());
        group.exempt(launcher_pid);
        let added = group.add(launcher_pid).unwrap();
        assert_eq!(added.processes.len(), 1);
        assert!(!added.processes.contains(&launcher_pid));
        group.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL));
        assert!(!states(launcher_pid).contains('T'));
        use std::io::{BufRead, Write};
        writeln!(input, "you").unwrap();
        // The line may follow what the child had begun to print when it was frozen.
        let mut said = std::io::BufReader::new(launcher.stdout.take().unwrap()).lines();
        assert!(
            said.any(|line| line.unwrap().ends_with("heard you")),
            "{freezer:?}"
        );
        assert!(counters.stand_still(STILL));
        drop(group);
        counters.await_progress();
        drop(input);
        launcher.wait().unwrap();
    }
}

#[test]
fn a_process_that_the_user_had_stopped_stays_so() {
    let counters = Counters::new(1);
    let act = counters.busy(1);
    let signal = |name: &str| {
        let pid = act.pid().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    signal("-STOP");
    await_that("it stops", || states(act.pid()).chars().all(|s| s == 'T'));
    let mut group = Group::create(&Freezer::Signals, Uid::own()).unwrap();
    group.add(act.pid()).unwrap();
    group.freeze(LIMIT).unwrap();
    group.thaw().unwrap();
    drop(group);
    assert!(counters.stand_still(STILL));
    signal("-CONT");
    counters.await_progress();
}

#[test]
fn who_was_continued_by_another_is_stopped_again() {
    let counters = Counters::new(1);
    let act = counters.busy(1);
    let mut group = Group::create(&Freezer::Signals, Uid::own()).unwrap();
    group.add(act.pid()).unwrap();
    group.freeze(LIMIT).unwrap();
    let pid = act.pid().to_string();
    assert!(
        Command::new("kill")
            .args(["-CONT", &pid])
            .status()
            .unwrap()
            .success()
    );
    counters.await_progress();
    assert!(!group.is_frozen().unwrap());
    group.freeze(LIMIT).unwrap();
    assert!(counters.stand_still(STILL));
    group.thaw().unwrap();
    counters.await_progress();
}

/// A session whose leader starts a counting process as an orphan, then executes `then`.
fn session(counters: &Counters, then: &str) -> Act {
    let child = counters.command(1);
    let arguments: Vec<_> = child.get_args().map(|a| a.to_str().unwrap()).collect();
    let program = child.get_program().to_str().unwrap();
    let script = format!("({program} {} >/dev/null &); {then}", arguments.join(" "));
    let mut command = Command::new("setsid");
    for (name, value) in child.get_envs() {
        command.env(name, value.unwrap());
    }
    let leader = Act::start(command.args(["sh", "-c", &script]));
    counters.await_progress();
    leader
}

#[test]
fn a_session_is_found_with_its_orphans_and_with_those_to_come() {
    for freezer in freezers() {
        let counters = Counters::new(1);
        let directory = tempfile::tempdir().unwrap();
        let flag = directory.path().join("go");
        // Once the file exists, the leader starts one more orphan, and then removes the file.
        let leader = session(
            &counters,
            &format!(
                "echo ready; while [ ! -e {0} ]; do sleep 0.01; done; (sleep 644 >/dev/null &); rm {0}; exec sleep 644",
                flag.display()
            ),
        );
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        let added = group.add_session(leader.pid()).unwrap();
        assert!(added.processes.len() >= 2, "{added:?}");
        std::fs::write(&flag, "").unwrap();
        await_that("an orphan is born", || !flag.exists());
        group.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL), "{freezer:?}");
        let members = group.members().unwrap();
        assert!(members.len() >= 3, "{members:?}");
        drop(group);
        counters.await_progress();
        for pid in members {
            end(pid);
        }
        let mut none = Group::create(&freezer, Uid::own()).unwrap();
        let none = none.add_session(Pid::new(1 << 30));
        assert!(matches!(none, Err(FreezeError::NoProcess(_))));
    }
}

#[test]
fn an_exempt_leader_of_a_session_runs_on() {
    for freezer in freezers() {
        let counters = Counters::new(1);
        let leader = session(&counters, "echo ready; exec sleep 645");
        await_that("it sleeps", || commanded(leader.pid()).starts_with("sleep"));
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        group.exempt(leader.pid());
        let added = group.add_session(leader.pid()).unwrap();
        assert!(!added.processes.contains(&leader.pid()));
        group.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL), "{freezer:?}");
        await_that("it sleeps in peace", || states(leader.pid()) == "S");
        let members = group.members().unwrap();
        assert!(!members.contains(&leader.pid()));
        drop(group);
        for pid in members {
            end(pid);
        }
    }
}

#[test]
fn what_must_not_be_stopped_is_refused() {
    for freezer in freezers() {
        let mut group = Group::create(&freezer, Uid::own()).unwrap();
        let own = Pid::new(std::process::id());
        for essential in [own, Pid::new(1)] {
            assert!(matches!(
                group.add(essential),
                Err(FreezeError::Essential(pid)) if pid == essential
            ));
        }
        let free = Pid::new(1 << 30);
        assert!(matches!(group.add(free), Err(FreezeError::NoProcess(pid)) if pid == free));
        assert!(group.members().unwrap().is_empty());
    }
}
