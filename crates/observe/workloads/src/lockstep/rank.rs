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

/// One iteration in counts; it ends where the next one starts.
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
    /// Start of the first iteration.
    pub begin: u64,
    /// End of the last one.
    pub end: u64,
}

/// What a rank is to do. The same for all ranks except `halt`, and `duration`, which is in each
/// rank's own counts.
pub struct Plan<'a> {
    /// The computation.
    pub work: Work,
    /// How the ranks meet.
    pub pattern: &'a Pattern,
    /// Duration in counts; rank 0's decides.
    pub duration: u64,
    /// Gap threshold in counts.
    pub threshold: u64,
    /// Iteration limit, at least 1.
    pub max_iterations: u64,
    /// Ends the run; rank 0's decides.
    pub halt: &'a AtomicBool,
}

/// Runs one rank; `record` gets every iteration, then an empty one that marks the end of the last.
/// All ranks end after the same iteration, which rank 0 decides; see [`Meeting`] for how.
///
/// # Errors
/// A message was not delivered or is not the expected one, or the pattern does not match the number
/// of ranks.
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
