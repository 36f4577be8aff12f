//! Measures the time from a deadlock to its verdict, with looks every 100 ms and glances between
//! them.
//!
//! `cargo run --release -p idlewave-hangs --example verdicts [RUNS]`
//!
//! The clock starts when the last rank is about to enter the hang; the time that the ranks need to
//! get there is included.

#[path = "../tests/common/mod.rs"]
#[allow(dead_code)]
mod common;

use common::Place;
use idlewave_hangs::{Paced, Settings, Watch};
use idlewave_mpi::testing::installations;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(100);

fn main() {
    let runs = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let runs: usize = runs.unwrap_or(10);
    let place = Place::new();
    for mpi in installations() {
        println!("{}: median (least to most) of {runs} runs, ms", mpi.name);
        for what in [
            "receive",
            "mismatch",
            "collectives",
            "bcast",
            "rendezvous",
            "small-rendezvous",
            "synchronous",
            "any-source",
            "wrong-tag",
            "waitall",
            "waitany",
            "ibarrier",
            "test",
        ] {
            let mut times: Vec<f64> = (0..runs).filter_map(|_| one(&place, &mpi, what)).collect();
            times.sort_by(f64::total_cmp);
            match (times.first(), times.get(times.len() / 2), times.last()) {
                (Some(least), Some(median), Some(most)) if times.len() == runs => {
                    println!("  {what:<18} {median:6.0} ({least:.0} to {most:.0})");
                }
                _ => println!("  {what:<18} found in {} of {runs} runs", times.len()),
            }
        }
    }
}

fn one(place: &Place, mpi: &idlewave_mpi::testing::Installation, what: &str) -> Option<f64> {
    let job = place.start(mpi, 2, &[what], Settings::default())?;
    // Looks at fixed times, whatever the program does meanwhile.
    let mut paced = Paced::new(Watch::new(&job.pages()), INTERVAL);
    let limit = Instant::now() + Duration::from_secs(10);
    let mut found = false;
    while !found && Instant::now() < limit {
        std::thread::sleep(paced.due().saturating_duration_since(Instant::now()));
        let look = paced.look(Instant::now()).and_then(Result::ok);
        found = look.is_some_and(|look| look.stuck().is_some());
    }
    let now = common::now();
    found.then_some(())?;
    let begun = job.begun(Duration::from_secs(1))?;
    Some((now as f64 - begun as f64) / 1e6)
}
