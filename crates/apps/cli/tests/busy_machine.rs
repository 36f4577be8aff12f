//! Identifies who used the machine during a measurement; with a kernel trace, also programs that
//! live for an instant, which no sample of /proc sees.

#![allow(clippy::unwrap_used)]

mod common;

use common::{bundle, copy, idlewave, lockstep, run, study_with};
use idlewave_run::{RunReader, TraceMode};
use idlewave_sys::process::Signal;
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};

/// Programs called `gnaw` that compute for some milliseconds, one after the other, until this is
/// dropped.
struct Gnawing {
    shell: Child,
    _directory: tempfile::TempDir,
}

impl Gnawing {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // A process is named after the file that it executes.
        common::copy_program(Path::new("/bin/sh"), &directory.path().join("gnaw"));
        let script =
            "while :; do ./gnaw -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'; done";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(&directory);
        Gnawing {
            shell: shell.process_group(0).spawn().unwrap(),
            _directory: directory,
        }
    }
}

impl Drop for Gnawing {
    fn drop(&mut self) {
        // Our child leads this process group and has not been waited for.
        let _ = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&self.shell),
            Signal::KILL,
        );
        let _ = self.shell.wait();
    }
}

#[test]
fn programs_that_live_for_an_instant_are_named_with_all_that_they_used() {
    let directory = tempfile::tempdir().unwrap();
    for seconds in [2, 8, 32] {
        let path = directory.path().join(seconds.to_string());
        let duration = format!("--duration={seconds}s");
        let mut study = study_with(&[duration.as_str(), "--work=200us"], &path);
        let gnawing = Gnawing::start();
        let studied = run(&mut study);
        drop(gnawing);
        studied.succeeded();
        let said = studied.stdout;
        let reader = RunReader::open(&path).unwrap();
        let mode = reader.manifest().nodes[0].trace.mode;
        if mode != TraceMode::Tracefs {
            println!("skipped: no kernel trace, but {mode:?}");
            return;
        }
        let used = reader.findings().unwrap().unwrap().contamination.top_tasks;
        let gnaw = used.iter().position(|(name, _)| name == "gnaw");
        // Beside the ranks, which run for two seconds, it gets at least a quarter of a CPU, and
        // less under other load; the processes alive at any one moment have used far less.
        let Some(place) = gnaw.filter(|&place| used[place].1 > 20_000_000) else {
            println!("{used:?}");
            continue;
        };
        if place < 3 {
            let banner = said.split("BUSY MACHINE").nth(1).unwrap();
            assert!(banner.contains("gnaw"), "{said}");
        }
        return;
    }
    panic!("what used the CPUs is not named");
}

#[test]
fn a_measurement_says_that_others_used_the_machine() {
    let gnawing = Gnawing::start();
    let mut measure = idlewave();
    measure.args(["measure", "barrier", "--ranks=2", "--duration=500ms"]);
    let [said, json] = [run(&mut measure), run(measure.arg("--json"))];
    drop(gnawing);
    said.succeeded();
    let said = said.stdout;
    assert!(said.contains("BUSY MACHINE: others used"), "{said}");
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let others = json["machine"][0]["contamination"]["others"].as_f64();
    assert!(others.is_some_and(|share| share > 0.02), "{json}");
    flagged(&json["header"], "others used ");
}

/// Asserts that a header flags what was measured, for this reason.
#[track_caller]
fn flagged(header: &Value, why: &str) {
    let measured = &header["measured"];
    assert_eq!(measured["contaminated"], true, "{header}");
    let busy = measured["busy"].as_array().unwrap();
    let [said] = &busy[..] else {
        panic!("not one node: {header}")
    };
    let said = said.as_str().unwrap();
    assert!(said.starts_with(&format!("BUSY MACHINE: {why}")), "{said}");
}

/// Makes a run one during which others used this share of the CPUs of its first node.
fn contaminate(run: &Path, share: f64) {
    let path = run.join("run.json");
    let manifest = std::fs::read(&path).unwrap();
    let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let seen = &mut manifest["nodes"][0]["contamination"];
    seen["wall"] = 10_000_000_000_u64.into();
    seen["others"] = share.into();
    std::fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    // Findings of before.
    let _ = std::fs::remove_file(run.join("findings.json"));
}

#[test]
fn every_output_about_a_busy_run_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let said = |words: &[&str]| {
        let ended = run(idlewave().args(words).current_dir(&directory));
        ended.succeeded();
        ended.stdout
    };
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&said(&[words, &["--json"]].concat())).unwrap()
    };
    let why = "others used 50.0 % of the CPUs";
    let busy = format!("BUSY MACHINE: {why}");
    for (name, share) in [("busy", 0.5), ("quiet", 0.0)] {
        copy(bundle(), &directory.path().join(name));
        contaminate(&directory.path().join(name), share);
    }
    let views = ["processes", "losses"];
    let view = |name| ["explain", "busy", "--view", name];
    for words in views.map(view) {
        let text = said(&words);
        assert_eq!(text.matches(&busy).count(), 1, "{text}");
        flagged(&json(&words)["header"], why);
    }
    for words in [&["explain", "busy"][..], &["explain", "busy", "--calls"]] {
        flagged(&json(words)["header"], why);
    }
    assert!(said(&["explain", "busy"]).contains(&busy));
    let quiet = json(&["explain", "quiet"]);
    assert_eq!(quiet["header"]["measured"]["contaminated"], false);
    assert!(!said(&["explain", "quiet"]).contains("BUSY"));

    let versus = ["compare", "quiet", "busy"];
    assert!(said(&versus).contains(&format!("! B: {busy}")));
    let both = json(&versus);
    assert_eq!(both["header"]["measured"]["contaminated"], false);
    flagged(&both["versus"], why);

    let export = ["export", "busy", "--to", "selfish", "-o"];
    assert!(said(&[&export[..], &["text"]].concat()).contains(&format!("! {busy}")));
    flagged(&json(&[&export[..], &["json"]].concat())["header"], why);
}

#[test]
fn what_is_computed_from_a_busy_run_says_so() {
    let directory = lockstep();
    contaminate(&directory.path().join("run"), 0.5);
    let commands = [
        &["fit", "run", "-o", "noise.toml"][..],
        &["simulate", "like", "run"],
        &["simulate", "like", "run", "--noise", "poisson:10ms:50us"],
    ];
    for words in commands {
        let ended = run(idlewave().args(words).current_dir(&directory));
        ended.succeeded();
        let text = ended
            .stdout
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            text.contains("WARNING: BUSY MACHINE: others used 50.0 %"),
            "{text}"
        );
        let mut again = idlewave();
        // The model of the first run of `fit` is there.
        let _ = std::fs::remove_file(directory.path().join("noise.toml"));
        let ended = run(again.args(words).arg("--json").current_dir(&directory));
        ended.succeeded();
        assert!(
            ended.stdout.contains("\"BUSY MACHINE: others used 50.0 %"),
            "{ended:?}"
        );
    }
    let ended = run(idlewave()
        .args(["fit", "run", "-o", "-"])
        .current_dir(&directory));
    ended.succeeded();
    assert!(ended.stderr.contains("BUSY MACHINE"), "{ended:?}");
    // Who has only the model can tell, too.
    assert!(
        ended.stdout.contains(", on a busy machine)\"\n"),
        "{ended:?}"
    );
}
