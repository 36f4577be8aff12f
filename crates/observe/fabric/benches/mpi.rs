//! What the fabric over MPI costs on top of the library: a barrier, an allreduce of 8 bytes and an
//! exchange of 1,024 bytes both ways on 2 ranks, with blocking and with watched waits, against a C
//! program that is linked to the library and makes the same calls.
//!
//! Jobs of the two alternate. The result of a job is the lowest decile of its blocks, which
//! tolerates other load on the machine. The output is the median, lowest and highest of the jobs,
//! and the difference of the medians.
//!
//! `cargo bench -p idlewave-fabric --bench mpi`

use idlewave_clock::monotonic_ns;
use idlewave_fabric::{Fabric, MpiFabric, PointToPoint, Reduction, Tag, Waits};
use idlewave_mpi::Search;
use idlewave_mpi::testing::{Installation, installations};
use idlewave_units::Rank;
use std::path::Path;
use std::process::Command;

const BLOCKS: usize = 30;
const CALLS: usize = 1_000;
const JOBS: usize = 5;
const INNER: &str = "IDLEWAVE_BENCH_RANK";
const WHAT: [&str; 6] = [
    "barrier, blocking",
    "allreduce 8 B, blocking",
    "exchange 1024 B, blocking",
    "barrier, watched",
    "allreduce 8 B, watched",
    "exchange 1024 B, watched",
];

fn main() {
    match std::env::var_os(INNER) {
        Some(_) => rank(),
        None => installations().iter().for_each(compare),
    }
}

fn quiet() {}

fn exchange(fabric: &mut MpiFabric, buffers: &mut [Vec<u8>; 2]) {
    let other = Rank::new(1 - fabric.rank().get());
    let [to_send, to_fill] = buffers.each_mut().map(std::mem::take);
    let receiving = fabric.start_receive(Some(other), Tag(0), 1_024, to_fill);
    let sending = fabric.start_send(other, Tag(0), to_send).expect("a send");
    let delivery = fabric.finish_receive(receiving.expect("a receive"), &mut quiet);
    buffers[1] = delivery.expect("a message").data;
    buffers[0] = fabric.finish_send(sending, &mut quiet).expect("its buffer");
}

fn rank() {
    let mut fabric = MpiFabric::begin(&Search::default()).expect("a job");
    let mut buffers = [vec![0; 1_024], vec![0; 1_024]];
    for _ in 0..BLOCKS {
        for what in 0..WHAT.len() {
            fabric.set_waits(if what < 3 {
                Waits::Blocking
            } else {
                Waits::Watched
            });
            fabric.barrier(&mut quiet).expect("a barrier");
            let begin = monotonic_ns();
            for _ in 0..CALLS {
                match what % 3 {
                    0 => fabric.barrier(&mut quiet).expect("a barrier"),
                    1 => fabric
                        .allreduce(&mut [1.0], Reduction::Sum, &mut quiet)
                        .expect("an allreduce"),
                    _ => exchange(&mut fabric, &mut buffers),
                }
            }
            if fabric.rank().get() == 0 {
                println!(
                    "{what} {:.2}",
                    (monotonic_ns() - begin) as f64 / CALLS as f64
                );
            }
        }
    }
}

/// Lowest decile of the blocks of one job, for each thing measured.
fn job(command: &mut Command) -> [f64; WHAT.len()] {
    let output = command.output().expect("a launcher");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut blocks = [const { Vec::new() }; WHAT.len()];
    for line in text.lines() {
        let Some((what, ns)) = line.split_once(' ') else {
            continue;
        };
        if let (Ok(what), Ok(ns)) = (what.parse::<usize>(), ns.parse::<f64>()) {
            blocks[what].push(ns);
        }
    }
    assert!(
        output.status.success() && !blocks[0].is_empty(),
        "a job failed: {output:?}"
    );
    blocks.map(|mut ns| {
        ns.sort_by(f64::total_cmp);
        ns[ns.len() / 10]
    })
}

fn compare(installation: &Installation) {
    let directory = tempfile::tempdir().expect("a directory");
    let floor = directory.path().join("floor");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/mpi.c");
    if installation.compile_c(&source, &floor).is_none() {
        return;
    }
    let (mut of_c, mut of_fabric) = (Vec::new(), Vec::new());
    for _ in 0..JOBS {
        let mut command = installation.launch(2);
        command
            .arg(&floor)
            .args([BLOCKS.to_string(), CALLS.to_string()]);
        of_c.push(job(&mut command));
        let mut command = installation.launch(2);
        command.arg(std::env::current_exe().expect("this program"));
        of_fabric.push(job(command.env(INNER, "1")));
    }
    println!("{} (ns per call; {JOBS} jobs each)", installation.name);
    for (i, what) in WHAT.iter().enumerate() {
        let (c, fabric) = (spread(&of_c, i), spread(&of_fabric, i));
        println!(
            "  {what:28} C {:6.0} [{:.0}, {:.0}]   fabric {:6.0} [{:.0}, {:.0}]   added {:+.0}",
            c.0,
            c.1,
            c.2,
            fabric.0,
            fabric.1,
            fabric.2,
            fabric.0 - c.0
        );
    }
}

/// Median, lowest, highest.
fn spread(jobs: &[[f64; WHAT.len()]], what: usize) -> (f64, f64, f64) {
    let mut ns: Vec<f64> = jobs.iter().map(|job| job[what]).collect();
    ns.sort_by(f64::total_cmp);
    (ns[ns.len() / 2], ns[0], ns[ns.len() - 1])
}
