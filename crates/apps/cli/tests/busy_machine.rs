//! Identifies who used the machine during a measurement; with a kernel trace, also programs that
//! live for an instant, which no sample of /proc sees.

#![allow(clippy::unwrap_used)]

mod common;

use common::{idlewave, run, study_with};
use idlewave_run::{RunReader, TraceMode};
use idlewave_sys::process::Signal;
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
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let others = json["machine"][0]["contamination"]["others"].as_f64();
    assert!(others.is_some_and(|share| share > 0.02), "{json}");
}
