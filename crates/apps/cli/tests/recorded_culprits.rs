//! A planted culprit and a recorded MPI program, end to end: the program's own clock tells which of
//! its iterations were late and on which rank, the culprit's own clock tells which of those it hit,
//! and the waits of the other ranks in them must be charged to it, at the rank where it struck.

#![allow(clippy::unwrap_used)]

#[path = "common/culprit.rs"]
mod culprit;
#[path = "common/precedence.rs"]
mod precedence;

use culprit::{Culprit, Strangers, overlap, overlaps, two_cpus};
use idlewave_mpi::abi::Family;
use idlewave_mpi::testing::{Installation, installations, launcher_failed, long};
use idlewave_run::findings::{Findings, SourceFinding};
use idlewave_run::tables::{WaitParts, Waits};
use idlewave_run::{RunReader, SourceKind, Table, TraceMode};
use idlewave_units::Cpu;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CULPRIT: &str = "culprit-mpi";
const PERIOD_US: u32 = 50_000;
/// No recording takes longer: the culprit is ended after it.
const CULPRIT_SECONDS: u32 = 600;
/// How much later than the others a rank must arrive for its iteration to count as late because of
/// the culprit.
const LATE_NS: u64 = 500_000;
/// The host may pause the machine in any attempt, and others may take CPUs for longer than the
/// culprit.
const ATTEMPTS: u32 = 6;
const ITERATIONS_NEEDED: usize = 20;

/// Start, arrival and end of every iteration of one rank, by its own clock.
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

/// What to run, and where.
struct Case<'a> {
    title: String,
    /// CPU of every rank.
    cpus: &'a [Cpu],
    /// The culprit's CPU.
    struck: Cpu,
    length_us: u32,
    /// Those of the first attempt; each attempt adds as many.
    iterations: u32,
    /// Runs `idlewave record` with these options (bundle, own accounts, iterations) to completion.
    run: &'a dyn Fn(&Path, &Path, u32) -> Output,
}

/// The results of one recorded run.
#[derive(Default)]
struct Outcome {
    /// Iterations that were late because of the culprit alone.
    iterations: usize,
    /// Waits in these and the next iterations, of all ranks on other CPUs together.
    waited: u64,
    /// The part of the waits caused by the culprit, by its own clock.
    expected: u64,
    /// The part of that charged to the culprit, on a rank that it struck.
    charged: u64,
    /// The part of that which came through another rank.
    travelled: u64,
    /// Iterations in which it is charged with at least nine tenths of that.
    fully: usize,
}

/// Waits by waiting rank, with the part of each that is charged to the culprit where it struck.
struct Waiting(Vec<Vec<(u64, u64, u64, bool)>>);

impl Waiting {
    fn read(reader: &RunReader, case: &Case<'_>) -> Self {
        let findings: Findings = reader.findings().unwrap().expect("a record is explained");
        assert_eq!(findings.trace.mode, TraceMode::Tracefs);
        let named = |s: &SourceFinding| s.kind == SourceKind::Task && s.name == CULPRIT;
        let place = findings.sources.iter().position(named);
        let waits: Waits = reader.read().unwrap();
        let mut charged = vec![0; waits.len()];
        for part in reader.read::<WaitParts>().unwrap().rows() {
            let struck = case.cpus[part.origin.index()] == case.struck;
            if struck && Some(part.finding as usize) == place {
                charged[part.wait as usize] += part.time.get();
            }
        }
        let mut ranks = vec![Vec::new(); case.cpus.len()];
        for (wait, charged) in waits.rows().zip(charged) {
            let row = (wait.begin_ns, wait.end_ns, charged, wait.hops > 0);
            ranks[wait.rank.index()].push(row);
        }
        for list in &mut ranks {
            list.sort_unstable();
        }
        Self(ranks)
    }
}

fn record(case: &Case<'_>, iterations: u32, dir: &Path) -> Outcome {
    let (bundle, own) = (dir.join("run"), dir.join("own"));
    let culprit = Culprit::start(
        CULPRIT,
        case.length_us,
        PERIOD_US,
        CULPRIT_SECONDS,
        &[case.struck],
    );
    let output = (case.run)(&bundle, &own, iterations);
    let done = culprit.end();
    let words = String::from_utf8_lossy(&output.stderr);
    if launcher_failed(&words) {
        return Outcome::default();
    }
    assert!(output.status.success(), "{words}");

    let reader = RunReader::open(&bundle).unwrap();
    let waiting = Waiting::read(&reader, case);
    let accounts: Vec<Account> = (0..case.cpus.len() as u32)
        .map(|rank| account(&own, rank))
        .collect();
    let on = |struck: bool| {
        let cpus = case.cpus.iter().enumerate();
        cpus.filter(move |(_, c)| (**c == case.struck) == struck)
            .map(|(rank, _)| rank)
    };
    let struck = on(true).next().expect("a rank is struck");
    let node = reader.manifest().ranks[struck].node;
    let strangers = Strangers::of(&reader, node, CULPRIT);
    let mut outcome = Outcome::default();
    for i in 0..iterations as usize - 1 {
        let last = on(true)
            .max_by_key(|&rank| accounts[rank][i][1])
            .expect("a rank is struck");
        let [begin, arrival, _] = accounts[last][i];
        let others = on(false).map(|rank| accounts[rank][i][1]).max().unwrap();
        let iteration = (case.struck, begin, arrival);
        let hit = overlaps(&done.runs, &iteration) && !strangers.ran_in(&iteration);
        if !hit || arrival.saturating_sub(others) < LATE_NS {
            continue;
        }
        let ran = overlap(&done.runs, &iteration);
        let (mut waited, mut charged, mut expected) = (0, 0, 0);
        for rank in on(false) {
            // On a ring the delay reaches ranks that are not neighbours one iteration later.
            let (from, to) = (accounts[rank][i][1], accounts[rank][i + 1][2]);
            let own = waiting.0[rank].iter().filter(|w| w.0 < to && w.1 > from);
            let mut rank_waited = 0;
            for &(begin, end, part, travelled) in own {
                rank_waited += end - begin;
                charged += part;
                outcome.travelled += if travelled { part } else { 0 };
            }
            waited += rank_waited;
            expected += rank_waited.min(ran);
        }
        outcome.iterations += 1;
        outcome.waited += waited;
        outcome.charged += charged;
        outcome.expected += expected;
        // By the program's own clock the waits were at least this long.
        let late = on(false).map(|rank| arrival - accounts[rank][i][1]).max();
        let known = waited as f64 >= 0.9 * late.unwrap() as f64;
        outcome.fully += usize::from(known && charged as f64 >= 0.9 * expected as f64);
    }
    outcome
}

fn check(case: &Case<'_>) {
    for attempt in 1..=ATTEMPTS {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let o = record(case, case.iterations * attempt, dir.path());
        let share = o.charged as f64 / o.expected.max(1) as f64;
        let percent = |ns: u64| 100.0 * ns as f64 / o.waited.max(1) as f64;
        println!(
            "  {:<28} {:>4} late iterations, {:>7.2} ms waited; the culprit ran {:>5.1} % of it and is charged with \
             {:>5.1} %, {:>4.1} % as idle wave; in {} with over 90 % of its own",
            case.title,
            o.iterations,
            o.waited as f64 / 1e6,
            percent(o.expected),
            percent(o.charged),
            percent(o.travelled),
            o.fully
        );
        if o.iterations >= ITERATIONS_NEEDED && share >= 0.9 && o.fully * 10 >= o.iterations * 9 {
            return;
        }
        assert!(attempt < ATTEMPTS, "{}: see above", case.title);
    }
}

fn lockstep(mpi: &Installation, dir: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/programs/lockstep.c");
    let program = dir.join("lockstep");
    mpi.compile_c(&source, &program)?;
    Some(program)
}

fn on_one_node(mpi: &Installation, mode: &str, cpus: [Cpu; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = lockstep(mpi, dir.path()) else {
        return;
    };
    let run = |bundle: &Path, own: &Path, iterations: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_idlewave"));
        command.arg("record").arg("-o").arg(bundle).arg("--");
        mpi.prepare(&mut command);
        command
            .arg(&mpi.mpirun)
            .args(&mpi.options)
            .args(["-n", "2"])
            .arg(&program)
            .args([mode, &iterations.to_string(), "100"])
            .arg(cpus.map(|c| c.to_string()).join(","))
            .arg(own)
            .output()
            .unwrap()
    };
    check(&Case {
        title: format!("{} {mode}", mpi.name),
        cpus: &cpus,
        struck: cpus[1],
        length_us: 1_000,
        iterations: 20_000,
        run: &run,
    });
}

/// Ranks on two nodes, each node with its own CPU, the culprit on the second.
fn on_two_nodes(mpi: &Installation, mode: &str, cpus: [Cpu; 2]) {
    // Ranks of MPICH that share a CPU keep it until the kernel takes it away, for milliseconds.
    let per_node = match mpi.family {
        Family::OpenMpi => 2,
        _ => 1,
    };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(program) = lockstep(mpi, dir.path()) else {
        return;
    };
    let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/nodes/with_nodes");
    let run = |bundle: &Path, own: &Path, iterations: u32| {
        let mut command = Command::new(&nodes);
        command
            .args(["--slots", &per_node.to_string(), "2"])
            .arg(env!("CARGO_BIN_EXE_idlewave"))
            .arg("record")
            .arg("-o")
            .arg(bundle)
            .arg("--")
            .arg(&mpi.mpirun)
            .args(["-n", &(2 * per_node).to_string()])
            .arg(&program)
            .args([mode, &iterations.to_string(), "200", "-"])
            .arg(own)
            .output()
            .unwrap()
    };
    check(&Case {
        title: format!("{} {mode}, two nodes", mpi.name),
        cpus: &cpus.map(|cpu| vec![cpu; per_node]).concat(),
        struck: cpus[1],
        length_us: 3_000,
        iterations: if per_node == 2 { 3_000 } else { 10_000 },
        run: &run,
    });
}

/// One test, because its programs must not disturb each other.
#[test]
fn waits_of_recorded_programs_are_charged_to_the_culprit_at_the_rank_it_struck() {
    precedence::go_before_others();
    let Some(cpus) = two_cpus() else {
        println!("skipped: fewer than 2 CPUs are allowed");
        return;
    };
    // All libraries, modes and numbers of nodes take minutes.
    for mpi in installations() {
        for mode in ["barrier", "ring"] {
            if long()
                || matches!(
                    (mpi.name, mode),
                    ("openmpi4", "barrier") | ("mpich4", "ring")
                )
            {
                on_one_node(&mpi, mode, cpus);
            }
            if long() || (mpi.name, mode) == ("openmpi4", "ring") {
                on_two_nodes(&mpi, mode, cpus);
            }
        }
    }
    if !long() {
        println!("left out: other libraries and modes; IDLEWAVE_LONG=1 tries them too");
    }
}
