//! Capabilities on fake machines, on this one, and of an unprivileged user.

use super::*;
use crate::host::fake::FakeRoot;
use crate::host::root::Root;
use idlewave_run::TraceMode;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const ROOT: &str = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
const USER: &str = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n";
/// User 0 of a container without further capabilities.
const CONTAINED: &str = "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n";

fn machine(status: &str) -> FakeRoot {
    FakeRoot::new().with(&[
        ("proc/self/status", status),
        ("proc/self/schedstat", "123 4 5\n"),
        ("proc/2/comm", "kthreadd\n"),
        ("proc/filesystems", "nodev\tsysfs\nnodev\ttracefs\n\text4\n"),
        ("proc/sys/kernel/perf_event_paranoid", "2\n"),
    ])
}

fn mounted(status: &str) -> FakeRoot {
    machine(status).with(&[("sys/kernel/tracing/instances/x", "")])
}

/// Reason and command of the entry that starts like this.
fn of(found: &Capabilities, what: &str) -> Option<(String, Option<String>)> {
    let hit = found.unavailable.iter().find(|u| u.what.starts_with(what));
    hit.map(|u| (u.why.clone(), u.allow.clone()))
}

#[test]
fn root_with_tracefs_misses_nothing() {
    let found = capabilities(mounted(ROOT).path());
    assert_eq!(found.unavailable, []);
    assert!(found.tracing && found.switches && found.task_times);
    assert_eq!(found.best(), TraceMode::Tracefs);
}

#[test]
fn root_may_mount_tracefs_and_a_user_may_not() {
    assert!(capabilities(machine(ROOT).path()).tracing);
    let found = capabilities(machine(USER).path());
    let (why, allow) = of(&found, "names").unwrap();
    assert!(why.contains("not mounted"), "{why}");
    assert_eq!(allow.as_deref(), Some("sudo idlewave ..."));
    assert_eq!(found.best(), TraceMode::PerfSwitch);
}

#[test]
fn a_kernel_without_tracing_cannot_be_allowed_it() {
    let fake = machine(ROOT).with(&[("proc/filesystems", "nodev\tsysfs\n")]);
    assert_eq!(of(&capabilities(fake.path()), "names").unwrap().1, None);
    let fake = mounted(ROOT).with(&[(
        "sys/kernel/security/lockdown",
        "none integrity [confidentiality]\n",
    )]);
    let (why, allow) = of(&capabilities(fake.path()), "names").unwrap();
    assert!(why.contains("lockdown") && allow.is_none());
}

#[test]
fn a_strict_setting_is_named_with_the_command_that_loosens_it() {
    let strict = ("proc/sys/kernel/perf_event_paranoid", "4\n");
    let found = capabilities(machine(USER).with(&[strict]).path());
    let (why, allow) = of(&found, "times").unwrap();
    assert!(why.contains("kernel.perf_event_paranoid is 4"), "{why}");
    assert_eq!(
        allow.as_deref(),
        Some("sudo sysctl kernel.perf_event_paranoid=2")
    );
    assert_eq!(found.best(), TraceMode::Counters);
    assert!(capabilities(machine(ROOT).with(&[strict]).path()).switches);
    let without = machine(USER).without("proc/sys/kernel/perf_event_paranoid");
    assert_eq!(of(&capabilities(without.path()), "times").unwrap().1, None);
}

#[test]
fn a_container_is_told_what_to_ask_of_docker() {
    let found = capabilities(machine(CONTAINED).without("proc/2").path());
    let (_, tracing) = of(&found, "names").unwrap();
    assert!(tracing.unwrap().starts_with("docker run --privileged"));
    let (_, times) = of(&found, "CPU time").unwrap();
    assert_eq!(times.as_deref(), Some("docker run --pid host ..."));
}

#[test]
fn the_mark_of_a_container_counts_only_inside_one() {
    let sudo = Some("sudo idlewave ...");
    let marked = machine(USER).with(&[(".dockerenv", "")]);
    assert_eq!(
        of(&capabilities(marked.path()), "names")
            .unwrap()
            .1
            .as_deref(),
        sudo
    );
    let layers = marked.with(&[("proc/self/mounts", "overlay / overlay rw 0 0\n")]);
    let allow = of(&capabilities(layers.path()), "names")
        .unwrap()
        .1
        .unwrap();
    assert!(allow.starts_with("docker run --privileged"));
    let hidden = machine(USER)
        .without("proc/2")
        .with(&[("run/.containerenv", "")]);
    let allow = of(&capabilities(hidden.path()), "CPU time")
        .unwrap()
        .1
        .unwrap();
    assert_eq!(allow, "docker run --pid host --user root ...");
}

#[test]
fn a_kernel_without_scheduler_statistics_is_told_from_a_hidden_proc() {
    let fake = machine(USER).without("proc/self/schedstat");
    assert_eq!(of(&capabilities(fake.path()), "CPU time").unwrap().1, None);
    let fake = machine(USER).with(&[("proc/self/schedstat", "0 0 0\n")]);
    assert!(!capabilities(fake.path()).task_times);
    let fake = machine(USER).without("proc/2");
    let (why, allow) = of(&capabilities(fake.path()), "CPU time").unwrap();
    assert!(why.contains("hidepid"));
    assert_eq!(allow.as_deref(), Some("sudo idlewave ..."));
}

/// Set in the copy of this program that runs without privileges.
const AS_NOBODY: &str = "IDLEWAVE_TEST_AS_NOBODY";

#[test]
fn a_user_without_privileges_is_told_what_is_missing() {
    if std::env::var_os(AS_NOBODY).is_some() {
        let found = capabilities(Path::new("/"));
        println!("{found:#?}");
        assert!(!found.tracing);
        let (why, allow) = of(&found, "names").unwrap();
        assert!(!why.is_empty());
        assert!(allow.is_none_or(|a| a == "sudo idlewave ..." || a.starts_with("docker run")));
        assert_eq!(found.task_times, Path::new("/proc/2/comm").exists());
        let level = crate::perf::paranoid_level(&Root::new(Path::new("/"))).unwrap();
        assert!(level <= 2 || !found.switches);
        println!("done as nobody");
        return;
    }
    if idlewave_sys::Uid::own() != idlewave_sys::Uid::ROOT {
        println!("skipped: only root can become another user");
        return;
    }
    // User nobody cannot enter every build directory, so the copy is in a directory open to all.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copy = directory.path().join("test");
    // By another process: a file that is open for writing, even in a child that another thread has
    // just started, cannot be executed.
    let copied = Command::new("cp")
        .args([&std::env::current_exe().unwrap(), &copy])
        .status();
    assert!(copied.unwrap().success());
    let name = "capabilities::tests::a_user_without_privileges_is_told_what_is_missing";
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--",
        ])
        .arg(&copy)
        .args(["--exact", name, "--nocapture"])
        .env(AS_NOBODY, "1")
        .current_dir("/")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(e) => {
            println!("skipped: setpriv: {e}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("done as nobody"));
}

#[test]
fn this_machine_is_asked_without_changing_it() {
    let found = capabilities(Path::new("/"));
    println!("{found:#?}");
    for missing in &found.unavailable {
        assert!(!missing.what.is_empty() && !missing.why.is_empty());
    }
}
