//! A planted culprit and a recorded MPI program, end to end: the program's own clock tells which of its
//! iterations were late and on which rank, the culprit's own clock tells which of those it hit, and the waits of
//! the other ranks in them must be charged to it, at the rank where it struck.

#![allow(clippy::unwrap_used)]

#[path = "common/culprit.rs"]
mod culprit;

use culprit::{Culprit, overlaps, two_cpus};
use idlewave_mpi::testing::{Installation, installations};
use idlewave_run::findings::Findings;
use idlewave_run::tables::{WaitParts, Waits};
use idlewave_run::{RunReader, SourceKind, Table, TraceMode};
use idlewave_units::{Cpu, Rank};
use std::path::{Path, PathBuf};
use std::process::Command;

const CULPRIT: &str = "culprit-mpi";
const PERIOD_US: u32 = 50_000;
const LENGTH_US: u32 = 1_000;
const CULPRIT_SECONDS: u32 = 10;
const ITERATIONS: u32 = 30_000;
const WORK_US: u32 = 100;
/// By how much a rank must arrive after the others for its iteration to count as late by the culprit.
const LATE_NS: u64 = 500_000;
/// A host may pause the machine in any of them.
const ATTEMPTS: usize = 3;
const ITERATIONS_NEEDED: usize = 20;

/// Begin, arrival and end of every iteration of one rank, by its own clock.
type Account = Vec<[u64; 3]>;

fn account(prefix: &Path, rank: u32) -> Account {
    let file = PathBuf::from(format!("{}.{rank}", prefix.display()));
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| {
            let mut numbers = line.split(' ').map(|n| n.parse().unwrap());
            [(); 3].map(|()| numbers.next().unwrap())
        })
        .collect()
}

/// What came of one recorded run.
struct Outcome {
    iterations: usize,
    waited: u64,
    charged: u64,
    fully: usize,
}

fn record(mpi: &Installation, program: &Path, mode: &str, dir: &Path, cpus: [Cpu; 2]) -> Outcome {
    let (run, own) = (dir.join("run"), dir.join("own"));
    let culprit = Culprit::start(CULPRIT, LENGTH_US, PERIOD_US, CULPRIT_SECONDS, &cpus[1..]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_idlewave"));
    command.arg("record").arg("-o").arg(&run).arg("--");
    mpi.prepare(&mut command);
    let output = command
        .arg(&mpi.mpirun)
        .args(&mpi.options)
        .args(["-n", "2"])
        .arg(program)
        .args([mode, &ITERATIONS.to_string(), &WORK_US.to_string()])
        .arg(cpus.map(|c| c.to_string()).join(","))
        .arg(&own)
        .output()
        .unwrap();
    let done = culprit.finish();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let reader = RunReader::open(&run).unwrap();
    let findings: Findings = reader.findings().unwrap().expect("a record is explained");
    assert_eq!(findings.trace.mode, TraceMode::Tracefs);
    let place = findings
        .sources
        .iter()
        .position(|s| s.kind == SourceKind::Task && s.name == CULPRIT);
    let waits: Waits = reader.read().unwrap();
    let parts: WaitParts = reader.read().unwrap();

    let accounts = [account(&own, 0), account(&own, 1)];
    let mut outcome = Outcome {
        iterations: 0,
        waited: 0,
        charged: 0,
        fully: 0,
    };
    for (first, second) in accounts[0].iter().zip(&accounts[1]) {
        let late = second[1].saturating_sub(first[1]);
        if late < LATE_NS || !overlaps(&done.runs, &(cpus[1], second[0], second[1])) {
            continue;
        }
        let rows: Vec<usize> = (0..waits.len())
            .filter(|&i| {
                let wait = waits.row(i);
                wait.rank == Rank::new(0) && wait.begin_ns < second[1] && wait.end_ns > first[1]
            })
            .collect();
        let charged: u64 = parts
            .rows()
            .filter(|p| {
                rows.contains(&(p.wait as usize))
                    && p.origin == Rank::new(1)
                    && Some(p.finding as usize) == place
            })
            .map(|p| p.time.get())
            .sum();
        outcome.iterations += 1;
        outcome.waited += late;
        outcome.charged += charged;
        outcome.fully += usize::from(charged as f64 >= 0.9 * late as f64);
    }
    outcome
}

fn case(mpi: &Installation, program: &Path, mode: &str, cpus: [Cpu; 2]) {
    for attempt in 1..=ATTEMPTS {
        let dir = tempfile::tempdir().unwrap();
        let o = record(mpi, program, mode, dir.path(), cpus);
        let share = o.charged as f64 / o.waited.max(1) as f64;
        println!(
            "  {:<12} {mode:<10} {:>4} late iterations, {:>7.2} ms waited, {:>5.1} % charged, {} of them by over 90 %",
            mpi.name,
            o.iterations,
            o.waited as f64 / 1e6,
            100.0 * share,
            o.fully
        );
        if o.iterations >= ITERATIONS_NEEDED && share >= 0.9 && o.fully * 10 >= o.iterations * 9 {
            return;
        }
        assert!(attempt < ATTEMPTS, "{} {mode}: see above", mpi.name);
    }
}

/// One test, because its programs must not disturb each other.
#[test]
fn late_waits_of_a_recorded_program_are_charged_to_the_culprit_at_its_rank() {
    let Some(cpus) = two_cpus() else {
        println!("skipped: fewer than 2 CPUs are allowed");
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/lockstep.c");
    for mpi in installations() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("lockstep");
        if mpi.compile_c(&source, &program).is_none() {
            continue;
        }
        for mode in ["barrier", "allreduce", "ring"] {
            case(&mpi, &program, mode, cpus);
        }
    }
}
