//! IS, the integer sort of the NAS Parallel Benchmarks: a bucket sort that ranks keys, on any
//! number of ranks.
//!
//! Written from the specification (Bailey et al., RNR-94-007, sections 2.3.2 and 2.3.3) and the
//! description of NPB 3. Keys are sums of four random numbers; every iteration modifies two keys
//! and ranks all of them. Each rank counts its keys by bucket, and all ranks sum the counts
//! (allreduce). They assign the buckets to ranks in order. Every rank tells every other how many
//! keys it will get (all-to-all), sends the keys (all-to-all with variable block lengths) and
//! counts the keys received by value. One iteration is not timed, ten are.
//!
//! It verifies itself. In every timed iteration the ranks of five keys must match the published
//! ones (partial verification). After the last one it sorts all keys and compares each with its
//! neighbours, across ranks too (full verification).
//!
//! NPB requires the number of ranks to be a power of two; here any number works, as long as there
//! is a bucket for each (512 in class S, else 1024). The timed part has no point-to-point
//! operation; only the full verification does.

mod class;
mod shares;
mod sort;
#[cfg(test)]
mod tests;
mod traffic;

use crate::stopwatch::{Parts, Record, Stopwatch};
use crate::{Verified, WorkloadError};
use idlewave_fabric::{Fabric, Reduction, Waits};
use idlewave_units::Bytes;
use shares::Room;
use sort::{Checks, Sort};
use std::sync::atomic::{AtomicBool, Ordering};

pub use class::{BEFORE, Class, ITERATIONS, ParseClassError, TESTS, Test};
pub use traffic::{BytesPerPair, Operation, Traffic, Work, traffic};

/// Most memory a rank needs: keys, buffers, and what the exchange may copy. An MPI library needs
/// more on top.
pub fn memory_per_rank(class: Class, ranks: u32) -> Bytes {
    let ranks = ranks.max(1);
    Room::of(class, ranks).bytes(class, ranks)
}

/// Sorts on all ranks of the fabric; `progress` gets the share done, 0 to 1. If `halt` is set on
/// any rank, all ranks end after the same iteration and verify what they have done.
///
/// # Errors
/// There are more ranks than buckets, the result is wrong (the same on all ranks), or another rank
/// failed.
pub fn run<F: Fabric>(
    fabric: &mut F,
    class: Class,
    halt: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Verified, WorkloadError> {
    let ranks = fabric.size();
    check_ranks(class, ranks)?;
    let mut sort = Sort::new(class, fabric.rank().get(), ranks);
    // Blocking library calls, as the original benchmark makes them.
    fabric.set_waits(Waits::Blocking);
    let done = verified(fabric, &mut sort, halt, progress);
    fabric.set_waits(Waits::Watched);
    done
}

/// Whether there is a bucket for each rank.
fn check_ranks(class: Class, ranks: u32) -> Result<(), WorkloadError> {
    let most = class.buckets();
    match ranks > most {
        true => Err(WorkloadError::TooManyRanks {
            benchmark: format!("is:{class}"),
            ranks,
            most,
        }),
        false => Ok(()),
    }
}

/// Runs all iterations and verifies their result.
fn verified<F: Fabric>(
    fabric: &mut F,
    sort: &mut Sort,
    halt: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Verified, WorkloadError> {
    let class = sort.class();
    let (iterations, checks, timed, verification) = timed(fabric, sort, halt, progress)?;
    let wrong = |what: String| WorkloadError::NotVerified {
        benchmark: format!("is:{class}"),
        what,
    };
    let due = u64::from(iterations) * TESTS as u64;
    if checks.passed != due || checks.failed != 0 {
        let passed = checks.passed;
        let text = format!("{passed} of {due} test keys have their published rank");
        return Err(wrong(text));
    }
    if checks.keys != class.keys() {
        let text = format!("{} keys became {}", class.keys(), checks.keys);
        return Err(wrong(text));
    }
    if checks.unordered > 0 {
        let text = format!("the keys of {} ranks are not in order", checks.unordered);
        return Err(wrong(text));
    }
    Ok(Verified {
        timed,
        verification,
        verified: true,
        iterations: u64::from(iterations),
        operations: u64::from(iterations) * class.keys(),
        checksum: None,
    })
}

/// Runs the iterations and their verification; returns the number of timed iterations, the verdict,
/// and the times of both.
fn timed<F: Fabric>(
    fabric: &mut F,
    sort: &mut Sort,
    halt: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<(u32, Checks, Record, Parts), WorkloadError> {
    let mut watch = Stopwatch::start(fabric);
    let stop = || halt.load(Ordering::Relaxed);
    let mut stopped = false;
    for _ in 0..BEFORE {
        stopped |= sort.iterate(&mut watch, 1, stop())?;
    }
    sort.checks = Checks::default();
    watch.barrier()?;
    watch.restart(ITERATIONS as usize);
    let mut iterations = 0;
    while iterations < ITERATIONS && !stopped {
        iterations += 1;
        stopped = sort.iterate(&mut watch, iterations, stop())?;
        watch.end_iteration();
        progress(f64::from(iterations) / f64::from(ITERATIONS));
    }
    let timed = watch.record();
    watch.restart(0);
    sort.check_order(&mut watch)?;
    let mut verdict = sort.checks.values();
    watch.allreduce(&mut verdict, Reduction::Sum)?;
    Ok((iterations, Checks::of_values(verdict), timed, watch.parts()))
}
