//! An unprivileged user still gets a study, and is told what is missing and what would allow it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, has, instances_of, is_root, program_for_all, run};
use idlewave_mpi::testing::skip;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The unprivileged user.
const NOBODY: &str = "65534";

/// A directory that this user may write.
fn open_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// That user, who can start the command.
struct Nobody {
    program: PathBuf,
    /// Holds the program if it had to be copied.
    _programs: tempfile::TempDir,
}

impl Nobody {
    /// `None`, with the reason printed, if the user cannot be changed.
    fn new() -> Option<Self> {
        let programs = open_directory();
        let nobody = Self {
            program: program_for_all(programs.path()),
            _programs: programs,
        };
        match nobody.tried() {
            Ok(()) => return Some(nobody),
            Err(why) => skip(&why),
        }
        None
    }

    fn tried(&self) -> Result<(), String> {
        if !is_root() {
            return Err("changing the user needs root".to_owned());
        }
        if !has("setpriv") {
            return Err("there is no setpriv (package util-linux)".to_owned());
        }
        match self.command().arg("--version").output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// The command as that user.
    fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .args(["--bounding-set=-all", "--no-new-privs"])
            .arg(&self.program)
            .env("IDLEWAVE_EFFORT", "0.0001");
        command
    }

    /// A short study as that user.
    fn study(&self, options: &[&str], bundle: &Path) -> Ended {
        let mut command = self.command();
        command.args(["study", "--duration=2s", "--work=200us", "-o"]);
        run(command.arg(bundle).args(options))
    }
}

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Asserts that everything that needs no privileges is there.
fn complete(bundle: &Path) {
    let manifest = json(bundle.join("run.json"));
    assert_eq!(manifest["state"], "complete");
    let findings = json(bundle.join("findings.json"));
    for part in ["cpus", "lockstep"] {
        assert!(!findings[part].as_array().unwrap().is_empty(), "{part}");
    }
    let page = fs::read_to_string(bundle.join("report.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"));
    assert!(!bundle.join("raw").join("capture.json").exists());
}

#[test]
fn without_rights_the_study_says_exactly_what_is_missing_and_what_would_allow_it() {
    let Some(nobody) = Nobody::new() else { return };
    let dir = open_directory();
    let bundle = dir.path().join("run");
    let ended = nobody.study(&[], &bundle);
    ended.succeeded();
    assert_eq!(instances_of(ended.pid), Vec::<PathBuf>::new());
    complete(&bundle);

    let trace = &json(bundle.join("run.json"))["nodes"][0]["trace"];
    let mode = trace["mode"].as_str().unwrap();
    let switches = mode == "perf_switch";
    assert!(switches || mode == "counters", "{mode}");
    let missing = trace["unavailable"].as_array().unwrap();
    let names = missing
        .iter()
        .find(|m| m["what"].as_str().unwrap().starts_with("names of tasks"))
        .unwrap();
    let allow = names["allow"].as_str().unwrap();
    assert!(
        allow.contains("sudo") || allow.contains("docker"),
        "{allow}"
    );
    // The process's own switches are missing if and only if perf is refused.
    let refused = missing
        .iter()
        .any(|m| m["what"].as_str().unwrap().contains("off their CPU"));
    assert_eq!(refused, !switches, "{missing:?}");

    // The summary, with its lines joined, contains all of it.
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let summary = words.join(" ");
    for part in missing {
        for key in ["what", "why", "allow"] {
            let Some(text) = part[key].as_str() else {
                continue;
            };
            assert!(summary.contains(text), "{text}: {}", ended.stdout);
        }
    }
    assert!(summary.contains("NOT RECORDED"));

    // The user who recorded it may explain it again.
    let before = common::files(&bundle);
    run(nobody.command().arg("explain").arg(&bundle)).succeeded();
    run(nobody.command().arg("report").arg(&bundle)).succeeded();
    assert!(common::files(&bundle) == before);
}

#[test]
fn no_trace_is_named_as_the_reason_and_needs_no_rights() {
    let Some(nobody) = Nobody::new() else { return };
    let dir = open_directory();
    let bundle = dir.path().join("run");
    let ended = nobody.study(&["--no-trace"], &bundle);
    ended.succeeded();
    complete(&bundle);
    let trace = &json(bundle.join("run.json"))["nodes"][0]["trace"];
    assert_eq!(trace["mode"], "off");
    let missing = trace["unavailable"].as_array().unwrap();
    assert_eq!(missing.len(), 1);
    assert!(missing[0]["why"].as_str().unwrap().contains("--no-trace"));
    assert!(ended.stdout.contains("--no-trace"));
}

#[test]
fn a_bundle_of_another_user_is_explained_and_reported_elsewhere() {
    let Some(nobody) = Nobody::new() else { return };
    let dir = open_directory();
    let bundle = dir.path().join("run");
    common::copy(common::bundle(), &bundle);
    let before = common::files(&bundle);
    run(nobody.command().arg("explain").arg(&bundle)).succeeded();

    let [what, next] = run(nobody.command().arg("report").arg(&bundle)).failed(4);
    assert!(what.contains("report.html"), "{what}");
    assert!(next.contains("-o"), "{next}");
    let page = dir.path().join("page.html");
    let mut report = nobody.command();
    run(report.arg("report").arg(&bundle).arg("-o").arg(&page)).succeeded();
    assert_eq!(fs::read(page).unwrap(), before[Path::new("report.html")]);
    assert!(common::files(&bundle) == before);

    fs::set_permissions(bundle.join("run.json"), fs::Permissions::from_mode(0o600)).unwrap();
    let [what, next] = run(nobody.command().arg("explain").arg(&bundle)).failed(4);
    assert!(what.contains("run.json"), "{what}");
    assert!(next.contains("as the user who recorded it"), "{next}");
}

#[test]
fn a_place_that_only_others_may_write_is_refused() {
    let Some(nobody) = Nobody::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let [what, next] = nobody.study(&[], &dir.path().join("run")).failed(4);
    assert!(what.contains("Permission denied"), "{what}");
    assert!(next.contains("that you may write"), "{next}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
