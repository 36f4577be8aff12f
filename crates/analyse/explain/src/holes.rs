//! Holes of the kernel's view: missing switches, filled from what the measuring threads saw.

use crate::edges::Gap;
use crate::kernel::Kernel;
use crate::watch::Watch;
use idlewave_units::Pid;

/// When the thread whose own `gaps` these are, in order, is known to have run again, if one of them
/// began by `time`.
pub fn back_after(gaps: &[Gap], time: u64) -> Option<u64> {
    let after = gaps.partition_point(|g| g.begin <= time);
    let gap = gaps[..after].last()?;
    Some(gap.begin + gap.length)
}

/// Fills holes after which the measuring thread of `watch` is found running. `back` tells when the
/// thread, which may have been off the CPU from the start of the hole, is known to have run again:
/// until then, the thread seen last had the CPU; afterwards, the measuring thread ran. Returns how
/// many holes were charged to the thread seen last.
pub fn fill(kernel: &mut Kernel, watch: &Watch, back: impl Fn(u64) -> Option<u64>) -> u64 {
    // If switches of other threads were not recorded, their time is a hole as well.
    if !kernel.sees_everything() {
        return 0;
    }
    let Some(bursts) = kernel.bursts.get_mut(&watch.pid) else {
        return 0;
    };
    let mut charged = 0;
    for burst in bursts {
        if burst.begin <= watch.begin || burst.begin > watch.end {
            continue;
        }
        let Some(timeline) = kernel.cpus.get_mut(&burst.cpu) else {
            continue;
        };
        let Some((begin, end)) = timeline.hole_before(burst.begin) else {
            continue;
        };
        let from = back(begin).unwrap_or(begin);
        let from = from.max(begin).max(watch.begin).min(end);
        timeline.give_hole(from, end, watch.pid);
        burst.begin = from;
        // The thread would have run on an idle CPU, so the hole is not given to the idle task.
        if let Some(last) = timeline.owner_before(begin).filter(|&p| p != Pid::IDLE) {
            timeline.give_hole(begin, from, last);
            charged += u64::from(last != watch.pid && from > begin);
        }
    }
    charged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::OwnBurst;
    use crate::timeline::{Builder, BurstSpan};
    use idlewave_run::TraceMode;
    use idlewave_run::tables::EndReason;
    use idlewave_units::{Cpu, NodeId};

    #[test]
    fn a_thread_found_running_after_a_hole_ran_since_its_last_gap() {
        let (cpu, rank, daemon) = (Cpu::new(0), Pid::new(7), Pid::new(9));
        let span = |begin, end, pid| BurstSpan { begin, end, pid };
        let spans = [
            span(0, 1000, rank),
            // Its switch out is missing.
            span(1000, 1100, daemon),
            span(5000, 9000, rank),
        ];
        let own = |begin, end| OwnBurst {
            begin,
            end,
            cpu,
            end_reason: EndReason::Preempted,
        };
        let mut kernel = Kernel::empty(NodeId::new(0), TraceMode::Tracefs);
        let mut timeline = Builder::default();
        spans.into_iter().for_each(|span| timeline.burst(span));
        kernel.cpus.insert(cpu, timeline.finish());
        kernel
            .bursts
            .insert(rank, vec![own(0, 1000), own(5000, 9000)]);
        let watch = Watch {
            phase: 0,
            rank: None,
            node: NodeId::new(0),
            cpu,
            pid: rank,
            begin: 0,
            end: 9000,
        };
        let gap = |begin, length| Gap { begin, length };
        let gaps = [gap(300, 20), gap(990, 160), gap(4000, 30)];
        let charged = fill(&mut kernel, &watch, |time| back_after(&gaps, time));
        assert_eq!(charged, 1);
        assert_eq!(kernel.bursts_of(rank)[1].begin, 1150);
        let pieces = kernel.cpus[&cpu].between(0, 9000);
        let daemon_until = pieces.filter(|p| p.owner == Some(daemon)).map(|p| p.end);
        assert_eq!(daemon_until.max(), Some(1150));
    }
}
