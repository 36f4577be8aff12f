//! Whose processes may be stopped, and what an unprivileged user can do.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Act, Counters, LIMIT, NOBODY, STILL, end, freezers, skip};
use idlewave_freeze::{FreezeError, Freezer, Group, Kind};
use idlewave_sys::Uid;
use idlewave_units::Pid;
use std::process::Command;

/// Not a test: what the children of the tests do.
#[test]
fn acts_in_a_child() {
    common::act(&[("signals", stop_and_thaw_with_signals)]);
}

#[test]
fn processes_of_another_user_are_not_touched() {
    if !common::is_root() {
        return skip("changing the user needs root");
    }
    let counters = Counters::new(1);
    let as_nobody = |inner: &Command| {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid",
                "65534",
                "--regid",
                "65534",
                "--clear-groups",
                "--inh-caps=-all",
            ])
            .arg(inner.get_program())
            .args(inner.get_args());
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap());
        }
        command
    };
    let theirs = Act::start(&mut as_nobody(&counters.command(1)));
    for freezer in freezers() {
        let mut shell = Command::new("sh");
        let children = Counters::new(1);
        let inner = as_nobody(&children.command(1));
        let words: Vec<_> = std::iter::once(inner.get_program())
            .chain(inner.get_args())
            .collect();
        let words: Vec<_> = words.iter().map(|w| w.to_str().unwrap()).collect();
        for (name, value) in inner.get_envs() {
            shell.env(name, value.unwrap());
        }
        let mut family = Act::start(shell.args(["-c", &format!("{} & wait", words.join(" "))]));
        // A group of root takes no processes of others ...
        let mut group = Group::create(&freezer, Uid::ROOT).unwrap();
        assert!(matches!(
            group.add(theirs.pid()),
            Err(FreezeError::OtherUser { theirs, group, .. }) if theirs == Uid::new(NOBODY) && group == Uid::ROOT
        ));
        // ... not even children of root's own processes.
        let added = group.add(family.pid()).unwrap();
        assert_eq!(Vec::from_iter(added.processes), [family.pid()]);
        assert_eq!(added.others.len(), 1);
        group.freeze(LIMIT).unwrap();
        children.await_progress();
        drop(group);
        for pid in added.others {
            end(pid);
        }
        family.kill();
        // In a group of that user, root may stop them.
        let mut group = Group::create(&freezer, Uid::new(NOBODY)).unwrap();
        group.add(theirs.pid()).unwrap();
        group.freeze(LIMIT).unwrap();
        assert!(counters.stand_still(STILL));
        drop(group);
        counters.await_progress();
    }
    // As the unprivileged user: signals work, but not on processes of others, and no control
    // groups.
    let mut own = Act::start(&mut as_nobody(&common::command(
        "signals",
        &format!("{} {}", theirs.pid(), counters.path().display()),
    )));
    let refused = own.hear("refused:");
    assert!(
        refused.contains("of user 0") || refused.contains("user 65534"),
        "{refused}"
    );
    assert_eq!(own.hear("still:"), "true");
    assert!(own.ended_well());
    counters.await_progress();
}

/// Runs as an unprivileged user. The argument names a process of that user and the file of its
/// counters.
fn stop_and_thaw_with_signals(argument: &str) {
    println!("\nready");
    let (pid, path) = argument.split_once(' ').unwrap();
    let choice = Freezer::choose();
    assert_eq!(choice.freezer.kind(), Kind::Signals, "{choice:?}");
    assert_eq!(choice.refused.len(), 2);
    for why in &choice.refused {
        assert!(why.to_string().starts_with("freeze with cgroup v"), "{why}");
    }
    assert!(matches!(
        Group::create(&Freezer::Signals, Uid::ROOT),
        Err(FreezeError::NotRoot { .. })
    ));
    let mut group = Group::create(&Freezer::Signals, Uid::own()).unwrap();
    let parent = Pid::new(std::os::unix::process::parent_id());
    println!("\nrefused: {}", group.add(parent).unwrap_err());
    group.add(Pid::new(pid.parse().unwrap())).unwrap();
    group.freeze(LIMIT).unwrap();
    let before = std::fs::read(path).unwrap();
    std::thread::sleep(STILL);
    println!("still: {}", std::fs::read(path).unwrap() == before);
    group.thaw().unwrap();
    let refused = idlewave_freeze::become_realtime(50)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("ulimit -r, LimitRTPRIO=) of 50, which is 0"),
        "{refused}"
    );
}
