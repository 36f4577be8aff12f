//! An unprivileged user who was given a control group can use its freezer.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Act, Counters, Given, LIMIT, NOBODY, STILL, freezers, is_root, skip};
use idlewave_freeze::{FreezeError, Freezer, Group, Kind};
use idlewave_sys::Uid;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

/// Not a test: what the children of the tests do.
#[test]
fn acts_in_a_child() {
    common::act(&[("use", use_it)]);
}

/// Runs as an unprivileged user, within the delegated control group.
fn use_it(kind: &str) {
    assert_ne!(Uid::own(), Uid::ROOT);
    let kind = match kind {
        "v2" => Kind::V2,
        _ => Kind::V1,
    };
    let counters = Counters::new(1);
    let act = counters.busy(1);
    let freezer = Freezer::of_kind(kind).unwrap();
    let mut group = Group::create(&freezer, Uid::own()).unwrap();
    group.add(act.pid()).unwrap();
    group.freeze(LIMIT).unwrap();
    assert!(counters.stand_still(STILL));
    group.thaw().unwrap();
    counters.await_progress();
    // Processes of root are refused, whatever the kernel would say.
    let parent = idlewave_units::Pid::new(std::os::unix::process::parent_id());
    assert!(matches!(
        group.add(parent),
        Err(FreezeError::OtherUser { .. })
    ));
    let directory = group.directory().unwrap().to_owned();
    group.remove().unwrap();
    assert!(!directory.exists());
    println!("\nready");
}

#[test]
fn a_delegated_group_is_enough_for_its_user() {
    if !is_root() {
        return skip("delegating a control group needs root");
    }
    // That user may not be able to read the directory of this program.
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = open.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for freezer in freezers() {
        let Some(parent) = freezer.parent() else {
            continue;
        };
        let given = Given::new(parent, "delegated");
        for file in [
            "",
            "cgroup.procs",
            "tasks",
            "cgroup.threads",
            "cgroup.subtree_control",
        ] {
            let path = given.0.join(file);
            if path.exists() {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let kind = match freezer.kind() {
            Kind::V2 => "v2",
            _ => "v1",
        };
        let inner = common::command("use", kind);
        let words: Vec<_> = std::iter::once(program.as_os_str())
            .chain(inner.get_args())
            .collect();
        let words: Vec<_> = words.iter().map(|w| w.to_str().unwrap()).collect();
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {}",
            given.0.display(),
            words.join(" ")
        );
        let mut shell = Command::new("sh");
        for (name, value) in inner.get_envs() {
            shell.env(name, value.unwrap());
        }
        let mut act = Act::start(shell.args(["-c", &script]));
        assert!(act.ended_well(), "{kind}");
    }
}
