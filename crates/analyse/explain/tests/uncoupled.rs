//! Recorded programs that do not call MPI.

#![allow(clippy::unwrap_used)]

use crate::trace::Trace;
use idlewave_run::tables::{EndReason, TaskKind};

#[test]
fn a_program_without_mpi_loses_what_is_taken_from_its_threads_and_not_its_sleep() {
    let mut trace = Trace::of(&[
        (10, "program", TaskKind::Program),
        (11, "worker", TaskKind::Program),
        (12, "sleeper", TaskKind::Program),
        (20, "cron", TaskKind::User),
    ]);
    for (cpu, pid, begin_ns, end_ns, end_reason) in [
        // Preempted by cron for 300, asleep for 400.
        (0, 10, 1_000, 2_000, EndReason::Preempted),
        (0, 20, 2_000, 2_300, EndReason::Sleeping),
        (0, 10, 2_300, 3_000, EndReason::Sleeping),
        (0, 0, 3_000, 3_400, EndReason::Preempted),
        (0, 10, 3_400, 5_000, EndReason::Exited),
        // Preempted by cron for 50; no other thread of its program takes its CPU.
        (1, 11, 1_000, 4_000, EndReason::Preempted),
        (1, 20, 4_000, 4_050, EndReason::Sleeping),
        (1, 11, 4_050, 5_000, EndReason::Preempted),
        // Preempted by cron for 100. Then it ran and slept unseen, and was woken 30 before its CPU
        // left the idle task.
        (1, 20, 5_000, 5_100, EndReason::Sleeping),
        (1, 0, 5_100, 5_900, EndReason::Preempted),
        (1, 11, 5_900, 6_000, EndReason::Exited),
        // Woken twice: it ran and slept unseen in between, so that cron took nothing from it.
        (2, 12, 1_000, 2_000, EndReason::Sleeping),
        (2, 0, 2_000, 2_400, EndReason::Preempted),
        (2, 20, 2_400, 2_600, EndReason::Sleeping),
        (2, 0, 2_600, 3_020, EndReason::Preempted),
        (2, 12, 3_020, 6_000, EndReason::Exited),
    ] {
        trace.burst(cpu, pid, begin_ns, end_ns, end_reason);
    }
    for (pid, time_ns, target_cpu) in [
        (10, 3_400, 0),
        (11, 5_870, 1),
        (12, 2_300, 2),
        (12, 3_000, 2),
    ] {
        trace.wakeup(time_ns, pid, target_cpu);
    }
    let found = trace.explain(1_000, 6_000);
    assert!(found.program.is_none() && found.findings.program.is_none());
    let rows: Vec<_> = found
        .findings
        .sources
        .iter()
        .map(|s| (s.name.as_str(), s.stolen.get(), s.lost.get(), s.events))
        .collect();
    assert_eq!(rows[0], ("cron", 450, 450, Some(3)));
    assert_eq!(rows[1], ("run-queue wait", 50, 50, Some(2)));
    assert!(rows[2..].iter().all(|r| r.2 == 0), "{rows:?}");
    assert_eq!(found.findings.lateness.get(), 500);
    assert_eq!(found.findings.named.get(), 500);
}
