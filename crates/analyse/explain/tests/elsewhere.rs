//! Parts of a kernel trace that concern a thread although they happen where it does not run.

use crate::trace::Trace;
use idlewave_explain::Explanation;
use idlewave_run::findings::SourceFinding;
use idlewave_run::tables::{EndReason, TaskKind};

/// Threads 10 and 11 of the recorded program, and two others.
const THREADS: [(u32, &str, TaskKind); 4] = [
    (10, "program", TaskKind::Program),
    (11, "worker", TaskKind::Program),
    (20, "cron", TaskKind::User),
    (21, "backup", TaskKind::User),
];

fn source<'a>(found: &'a Explanation, name: &str) -> &'a SourceFinding {
    let mut sources = found.findings.sources.iter();
    sources.find(|s| s.name == name).unwrap()
}

#[test]
fn a_thread_waits_on_a_cpu_on_which_it_never_runs() {
    let mut trace = Trace::of(&THREADS);
    // Woken for CPU 3, which cron has, and moved to CPU 0, which backup leaves 100 later.
    trace.burst(0, 10, 1_000, 2_000, EndReason::Sleeping);
    trace.burst(0, 21, 2_000, 2_900, EndReason::Sleeping);
    trace.burst(0, 10, 2_900, 5_000, EndReason::Exited);
    trace.burst(3, 20, 1_500, 4_000, EndReason::Sleeping);
    trace.wakeup(2_500, 10, 3);
    trace.migration(2_800, 10, 3, 0);
    let found = trace.explain(0, 5_000);
    assert_eq!(source(&found, "cron").stolen.get(), 300);
    assert_eq!(source(&found, "backup").stolen.get(), 100);
}

#[test]
fn a_culprit_that_is_moved_strikes_once_and_recurs_as_it_is_woken() {
    const PERIOD: u64 = 1_000_000;
    let mut trace = Trace::of(&THREADS);
    let (mut own, mut other) = (0, 0);
    for i in 1..=200 {
        let now = i * PERIOD;
        trace.wakeup(now, 21, 0);
        if i % 2 == 0 {
            // On a CPU that the program does not use.
            trace.burst(2, 21, now, now + 900, EndReason::Sleeping);
            continue;
        }
        trace.burst(0, 10, own, now, EndReason::Preempted);
        trace.burst(0, 21, now, now + 100, EndReason::Preempted);
        own = now + 100;
        trace.burst(1, 11, other, now + 100, EndReason::Preempted);
        trace.burst(1, 21, now + 100, now + 150, EndReason::Sleeping);
        other = now + 150;
    }
    let end = 201 * PERIOD;
    trace.burst(0, 10, own, end, EndReason::Exited);
    trace.burst(1, 11, other, end, EndReason::Exited);
    let found = trace.explain(0, end);
    let backup = source(&found, "backup");
    assert_eq!((backup.events, backup.stolen.get()), (Some(200), 15_000));
    assert_eq!(backup.length.as_ref().unwrap().value, 150.0);
    let others = &found.findings.contamination.top_tasks;
    assert_eq!(others[..], [("backup".to_owned(), 105_000)]);
    let period = backup.period.as_ref().unwrap().period.value;
    assert!((period / PERIOD as f64 - 1.0).abs() < 1e-3, "{period}");
}
