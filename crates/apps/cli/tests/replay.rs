//! Real programs, recorded and played again.

#![allow(clippy::unwrap_used)]

mod common;

use common::{idlewave, run};
use idlewave_mpi::testing::{Installation, installations, skip};
use idlewave_replay::{Like, LikeOptions, PhaseKindOfRun, like};
use idlewave_run::RunReader;
use idlewave_run::tables::{Messages, Table};
use idlewave_simulate::bulk::Collective;
use idlewave_simulate::goal::Action;
use std::path::{Path, PathBuf};

const ITERATIONS: u64 = 50;
/// The error of each rank's end if every call lasts as long as it did, and all messages are equally
/// quick. What remains is the order that the schedule gives.
const TOLERANCE_PERCENT: f64 = 5.0;

/// Records `ring` on this many ranks under an installation.
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
    run(&mut command).succeeded();
    path
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

#[test]
fn of_programs_recorded_on_several_numbers_of_ranks_the_smallest_predicts_the_others() {
    let Some(mpi) = installations().into_iter().find(|m| m.mpicc.is_some()) else {
        return skip("no MPI library with a compiler");
    };
    let directory = tempfile::tempdir().unwrap();
    let paths = [4, 2].map(|ranks| record(&mpi, directory.path(), ranks));
    let like = |more: &[&str]| {
        let ended = run(idlewave()
            .args(["simulate", "like"])
            .args(&paths)
            .args(more));
        ended.succeeded();
        ended.stdout
    };
    let seen: serde_json::Value = serde_json::from_str(&like(&["--json"])).unwrap();
    assert_eq!(seen["scaled_by"], paths[1].to_str().unwrap());
    let rounds = 3.0 * seen["runs"][1]["costs"]["latency_ns"].as_f64().unwrap();
    // Pauses of 3 ms, however many ranks share a CPU, and three rounds of messages at most. A
    // loaded machine lengthens the pauses measured on two ranks, from which the others are made; no
    // record attributes some of that to anybody.
    let lengthened = seen["scaling"][1]["measured_step_ns"].as_f64().unwrap() - 2.99e6;
    let quiet = 2.88e6..3.6e6 + rounds + 0.05 * lengthened;
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
        assert!(quiet.contains(&of("quiet_step_ns")), "{quiet:?} {row}");
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
    // The schedule written is the one that was simulated, with the given costs.
    let goal = directory.path().join("two.goal");
    let goal = goal.to_str().unwrap();
    let costs: Vec<&str> =
        "--latency 70us --overhead 300 --gap 0 --gap-per-byte 0.5 --overhead-per-byte 0"
            .split(' ')
            .collect();
    let two = [
        "simulate",
        "like",
        paths[1].to_str().unwrap(),
        "--json",
        "--write-goal",
        goal,
    ];
    let played = run(idlewave()
        .args(two)
        .args(["--algorithm", "allreduce=ring"])
        .args(&costs));
    played.succeeded();
    let played: serde_json::Value = serde_json::from_str(&played.stdout).unwrap();
    let never = ["--rendezvous", &u64::MAX.to_string()];
    let again = run(idlewave()
        .args(["simulate", "goal", goal, "--json"])
        .args(&costs)
        .args(never));
    again.succeeded();
    let again: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(played["quiet"]["finish_ns"], again["finish_ns"]);
    // 50 exchanges and 50 allreduces, which on a ring of two are two rounds, each of at least one
    // latency.
    let end = |of: &serde_json::Value| of["quiet"]["makespan_ns"].as_u64().unwrap();
    let seen: serde_json::Value = seen["runs"][1].clone();
    assert!(
        end(&played) > end(&seen) + 50 * 2 * 60_000,
        "{} {}",
        end(&played),
        end(&seen)
    );
    let refused = |more: &[&str]| run(idlewave().args(&two[..3]).args(more)).failed(2);
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
