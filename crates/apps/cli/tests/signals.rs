//! A study that a signal ends at any moment leaves no trace instance, no process, and a bundle that
//! can be explained.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, again, idlewave, instances_of, run, study_with};
use idlewave_mpi::testing::long;
use idlewave_sys::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// No wait takes longer.
const LIMIT: Duration = Duration::from_secs(300);

/// By how much longer an attempt takes than the first: on a busy machine the signal may come too
/// late, or before anything was recorded.
const LONGER: [u64; 3] = [1, 4, 16];

/// When to send the signal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// Before the bundle exists.
    Start,
    /// This long after this many phases have begun.
    Phase(usize, u64),
    /// After the recording has been closed.
    Analysis,
}

use Moment::{Analysis, Phase, Start};

impl Moment {
    /// Waits until this moment; false if the study, or its recording, ended first.
    fn wait(self, child: &mut Child, bundle: &Path, signal: Signal, longer: u64) -> bool {
        let begin = Instant::now();
        loop {
            let manifest = manifest(bundle);
            let phases = manifest["phases"].as_array().map_or(0, Vec::len);
            let come = match self {
                Start => true,
                Phase(count, _) => phases >= count,
                Analysis => manifest["state"] == "complete",
            };
            if come {
                break;
            }
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(begin.elapsed() < LIMIT, "{self:?}: {manifest}");
            std::thread::sleep(Duration::from_millis(5));
        }
        match self {
            Start if signal == Signal::KILL => std::thread::sleep(Duration::from_millis(30)),
            // `./check` runs in the background, where shells ignore SIGINT; a program ignores it
            // too until it has a handler.
            Start => common::await_handler(child, signal),
            Phase(_, ms) => std::thread::sleep(Duration::from_millis(ms * longer)),
            Analysis => return true,
        }
        // On a busy machine, this may have slept until the recording was over.
        manifest(bundle)["state"] != "complete"
    }
}

/// `run.json`, or null if it does not exist yet.
fn manifest(bundle: &Path) -> Value {
    let bytes = fs::read(bundle.join("run.json")).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Rows of a table of the manifest; 0 if it has none by that name.
fn rows(manifest: &Value, table: &str) -> u64 {
    let tables = manifest["tables"].as_array().unwrap();
    let entry = tables.iter().find(|t| t["name"] == table);
    entry.map_or(0, |t| t["rows"].as_u64().unwrap())
}

/// Starts a study and sends it a signal; returns its output, or `None` if the signal came too late.
fn ended_by(signal: Signal, moment: Moment, longer: u64, bundle: &Path) -> Option<Ended> {
    let duration = format!("--duration={}s", 2 * longer);
    let mut command = study_with(&[duration.as_str(), "--work=100us"], bundle);
    if moment == Analysis {
        // The analysis must take long enough to be hit.
        command.env_remove("IDLEWAVE_EFFORT");
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let hit = moment.wait(&mut child, bundle, signal, longer);
    if hit {
        common::signal(&child, signal);
    }
    let ended = common::wait(child);
    let late = match moment {
        Start | Phase(..) => manifest(bundle)["state"] == "complete",
        Analysis => ended.code == Some(0),
    };
    if !hit || late {
        println!("{moment:?}: the signal came too late");
        return None;
    }
    Some(ended)
}

/// Processes that were started by a process and have outlived it.
fn children_of(group: u32) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path())
        .filter(|path| {
            let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            fields.split_whitespace().nth(1) == Some(&group.to_string())
        })
        .collect()
}

/// The host sheet, every phase, the analysis.
const MOMENTS: [Moment; 6] = [
    Start,
    Phase(1, 250),
    Phase(2, 150),
    Phase(3, 300),
    Phase(4, 300),
    Analysis,
];

/// Every other moment, starting with this one; all of them if `IDLEWAVE_LONG` is set.
fn moments(first: usize) -> Vec<Moment> {
    match long() {
        true => MOMENTS.to_vec(),
        false => MOMENTS.into_iter().skip(first).step_by(2).collect(),
    }
}

/// Asserts that the bundle, if there is one, can be explained. Returns whether it holds what was
/// recorded before the signal, which on a busy machine may be nothing.
fn readable(bundle: &Path, moment: Moment, incomplete: &Value) -> bool {
    if !bundle.join("run.json").exists() {
        // A directory without a manifest is not a run, and is not taken for one.
        assert_eq!(moment, Start);
        again("explain", bundle).failed(5);
        return true;
    }
    again("explain", bundle).succeeded();
    again("report", bundle).succeeded();
    let manifest = manifest(bundle);
    if moment == Analysis {
        assert_eq!(manifest["state"], "complete");
        return true;
    }
    assert_eq!(manifest["state"], "incomplete");
    assert_eq!(&manifest["incomplete"], incomplete, "{moment:?}");
    let tables = ["detours", "quanta", "regions", "regions"];
    let phases = match moment {
        // SIGKILL loses the records that no thread had handed over yet: in a short phase, all of
        // them.
        Phase(count, _) if incomplete == "killed" => count - 1,
        Phase(count, _) => count,
        Start | Analysis => 0,
    };
    let missing = tables[..phases].iter().find(|t| rows(&manifest, t) == 0);
    if let Some(table) = missing {
        println!("{moment:?}: no {table}");
    }
    missing.is_none()
}

fn ends_in_order(signal: Signal, moments: &[Moment]) {
    for &moment in moments {
        let kept = LONGER.iter().any(|&longer| {
            let dir = tempfile::tempdir().unwrap();
            let bundle = dir.path().join("run");
            let Some(ended) = ended_by(signal, moment, longer, &bundle) else {
                return false;
            };
            assert_eq!(instances_of(ended.pid), Vec::<PathBuf>::new(), "{moment:?}");
            assert_eq!(children_of(ended.pid), Vec::<PathBuf>::new(), "{moment:?}");
            assert_eq!(
                ended.code,
                Some(128 + signal.as_raw()),
                "{moment:?}: {ended:?}"
            );
            let own = |line: &&str| line.starts_with("idlewave: ");
            let lines = ended.stderr.lines().filter(own).count();
            assert_eq!(lines, 1, "{moment:?}: {ended:?}");
            assert!(ended.stderr.contains("interrupted"), "{ended:?}");
            let incomplete = serde_json::json!({ "signal": signal.as_raw() });
            readable(&bundle, moment, &incomplete)
        });
        assert!(kept, "{moment:?}: no attempt ended there and kept all");
    }
}

#[test]
fn sigint_ends_the_study_in_order_at_any_moment() {
    ends_in_order(Signal::INT, &moments(0));
}

#[test]
fn sigterm_ends_the_study_in_order_too() {
    ends_in_order(Signal::TERM, &[Phase(1, 250), Phase(3, 300)]);
}

#[test]
fn sigkill_leaves_nothing_that_the_next_start_does_not_clean_up() {
    let tracing = Path::new("/sys/kernel/tracing/instances");
    if !common::is_root() || !tracing.is_dir() {
        println!("skipped: instances of the tracer: tracing is not permitted here");
    }
    let mut killed = Vec::new();
    for moment in moments(1) {
        let kept = LONGER.iter().any(|&longer| {
            let dir = tempfile::tempdir().unwrap();
            let bundle = dir.path().join("run");
            let Some(ended) = ended_by(Signal::KILL, moment, longer, &bundle) else {
                return false;
            };
            assert_eq!(ended.code, None, "{moment:?}");
            assert_eq!(children_of(ended.pid), Vec::<PathBuf>::new(), "{moment:?}");
            let left = instances_of(ended.pid).len();
            println!("{moment:?}: left {left} of the tracer's instances");
            killed.push(ended.pid);
            readable(&bundle, moment, &"killed".into())
        });
        assert!(kept, "{moment:?}: no attempt ended there and kept all");
    }
    let dir = tempfile::tempdir().unwrap();
    let next = dir.path().join("next");
    run(&mut study_with(&["--duration=2s", "--work=1ms"], &next)).succeeded();
    for pid in killed {
        assert_eq!(instances_of(pid), Vec::<PathBuf>::new());
    }
}

#[test]
fn an_analysis_that_is_interrupted_leaves_the_bundle_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let before = common::files(common::bundle());
    for signal in [Signal::INT, Signal::KILL] {
        // On a busy machine the signal may come when all is done.
        let unchanged = (0..10).any(|attempt| {
            let bundle = dir.path().join(format!("{}-{attempt}", signal.as_raw()));
            common::copy(common::bundle(), &bundle);
            let ended = analysis_ended_by(signal, &bundle);
            let changed = common::files(&bundle) != before;
            let expected = (signal == Signal::INT).then_some(128 + signal.as_raw());
            assert!(changed || ended.code == expected, "{ended:?}");
            again("explain", &bundle).succeeded();
            assert!(changed || common::files(&bundle) == before);
            !changed
        });
        assert!(unchanged, "{signal:?}");
    }
}

/// An analysis that a signal ends while it runs, or soon after.
fn analysis_ended_by(signal: Signal, bundle: &Path) -> Ended {
    let mut child = idlewave()
        .env_remove("IDLEWAVE_EFFORT")
        .arg("explain")
        .arg(bundle)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    common::await_handler(&mut child, Signal::INT);
    std::thread::sleep(Duration::from_millis(500));
    common::signal(&child, signal);
    common::wait(child)
}

#[test]
fn a_second_process_is_kept_off_a_bundle_that_is_being_recorded() {
    let dir = tempfile::tempdir().unwrap();
    // On a busy machine a short study may be over when it is found to record.
    let recorded = LONGER.iter().any(|longer| {
        let bundle = dir.path().join(longer.to_string());
        let duration = format!("--duration={}s", 2 * longer);
        let mut child = study_with(&[duration.as_str(), "--work=1ms"], &bundle)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if !Phase(1, 0).wait(&mut child, &bundle, Signal::INT, 1) {
            common::wait(child).succeeded();
            return false;
        }
        // While it is stopped, the other process has all the time it needs.
        common::signal(&child, Signal::STOP);
        let recording = manifest(&bundle)["state"] != "complete";
        let refused = again("explain", &bundle);
        common::signal(&child, Signal::CONT);
        common::wait(child).succeeded();
        if recording {
            let [what, next] = refused.failed(5);
            assert!(what.contains("at work on it"), "{what}");
            assert!(next.contains("wait"), "{next}");
        }
        recording
    });
    assert!(recorded, "every study was over before");
}
