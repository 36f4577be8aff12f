//! Ranks without shared variables end after the same iteration, whatever couples them, and every
//! message is the expected one.

use idlewave_clock::{Counter, with_source};
use idlewave_fabric::{PointToPoint, Waiting, world};
use idlewave_run::{Coupling, Decomposition, ExchangeVariant};
use idlewave_units::Nanos;
use idlewave_workloads::lockstep::{HEADER, Pattern, Plan, Work, run_rank};
use std::sync::atomic::AtomicBool;

/// Iterations of every rank; only rank 0 knows `halted`, and no rank has a time limit.
fn iterations(ranks: u32, pattern: &Pattern, most: u64, halted: bool) -> Vec<u64> {
    let never = AtomicBool::new(false);
    let halt = AtomicBool::new(halted);
    std::thread::scope(|scope| {
        let threads: Vec<_> = world(ranks, Waiting::Yield)
            .into_iter()
            .map(|mut fabric| {
                let halt = if fabric.rank().get() == 0 {
                    &halt
                } else {
                    &never
                };
                scope.spawn(move || {
                    let plan = Plan {
                        work: Work::new(100, Nanos::from_millis(1), 100),
                        pattern,
                        duration: u64::MAX,
                        threshold: u64::MAX / 4,
                        max_iterations: most,
                        halt,
                    };
                    let mut records = 0_u64;
                    let done = with_source!(Counter::Monotonic, s => run_rank(
                        &mut fabric, s, &plan, |_| records += 1, |_| (),
                    ));
                    if done.is_err() {
                        fabric.fail();
                    }
                    let done = done.expect("every message is the one that is due");
                    assert_eq!(records, done.iterations + 1);
                    done.iterations
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a rank"))
            .collect()
    })
}

fn patterns(ranks: u32) -> Vec<Pattern> {
    let with = |coupling, dims, variant| Pattern {
        coupling,
        sides: Decomposition::balanced(ranks, dims).sides().to_vec(),
        variant,
        bytes: HEADER,
    };
    let mut all = Vec::new();
    for variant in [
        ExchangeVariant::Blocking,
        ExchangeVariant::NonBlocking,
        ExchangeVariant::Overlapped,
    ] {
        all.extend((1..=3).map(|dims| with(Coupling::Neighbours, dims, variant)));
    }
    for coupling in [
        Coupling::Barrier,
        Coupling::Allreduce,
        Coupling::Reduce,
        Coupling::Alltoall,
    ] {
        all.push(with(coupling, 1, ExchangeVariant::NonBlocking));
    }
    all
}

#[test]
fn what_rank_0_decides_ends_all_ranks_after_the_same_iteration() {
    for ranks in 1..=9 {
        for pattern in patterns(ranks) {
            let ended = iterations(ranks, &pattern, 10_000, true);
            assert!(
                ended.iter().all(|e| *e == ended[0]),
                "{pattern:?}: {ended:?}"
            );
            assert!(ended[0] < 100, "{pattern:?}: {ended:?}");
        }
    }
}

#[test]
fn the_most_iterations_are_done_and_no_more() {
    for ranks in [1, 2, 4, 6, 9] {
        for pattern in patterns(ranks) {
            for most in [1, 2, 23] {
                let ended = iterations(ranks, &pattern, most, false);
                assert!(ended.iter().all(|e| *e == most), "{pattern:?}: {ended:?}");
            }
        }
    }
}
