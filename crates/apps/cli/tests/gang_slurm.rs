//! Jobs that Slurm admits and idlewave switches, and the change of slurm.conf that this needs.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use common::idlewave;
use rig::{root, skip};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONF: &str = "\
ClusterName=c
PreemptMode=GANG
NodeName=n[1-2]
PartitionName=long Nodes=n[1-2]
PartitionName=short Nodes=n1 OverSubscribe=NO
";

#[test]
fn slurm_conf_is_changed_by_one_command_and_put_back_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("slurm.conf");
    fs::write(&conf, CONF).unwrap();
    let slurm = |words: &[&str]| {
        let mut command = idlewave();
        command.args(["gang", "slurm"]).args(words);
        common::run(command.env("SLURM_CONF", &conf))
    };
    let ended = slurm(&["install", "--partition", "long", "--sharing", "3"]);
    ended.succeeded();
    let said = ended.stdout;
    for part in [
        "line 2: PreemptMode=OFF, was GANG",
        "line 4: PartitionName=long OverSubscribe=FORCE:3",
        "new line: PrologSlurmctld=",
        "idlewave gang start --no-local",
        "idlewave gang agent",
        "restart slurmctld",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("PartitionName=short"), "{said}");
    let changed = fs::read_to_string(&conf).unwrap();
    assert!(changed.contains("\nPartitionName=short Nodes=n1 OverSubscribe=NO\n"));
    let script = fs::read_to_string(dir.path().join("idlewave-prolog")).unwrap();
    assert!(script.contains(env!("CARGO_BIN_EXE_idlewave")), "{script}");
    let again = slurm(&["install", "--partition", "long", "--sharing", "3"]);
    again.succeeded();
    assert!(
        again.stdout.contains("already contains"),
        "{}",
        again.stdout
    );

    let [what, _] = slurm(&["uninstall", "--scripts"]).failed(2);
    assert!(what.contains("slurm.conf"), "{what}");
    let ended = slurm(&["uninstall"]);
    ended.succeeded();
    assert!(ended.stdout.contains("is restored"), "{}", ended.stdout);
    assert_eq!(fs::read_to_string(&conf).unwrap(), CONF);
    assert!(dir.path().join("idlewave-prolog").exists());
    slurm(&["uninstall", "--scripts"]).succeeded();
    assert!(!dir.path().join("idlewave-prolog").exists());
    let ended = slurm(&["uninstall"]);
    assert!(ended.stdout.contains("nothing to restore"));
}

#[test]
fn what_cannot_be_installed_is_said_with_the_next_step() {
    let slurm = |words: &[&str]| {
        let mut command = idlewave();
        common::run(command.args(["gang", "slurm"]).args(words)).failed(4)
    };
    let [what, next] = slurm(&["install", "--conf", "/nonexistent/slurm.conf"]);
    assert!(what.contains("/nonexistent/slurm.conf"), "{what}");
    assert!(next.contains("--conf"), "{next}");
}

#[test]
fn no_job_fails_or_waits_long_for_a_service_that_is_not_there_or_silent() {
    let dir = tempfile::tempdir().unwrap();
    let silent = dir.path().join("silent.sock");
    let _listener = UnixListener::bind(&silent).unwrap();
    let none = dir.path().join("none.sock");
    let call = |word: &str, socket: &Path, variables: &[(&str, &str)]| {
        let began = Instant::now();
        let mut command = idlewave();
        command
            .args(["gang", "slurm", word, "--socket"])
            .arg(socket);
        command
            .env_remove("SLURM_JOB_ID")
            .envs(variables.iter().copied());
        let out = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(out.status.code(), Some(0));
        assert!(out.stdout.is_empty());
        let words = String::from_utf8(out.stderr).unwrap();
        assert_eq!(words.lines().count(), 1, "{words}");
        (words, began.elapsed())
    };
    let job = [("SLURM_JOB_ID", "17"), ("SLURM_JOB_UID", "1000")];
    for word in ["prolog", "epilog"] {
        let (words, _) = call(word, &none, &job);
        assert!(
            words.contains(&format!("{word} of job 17: failed to reach")),
            "{words}"
        );
        let (words, after) = call(word, &silent, &job);
        assert!(words.contains("within 2 s"), "{words}");
        // The hook waited for the service; a busy machine may delay it further.
        assert!(after >= Duration::from_secs(2));
        let (words, _) = call(word, &none, &[]);
        assert!(
            words.contains("is not set; Slurm must call this as PrologSlurmctld"),
            "{words}"
        );
    }
}

/// The table of tests/nodes/slurm_gang: name and value of each row.
#[test]
fn two_jobs_of_slurm_take_turns_on_two_nodes_and_never_run_at_once() {
    if !common::has("mpicc.openmpi") {
        return skip("the ranks need mpicc.openmpi");
    }
    // A loaded machine does fewer switches.
    for seconds in ["8", "24", "72"] {
        let out = Command::new("timeout")
            .args(["-k", "5", "600"])
            .arg(root().join("tests/nodes/slurm_gang"))
            .args(["--only", "idlewave", "--seconds", seconds, "--idlewave"])
            .arg(env!("CARGO_BIN_EXE_idlewave"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&out.stderr);
        if out.status.code() == Some(77) {
            return skip(words.trim());
        }
        let text = String::from_utf8_lossy(&out.stdout);
        println!("{words}{text}");
        assert_eq!(out.status.code(), Some(0));
        let row = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        if row("switches").parse::<u32>().unwrap() < 10 {
            continue;
        }
        assert!(row("both gangs run, per switch").starts_with("0.000 "));
        return;
    }
    panic!("the gangs hardly take turns");
}
