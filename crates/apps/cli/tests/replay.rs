//! Real programs, recorded and played again.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run, run_recording};
use idlewave_mpi::testing::{Installation, installations, skip};
use idlewave_replay::{Like, LikeOptions, PhaseKindOfRun, like};
use idlewave_run::RunReader;
use idlewave_run::tables::{Messages, Table};
use idlewave_simulate::bulk::Collective;
use idlewave_simulate::goal::Action;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Recordings, at most, until others leave enough of the machine to one.
const ATTEMPTS: usize = 10;
const ITERATIONS: u64 = 50;
/// The error of each rank's end if every call lasts as long as it did, and all messages are equally
/// quick. What remains is the order that the schedule gives.
const TOLERANCE_PERCENT: f64 = 5.0;

/// Records `ring` on this many ranks under an installation, again while events of the kernel are
/// lost: then some time that others took is nobody's.
fn record(mpi: &Installation, directory: &Path, ranks: u32) -> PathBuf {
    let program = directory.join("ring");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/ring.c");
    mpi.compile_c(&source, &program).unwrap();
    let path = directory.join(format!("run{ranks}"));
    let mut command = idlewave();
    command.args(["record", "--no-report", "-o"]).arg(&path);
    command.arg("--");
    mpi.prepare(&mut command);
    command.arg(&mpi.mpirun).args(&mpi.options);
    command.args(["-n", &ranks.to_string()]).arg(&program);
    command.arg(ITERATIONS.to_string());
    for _ in 0..ATTEMPTS {
        let _ = std::fs::remove_dir_all(&path);
        run_recording(&mut command, &path).succeeded();
        let recorded = RunReader::open(&path).unwrap();
        let lost = recorded.manifest().nodes[0].trace.cost.lost;
        if lost == 0 {
            break;
        }
        println!("{lost} events of the kernel were lost");
    }
    path
}

fn like_all(paths: &[PathBuf], more: &[&str]) -> Ended {
    let mut command = idlewave();
    run(command.args(["simulate", "like"]).args(paths).args(more))
}

fn assert_predicted(name: &str, found: &Like) {
    let (rank, percent) = found.as_recorded.worst_rank(&found.measured_ns).unwrap();
    println!(
        "{name}: measured {:?} ns, as recorded {:?} ns, kept {:?} ns, quiet {:?} ns, worst rank {rank} by {percent:.2} %, costs {:?}",
        found.measured_ns,
        found.as_recorded.finish_ns,
        found.kept.finish_ns,
        found.quiet.finish_ns,
        found.costs
    );
    // Messages are not equally quick. On a busy machine, where they wait for their receiver's CPU,
    // the usual latency is a millisecond; the two rounds of every iteration differ from it.
    let rounds = (2 * ITERATIONS * found.costs.latency.get()) as f64;
    let rounds_percent = rounds / found.measured_ns[rank as usize] as f64 * 100.0;
    assert!(
        percent.abs() < TOLERANCE_PERCENT + rounds_percent,
        "{name}: rank {rank} by {percent} %"
    );
    // Time that others took from the work is omitted.
    for (quiet, all) in found.quiet.finish_ns.iter().zip(&found.kept.finish_ns) {
        assert!(quiet <= all, "{name}");
    }
}

#[test]
fn a_recorded_ring_is_played_again_as_it_was_and_extrapolated() {
    let mut any = false;
    for mpi in installations().into_iter().filter(|m| m.mpicc.is_some()) {
        any = true;
        let directory = tempfile::tempdir().unwrap();
        let path = record(&mpi, directory.path(), 2);
        run(idlewave().arg("explain").arg(&path)).succeeded();
        let recorded = RunReader::open(&path).unwrap();
        let options = LikeOptions {
            ranks: vec![2, 8],
            ..LikeOptions::default()
        };
        let found = like(&recorded, &options).unwrap();
        assert_predicted(mpi.name, &found);

        // The ring's messages are those that were matched; an allreduce of two ranks is one message
        // each way.
        let messages: Messages = recorded.read().unwrap();
        assert_eq!(messages.len() as u64, 2 * ITERATIONS, "{}", mpi.name);
        for rank in 0..2 {
            let sends = found.schedule.rank(rank).filter(
                |o| matches!(o.action, Action::Send { bytes: 400, to, .. } if to == 1 - rank),
            );
            assert_eq!(sends.count() as u64, ITERATIONS, "{}", mpi.name);
        }

        let pattern = found.pattern.as_ref().unwrap();
        assert!(
            pattern.steps >= ITERATIONS - 1,
            "{}: {}",
            mpi.name,
            pattern.steps
        );
        let kinds: Vec<&PhaseKindOfRun> = pattern.phases.iter().map(|p| &p.kind).collect();
        assert!(
            matches!(
                kinds[..],
                [
                    PhaseKindOfRun::Exchange { bytes: 400, .. },
                    PhaseKindOfRun::Collective {
                        operation: Collective::Allreduce,
                        bytes: 8
                    }
                ]
            ),
            "{}: {kinds:?}",
            mpi.name
        );
        // An odd rank pauses for at least 3 ms, and all wait for it. Some kernels omit switches:
        // what then seems to have been taken from a pause is removed from it. This affects at most
        // two of the fifty.
        for (extrapolated, ranks) in found.extrapolated.iter().zip([2, 8]) {
            assert_eq!(extrapolated.quiet.ranks, ranks);
            assert!(
                extrapolated.quiet.step_ns() >= 2.88e6,
                "{}: {extrapolated:?}",
                mpi.name
            );
        }
    }
    if !any {
        skip("no MPI library with a compiler");
    }
}

/// How long three rounds of messages take, and between what a quiet step of the series is.
fn expected(seen: &serde_json::Value) -> (f64, Range<f64>) {
    let cost = |name: &str| seen["runs"][1]["costs"][name].as_f64().unwrap();
    let rounds = 3.0 * (cost("latency_ns") + 2.0 * cost("overhead_ns"));
    // Pauses of 3 ms, however many ranks share a CPU, and three rounds of messages at most. A
    // loaded machine lengthens the pauses measured on two ranks, from which the others are made; no
    // record attributes some of that to anybody.
    let lengthened = seen["scaling"][1]["measured_step_ns"].as_f64().unwrap() - 2.99e6;
    (rounds, 2.88e6..3.6e6 + rounds + 0.05 * lengthened)
}

#[test]
fn of_programs_recorded_on_several_numbers_of_ranks_the_smallest_predicts_the_others() {
    let Some(mpi) = installations().into_iter().find(|m| m.mpicc.is_some()) else {
        return skip("no MPI library with a compiler");
    };
    // In the fraction of a second that a recording takes, others may take the CPUs all the time, so
    // that no noise model leaves any to the ranks, or more of it than is known to be theirs.
    let attempt = |_| {
        let directory = tempfile::tempdir().unwrap();
        let paths = [4, 2].map(|ranks| record(&mpi, directory.path(), ranks));
        let ended = like_all(&paths, &["--json"]);
        if ended.code != Some(0) {
            println!("{ended:?}");
            return None;
        }
        let seen: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let (rounds, quiet) = expected(&seen);
        let rows = seen["scaling"].as_array().unwrap();
        let step = |row: &serde_json::Value| row["quiet_step_ns"].as_f64().unwrap();
        println!("{quiet:?} {rows:?}");
        let all = rows.iter().all(|row| quiet.contains(&step(row)));
        all.then_some((directory, paths, seen, rounds))
    };
    let (directory, paths, seen, rounds) = (0..ATTEMPTS)
        .find_map(attempt)
        .expect("a quiet step is as long as its pause");
    let like = |more: &[&str]| {
        let ended = like_all(&paths, more);
        ended.succeeded();
        ended.stdout
    };
    assert_eq!(seen["scaled_by"], paths[1].to_str().unwrap());
    for (row, (path, ranks)) in seen["scaling"]
        .as_array()
        .unwrap()
        .iter()
        .zip(paths.iter().zip([4, 2]))
    {
        assert_eq!(
            (&row["run"], &row["ranks"]),
            (&path.to_str().unwrap().into(), &ranks.into())
        );
        let of = |key: &str| row[key].as_f64().unwrap();
        assert!(of("measured_step_ns") >= 2.99e6, "{row}");
        let noisy = &row["step_ns"];
        assert!(
            noisy["mean"].as_f64().unwrap() >= of("quiet_step_ns"),
            "{row}"
        );
        assert!(noisy["repetitions"].as_u64().unwrap() > 1, "{row}");
    }
    let step = |of: &serde_json::Value| of["scaling"][0]["quiet_step_ns"].as_f64().unwrap();
    let weak = step(&seen);
    let text = like(&[]);
    for line in [
        "2 recorded programs",
        "SCALING: the loop of each run, from the pattern and the costs of",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let costs: Vec<&str> =
        "--latency 70us --overhead 300 --gap 0 --gap-per-byte 0.5 --overhead-per-byte 0"
            .split(' ')
            .collect();
    let two = ["simulate", "like", paths[1].to_str().unwrap()];
    let never = ["--rendezvous", &u64::MAX.to_string()];
    // Of two ranks an allreduce by recursive doubling is one round, on a ring it is two.
    let ends = [("recursive-doubling", 1), ("ring", 2)].map(|(algorithm, rounds)| {
        let goal = directory.path().join(format!("{algorithm}.goal"));
        let algorithm = format!("allreduce={algorithm}");
        let played = run(idlewave()
            .args(two)
            .args(["--json", "--algorithm", &algorithm, "--write-goal"])
            .arg(&goal)
            .args(&costs));
        played.succeeded();
        let played: serde_json::Value = serde_json::from_str(&played.stdout).unwrap();
        // The schedule written is the one that was simulated, with the given costs.
        let again = run(idlewave()
            .args(["simulate", "goal", "--json"])
            .arg(&goal)
            .args(&costs)
            .args(never));
        again.succeeded();
        let again: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
        assert_eq!(played["quiet"]["finish_ns"], again["finish_ns"]);
        let text = std::fs::read_to_string(&goal).unwrap();
        let sends = text.matches("send ").count() as u64;
        assert_eq!(sends, 2 * ITERATIONS * (1 + rounds), "{algorithm}");
        played["quiet"]["makespan_ns"].as_u64().unwrap()
    });
    // A round costs a latency, except where the ranks wait for each other in turn.
    assert!(ends[1] >= ends[0] + 70_000, "{ends:?}");
    let refused = |more: &[&str]| run(idlewave().args(two).args(more)).failed(2);
    let [what, _] = refused(&["--algorithm", "allreduce=pairwise"]);
    assert!(what.contains("there are recursive-doubling"), "{what}");
    let [what, _] = refused(&["--steps", "3"]);
    assert!(what.contains("recorded program"), "{what}");
    // Half the work for twice the ranks; messages take as long.
    let strong: serde_json::Value = serde_json::from_str(&like(&["--json", "--strong"])).unwrap();
    let (half, strong) = (weak / 2.0, step(&strong));
    let expected = 0.96 * half..1.04 * half + rounds;
    assert!(expected.contains(&strong), "{strong} {expected:?}");
}
