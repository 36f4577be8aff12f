//! `idlewave record` of real programs: what the tables contain, and what remains when something
//! goes wrong.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "record/stopped.rs"]
mod stopped;

use common::{Ended, idlewave, instances_of, run, run_recording, wait};
use idlewave_mpi::testing::{Installation, installations, launcher_failed, long, output, skip};
use idlewave_run::tables::*;
use idlewave_run::{Incomplete, Ledger, PhaseKind, RunReader, RunState};
use idlewave_sys::process::{Signal, send};
use idlewave_units::{Bytes, Pid, Rank};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const ITERATIONS: u64 = 300;
const RANKS: u32 = 2;

/// A temporary directory.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The installations of MPI that compile C here.
fn with_compilers() -> Vec<Installation> {
    let found: Vec<_> = installations()
        .into_iter()
        .filter(|mpi| mpi.mpicc.is_some())
        .collect();
    if found.is_empty() {
        skip("no MPI library with a compiler");
    }
    found
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// The program `known`, compiled once for each installation.
fn known(mpi: &Installation) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record-programs");
        fs::create_dir_all(&all).unwrap();
        all
    });
    let path = directory.join(format!("known-{}-{}", mpi.name, std::process::id()));
    static COMPILING: Mutex<()> = Mutex::new(());
    let _one = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    if !path.exists() {
        mpi.compile_c(&source("known.c"), &path).unwrap();
    }
    path
}

fn record(mpi: &Installation, run: &Path, program: &Path, arguments: &[&str]) -> Command {
    record_with(mpi, run, &[], program, arguments)
}

/// `idlewave record OPTIONS -o RUN -- mpirun -n 2 PROGRAM ARGUMENTS`, without a report.
fn record_with(
    mpi: &Installation,
    run: &Path,
    options: &[&str],
    program: &Path,
    arguments: &[&str],
) -> Command {
    let mut command = idlewave();
    command.args(["record", "--no-report"]).args(options);
    command.arg("-o").arg(run).arg("--");
    mpi.prepare(&mut command);
    command.arg(&mpi.mpirun).args(&mpi.options);
    command
        .args(["-n", &RANKS.to_string()])
        .arg(program)
        .args(arguments);
    command
}

fn open(run: &Path) -> RunReader {
    let opened = RunReader::open(run).unwrap();
    for table in &opened.manifest().tables {
        assert!(run.join(&table.file).is_file(), "{table:?}");
    }
    opened
}

/// Calls by rank and name.
fn calls(run: &RunReader) -> BTreeMap<(u32, String), u64> {
    let operations: Operations = run.read().unwrap();
    let calls: Calls = run.read().unwrap();
    let mut found = BTreeMap::new();
    for call in calls.rows() {
        assert!(call.begin_ns <= call.end_ns);
        let name = operations.name[call.operation as usize].clone();
        *found.entry((call.rank.get(), name)).or_default() += 1;
    }
    found
}

fn of(calls: &BTreeMap<(u32, String), u64>, rank: u32, name: &str) -> u64 {
    calls.get(&(rank, name.to_owned())).copied().unwrap_or(0)
}

fn words(losses: &Ledger) -> String {
    losses
        .entries()
        .iter()
        .map(|l| format!("{} ({})\n", l.what, l.count))
        .collect()
}

/// Nothing of a recording is left outside its bundle.
fn assert_clean(pid: u32) {
    let own = format!("-{pid}-");
    for place in ["/dev/shm", "/tmp", &std::env::temp_dir().to_string_lossy()] {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(
                !(name.starts_with("idlewave-rings") && name.contains(&own)),
                "{place}/{name}"
            );
        }
    }
    assert_eq!(instances_of(pid), [] as [PathBuf; 0]);
}

/// Starts a recording, for [`wait`].
fn started(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a recording of an MPI program that ends well; checks that nothing is left behind.
fn recorded(command: &mut Command, run: &Path) -> Ended {
    let done = run_recording(command, run);
    assert_clean(done.pid);
    done.succeeded();
    done
}

/// Runs a recording; checks that nothing is left behind.
fn ended(command: &mut Command) -> Ended {
    let child = started(command);
    let pid = child.id();
    let ended = wait(child);
    assert_clean(pid);
    ended
}

fn exit_code(run: &RunReader) -> Option<i32> {
    match run.manifest().phases[0].kind {
        PhaseKind::Recorded { exit_code, .. } => exit_code,
        _ => None,
    }
}

/// The ring messages of `known`, which C and Fortran share.
fn assert_ring(run: &RunReader, name: &str) {
    let found = calls(run);
    for rank in 0..RANKS {
        for function in ["MPI_Irecv", "MPI_Isend", "MPI_Waitall", "MPI_Allreduce"] {
            assert_eq!(
                of(&found, rank, function),
                ITERATIONS,
                "{name}: {function} of {rank}"
            );
        }
        for function in ["MPI_Init", "MPI_Finalize"] {
            assert_eq!(
                of(&found, rank, function),
                1,
                "{name}: {function} of {rank}"
            );
        }
    }
    let transfers: Transfers = run.read().unwrap();
    let mut count = BTreeMap::<(u32, Direction), u64>::new();
    for row in transfers.rows().filter(|row| row.comm == 0) {
        let rank = row.rank.get();
        let other = match row.direction {
            Direction::Send => (rank + 1) % RANKS,
            _ => (rank + RANKS - 1) % RANKS,
        };
        assert_eq!(row.peer, Some(Rank::new(other)), "{name}: {row:?}");
        assert_eq!(
            (row.tag, row.bytes),
            (7, Some(Bytes::new(400))),
            "{name}: {row:?}"
        );
        let (wait, done) = (row.wait_ns.unwrap(), row.completed_ns.unwrap());
        assert!(row.posted_ns <= wait && wait <= done, "{name}: {row:?}");
        *count.entry((rank, row.direction)).or_default() += 1;
    }
    assert_eq!(count.len() as u32, 2 * RANKS, "{name}");
    assert!(
        count.values().all(|&n| n == ITERATIONS),
        "{name}: {count:?}"
    );
}

#[test]
fn calls_messages_and_bytes_of_a_known_program_are_in_the_tables_exactly() {
    for mpi in with_compilers() {
        let dir = scratch();
        let path = dir.path().join("run");
        let done = recorded(&mut record(&mpi, &path, &known(&mpi), &["300"]), &path);
        assert_eq!(done.stdout.matches("out of rank").count(), 2, "{done:?}");
        let run = open(&path);
        let manifest = run.manifest();
        assert_eq!(
            manifest.state,
            RunState::Complete,
            "{}: {}",
            mpi.name,
            words(&manifest.losses)
        );
        assert_eq!(exit_code(&run), Some(0));
        assert_ring(&run, mpi.name);

        let communicators: Communicators = run.read().unwrap();
        let world: Vec<(u32, u32)> = communicators
            .rows()
            .filter(|c| c.comm == 0)
            .map(|c| (c.member, c.rank.get()))
            .collect();
        assert_eq!(world, [(0, 0), (1, 1)], "{}", mpi.name);

        let operations: Operations = run.read().unwrap();
        let table: Calls = run.read().unwrap();
        let mut sequences = BTreeMap::<u32, Vec<u32>>::new();
        for call in table.rows() {
            let name = operations.name[call.operation as usize].as_str();
            let bytes = match name {
                "MPI_Allreduce" => Some(8),
                "MPI_Alltoall" => Some(2 * 3 * 4),
                _ => None,
            };
            if let Some(bytes) = bytes {
                let sums = (call.sent, call.received, call.comm);
                let bytes = Some(Bytes::new(bytes));
                assert_eq!(sums, (bytes, bytes, Some(0)), "{}: {name}", mpi.name);
                sequences
                    .entry(call.rank.get())
                    .or_default()
                    .push(call.sequence.unwrap());
            }
        }
        let ranks: Vec<_> = sequences.values().collect();
        assert_eq!(ranks[0].len() as u64, ITERATIONS + 1, "{}", mpi.name);
        assert_eq!(
            ranks[0], ranks[1],
            "collectives have the same numbers on all members"
        );

        let transfers: Transfers = run.read().unwrap();
        let own: Vec<_> = transfers.rows().filter(|t| t.comm != 0).collect();
        assert_eq!(own.len() as u32, 2 * RANKS, "{}: {own:?}", mpi.name);
        for row in own {
            assert_eq!(
                (row.peer, row.bytes, row.tag),
                (Some(row.rank), Some(Bytes::new(5)), 3)
            );
        }

        let tasks: Tasks = run.read().unwrap();
        for (at, sheet) in manifest.ranks.iter().enumerate() {
            assert_eq!(sheet.rank.index(), at);
            assert_eq!(sheet.process, sheet.threads.first().copied());
            let task = tasks.rows().find(|t| Some(&t.pid) == sheet.threads.first());
            if let Some(task) = task {
                assert_eq!(task.kind, TaskKind::Rank, "{task:?}");
                assert_eq!(task.process, sheet.process);
            }
        }
    }
}

#[test]
fn a_fortran_program_is_recorded_as_one_in_c() {
    let compilers: Vec<_> = installations()
        .into_iter()
        .filter(|mpi| mpi.mpifort.is_some())
        .collect();
    if compilers.is_empty() {
        return skip("no MPI library with a Fortran compiler");
    }
    for mpi in compilers {
        let dir = scratch();
        let program = dir.path().join("known");
        if mpi
            .compile_fortran(&source("known.F90"), &program)
            .is_none()
        {
            skip("the Fortran compiler does not work");
            continue;
        }
        let path = dir.path().join("run");
        recorded(&mut record(&mpi, &path, &program, &["300"]), &path);
        assert_ring(&open(&path), mpi.name);
    }
}

#[test]
fn a_program_that_ends_badly_leaves_what_was_recorded_and_its_exit_code() {
    // Most of the time goes into the launchers' own waiting, so two different launchers run
    // concurrently.
    let (open, others): (Vec<_>, Vec<_>) = with_compilers()
        .into_iter()
        .partition(|mpi| mpi.name.starts_with("openmpi"));
    std::thread::scope(|scope| {
        for family in [open, others] {
            scope.spawn(move || {
                for mpi in &family {
                    for how in ["crash", "abort", "exit", "code"] {
                        let tried = matches!(
                            (mpi.name, how),
                            ("openmpi4", "abort" | "code")
                                | ("openmpi5", "crash" | "exit")
                                | ("mpich4", "crash" | "exit")
                                | ("mpich5", "abort" | "code")
                        );
                        if !tried && !long() {
                            continue;
                        }
                        assert_eq!(ends_badly(mpi, how), how == "code", "{} {how}", mpi.name);
                    }
                }
            });
        }
    });
}

/// Whether all ranks completed MPI_Finalize.
fn ends_badly(mpi: &Installation, how: &str) -> bool {
    // A launcher that fails by itself, as on a busy machine, is started again.
    let failed = |done: &Ended, path: &Path| {
        let begun = RunReader::open(path).is_ok_and(|run| !run.manifest().ranks.is_empty());
        launcher_failed(&done.stderr) && (how == "code" || !begun)
    };
    let attempt = |_| {
        let dir = scratch();
        let path = dir.path().join("run");
        let own = dir.path().to_str().unwrap();
        let done = ended(&mut record(mpi, &path, &known(mpi), &["300", how, own]));
        (!failed(&done, &path)).then_some((dir, path, done))
    };
    let (_dir, path, done) = (0..5).find_map(attempt).expect("a launcher that works");
    // Which of several failing ranks a launcher notices first is chance, and so is its exit code.
    match how {
        "code" => {
            let dir = scratch();
            let mut bare = Command::new(&mpi.mpirun);
            mpi.prepare(&mut bare);
            bare.args(&mpi.options).args(["-n", "2"]).arg(known(mpi));
            bare.args(["1", how]).arg(dir.path());
            let expected = output(&mut bare).status.code();
            assert_eq!(done.code, expected, "{} {how}: {done:?}", mpi.name);
        }
        _ => assert!(done.code > Some(0), "{} {how}: {done:?}", mpi.name),
    }
    assert!(
        path.join("run.json").exists(),
        "{} {how}: {done:?}",
        mpi.name
    );
    let run = open(&path);
    let what = words(&run.manifest().losses);
    let what = format!("{} {how}: {what}; {done:?}", mpi.name);
    assert_eq!(exit_code(&run), done.code, "{what}");
    let found = calls(&run);
    for rank in 0..RANKS {
        assert_eq!(of(&found, rank, "MPI_Allreduce"), ITERATIONS, "{what}");
    }
    let complete = run.manifest().state == RunState::Complete;
    let unfinished = what.contains("did not complete MPI_Finalize");
    assert_eq!(complete, !unfinished, "{what}");
    assert_eq!(what.contains("MPI_Abort"), how == "abort", "{what}");
    complete
}

#[test]
fn a_program_that_is_no_mpi_program_leaves_the_kernels_view() {
    let dir = scratch();
    let path = dir.path().join("run");
    let script = "read line; echo got $line; (sleep 0.02); exit 42";
    let mut command = idlewave();
    command.args(["record", "--no-report", "-o"]).arg(&path);
    command.args(["--", "sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write;
    child.stdin.take().unwrap().write_all(b"words\n").unwrap();
    let done = wait(child);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(42), "got words\n"),
        "{done:?}"
    );
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    let run = open(&path);
    assert_eq!(
        (run.manifest().state, exit_code(&run)),
        (RunState::Complete, Some(42))
    );
    assert!(words(&run.manifest().losses).contains("no process of the command called MPI_Init"));
    assert!(run.manifest().ranks.is_empty());
    let explained = common::again("explain", &path);
    explained.succeeded();
    let tasks: Tasks = open(&path).read().unwrap();
    let names: Vec<String> = tasks
        .rows()
        .filter(|t| t.kind == TaskKind::Program)
        .map(|t| t.name)
        .collect();
    if open(&path).manifest().nodes[0].trace.mode == idlewave_run::TraceMode::Tracefs {
        assert!(names.iter().any(|name| name == "sleep"), "{names:?}");
    } else {
        skip("no kernel trace");
    }
}

#[test]
fn a_command_that_cannot_be_started_leaves_nothing() {
    let dir = scratch();
    let path = dir.path().join("run");
    let plain = dir.path().join("plain");
    fs::write(&plain, "text").unwrap();
    let record = |command: &Path| {
        let mut idlewave = idlewave();
        idlewave
            .args(["record", "-o"])
            .arg(&path)
            .arg("--")
            .arg(command);
        ended(&mut idlewave)
    };
    assert!(record(Path::new("no-such-program")).failed(127)[0].contains("no such command"));
    assert!(record(&dir.path().join("absent")).failed(127)[0].contains("no such command"));
    record(&plain).failed(126);
    assert!(!path.exists());
    let none = run(idlewave().args(["record", "-o"]).arg(&path));
    assert!(none.failed(2)[0].contains("COMMAND"), "{none:?}");
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    fs::write(path.join("mine"), "text").unwrap();
    let refused = record(Path::new("true"));
    assert!(
        refused.failed(4)[0].contains("already exists"),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
}

#[test]
fn a_preload_of_the_user_is_kept() {
    let dir = scratch();
    let path = dir.path().join("run");
    let mut command = idlewave();
    command.env("LD_PRELOAD", "/no/such/library.so");
    command.args(["record", "--no-report", "-o"]).arg(&path);
    command.args(["--", "sh", "-c", "echo $LD_PRELOAD; echo $IDLEWAVE_RINGS"]);
    let done = ended(&mut command);
    let lines: Vec<&str> = done.stdout.lines().collect();
    let (first, ours) = lines[0].split_once(':').unwrap();
    assert_eq!(first, "/no/such/library.so");
    assert!(ours.ends_with("libidlewave_interpose.so"), "{ours}");
    assert!(lines[1].contains("idlewave-rings"), "{lines:?}");
}

#[test]
fn a_ring_that_is_too_small_loses_records_and_says_how_many() {
    let Some(mpi) = with_compilers().into_iter().next() else {
        return;
    };
    let dir = scratch();
    let path = dir.path().join("run");
    let mut command = record(&mpi, &path, &known(&mpi), &["20000"]);
    recorded(command.env("IDLEWAVE_RING_RECORDS", "64"), &path);
    let run = open(&path);
    let losses = words(&run.manifest().losses);
    assert!(
        losses.contains("records of rank 0 dropped because its ring was full"),
        "{losses}"
    );
    assert!(of(&calls(&run), 0, "MPI_Allreduce") < 20_000);
    common::again("explain", &path).succeeded();
}

/// Gives a command, and what it starts, a session that takes precedence over all others, as
/// common/precedence.rs does for a whole test program. Nothing changes without root's rights.
fn go_before_others(command: &mut Command) {
    // SAFETY: between fork and exec only setsid, open, write and close are called, which are
    // async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let session = rustix::process::setsid();
            let _ = session.map(|_| fs::write("/proc/self/autogroup", "-20"));
            Ok(())
        });
    }
}

#[test]
fn a_ring_that_is_half_full_calls_the_recorder() {
    let Some(mpi) = with_compilers().into_iter().next() else {
        return;
    };
    let dir = scratch();
    let program = dir.path().join("allreduce");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/bench/allreduce.c");
    mpi.compile_c(&source, &program).unwrap();
    // One record per 100 us fills the ring in half the time between two looks of the recorder:
    // without the bell, every run would lose records. A busy machine may keep the recorder off its
    // CPU for longer than half a ring lasts.
    let lossless = (0..20).any(|n| {
        let path = dir.path().join(format!("run{n}"));
        let mut command = record(&mpi, &path, &program, &["8000", "100"]);
        go_before_others(command.env("IDLEWAVE_RING_RECORDS", "1024"));
        recorded(&mut command, &path);
        let run = open(&path);
        let losses = words(&run.manifest().losses);
        println!("{losses}");
        // 200 belong to the program's warm-up.
        !losses.contains("no room") && of(&calls(&run), 0, "MPI_Allreduce") == 8_200
    });
    assert!(lossless);
}

#[test]
fn a_disk_that_fills_up_does_not_disturb_the_program() {
    let Some(mpi) = with_compilers().into_iter().next() else {
        return;
    };
    let dir = scratch();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "idlewave-test"])
        .arg(&disk)
        .output()
        .unwrap();
    if !mounted.status.success() {
        return skip("no right to mount a small disk");
    }
    let path = disk.join("run");
    let mut command = record_with(&mpi, &path, &["--no-trace"], &known(&mpi), &["20000"]);
    let done = run_recording(&mut command, &path);
    let saved = dir.path().join("saved");
    common::copy(&path, &saved);
    let unmounted = Command::new("umount").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    done.succeeded();
    assert_clean(done.pid);
    assert_eq!(done.stdout.matches("out of rank").count(), 2, "{done:?}");
    assert!(
        done.stderr.contains("the recording is incomplete"),
        "{done:?}"
    );
    assert!(done.stderr.contains("No space left"), "{done:?}");
    assert!(
        done.stderr.contains("next step: free some space"),
        "{done:?}"
    );
    // There is space elsewhere. On a busy machine the recorder may find so much in the ring of one
    // rank that it fills the disk.
    let explained = common::again("explain", &saved);
    explained.succeeded();
    for words in ["recording stopped after", "No space left"] {
        assert!(explained.stdout.contains(words), "{words}: {explained:?}");
    }
    for words in ["was killed", "called MPI_Init"] {
        assert!(!explained.stdout.contains(words), "{words}: {explained:?}");
    }
    let calls = calls(&open(&saved));
    let kept = [0, 1].map(|rank| of(&calls, rank, "MPI_Allreduce"));
    assert!(kept.iter().sum::<u64>() > 100, "{kept:?}");
}
