//! A kernel trace and the trace of the program, of one recording, joined again: the findings are
//! those of the recording.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/culprit.rs"]
mod culprit;
#[path = "common/precedence.rs"]
mod precedence;

use common::{idlewave, run};
use culprit::{Culprit, two_cpus};
use idlewave_formats::import::{Ask, import};
use idlewave_mpi::testing::{Installation, installations};
use idlewave_run::findings::SourceFinding;
use idlewave_run::tables::{Calls, Waits};
use idlewave_run::{RunReader, SourceKind, Table, TraceMode};
use idlewave_units::Cpu;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

const CULPRIT: &str = "culprit-joined";

/// Records two ranks that meet in a barrier every 100 us, while a culprit takes the CPU of rank 1
/// for 1 ms every 50 ms.
fn record(mpi: &Installation, dir: &Path, cpus: [Cpu; 2]) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/programs/lockstep.c");
    let program = dir.join("lockstep");
    mpi.compile_c(&source, &program)?;
    let culprit = Culprit::start(CULPRIT, 1_000, 50_000, 4, &[cpus[1]]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_idlewave"));
    command
        .arg("record")
        .arg("-o")
        .arg(dir.join("run"))
        .arg("--");
    mpi.prepare(&mut command);
    let output = command
        .arg(&mpi.mpirun)
        .args(&mpi.options)
        .args(["-n", "2"])
        .arg(&program)
        .args(["barrier", "10000", "100"])
        .arg(cpus.map(|c| c.to_string()).join(","))
        .arg(dir.join("own"))
        .output()
        .unwrap();
    culprit.finish();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(())
}

/// What each source cost: time lost, lateness, time stolen.
type Costs = BTreeMap<(SourceKind, String), [u64; 3]>;

fn costs(run: &Path) -> Costs {
    let findings = RunReader::open(run).unwrap().findings().unwrap().unwrap();
    assert_eq!(findings.trace.mode, TraceMode::Tracefs);
    let cost = |s: &SourceFinding| {
        let times = [s.lost, s.lateness, s.stolen].map(|time| time.get());
        ((s.kind, s.name.clone()), times)
    };
    findings.sources.iter().map(cost).collect()
}

/// The sum over threads other than the culprit and the given ones of the kernel: a kernel trace has
/// neither the names of their processes nor which of them are the recorder or the kernel's.
fn of_others(costs: &mut Costs, kernel: &BTreeSet<String>) -> [u64; 3] {
    let mut sum = [0; 3];
    costs.retain(|(kind, name), times| {
        let is_other = match kind {
            SourceKind::Task | SourceKind::Recorder | SourceKind::Rank => name != CULPRIT,
            SourceKind::KernelThread => !kernel.contains(name),
            _ => false,
        };
        if is_other {
            (0..3).for_each(|at| sum[at] += times[at]);
        }
        !is_other
    });
    sum
}

fn kernel_threads(costs: &Costs) -> BTreeSet<String> {
    let of_kernel = costs.keys().filter(|(k, _)| *k == SourceKind::KernelThread);
    of_kernel.map(|(_, name)| name.clone()).collect()
}

/// Waits by rank: start, end, and for whom.
fn waits(run: &Path) -> Vec<[u64; 4]> {
    let waits: Waits = RunReader::open(run).unwrap().read().unwrap();
    let row = |w: idlewave_run::tables::Wait| {
        [
            w.rank.get().into(),
            w.begin_ns,
            w.end_ns,
            w.culprit.get().into(),
        ]
    };
    let mut all: Vec<[u64; 4]> = waits.rows().map(row).collect();
    all.sort_unstable();
    all
}

#[track_caller]
fn joined(dir: &Path, app: &str, run_name: &str, options: &[&str]) -> String {
    let ended = run(idlewave()
        .args(["import", "kernel.dat", "-o", run_name])
        .args(options)
        .args(["--app", app])
        .current_dir(dir));
    ended.succeeded();
    run(idlewave().args(["explain", run_name]).current_dir(dir)).succeeded();
    ended
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The same trace as written by a tool that sees only the program, and no thread numbers.
fn without_kernel(dir: &Path) {
    let text = fs::read_to_string(dir.join("program.prv")).unwrap();
    let mut out = String::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let of_program = fields.get(2) == Some(&"1");
        match fields[0] {
            "1" => continue,
            "2" if !of_program => continue,
            "2" => {
                let pairs = fields[6..].chunks(2);
                let is_mpi = |pair: &&[&str]| pair[0].starts_with("50");
                let kept: Vec<String> = pairs.filter(is_mpi).map(|pair| pair.join(":")).collect();
                if !kept.is_empty() {
                    out += &format!("{}:{}\n", fields[..6].join(":"), kept.join(":"));
                }
            }
            _ => out += &format!("{line}\n"),
        }
    }
    fs::write(dir.join("alone.prv"), out).unwrap();
    fs::copy(dir.join("program.pcf"), dir.join("alone.pcf")).unwrap();
    let row = fs::read_to_string(dir.join("program.row")).unwrap();
    let row: String = row
        .lines()
        .map(|line| match line.split_once(" (") {
            Some((before, _)) if line.starts_with("rank ") => format!("{before}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    fs::write(dir.join("alone.row"), row).unwrap();
}

#[test]
fn findings_of_joined_traces_are_those_of_the_recording() {
    precedence::go_before_others();
    let Some(cpus) = two_cpus() else {
        println!("skipped: fewer than 2 CPUs are allowed");
        return;
    };
    let Some(mpi) = installations().into_iter().next() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if record(&mpi, dir, cpus).is_none() {
        return;
    }
    for (format, file) in [("trace.dat", "kernel.dat"), ("paraver", "program.prv")] {
        run(idlewave()
            .args(["export", "run", "--to", format, "-o", file])
            .current_dir(dir))
        .succeeded();
    }
    let recorded = costs(&dir.join("run"));
    let culprit = (SourceKind::Task, CULPRIT.to_owned());
    assert!(recorded[&culprit][0] > 1_000_000, "{recorded:?}");

    // idlewave's own export has the ranks' bursts, so the offset is exact, and so is everything
    // else.
    let said = joined(dir, "program.prv", "joined", &[]);
    assert!(said.contains("by the numbers of their threads"), "{said}");
    assert!(said.contains("known to 0 ns"), "{said}");
    assert_eq!(waits(&dir.join("joined")), waits(&dir.join("run")));
    let (mut ours, mut theirs) = (costs(&dir.join("joined")), recorded.clone());
    let all = format!("{ours:?}\n{theirs:?}");
    let kernel = kernel_threads(&ours);
    assert!(kernel.is_subset(&kernel_threads(&theirs)), "{all}");
    let others = [&mut ours, &mut theirs].map(|costs| of_others(costs, &kernel));
    // Each wait is divided into whole nanoseconds, and the other threads are one source in one run
    // and several in the other.
    let most = waits(&dir.join("run")).len() as u64;
    let alike = |ours: &[u64; 3], theirs: &[u64; 3]| {
        let pairs = ours.iter().zip(theirs);
        pairs.map(|(a, b)| a.abs_diff(*b)).all(|off| off <= most)
    };
    assert!(ours.keys().eq(theirs.keys()), "{all}");
    let mut pairs = ours.values().zip(theirs.values());
    assert!(pairs.all(|(a, b)| alike(a, b)), "{all}");
    assert!(alike(&others[0], &others[1]), "{all}, {most} waits");

    // From the program alone, the times when the ranks had no CPU bound the offset.
    without_kernel(dir);
    let said = joined(dir, "alone.prv", "estimated", &[]);
    assert!(
        said.contains("by name and order of their processes"),
        "{said}"
    );
    let begin = |run: &str| {
        let calls: Calls = RunReader::open(&dir.join(run)).unwrap().read().unwrap();
        calls.begin_ns.iter().copied().min().unwrap()
    };
    let off = begin("estimated").abs_diff(begin("run"));
    let bound = bound(dir);
    println!("the offset is off by {off} ns, its bound is {bound} ns");
    assert!(off <= bound, "{off} ns");
    let cost = costs(&dir.join("estimated"))[&culprit];
    let least = recorded[&culprit][0] as f64 * 0.8;
    assert!(
        cost[0] as f64 >= least,
        "{cost:?} of {:?}",
        recorded[&culprit]
    );

    // An offset that the user gives is checked against the traces.
    let right = begin("run") - begin_of_program(dir);
    let said = joined(
        dir,
        "alone.prv",
        "asked",
        &["--app-offset", &right.to_string()],
    );
    assert!(
        said.contains("as asked") && !said.contains("off its CPU"),
        "{said}"
    );
    assert_eq!(waits(&dir.join("asked")), waits(&dir.join("run")));
    let said = joined(
        dir,
        "alone.prv",
        "wrong",
        &["--app-offset", &(right + 700_000).to_string()],
    );
    assert!(said.contains("off its CPU"), "{said}");
}

/// The bound of the estimated offset.
fn bound(dir: &Path) -> u64 {
    let app = [dir.join("alone.prv")];
    let imported = import(&Ask {
        app: &app,
        ..Ask::new(&dir.join("kernel.dat"), &dir.join("bound"))
    });
    let joined = imported.unwrap().joined.unwrap();
    joined.error.unwrap().get()
}

/// The first call of the program's own trace.
fn begin_of_program(dir: &Path) -> u64 {
    run(idlewave()
        .args(["import", "alone.prv", "-o", "program"])
        .current_dir(dir))
    .succeeded();
    let calls: Calls = RunReader::open(&dir.join("program"))
        .unwrap()
        .read()
        .unwrap();
    calls.begin_ns.iter().copied().min().unwrap()
}
