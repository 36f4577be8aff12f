//! Damaged bundles: `explain` and `report` end with one line or with a result, never with a panic,
//! and never hang.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, again, bundle, copy, idlewave, run, study};
use idlewave_mpi::testing::long;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Exit code of a bundle that cannot be read.
const NO_RUN: i32 = 5;

/// A directory for repeatedly damaging a copy of the bundle.
struct Patient {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Patient {
    fn of(bundle: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        copy(bundle, &path);
        Self { _dir: dir, path }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn manifest(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file("run.json")).unwrap()).unwrap()
    }

    fn set_manifest(&self, manifest: &Value) {
        fs::write(self.file("run.json"), manifest.to_string()).unwrap();
    }

    /// Enters the current size and checksum of a table: as if it had been damaged before it was
    /// written.
    fn enter(&self, name: &str) {
        let bytes = fs::read(self.file(name)).unwrap();
        let mut manifest = self.manifest();
        let tables = manifest["tables"].as_array_mut().unwrap();
        let entry = tables.iter_mut().find(|t| t["file"] == name).unwrap();
        entry["bytes"] = bytes.len().into();
        entry["crc32"] = crc32(&bytes).into();
        self.set_manifest(&manifest);
    }
}

/// The checksum that the manifest holds, computed bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| {
            (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg())
        })
    })
}

/// Asserts that the command refused the bundle and named the file, or succeeded.
#[track_caller]
fn refused_or_done(ended: &Ended, name: &str, what: &str) {
    if ended.code == Some(0) {
        return;
    }
    assert_eq!(ended.code, Some(NO_RUN), "{what}: {ended:?}");
    let [said, _] = ended.failed(NO_RUN);
    assert!(said.contains(name), "{what}: {said}");
}

/// Names of the tables, smallest first.
fn tables(bundle: &Path) -> Vec<String> {
    let of = fs::read_dir(bundle).unwrap().flatten();
    let mut found: Vec<(u64, String)> = of
        .map(|e| {
            (
                e.metadata().unwrap().len(),
                e.file_name().into_string().unwrap(),
            )
        })
        .filter(|(_, name)| name.ends_with(".arrow"))
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Damage to a file of this length: where to cut it, and which bytes to flip.
fn damages(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let length = bytes.len();
    let mut found = Vec::new();
    for cut in [0, 9, length / 3, length.saturating_sub(1)] {
        found.push((format!("cut at {cut}"), bytes[..cut.min(length)].to_vec()));
    }
    for at in [0, length / 7, length.saturating_sub(20)] {
        let mut flipped = bytes.to_vec();
        if let Some(byte) = flipped.get_mut(at) {
            *byte ^= 0xff;
        }
        found.push((format!("flipped at {at}"), flipped));
    }
    found.push(("longer".to_owned(), [bytes, b"more"].concat()));
    found
}

/// All damages to all tables take minutes. Without `IDLEWAVE_LONG`, only one in three is used,
/// different ones for every `turn`.
fn some_damages(turn: usize, bytes: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let step = if long() { 1 } else { 3 };
    damages(bytes).into_iter().skip(turn % step).step_by(step)
}

#[test]
fn every_damaged_table_is_refused_by_name() {
    let patient = Patient::of(bundle());
    for (turn, name) in tables(&patient.path).into_iter().enumerate() {
        let late = name.starts_with("late_");
        let file = patient.file(&name);
        let good = fs::read(&file).unwrap();
        for (what, bytes) in some_damages(turn, &good) {
            fs::write(&file, bytes).unwrap();
            // Late tables are written by `explain` and read by `report`.
            let command = if late { "report" } else { "explain" };
            let ended = again(command, &patient.path);
            // A table that the command does not use may contain anything.
            let what = format!("{name} {what}");
            refused_or_done(&ended, &name, &what);
            if ["regions.arrow", "detours.arrow", "quanta.arrow"].contains(&name.as_str()) {
                assert_eq!(ended.code, Some(NO_RUN), "{what}");
            }
        }
        fs::remove_file(&file).unwrap();
        let ended = again(if late { "report" } else { "explain" }, &patient.path);
        refused_or_done(&ended, &name, &format!("{name} missing"));
        fs::write(&file, good).unwrap();
    }
    again("explain", &patient.path).succeeded();
}

#[test]
fn damage_that_the_checksum_covers_up_is_survived() {
    let patient = Patient::of(bundle());
    for (turn, name) in tables(&patient.path).into_iter().enumerate() {
        let file = patient.file(&name);
        let good = fs::read(&file).unwrap();
        // Cut files are refused by their lengths; flipped ones by every part of the reader, or not
        // at all.
        let flipped = some_damages(turn, &good).filter(|(what, _)| !what.starts_with("cut"));
        let all = flipped.chain([("empty".to_owned(), Vec::new())]);
        let (skipped, most) = match long() {
            true => (0, usize::MAX),
            false => (turn / 3 % 2, 1),
        };
        for (what, bytes) in all.skip(skipped).take(most) {
            fs::write(&file, bytes).unwrap();
            patient.enter(&name);
            let command = if name.starts_with("late_") {
                "report"
            } else {
                "explain"
            };
            let ended = again(command, &patient.path);
            assert!(
                [Some(0), Some(NO_RUN)].contains(&ended.code),
                "{name} {what}: {ended:?}"
            );
            if ended.code == Some(NO_RUN) {
                ended.failed(NO_RUN);
            }
        }
        fs::write(&file, good).unwrap();
        patient.enter(&name);
    }
}

#[test]
fn a_kernel_trace_that_cannot_be_decoded_is_refused_by_file_and_line() {
    if !bundle().join("raw").exists() {
        return println!("skipped: no kernel trace was recorded here");
    }
    let patient = Patient::of(bundle());
    let mut manifest = patient.manifest();
    // The state before the first analysis: nothing of the trace has been decoded.
    let decoded = [
        "bursts",
        "interrupts",
        "wakeups",
        "migrations",
        "sources",
        "tasks",
    ];
    let tables = manifest["tables"].as_array_mut().unwrap();
    tables.retain(|t| !decoded.contains(&t["name"].as_str().unwrap()));
    let explain = || {
        patient.set_manifest(&manifest);
        again("explain", &patient.path)
    };
    let refused = |name: &str, bytes: &[u8], place: &str| {
        let file = patient.file(name);
        let good = fs::read(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        println!(
            "{name}: {}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(40)])
        );
        let ended = explain();
        let [what, next] = ended.failed(NO_RUN);
        let end = name.rsplit('/').next().unwrap();
        assert!(what.contains(end) && what.contains(place), "{what}");
        assert!(next.contains("copy the bundle again"), "{next}");
        fs::write(&file, good).unwrap();
    };
    let switch = "raw/formats/sched/sched_switch";
    refused(switch, b"", "line ");
    refused(switch, b"name: sched_switch\nID: many\n", "line ");
    refused(switch, &[0xff; 300], "line ");
    let text = fs::read_to_string(patient.file(switch)).unwrap();
    let odd = text.replace("offset:8;", "offset:eight;");
    assert_ne!(odd, text);
    refused(switch, odd.as_bytes(), "eight");
    refused("raw/header_page", b"", "line ");
    refused("raw/header_page", b"field: nonsense\n", "line ");
    for bad in ["", "{", "[]"] {
        refused("raw/capture.json", bad.as_bytes(), "capture.json");
    }

    let header = patient.file("raw/header_page");
    let good = fs::read(&header).unwrap();
    fs::remove_file(&header).unwrap();
    let [what, _] = explain().failed(NO_RUN);
    assert!(what.contains("header_page"), "{what}");
    fs::write(&header, good).unwrap();

    explain().succeeded();
}

#[test]
fn damaged_trace_pages_are_decoded_as_far_as_they_go() {
    let name = "raw/cpu0.pages";
    if !bundle().join(name).exists() {
        return println!("skipped: no kernel trace was recorded here");
    }
    let patient = Patient::of(bundle());
    let mut manifest = patient.manifest();
    let tables = manifest["tables"].as_array_mut().unwrap();
    tables.retain(|t| t["name"] != "bursts");
    let file = patient.file(name);
    let good = fs::read(&file).unwrap();
    for (what, bytes) in some_damages(1, &good) {
        fs::write(&file, bytes).unwrap();
        patient.set_manifest(&manifest);
        let ended = again("explain", &patient.path);
        assert_eq!(ended.code, Some(0), "{what}: {ended:?}");
    }
}

#[test]
fn findings_that_cannot_be_read_are_refused_until_explained_again() {
    let patient = Patient::of(bundle());
    let file = patient.file("findings.json");
    let good = fs::read(&file).unwrap();
    for (what, bytes) in damages(&good)
        .into_iter()
        .filter(|(what, _)| what != "flipped at 9")
    {
        fs::write(&file, bytes).unwrap();
        let ended = again("report", &patient.path);
        refused_or_done(&ended, "findings.json", &what);
    }
    again("explain", &patient.path).succeeded();
    assert!(fs::read(&file).unwrap() == good);
}

/// A bundle whose writer was killed in its first lockstep run.
fn killed() -> &'static Path {
    static KILLED: OnceLock<PathBuf> = OnceLock::new();
    KILLED.get_or_init(|| {
        let path = bundle().with_extension("killed");
        let manifest = || fs::read_to_string(path.join("run.json")).unwrap_or_default();
        let spilled = || fs::metadata(path.join("spill")).map_or(0, |spill| spill.len());
        // On a busy machine, a study may end before it is killed.
        for _ in 0..20 {
            let _ = fs::remove_dir_all(&path);
            let mut child = study(&path).spawn().unwrap();
            while !manifest().contains("lockstep") || spilled() <= 1_000 {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let _ = child.kill();
            child.wait().unwrap();
            if path.join("spill").exists() {
                return path;
            }
        }
        panic!("no study was killed in time");
    })
}

#[test]
fn what_a_killed_writer_left_may_be_damaged_too() {
    let spilled = fs::read(killed().join("spill")).unwrap();
    assert!(spilled.len() > 1_000);
    for (what, bytes) in damages(&spilled) {
        let patient = Patient::of(killed());
        fs::write(patient.file("spill"), bytes).unwrap();
        let ended = again("explain", &patient.path);
        refused_or_done(&ended, "spill", &what);
    }
    let patient = Patient::of(killed());
    again("explain", &patient.path).succeeded();
    assert_eq!(patient.manifest()["incomplete"], "killed");
}

/// What a sender may put into a run to reach other files, or to block its reader.
#[test]
fn a_run_that_holds_links_or_fifos_is_refused_and_nothing_outside_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let precious = dir.path().join("precious");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(&precious, "precious").unwrap();
    let places = [
        "report.html",
        "report.html.new",
        "run.json.new",
        "findings.json",
        "findings.json.new",
        "late_steps.arrow",
        "late_steps.arrow.new",
        "rings",
        "spill",
        "clocks.json",
        "raw",
        ".nodes",
        "report_files",
    ];
    let commands: [&[&str]; 4] = [&["explain"], &["report"], &["fit"], &["simulate", "like"]];
    for (at, place) in places.iter().enumerate() {
        let patient = Patient::of(bundle());
        let file = patient.file(place);
        let _ = fs::remove_file(&file);
        let _ = fs::remove_dir_all(&file);
        match (*place, at % 3) {
            ("raw" | ".nodes" | "report_files", _) => {
                std::os::unix::fs::symlink(&outside, &file).unwrap()
            }
            (_, 2) => {
                let made = Command::new("mkfifo").arg(&file).status().unwrap();
                assert!(made.success());
            }
            _ => std::os::unix::fs::symlink(&precious, &file).unwrap(),
        }
        let command = commands[at % commands.len()];
        let ended = run(idlewave().args(command).arg(&patient.path));
        let [said, next] = ended.failed(NO_RUN);
        assert!(said.contains(place), "{command:?}: {said}");
        assert!(next.contains("remove it"), "{command:?}: {next}");
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "{place}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{place}");
    }
    // A manifest that never ends.
    let patient = Patient::of(bundle());
    fs::remove_file(patient.file("run.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", patient.file("run.json")).unwrap();
    again("explain", &patient.path).failed(NO_RUN);
}
