//! Under every installed library, molecular dynamics over MPI does the same as over threads, to the
//! bit.
//!
//! Each test starts a launcher whose ranks run this executable with the test `a_rank_of_a_job`.

#![allow(clippy::unwrap_used)]

use idlewave_clock::Monotonic;
use idlewave_fabric::{Fabric, MpiFabric, PointToPoint, Waiting, world};
use idlewave_mpi::Search;
use idlewave_mpi::testing::{self, Installation, installation};
use idlewave_workloads::md::{Done, Plan, run_rank};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

const LIBRARY: &str = "IDLEWAVE_TEST_LIBRARY";

/// Enough steps to rebuild lists and move particles between boxes.
fn run<F: Fabric>(fabric: &mut F) -> Done {
    let halt = AtomicBool::new(false);
    let plan = Plan {
        cells: 3,
        steps: 150,
        duration: u64::MAX,
        energy_every: 50,
        seed: 42,
        halt: &halt,
    };
    run_rank(fabric, Monotonic, &plan, |_| ()).unwrap()
}

/// What must be the same, whatever carries the messages.
fn line(rank: u32, done: &Done) -> String {
    format!(
        "rank {rank}: {} steps, {} lists, {} particles, {} pairs, {:016x}.",
        done.steps, done.rebuilds, done.particles, done.pairs, done.digest
    )
}

/// The body of every rank that the other tests launch.
#[test]
fn a_rank_of_a_job() {
    let Some(library) = std::env::var_os(LIBRARY) else {
        return;
    };
    let search = Search {
        library: Some(library.into()),
        program: None,
    };
    let mut fabric = MpiFabric::begin(&search).unwrap();
    let done = run(&mut fabric);
    let drift = done.energy.unwrap();
    assert!(drift.largest < 1e-3 * drift.first.kinetic, "{drift:?}");
    // One write per line: the launcher merges the output of its ranks.
    let text = format!("{}\n", line(fabric.rank().get(), &done));
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

fn over_threads(ranks: u32) -> Vec<String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = world(ranks, Waiting::Yield)
            .into_iter()
            .map(|mut end| scope.spawn(move || line(end.rank().get(), &run(&mut end))))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn same(name: &str) {
    let Some(installation) = installation(name) else {
        return;
    };
    // The same for every library.
    static WANTED: OnceLock<[(u32, Vec<String>); 3]> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| [1, 2, 4].map(|ranks| (ranks, over_threads(ranks))));
    for (ranks, wanted) in wanted {
        check(&installation, *ranks, wanted);
    }
}

fn check(installation: &Installation, ranks: u32, wanted: &[String]) {
    let mut command = installation.launch(ranks);
    command.arg(std::env::current_exe().unwrap());
    // With one test thread, the test runs on the main thread, as in any MPI program.
    command.args([
        "--exact",
        "a_rank_of_a_job",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(LIBRARY, &installation.libraries[0]);
    let output = testing::output(&mut command);
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{ranks} ranks: {text}");
    for line in wanted {
        assert_eq!(
            text.matches(line.as_str()).count(),
            1,
            "{line} is not in {text}"
        );
    }
}

#[test]
fn open_mpi_4_does_the_same_as_threads() {
    same("openmpi4");
}

#[test]
fn mpich_4_does_the_same_as_threads() {
    same("mpich4");
}

#[test]
fn open_mpi_5_does_the_same_as_threads() {
    same("openmpi5");
}

#[test]
fn mpich_5_does_the_same_as_threads() {
    same("mpich5");
}
