//! Turn time of the detour loop and speed of the work kernel. Floor of a turn: one counter reading
//! (18 to 26 cycles on current x86-64) and two compares. Floor of a Fibonacci step: one addition,
//! one cycle.

use divan::Bencher;
use idlewave_clock::{Calibration, Counter, with_source};
use idlewave_run::RunError;
use idlewave_run::spill::Block;
use idlewave_units::{Nanos, Pid};
use idlewave_workloads::{Member, Sink, detour, fibonacci::Fibonacci};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn main() {
    turn();
    divan::main();
}

struct Nowhere;

impl Sink for Nowhere {
    fn ready(&mut self, _: &[Member], _: &[Pid]) -> Result<(), RunError> {
        Ok(())
    }
    fn records(&mut self, _: &Block, _: &[u64]) -> Result<(), RunError> {
        Ok(())
    }
    fn tick(&mut self, _: Duration) {}
}

/// Prints the turn time of the real loop next to clock quantum and reading time, from 20 runs of
/// 0.2 s.
fn turn() {
    let counter = Counter::choose(Path::new("/"));
    let mut calibration = Calibration::begin(counter);
    let Ok(readings) = counter.measure() else {
        return;
    };
    let cpu = idlewave_sys::affinity::current();
    let params = detour::Params {
        cpus: vec![cpu],
        duration: Duration::from_millis(200),
        threshold: Nanos::from_micros(1),
        realtime: None,
        phase: 0,
    };
    let mut turns: Vec<f64> = (0..20)
        .filter_map(|_| {
            let halt = AtomicBool::new(false);
            let outcome =
                detour::run(&params, readings, &mut calibration, &halt, &mut Nowhere).ok()?;
            Some(outcome.loops[0].turn_quanta)
        })
        .collect();
    turns.sort_by(f64::total_cmp);
    let median = turns.get(turns.len() / 2).copied().unwrap_or(f64::NAN);
    let quantum = readings.quantum_counts as f64;
    println!(
        "detour loop ({}): a turn takes {median:.2} quanta (n={}, {:.2} to {:.2}); quantum {quantum} counts, \
         a bare reading {:.2} quanta: {:.2} readings a turn",
        counter.name(),
        turns.len(),
        turns.first().copied().unwrap_or(f64::NAN),
        turns.last().copied().unwrap_or(f64::NAN),
        readings.read_counts / quantum,
        median * quantum / readings.read_counts,
    );
}

#[divan::bench]
fn read_counter(bencher: Bencher) {
    let counter = Counter::choose(Path::new("/"));
    with_source!(counter, s => bencher.bench_local(|| idlewave_clock::Source::now(s)));
}

#[divan::bench]
fn fibonacci_1000_steps(bencher: Bencher) {
    let mut work = Fibonacci::default();
    bencher
        .counter(divan::counter::ItemsCount::new(1_000_u32))
        .bench_local(|| work.advance(1_000));
}
