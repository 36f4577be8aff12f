//! What one rank does, over any fabric and any counter.

use super::meeting::Meeting;
use super::pattern::Pattern;
use super::work::{Watch, Work};
use crate::WorkloadError;
use crate::detour::Gap;
use crate::fibonacci::Fibonacci;
use bytemuck::{Pod, Zeroable};
use idlewave_clock::Source;
use idlewave_fabric::Fabric;
use std::sync::atomic::{AtomicBool, Ordering};

/// One iteration in counts; it ends where the next one begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Iteration {
    /// Start of the computation.
    pub begin: u64,
    /// End of the computation.
    pub arrival: u64,
}

/// What a rank did, in counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Iterations, the same on all ranks.
    pub iterations: u64,
    /// Of the first iteration.
    pub begin: u64,
    /// Of the last one.
    pub end: u64,
}

/// What a rank shall do. All ranks get the same but for `halt`, and `duration` in their counts.
pub struct Plan<'a> {
    /// The computation.
    pub work: Work,
    /// How the ranks meet.
    pub pattern: &'a Pattern,
    /// In counts; that of rank 0 counts.
    pub duration: u64,
    /// In counts.
    pub threshold: u64,
    /// No more iterations than this, at least one.
    pub max_iterations: u64,
    /// Ends the run; that of rank 0 counts.
    pub halt: &'a AtomicBool,
}

/// Runs one rank; `record` gets every iteration, and after the last one an empty one that ends it.
/// All ranks end after the same iteration, which rank 0 decides; see [`Meeting`] for how.
///
/// # Errors
/// A message could not be carried or is not the one expected, or the pattern does not fit the
/// number of ranks.
pub fn run<F: Fabric, S: Source>(
    fabric: &mut F,
    source: S,
    plan: &Plan<'_>,
    mut record: impl FnMut(Iteration),
    gap: impl FnMut(Gap),
) -> Result<Done, WorkloadError> {
    let work = plan.work;
    let leads = fabric.rank().get() == 0;
    let mut numbers = Fibonacci::default();
    let mut meeting = Meeting::new(fabric, plan.pattern, work.time())?;
    let overlaps = meeting.overlaps();
    let mut last = plan.max_iterations.saturating_sub(1);
    meeting.begin(fabric)?;
    fabric.barrier(&mut || ())?;

    let mut iteration = 0_u64;
    let mut begin = source.now_ordered();
    let first = begin;
    let deadline = begin.saturating_add(plan.duration);
    let mut watch = Watch {
        source,
        previous: begin,
        threshold: plan.threshold,
        record: gap,
    };
    let mut decided = false;
    let end = loop {
        work.half(0, &mut numbers, &mut watch);
        if overlaps {
            meeting.start(fabric, iteration, last)?;
        }
        work.half(1, &mut numbers, &mut watch);
        let arrival = watch.look(work.chunk_limit(plan.threshold), 0);
        last = meeting.meet(fabric, iteration, last, &mut || {
            watch.turn();
        })?;
        let end = watch.turn();
        record(Iteration { begin, arrival });
        if leads && !decided && (end >= deadline || plan.halt.load(Ordering::Relaxed)) {
            decided = true;
            last = last.min(meeting.last_after(iteration));
        }
        if iteration >= last {
            break end;
        }
        iteration += 1;
        begin = end;
    };
    record(Iteration {
        begin: end,
        arrival: end,
    });
    meeting.end(fabric)?;
    std::hint::black_box(numbers.value());
    Ok(Done {
        iterations: iteration + 1,
        begin: first,
        end,
    })
}
