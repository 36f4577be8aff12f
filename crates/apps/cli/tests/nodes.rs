//! Programs on several nodes, end to end: the nodes are namespaces of this machine, see
//! tests/nodes/README.md.

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use idlewave_mpi::testing::launcher_failed;
use idlewave_run::tables::{
    Bursts, Calls, Communicators, Detours, LateParts, LateSteps, Quanta, RegionKind, Regions,
    Table, TaskKind, Tasks, Transfers,
};
use idlewave_run::{PhaseKind, RunReader, RunState, SourceKind, TraceMode};
use idlewave_units::NodeId;
use rig::{root, skip, turn};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ITERATIONS: usize = 60;
/// MPI_Init, MPI_Finalize, and two per iteration.
const CALLS: usize = 2 + 2 * ITERATIONS;

/// A directory that all nodes share, unlike /tmp.
fn shared() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn compile(compiler: &str, to: &Path) -> Option<PathBuf> {
    let program = to.join("ring");
    let done = Command::new(compiler)
        .arg("-o")
        .arg(&program)
        .arg(root().join("tests/nodes/ring.c"))
        .status();
    if !done.is_ok_and(|status| status.success()) {
        skip(&format!("{compiler} is not there"));
        return None;
    }
    Some(program)
}

/// Runs `script` under `rig` with PROGRAM, DIR and N set as well.
fn on_nodes(rig: &str, script: &str, program: &Path, dir: &Path) -> Option<Output> {
    let iterations = ITERATIONS.to_string();
    let agent = root().join("tests/nodes/agent");
    let variables = [
        ("AGENT", agent.as_path()),
        ("PROGRAM", program),
        ("DIR", dir),
        ("N", Path::new(&iterations)),
    ];
    rig::on_nodes(rig, script, &variables)
}

/// The merged bundle of four ranks on two nodes, recorded to the end.
fn check_whole(run: &Path) {
    let run = RunReader::open(run).unwrap();
    let manifest = run.manifest();
    assert_eq!(
        manifest.state,
        RunState::Complete,
        "{:?}",
        manifest.incomplete
    );
    assert_eq!(manifest.nodes.len(), 2);
    assert_ne!(manifest.nodes[0].host.name, manifest.nodes[1].host.name);
    let places: Vec<u32> = manifest.ranks.iter().map(|r| r.node.get()).collect();
    assert_eq!(places, [0, 0, 1, 1]);
    // The nodes share a kernel: the messages between them must agree, or the ledger would say so.
    assert!(
        manifest.nodes.iter().all(|n| n.alignment.is_none()),
        "{:?}",
        manifest.losses
    );
    let calls: Calls = run.read().unwrap();
    for rank in 0..4 {
        let own = calls.rank.iter().filter(|r| r.get() == rank).count();
        assert_eq!(own, CALLS, "calls of rank {rank}");
    }
    assert_eq!(run.read::<Transfers>().unwrap().len(), 4 * 2 * ITERATIONS);
    let communicators: Communicators = run.read().unwrap();
    let world: Vec<u32> = communicators
        .rows()
        .filter(|r| r.comm == 0)
        .map(|r| r.rank.get())
        .collect();
    assert_eq!(world, [0, 1, 2, 3]);
    check_kernel(&run);
}

/// The kernel trace of both nodes, if this machine has one: every rank ran on its own node.
fn check_kernel(run: &RunReader) {
    let manifest = run.manifest();
    if manifest
        .nodes
        .iter()
        .any(|n| n.trace.mode != TraceMode::Tracefs)
    {
        return skip("the kernel's view cannot be recorded here");
    }
    let bursts: Bursts = run.read().unwrap();
    let tasks: Tasks = run.read().unwrap();
    for sheet in &manifest.ranks {
        let thread = sheet.threads[0];
        let ran = bursts
            .rows()
            .filter(|b| b.node == sheet.node && b.pid == thread)
            .count();
        assert!(
            ran > 0,
            "rank {} never ran on node {}",
            sheet.rank,
            sheet.node
        );
        let named = tasks
            .rows()
            .any(|t| t.node == sheet.node && t.pid == thread && t.kind == TaskKind::Rank);
        assert!(
            named,
            "rank {} is no rank among the tasks of node {}",
            sheet.rank, sheet.node
        );
    }
}

/// Nothing of a recording may be left in /tmp and /dev/shm of any node.
const CLEAN: &str = r#"
for n in $IDLEWAVE_NODES; do
    "$AGENT" $n 'ls -d /tmp/idlewave* /dev/shm/idlewave* 2>/dev/null' && echo "LEFT on $n"
done"#;

fn record_whole(rig: &str, compiler: &str, launcher: &str, run: &str) {
    let _turn = turn();
    let recorded = |again| is_recorded_whole(rig, compiler, launcher, run, again);
    assert!(recorded(true) || recorded(false));
}

/// `false` if the launcher failed and it may run `again`.
fn is_recorded_whole(rig: &str, compiler: &str, launcher: &str, run: &str, again: bool) -> bool {
    let dir = shared();
    let Some(program) = compile(compiler, dir.path()) else {
        return true;
    };
    // Open MPI's own launcher kills the others when one rank ends with another code, possibly
    // within MPI_Finalize.
    let code = if launcher.contains("mpirun.openmpi") {
        0
    } else {
        5
    };
    let script = format!(
        "\"$IDLEWAVE\" record -o {run} --no-report -- {launcher} \"$PROGRAM\" $N {code}; code=$?; \
         [ {run} = \"$DIR/run\" ] || cp -r {run} \"$DIR/run\"; {CLEAN}\nexit $code"
    );
    let Some(out) = on_nodes(rig, &script, &program, dir.path()) else {
        return true;
    };
    if again && launcher_failed(&String::from_utf8_lossy(&out.stderr)) {
        return false;
    }
    assert_eq!(
        out.status.code(),
        Some(code),
        "the program's exit code passes through"
    );
    assert!(!String::from_utf8_lossy(&out.stdout).contains("LEFT"));
    check_whole(&dir.path().join("run"));
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(!dir.path().join("run/.nodes").exists());
    true
}

#[test]
fn open_mpi_on_two_nodes_that_see_the_bundle_s_directory() {
    record_whole(
        "with_nodes 2",
        "mpicc.openmpi",
        "mpirun.openmpi -n 4",
        "\"$DIR/run\"",
    );
}

#[test]
fn mpich_on_two_nodes_that_see_the_bundle_s_directory() {
    record_whole(
        "with_nodes 2",
        "mpicc.mpich",
        "mpirun.mpich -n 4",
        "\"$DIR/run\"",
    );
}

#[test]
fn open_mpi_on_two_nodes_without_a_shared_file_system_started_from_a_third() {
    record_whole(
        "with_nodes --login 2",
        "mpicc.openmpi",
        "mpirun.openmpi --tag-output -n 4",
        "/tmp/run",
    );
}

#[test]
fn mpich_on_two_nodes_without_a_shared_file_system() {
    record_whole(
        "with_nodes 2",
        "mpicc.mpich",
        "mpirun.mpich -l -n 4",
        "/tmp/run",
    );
}

#[test]
fn open_mpi_under_slurm_started_from_the_login_node() {
    record_whole(
        "with_slurm --login 2",
        "mpicc.openmpi",
        "srun --mpi=pmix -N 2 -l -n 4",
        "/tmp/run",
    );
}

#[test]
fn open_mpi_s_own_launcher_within_an_allocation_of_slurm() {
    record_whole(
        "with_slurm --login 2",
        "mpicc.openmpi",
        "salloc -Q -N 2 -n 4 mpirun.openmpi",
        "\"$DIR/run\"",
    );
}

#[test]
fn mpich_under_slurm_with_pmi2() {
    record_whole(
        "with_slurm 2",
        "mpicc.mpich",
        "srun --mpi=pmi2 -N 2 -n 4",
        "\"$DIR/run\"",
    );
}

/// Checks that a program on two nodes ends well though nothing of the second one is recorded.
fn record_first(compiler: &str, script: &str, said: &str) {
    let _turn = turn();
    let dir = shared();
    let Some(program) = compile(compiler, dir.path()) else {
        return;
    };
    let script = format!("set -- $IDLEWAVE_NODES\n{script}\ncode=$?; {CLEAN}\nexit $code");
    let Some(out) = on_nodes("with_nodes 2", &script, &program, dir.path()) else {
        return;
    };
    assert_eq!(out.status.code(), Some(0));
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(words.contains(said), "{words}");
    assert!(!String::from_utf8_lossy(&out.stdout).contains("LEFT"));
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    let manifest = run.manifest();
    let mut losses = manifest.losses.entries().iter();
    let unrecorded = losses.find(|loss| loss.what.starts_with("ranks that were not recorded"));
    assert_eq!(unrecorded.map(|loss| loss.count), Some(2));
    let calls: Calls = run.read().unwrap();
    assert_eq!(calls.rank.len(), 2 * CALLS);
}

#[test]
fn a_program_runs_though_one_of_its_nodes_cannot_be_recorded() {
    // Unlike Open MPI, MPICH needs no /tmp.
    let script = "\"$AGENT\" $2 mount -o remount,ro /tmp\n\
         \"$IDLEWAVE\" record -o \"$DIR/run\" --no-report -- mpirun.mpich -n 4 \"$PROGRAM\" $N 0";
    record_first(
        "mpicc.mpich",
        script,
        "is not recorded: Read-only file system",
    );
}

#[test]
fn a_program_runs_though_some_of_its_ranks_lack_the_library_if_no_clocks_are_compared() {
    let script = "export IDLEWAVE_CLOCKS=0\n\
         \"$IDLEWAVE\" record -o \"$DIR/run\" --no-report -- mpirun.openmpi -n 4 sh -c \
         \"case \\$OMPI_COMM_WORLD_RANK in 2|3) unset LD_PRELOAD ;; esac; exec $PROGRAM $N 0\"";
    record_first("mpicc.openmpi", script, "recorded");
}

#[test]
fn a_script_that_starts_ranks_on_several_nodes_runs_though_only_its_own_is_recorded() {
    for (compiler, launcher) in [
        ("mpicc.openmpi", "mpirun.openmpi"),
        ("mpicc.mpich", "mpirun.mpich"),
    ] {
        let script = format!(
            "\"$IDLEWAVE\" record -o \"$DIR/run\" --no-report -- sh -c '{launcher} -n 4 \"$PROGRAM\" $N 0; exit $?'"
        );
        record_first(compiler, &script, "recorded");
    }
}

/// The second node's clock is 1000 s ahead: the messages reveal that within the stated bound, and
/// the times are corrected.
fn record_apart(compiler: &str, launcher: &str, recorded: usize) {
    let _turn = turn();
    let dir = shared();
    let Some(program) = compile(compiler, dir.path()) else {
        return;
    };
    let script = format!(
        "\"$IDLEWAVE\" record -o \"$DIR/run\" --no-trace --no-report -- {launcher} \"$PROGRAM\" $N 0"
    );
    let Some(out) = on_nodes("with_nodes --clock 1000 2", &script, &program, dir.path()) else {
        return;
    };
    assert_eq!(out.status.code(), Some(0));
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    assert_eq!(run.manifest().nodes[0].alignment, None);
    let alignment = run.manifest().nodes[1].alignment.clone().unwrap();
    assert!(!alignment.method.contains("time of day"), "{alignment:?}");
    // There are two points, or only the better one if the run was too short for the drift.
    assert!(!alignment.points.is_empty());
    for point in &alignment.points {
        let off = (point.offset_ns + 1_000_000_000_000).unsigned_abs();
        assert!(
            off <= point.round_trip.get() / 2 + 1,
            "{off} ns off: {point:?}"
        );
    }
    // No rank leaves an allreduce before all have entered it.
    let calls: Calls = run.read().unwrap();
    for sequence in 0..ITERATIONS as u32 {
        let of = || {
            calls
                .rows()
                .filter(move |c| c.comm == Some(0) && c.sequence == Some(sequence))
        };
        assert_eq!(of().count(), recorded);
        let entered = of().map(|c| c.begin_ns).max().unwrap();
        let left = of().map(|c| c.end_ns).min().unwrap();
        assert!(
            left + 2 * alignment.error.get() >= entered,
            "{sequence}: {left} < {entered}"
        );
    }
}

#[test]
fn clocks_that_are_far_apart_are_brought_together_under_open_mpi() {
    record_apart("mpicc.openmpi", "mpirun.openmpi -n 4", 4);
}

#[test]
fn clocks_that_are_far_apart_are_brought_together_under_mpich() {
    record_apart("mpicc.mpich", "mpirun.mpich -n 4", 4);
}

#[test]
fn clocks_are_compared_by_the_ranks_of_a_node_that_are_recorded() {
    let without =
        "sh -c 'if [ $OMPI_COMM_WORLD_RANK = 2 ]; then unset IDLEWAVE_RINGS; fi; exec \"$@\"' sh";
    let launcher = format!("mpirun.openmpi -n 4 {without}");
    record_apart("mpicc.openmpi", &launcher, 3);
}

/// `idlewave measure` on two nodes whose clocks are 1000 s apart: all ranks' iterations are on one
/// clock, and consistent.
fn measure_apart(launcher: &str) {
    let _turn = turn();
    // On a busy machine a short run may have too few iterations.
    for seconds in [1, 8, 32] {
        let dir = shared();
        let script = format!(
            "{launcher} \"$IDLEWAVE\" measure exchange --work 200us --duration {seconds}s -o \"$DIR/run\" >\"$DIR/table\""
        );
        let rig = "with_nodes --clock 1000 2";
        let Some(out) = on_nodes(rig, &script, Path::new("/bin/true"), dir.path()) else {
            return;
        };
        assert_eq!(out.status.code(), Some(0));
        let run = RunReader::open(&dir.path().join("run")).unwrap();
        if iterations(&run) > 2 {
            return check_apart(dir.path());
        }
    }
    panic!("three iterations take longer than half a minute");
}

/// The iterations of the first phase, that of an exchange.
fn iterations(run: &RunReader) -> u64 {
    let PhaseKind::Lockstep { iterations, .. } = run.manifest().phases[0].kind else {
        panic!("{:?}", run.manifest().phases);
    };
    iterations
}

/// The table and the bundle in `dir`.
fn check_apart(dir: &Path) {
    let table = std::fs::read_to_string(dir.join("table")).unwrap();
    println!("{table}");
    assert!(table.contains("clocks compared by messages"));
    let run = RunReader::open(&dir.join("run")).unwrap();
    let manifest = run.manifest();
    assert_eq!(manifest.state, RunState::Complete);
    let [first, second] = manifest.nodes.as_slice() else {
        panic!("{} nodes", manifest.nodes.len());
    };
    assert_ne!(first.host.name, second.host.name);
    let places: Vec<u32> = manifest.ranks.iter().map(|r| r.node.get()).collect();
    assert_eq!(places, [0, 0, 1, 1]);
    assert_eq!(first.alignment, None);
    let alignment = second.alignment.clone().unwrap();
    for point in &alignment.points {
        let off = (point.offset_ns + 1_000_000_000_000).unsigned_abs();
        assert!(
            off <= point.round_trip.get() / 2 + 1,
            "{off} ns off: {point:?}"
        );
    }
    // Only the first node's kernel is traced, and nothing is claimed about the other one's.
    assert_eq!(second.trace.mode, TraceMode::Off);
    assert!(second.trace.unavailable[0].why.contains("first node only"));
    let losses = manifest.losses.entries();
    assert!(losses.iter().any(|l| l.what.contains(&second.host.name)));
    if let Some(bursts) = run.table_if_present::<Bursts>().unwrap() {
        drop(bursts);
        let bursts: Bursts = run.read().unwrap();
        assert!(bursts.node.iter().all(|n| n.get() == 0));
    }
    check_exchange(&run, 2 * alignment.error.get());
    check_words(&dir.join("run"), &second.host.name);
}

/// Every iteration of every rank is there, and no rank of the ring continues before its neighbours
/// have arrived.
fn check_exchange(run: &RunReader, error: u64) {
    let iterations = iterations(run);
    let regions: Regions = run.read().unwrap();
    let of = |rank: usize, kind: RegionKind| -> Vec<(u64, u64)> {
        let own = regions
            .rows()
            .filter(|r| r.rank.index() == rank && r.kind == kind);
        own.map(|r| (r.begin_ns, r.end_ns)).collect()
    };
    let computed: Vec<_> = (0..4).map(|r| of(r, RegionKind::Compute)).collect();
    let waited: Vec<_> = (0..4).map(|r| of(r, RegionKind::Exchange)).collect();
    for rank in 0..4 {
        assert_eq!(computed[rank].len() as u64, iterations);
        assert_eq!(waited[rank].len() as u64, iterations);
        for k in 0..iterations as usize {
            assert!(computed[rank][k].0 <= computed[rank][k].1);
            for neighbour in [(rank + 1) % 4, (rank + 3) % 4] {
                let (arrived, left) = (computed[neighbour][k].1, waited[rank][k].1);
                assert!(
                    left + error >= arrived,
                    "iteration {k}: rank {rank} left at {left}, rank {neighbour} came at {arrived}"
                );
            }
        }
    }
}

/// `explain` and `report` read the run, and charge no source for delays of ranks on the node that
/// was not traced.
fn check_words(run: &Path, untraced: &str) {
    for what in ["explain", "report"] {
        let out = Command::new(env!("CARGO_BIN_EXE_idlewave"))
            .args([what.as_ref(), run.as_os_str()])
            .env("IDLEWAVE_EFFORT", "0.0001")
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&out.stdout);
        println!("{words}{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status.code(), Some(0), "{what}");
        let said = match what {
            "explain" => words.into_owned(),
            _ => std::fs::read_to_string(run.join("report.html")).unwrap(),
        };
        // Long lines wrap.
        let words: Vec<&str> = said.split_whitespace().collect();
        let lower = words.join(" ").to_lowercase();
        assert!(
            said.contains(untraced) && lower.contains("not traced"),
            "{what}"
        );
    }
    let run = RunReader::open(run).unwrap();
    if run.manifest().nodes[0].trace.mode != TraceMode::Tracefs {
        return skip("the kernel's view cannot be recorded here");
    }
    let findings = run.findings().unwrap().unwrap();
    let (steps, parts): (LateSteps, LateParts) = (run.read().unwrap(), run.read().unwrap());
    for part in parts.rows() {
        let late = steps.rows().nth(part.step as usize).unwrap();
        let source = &findings.sources[part.finding as usize];
        // A sender on the first node may have delayed the step; then the delay is charged to that
        // rank.
        if late.rank.get() >= 2 {
            let unnamed = matches!(
                source.kind,
                SourceKind::Unexplained | SourceKind::SlowLevel | SourceKind::Network
            );
            assert!(unnamed, "rank {}: {source:?}", late.rank);
        }
    }
}

#[test]
fn a_measurement_on_nodes_whose_clocks_are_far_apart_is_explained_under_open_mpi() {
    measure_apart("mpirun.openmpi -n 4");
}

#[test]
fn a_measurement_on_nodes_whose_clocks_are_far_apart_is_explained_under_mpich() {
    measure_apart("mpirun.mpich -n 4");
}

/// Halfway through the program, kills the process of the second node whose command line contains
/// $WHO.
const KILL_AT_HALF: &str = r#"
# The second node's processes of idlewave with this word.
named() {
    for p in /proc/[0-9]*; do
        words=$(tr '\0' ' ' <$p/cmdline 2>/dev/null) || continue
        case "$words" in *" $1 "*) ;; *) continue ;; esac
        [ "$(readlink $p/ns/uts)" = "$(readlink /proc/$(cat $IDLEWAVE_NODES_RIG/pid/${IDLEWAVE_NODES#* })/ns/uts)" ] || continue
        # The launcher's own daemons have the words in their command lines too.
        [ "$(readlink $p/exe)" = "$IDLEWAVE" ] && echo ${p#/proc/}
    done
}
# Whether its recorder has taken what there is of both ranks: more than one has.
taken() {
    for p in $(named node-record); do
        for f in /proc/$p/fd/*; do
            case "$(readlink $f)" in */spill) [ "$(stat -L -c %s $f)" -gt 12000 ] && return ;; esac
        done
    done
    return 1
}
(
    while [ ! -e "$DIR/half" ]; do sleep 0.01; done
    for i in $(seq 3000); do taken && break; sleep 0.1; done
    for p in $(named $WHO); do kill -KILL $p; done
    touch "$DIR/go"
) &
"$IDLEWAVE" record -o "$DIR/run" --no-report -- mpirun.openmpi -n 4 "$PROGRAM" $N 0 "$DIR"
code=$?
wait
exit $code"#;

fn record_killed(who: &str) -> Option<(Output, RunReader, tempfile::TempDir)> {
    let _turn = turn();
    let dir = shared();
    let program = compile("mpicc.openmpi", dir.path())?;
    let script = format!("WHO={who}\n{KILL_AT_HALF}");
    let out = on_nodes("with_nodes 2", &script, &program, dir.path())?;
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    Some((out, run, dir))
}

#[test]
fn a_node_whose_recorder_is_killed_disturbs_neither_the_program_nor_the_other_node() {
    let Some((out, run, _dir)) = record_killed("node-record") else {
        return;
    };
    assert_eq!(out.status.code(), Some(0), "the program came to its end");
    assert_eq!(run.manifest().state, RunState::Incomplete);
    let why = format!("{:?}", run.manifest().incomplete);
    assert!(why.contains("n2") && why.contains("killed"), "{why}");
    let calls: Calls = run.read().unwrap();
    let own = |rank: u32| calls.rank.iter().filter(|r| r.get() == rank).count();
    assert_eq!((own(0), own(1)), (CALLS, CALLS));
    assert!(
        own(2) > 0 && own(2) < CALLS,
        "what was drained before the kill is there: {}",
        own(2)
    );
    assert_eq!(run.manifest().ranks.len(), 4);
}

#[test]
fn a_node_whose_shim_is_killed_ends_its_program_and_all_that_was_recorded_is_kept() {
    let Some((out, run, _dir)) = record_killed("node-run") else {
        return;
    };
    assert!(
        !matches!(out.status.code(), Some(0) | None),
        "{:?}",
        out.status
    );
    assert_eq!(run.manifest().state, RunState::Incomplete);
    let calls: Calls = run.read().unwrap();
    let own = |rank: u32| calls.rank.iter().filter(|r| r.get() == rank).count();
    assert!(own(0) > ITERATIONS / 2 && own(0) < CALLS, "{}", own(0));
    assert!(
        run.manifest()
            .nodes
            .iter()
            .all(|n| n.node <= NodeId::new(1))
    );
}

/// Halfway through the program, kills the front; the launcher continues, and the second node hands
/// over its bundle.
const KILL_THE_FRONT: &str = r#"
"$IDLEWAVE" record -o "$DIR/run" --no-report -- mpirun.openmpi -n 4 "$PROGRAM" $N 0 "$DIR" &
front=$!
while [ ! -e "$DIR/half" ]; do sleep 0.01; done
launcher=$(cat /proc/$front/task/$front/children)
kill -KILL $front
wait $front
touch "$DIR/go"
for p in $launcher; do
    # Where the first process does not reap them, processes that have ended stay as zombies.
    while grep -qs "^State:.[^Z]" /proc/$p/status; do sleep 0.01; done
done
IDLEWAVE_EFFORT=0.0001 "$IDLEWAVE" explain "$DIR/run""#;

#[test]
fn a_front_that_is_killed_leaves_bundles_that_explain_merges() {
    let _turn = turn();
    let dir = shared();
    let Some(program) = compile("mpicc.openmpi", dir.path()) else {
        return;
    };
    let Some(out) = on_nodes("with_nodes 2", KILL_THE_FRONT, &program, dir.path()) else {
        return;
    };
    assert_eq!(out.status.code(), Some(0));
    let path = dir.path().join("run");
    let run = RunReader::open(&path).unwrap();
    assert_eq!(run.manifest().state, RunState::Incomplete);
    let why = format!("{:?}", run.manifest().incomplete);
    assert!(why.contains("n1") && why.contains("killed"), "{why}");
    let places: Vec<u32> = run.manifest().ranks.iter().map(|r| r.node.get()).collect();
    assert_eq!(places, [0, 0, 1, 1]);
    // The rings still held what the front had not drained.
    let calls: Calls = run.read().unwrap();
    for rank in 0..4 {
        let own = calls.rank.iter().filter(|r| r.get() == rank).count();
        assert_eq!(own, CALLS, "calls of rank {rank}");
    }
    assert!(!path.join(".nodes").exists());
}

/// `idlewave study` on two nodes whose clocks are 1000 s apart: a part per node in one bundle, each
/// with its own kernel's view, on one clock.
#[test]
fn a_study_under_a_launcher_measures_every_node() {
    let _turn = turn();
    let dir = shared();
    let script = format!(
        "mpirun.openmpi -n 4 \"$IDLEWAVE\" study --duration 2s -o \"$DIR/run\" --limit noise=0% \
         >\"$DIR/text\"; code=$?; {CLEAN}\nexit $code"
    );
    let rig = "with_nodes --clock 1000 2";
    let Some(out) = on_nodes(rig, &script, Path::new("/bin/true"), dir.path()) else {
        return;
    };
    let text = std::fs::read_to_string(dir.path().join("text")).unwrap();
    println!("{text}");
    // Every machine has noise.
    assert_eq!(out.status.code(), Some(8));
    assert!(!String::from_utf8_lossy(&out.stdout).contains("LEFT"));
    assert!(text.contains("NODES: 2 with "), "{text}");
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    let manifest = run.manifest();
    assert_eq!(manifest.state, RunState::Complete);
    let of_phases = manifest.phases.iter().map(|p| match p.kind {
        PhaseKind::Detour { node, .. } => (node.get(), "detour"),
        PhaseKind::FixedWork { node, .. } => (node.get(), "work"),
        _ => panic!("{p:?}"),
    });
    let of_phases: Vec<_> = of_phases.collect();
    assert_eq!(
        of_phases,
        [(0, "detour"), (0, "work"), (1, "detour"), (1, "work")]
    );
    // Both began after the same barrier, also by the clock of the first.
    assert!(manifest.nodes[0].alignment.is_none() && manifest.nodes[1].alignment.is_some());
    let begins = [0, 2].map(|phase: usize| manifest.phases[phase].begin_ns);
    assert!(
        begins[0].abs_diff(begins[1]) < 500_000_000_000,
        "{begins:?}"
    );
    let mut detours = [0; 4];
    run.for_each::<Detours>(|row| detours[row.phase as usize] += 1)
        .unwrap();
    let mut quanta = [0; 4];
    run.for_each::<Quanta>(|row| quanta[row.phase as usize] += 1)
        .unwrap();
    assert!(detours[0] > 0 && detours[2] > 0, "{detours:?}");
    assert!(quanta[1] > 0 && quanta[3] > 0, "{quanta:?}");
    let found = run.findings().unwrap().unwrap();
    let nodes = found.nodes.unwrap();
    assert_eq!((nodes.ranked.len(), nodes.comparisons), (2, 0));
    if manifest
        .nodes
        .iter()
        .all(|n| n.trace.mode == TraceMode::Tracefs)
    {
        // Names come from the kernel of each node.
        assert!(nodes.offender.is_some());
        let mut recorded = BTreeSet::new();
        run.for_each::<Bursts>(|row| {
            recorded.insert(row.node);
        })
        .unwrap();
        assert_eq!(recorded.len(), 2, "{recorded:?}");
    } else {
        skip("the kernel's view cannot be recorded here");
    }
}
