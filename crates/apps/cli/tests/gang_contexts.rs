//! Gangs with network contexts, end to end: their ranks communicate over devices that their node's
//! agent drives, and go through complete switches: stop, drain, freeze, change of the context,
//! thaw.

#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used)]

#[path = "common/gang.rs"]
mod gang;

use gang::{Service, groups_of, kill, left_of, until};
use idlewave_fabric::netctx::device::Attachment;
use idlewave_fabric::{PointToPoint, Tag};
use idlewave_gang_agent::control::{GangStatus, Observation, Status};
use idlewave_units::Rank;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// The ranks need the machine to themselves.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const PROGRAM: [&str; 8] = [
    "measure", "halo", "--cells", "12", "--dims", "1", "--json", "--steps",
];

fn idlewave() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idlewave"));
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A gang of two ranks on contexts of 64 KiB.
fn submit(service: &Service, name: &str, steps: &str) -> Child {
    let program = Path::new(env!("CARGO_BIN_EXE_idlewave"));
    submit_of(service, name, program, &[&PROGRAM[..], &[steps]].concat())
}

fn submit_of(service: &Service, name: &str, program: &Path, words: &[&str]) -> Child {
    submit_with(service, name, &[], program, words)
}

fn submit_with(
    service: &Service,
    name: &str,
    more: &[&str],
    program: &Path,
    words: &[&str],
) -> Child {
    let mut command = idlewave();
    command.args(["gang", "submit"]).args(more).arg("--socket");
    command.arg(&service.socket);
    let own = ["--context", "64KiB", "--ranks", "2", "--name", name, "--"];
    command.args(own).arg(program).args(words);
    command.spawn().unwrap()
}

/// What the program has computed, as rank 0 prints it.
fn checksum(stdout: &[u8]) -> String {
    let all: Value = serde_json::from_slice(stdout).unwrap();
    let results = &all["results"];
    assert_eq!(results["verified"], true, "{results:#}");
    results["checksum"].as_str().unwrap().to_owned()
}

#[track_caller]
fn ended(child: Child) -> String {
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{} {said}", out.status);
    checksum(&out.stdout)
}

fn phase(status: &Status, name: &str) -> u64 {
    let mut phases = status.switches.phases.iter();
    phases.find(|(of, _)| of == name).map_or(0, |(_, q)| q.n)
}

/// Sockets of a process that can be reached from another machine.
fn listens(process: u32) -> Vec<String> {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/{process}/net/{name}"));
    let tables =
        ["udp", "udp6", "tcp", "tcp6", "raw", "raw6"].map(|t| table(t).unwrap_or_default());
    assert!(tables[0].contains("local_address"), "{tables:?}");
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let names: Vec<String> = links.map(|l| l.to_string_lossy().into_owned()).collect();
    assert!(!names.is_empty());
    let inode = |name: &String| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    let of_network = |inode: &String| {
        let mut lines = tables.iter().flat_map(|table| table.lines());
        lines.any(|line| line.split_whitespace().nth(9) == Some(inode))
    };
    names.iter().filter_map(inode).filter(of_network).collect()
}

/// All processes of the program that a service started are gone, and its agent's control groups
/// too.
fn nothing_is_left(agent: u32) {
    until("devices and groups are gone", || {
        (left_of(agent).is_empty() && groups_of(&[agent]).is_empty()).then_some(())
    });
}

#[test]
fn two_gangs_with_contexts_are_switched_and_compute_what_they_compute_alone() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let steps = "2000";
    let mut alone = idlewave();
    let alone = alone.args(PROGRAM).args([steps, "--ranks", "2"]).output();
    let alone = checksum(&alone.unwrap().stdout);
    let directory = tempfile::tempdir().unwrap();
    let words = ["--slice", "20ms", "--contexts", "all"];
    let service = Service::start(directory.path(), &words);
    let gangs = ["a", "b"].map(|name| submit(&service, name, steps));
    let both = |s: &Status| s.gangs.len() == 2 && s.gangs.iter().all(|g| g.row.is_some());
    let status = service.await_status("both are there", both);
    assert!(status.gangs.iter().all(|g| g.context == Some(64 << 10)));
    let (agent, _) = service.agent().unwrap();
    assert_eq!(left_of(agent).len(), 3, "a device and two tickets");
    for process in [service.controller(), agent, service.agent().unwrap().1] {
        assert_eq!(listens(process), Vec::<String>::new(), "all is on one node");
    }
    let drained = |s: &Status| phase(s, "drain") >= 4 && phase(s, "context") >= 4;
    let status = service.await_status("they are switched", drained);
    // On a machine that others use fully, ranks may not get a CPU in time.
    let late = [
        "a node could not drain the network",
        "a node could not freeze the gang",
        "a node did not answer in time",
    ];
    let mut aborted = status.switches.aborted.iter();
    assert!(
        aborted.all(|(why, _)| late.contains(&why.as_str())),
        "{status:#?}"
    );
    for gang in gangs {
        assert_eq!(ended(gang), alone);
    }
    until("devices are gone", || {
        left_of(agent).is_empty().then_some(())
    });
    drop(service);
    nothing_is_left(agent);
}

#[test]
fn a_killed_rank_ends_its_gang_and_a_killed_agent_all_with_nothing_left() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &["--slice", "20ms"]);
    let ranks_of = |child: &Child| {
        let all = gang::processes();
        let below = |parent: u32| {
            let of = all
                .iter()
                .filter(move |p| p.1 == parent && p.2.contains("halo"));
            of.map(|p| p.0).collect::<Vec<u32>>()
        };
        let starter = below(child.id());
        starter
            .first()
            .map(|starter| below(*starter))
            .filter(|ranks| ranks.len() == 2)
    };
    let switched = |service: &Service, more: u64| {
        let both = |s: &Status| s.rows.len() == 2 && phase(s, "drain") > 0;
        let begin = service.await_status("both are switched", both);
        let begin = begin.switches.switched;
        service.await_status("again", |s| s.switches.switched >= begin + more);
    };
    let long = "100000000";
    let (first, second) = (submit(&service, "a", long), submit(&service, "b", long));
    switched(&service, 4);
    let victims = until("ranks of a", || ranks_of(&first));
    kill(victims[1], 9);
    let out = first.wait_with_output().unwrap();
    assert!(!out.status.success());
    // The other gang continues, and a new one takes the place of the first.
    let third = submit(&service, "c", long);
    switched(&service, 4);
    let (agent, _) = service.agent().unwrap();
    let ranks = [&second, &third].map(|gang| until("ranks", || ranks_of(gang)));
    kill(agent, 9);
    for gang in [second, third] {
        let out = gang.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success(), "{said}");
    }
    for rank in ranks.iter().flatten() {
        assert!(!PathBuf::from(format!("/proc/{rank}")).exists());
    }
    // The next agent removes what it finds.
    nothing_is_left(agent);
    ended(submit(&service, "d", "300"));
}

/// The body of the ranks of the next test: after some successful messages, each waits for a message
/// from the other.
#[test]
fn a_rank_that_waits_for_the_other() {
    let Ok(Some(attachment)) = Attachment::of_this_process() else {
        return;
    };
    let mut rank = attachment.attach().unwrap();
    let other = Rank::new(1 - rank.rank().get());
    for round in 0.. {
        if round < 1000 {
            let sending = rank.start_send(other, Tag(7), vec![1; 100]).unwrap();
            rank.finish_send(sending, &mut || ()).unwrap();
        }
        let receiving = rank.start_receive(Some(other), Tag(7), 100, Vec::new());
        // The rank ends when its gang is told to.
        if rank.finish_receive(receiving.unwrap(), &mut || ()).is_err() {
            return;
        }
    }
}

#[test]
fn ranks_that_wait_for_each_other_are_seen_and_leave_their_turns_to_others() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &["--slice", "20ms"]);
    let words = ["--exact", "a_rank_that_waits_for_the_other", "--nocapture"];
    let program = std::env::current_exe().unwrap();
    let hangs = submit_of(&service, "hangs", &program, &words);
    let of = |status: &Status, name: &str| -> Option<GangStatus> {
        let mut gangs = status.gangs.iter();
        gangs.find(|gang| gang.name == name).cloned()
    };
    let dead = Some(Observation::Deadlocked {
        ranks: 2,
        all: true,
        polling: false,
    });
    // It is seen even while the gang is alone and its turns do not end.
    let seen = |s: &Status| of(s, "hangs").is_some_and(|gang| gang.observed == dead);
    let status = service.await_status("the deadlock is seen", seen);
    let gang = of(&status, "hangs").unwrap();
    let cycle = [
        "rank 0 waits for a message from rank 1 (tag 7)",
        "rank 1 waits for a message from rank 0 (tag 7)",
    ];
    assert_eq!(gang.waits, cycle);
    let works = submit(&service, "works", "100000000");
    let turns = |s: &Status, name: &str| of(s, name).map_or(0, |gang| gang.turns.get());
    let begins = |s: &Status| turns(s, "works") > 0;
    let before = service.await_status("the other one has a turn", begins);
    let runs = |s: &Status| {
        let progresses = |g: GangStatus| g.observed == Some(Observation::Progressing);
        turns(s, "works") > 300_000_000 && of(s, "works").is_some_and(progresses)
    };
    let status = service.await_status("the other one works", runs);
    assert_eq!(turns(&status, "hangs"), turns(&before, "hangs"));
    let mut list = idlewave();
    list.args(["gang", "list", "--socket"]).arg(&service.socket);
    let list = String::from_utf8(list.output().unwrap().stdout).unwrap();
    assert!(
        list.contains(" deadlocked ") && list.contains(cycle[0]),
        "{list}"
    );
    for (name, child) in [("hangs", hangs), ("works", works)] {
        let number = of(&status, name).unwrap().gang.to_string();
        let mut cancel = idlewave();
        cancel.args(["gang", "cancel", &number, "--socket"]);
        assert!(
            cancel
                .arg(&service.socket)
                .output()
                .unwrap()
                .status
                .success()
        );
        assert!(!child.wait_with_output().unwrap().status.success());
    }
}

#[test]
fn ranks_that_wait_for_each_other_are_ended_where_that_is_asked_for_and_no_others() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &["--slice", "20ms"]);
    let (agent, _) = service.agent().unwrap();
    let rank = ["--exact", "a_rank_that_waits_for_the_other", "--nocapture"];
    let program = std::env::current_exe().unwrap();
    let measure = Path::new(env!("CARGO_BIN_EXE_idlewave"));
    let long = [&PROGRAM[..], &["100000000"]].concat();
    let works = submit_with(&service, "works", &["--kill"], measure, &long);
    let begins = |s: &Status| s.gangs.iter().any(|gang| gang.turns.get() > 0);
    service.await_status("it works", begins);
    let hangs = submit_with(&service, "hangs", &["--kill"], &program, &rank);
    let out = hangs.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(6), "{said}");
    let cycle = "deadlock among its ranks\n  rank 0 waits for a message from rank 1 (tag 7)\n  rank 1 waits for a message from rank 0 (tag 7)\n";
    assert!(said.contains(cycle), "{said}");
    assert!(
        said.contains("its processes are being terminated"),
        "{said}"
    );
    let one = |s: &Status| s.gangs.len() == 1 && s.gangs[0].name == "works";
    service.await_status("the other one stays", one);
    kill(works.id(), 15);
    let out = works.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!said.contains("deadlock"), "{said}");
    assert_ne!(out.status.code(), Some(6), "{said}");
    drop(service);
    nothing_is_left(agent);
}

#[test]
fn a_study_of_benchmarks_goes_on_from_the_runs_that_it_has_kept() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("runs");
    let study = |repeats: &str| {
        let mut study = idlewave();
        study.args(["gang", "study", "--npb", "--programs", "is", "--class", "S"]);
        study.args([
            "--ranks",
            "1",
            "--threads",
            "--switches",
            "0",
            "--quick",
            "--json",
        ]);
        study.args(["--repeats", repeats, "--keep"]).arg(&kept);
        study.output().unwrap()
    };
    let first = study("1");
    let said = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{said}");
    let found: Value = serde_json::from_slice(&first.stdout).unwrap();
    let rows = |found: &Value| -> Vec<usize> {
        let tables = found["tables"].as_array().unwrap().iter();
        tables
            .map(|t| t["rows"].as_array().unwrap().len())
            .collect()
    };
    // A program with three policies; a pair; two unequal pairs; three ways to mix.
    assert_eq!(rows(&found), [3, 1, 2, 3, 3], "{found:#}");
    let switched = &found["tables"][0]["rows"][0];
    assert!(
        switched["switches"]["switched"].as_u64().unwrap() > 0,
        "{switched:#}"
    );
    assert!(switched["ratio"]["median"].as_f64().unwrap() > 0.0);
    assert!(switched["cpu_time"]["median"].as_f64().unwrap() > 0.0);
    // A second look at the same runs, without any new one, finds the same.
    let lines = std::fs::read_to_string(&kept).unwrap().lines().count();
    let again = study("1");
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["tables"], found["tables"]);
    let after = std::fs::read_to_string(&kept).unwrap().lines().count();
    assert_eq!((lines, after), (1 + 13, 1 + 13));
    let mut other = idlewave();
    other
        .args(["gang", "study", "--threads", "--keep"])
        .arg(&kept);
    let refused = other.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("other options"), "{said}");
}
