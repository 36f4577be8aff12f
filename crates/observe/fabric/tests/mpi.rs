//! The fabric over MPI keeps every promise, under every installed library and launcher.
//!
//! Each test starts a launcher, whose ranks run this same executable with the test
//! `a_rank_of_a_job`.

#![allow(clippy::unwrap_used)]

use idlewave_clock::monotonic_ns;
use idlewave_fabric::{Fabric, FabricError, MpiFabric, PointToPoint, Tag, Waiting, conformance};
use idlewave_mpi::testing::{
    self, Installation, installation, installations, long, some_installations,
};
use idlewave_mpi::{MpiError, Search};
use idlewave_units::Rank;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const LIBRARY: &str = "IDLEWAVE_TEST_LIBRARY";
const CASE: &str = "IDLEWAVE_TEST_CASE";

/// Writes a line in one call: the launcher merges the lines of its ranks.
fn say(text: &str) {
    let line = format!("{text}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn told(fabric: &MpiFabric, verb: &str) {
    say(&format!("{verb} as {} of {}", fabric.rank(), fabric.size()));
}

/// The body of every rank that the other tests launch.
#[test]
fn a_rank_of_a_job() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let search = Search {
        library: std::env::var_os(LIBRARY).map(Into::into),
        program: None,
    };
    match case.as_str() {
        "conform" => {
            let mut fabric = MpiFabric::begin(&search).unwrap();
            on_this_node(&mut fabric);
            conformance::all(&mut fabric, monotonic_ns);
            told(&fabric, "conforms");
        }
        "begin" => match MpiFabric::begin(&search) {
            Ok(fabric) => told(&fabric, "began"),
            Err(FabricError::Mpi(error @ MpiError::WrongPair { .. })) => {
                say(&format!("failed to {error}"));
                std::process::exit(17);
            }
            Err(error) => panic!("{error}"),
        },
        "panic" => {
            let mut fabric = MpiFabric::begin(&search).unwrap();
            assert!(fabric.rank().get() != 1, "this rank fails on purpose");
            fabric.barrier(&mut || ()).unwrap();
        }
        "unfinished" => {
            let mut fabric = MpiFabric::begin(&search).unwrap();
            let peer = Rank::new(1 - fabric.rank().get());
            let receiving = fabric.start_receive(Some(peer), Tag(1), 8, Vec::new());
            drop(receiving.unwrap());
            fabric.start_send(peer, Tag(1), vec![1; 8]).unwrap();
            fabric.barrier(&mut || ()).unwrap();
            told(&fabric, "went on");
        }
        "idle" => {
            let mut fabric = MpiFabric::begin(&search).unwrap();
            let (begin, before) = (Instant::now(), cpu_ticks());
            let pause = || std::thread::sleep(Duration::from_millis(300));
            let done = fabric.with_ranks(&[Rank::new(0)], |_| pause()).unwrap();
            let used = cpu_ticks() - before;
            // In ticks of 10 ms: a spinning rank uses all that it gets.
            let half = begin.elapsed().as_millis() as i64 / 20;
            assert!(
                done.is_some() || used < half.max(15),
                "an idle rank used {used} ticks"
            );
            told(&fabric, "slept");
        }
        "twice" => {
            let first = MpiFabric::begin(&search).unwrap();
            let error = MpiFabric::begin(&search).unwrap_err();
            assert!(error.to_string().contains("only once"), "{error}");
            drop(first);
            say("refused as 0 of 1");
        }
        other => panic!("no case is called {other}"),
    }
}

/// All ranks find themselves on this one node, and yield if it has fewer CPUs than ranks.
fn on_this_node(fabric: &mut MpiFabric) {
    let nodes = fabric.nodes().unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(nodes.names(), [host.trim()]);
    assert_eq!(
        nodes.local_rank(fabric.rank()),
        Some(fabric.rank().get()),
        "{nodes:?}"
    );
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let cpus = cpus.lines().filter(|l| l.starts_with("processor")).count();
    let shared = fabric.size() as usize > cpus;
    assert_eq!(fabric.waiting() == Waiting::Yield, shared, "{cpus} CPUs");
}

/// CPU time of this process, user and system, in ticks of the kernel.
fn cpu_ticks() -> i64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<i64> = fields.split(' ').filter_map(|f| f.parse().ok()).collect();
    // The state before them is not a number and drops out: utime and stime are the 11th and 12th.
    fields[10] + fields[11]
}

fn launch(installation: &Installation, ranks: u32, library: Option<&Path>, case: &str) -> Output {
    let mut command = installation.launch(ranks);
    Installation::kill_at_once(&mut command);
    command.arg(std::env::current_exe().unwrap());
    finish(command, library, case)
}

fn finish(mut command: Command, library: Option<&Path>, case: &str) -> Output {
    // With one test thread, tests run on the main thread, as any MPI program does.
    command.args([
        "--exact",
        "a_rank_of_a_job",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(CASE, case);
    if let Some(library) = library {
        command.env(LIBRARY, library);
    }
    testing::output(&mut command)
}

fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Every rank says `verb` once.
fn every_rank_says(output: &Output, ranks: u32, verb: &str, where_: &str) {
    let text = words(output);
    assert!(output.status.success(), "{where_}, {ranks} ranks: {text}");
    for rank in 0..ranks {
        let said = format!("{verb} as {rank} of {ranks}");
        assert_eq!(text.matches(&said).count(), 1, "{where_}, {said}: {text}");
    }
}

fn conform(name: &str) {
    let Some(installation) = installation(name) else {
        return;
    };
    for library in &installation.libraries {
        // 1 and 3 ranks; where there is time, 1 to 4.
        for ranks in (1..=4).filter(|ranks| long() || ranks % 2 == 1) {
            let output = launch(&installation, ranks, Some(library), "conform");
            every_rank_says(&output, ranks, "conforms", &library.display().to_string());
        }
    }
}

#[test]
fn open_mpi_4_conforms() {
    conform("openmpi4");
}

#[test]
fn mpich_4_conforms() {
    conform("mpich4");
}

#[test]
fn open_mpi_5_conforms() {
    conform("openmpi5");
}

#[test]
fn mpich_5_and_its_standard_abi_conform() {
    conform("mpich5");
}

#[test]
fn ranks_find_the_library_of_their_launcher() {
    for installation in installations() {
        let output = launch(&installation, 2, None, "begin");
        every_rank_says(&output, 2, "began", installation.name);
    }
}

#[test]
fn a_library_of_another_launcher_is_refused_and_both_are_named() {
    let (Some(open_mpi), Some(mpich)) = (installation("openmpi4"), installation("mpich4")) else {
        return;
    };
    for (launcher, of_launcher, library, of_library) in [
        (&open_mpi, "mpirun of Open MPI", &mpich, "MPICH Version"),
        (&mpich, "mpiexec of MPICH", &open_mpi, "Open MPI v4"),
    ] {
        let output = launch(launcher, 2, Some(&library.libraries[0]), "begin");
        let text = words(&output);
        assert!(!output.status.success(), "{text}");
        for part in [of_launcher, of_library, "--mpi-lib", "2 ranks"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("began as"), "{text}");
    }
}

#[test]
fn a_rank_that_panics_ends_the_job() {
    for installation in some_installations("panic") {
        let output = launch(&installation, 3, None, "panic");
        let text = words(&output);
        assert!(!output.status.success(), "{}: {text}", installation.name);
        assert!(text.contains("on purpose"), "{}: {text}", installation.name);
        // `timeout` exits with 124 if the job hung.
        assert_ne!(
            output.status.code(),
            Some(124),
            "{}: {text}",
            installation.name
        );
    }
}

#[test]
fn operations_that_nobody_finishes_do_no_harm() {
    for installation in some_installations("unfinished") {
        let output = launch(&installation, 2, None, "unfinished");
        every_rank_says(&output, 2, "went on", installation.name);
    }
}

#[test]
fn ranks_that_do_not_take_part_sleep() {
    for installation in some_installations("idle") {
        let output = launch(&installation, 2, None, "idle");
        every_rank_says(&output, 2, "slept", installation.name);
    }
}

#[test]
fn mpi_begins_only_once_in_a_process() {
    for installation in some_installations("twice") {
        let output = launch(&installation, 1, None, "twice");
        every_rank_says(&output, 1, "refused", installation.name);
    }
}

#[test]
fn a_process_that_nobody_launched_is_alone() {
    for installation in some_installations("alone") {
        let mut command = Command::new("timeout");
        command.arg("60").arg(std::env::current_exe().unwrap());
        installation.prepare(&mut command);
        let output = finish(command, Some(&installation.libraries[0]), "begin");
        every_rank_says(&output, 1, "began", installation.name);
    }
}
