//! Measures what recording adds to a call by alternating runs of a program with and without the
//! preloaded library.
//!
//! `cargo run --release -p idlewave-interpose --example overhead [RUNS]`
//!
//! Each run gives the median over 60 blocks of 1,000 calls. From RUNS (15) pairs of runs, the
//! medians and quartiles of the bare time and of the added time are printed: with times from the
//! CPU's counter, with times from CLOCK_MONOTONIC, and for a state page without rings.

use idlewave_interpose::ring::{CAPACITY_VARIABLE, DIRECTORY_VARIABLE};
use idlewave_interpose::{state, write_library};
use idlewave_mpi::testing::{Installation, installation};
use std::path::Path;

/// In place of a clock: a state page and no rings.
const STATE: &str = "state";

type Failure = Box<dyn std::error::Error>;

/// Name, number of ranks, and what is measured.
const CASES: [(&str, u32, &str); 6] = [
    ("size", 1, "MPI_Comm_size, which is not wrapped"),
    ("null", 1, "MPI_Send to MPI_PROC_NULL"),
    ("poll", 1, "MPI_Iprobe that finds nothing"),
    (
        "self",
        1,
        "MPI_Irecv, MPI_Isend, MPI_Waitall to itself, per call",
    ),
    ("pingpong", 2, "ping-pong of 8 bytes, per call"),
    ("allreduce", 2, "MPI_Allreduce of 8 bytes"),
];

fn main() -> Result<(), Failure> {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(15), |text| text.parse())?;
    let place = tempfile::tempdir()?;
    // In memory, as for a recording: on a disk the kernel faults again on pages that it has
    // written back.
    let memory = Path::new("/dev/shm");
    let rings = if memory.is_dir() {
        tempfile::tempdir_in(memory)?
    } else {
        tempfile::tempdir()?
    };
    let library = write_library(place.path())?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/overhead.c");
    for name in ["openmpi4", "mpich4"] {
        let Some(mpi) = installation(name) else {
            continue;
        };
        let program = place.path().join(name);
        let Some(()) = mpi.compile_c(&source, &program) else {
            continue;
        };
        println!("{name}: median (quartiles) of {runs} runs, ns");
        for (case, what) in [
            ("counter", "reading of the counter"),
            ("clock", "clock_gettime"),
        ] {
            let times = (0..runs).map(|_| run(&mpi, &program, case, 1, None, rings.path()));
            println!(
                "  {what:<54} {}",
                quartiles(times.collect::<Result<_, _>>()?)
            );
        }
        for (case, ranks, what) in CASES {
            for clock in ["counter", "monotonic", STATE] {
                let (mut bare, mut added) = (Vec::new(), Vec::new());
                for _ in 0..runs {
                    let without = run(&mpi, &program, case, ranks, None, rings.path())?;
                    let preload = Some((library.as_path(), clock));
                    let with = run(&mpi, &program, case, ranks, preload, rings.path())?;
                    bare.push(without);
                    added.push(with - without);
                }
                println!(
                    "  {what:<54} {} + {} {clock}",
                    quartiles(bare),
                    quartiles(added)
                );
            }
        }
    }
    Ok(())
}

fn run(
    mpi: &Installation,
    program: &Path,
    case: &str,
    ranks: u32,
    preload: Option<(&Path, &str)>,
    rings: &Path,
) -> Result<f64, Failure> {
    let mut launch = mpi.launch(ranks);
    // One CPU per rank, so that ranks do not move.
    launch.arg("env");
    if let Some((library, clock)) = preload {
        for ring in std::fs::read_dir(rings)? {
            std::fs::remove_file(ring?.path())?;
        }
        launch.arg(format!("LD_PRELOAD={}", library.display()));
        let directory = match clock {
            STATE => state::DIRECTORY_VARIABLE,
            _ => DIRECTORY_VARIABLE,
        };
        launch.arg(format!("{directory}={}", rings.display()));
        // Room for all records, since no reader drains the ring.
        launch.arg(format!("{CAPACITY_VARIABLE}={}", 1 << 18));
        launch.arg(format!("IDLEWAVE_RING_CLOCK={clock}"));
    }
    let output = launch.arg(program).arg(case).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let words = String::from_utf8_lossy(&output.stderr);
        format!("failed to run {case}: {text}{words}").into()
    })
}

fn quartiles(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:7.1} ({:.1} to {:.1})", at(0.5), at(0.25), at(0.75))
}
