//! What of a kernel trace concerns a thread although it happens where the thread does not run.

use idlewave_explain::{Explanation, explain};
use idlewave_run::findings::SourceFinding;
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Migration, Migrations, Table, Task, TaskKind, Tasks, Wakeup, Wakeups,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Phase, PhaseKind, RunReader, RunWriter};
use idlewave_units::{Cpu, NodeId, Pid};
use std::sync::atomic::AtomicBool;

const NODE: NodeId = NodeId::new(0);
/// Threads 10 and 11 of the recorded program, and two others.
const THREADS: [(u32, &str, TaskKind); 4] = [
    (10, "program", TaskKind::Program),
    (11, "worker", TaskKind::Program),
    (20, "cron", TaskKind::User),
    (21, "backup", TaskKind::User),
];

#[derive(Default)]
struct Trace {
    bursts: Bursts,
    wakeups: Wakeups,
    migrations: Migrations,
}

impl Trace {
    fn burst(&mut self, cpu: u32, pid: u32, begin_ns: u64, end_ns: u64, end_reason: EndReason) {
        self.bursts.push(Burst {
            node: NODE,
            cpu: Cpu::new(cpu),
            pid: Pid::new(pid),
            begin_ns,
            end_ns,
            end_reason,
            certain: true,
        });
    }

    fn wakeup(&mut self, time_ns: u64, pid: u32, target: u32) {
        self.wakeups.push(Wakeup {
            node: NODE,
            time_ns,
            cpu: Cpu::new(0),
            waker: Pid::new(0),
            pid: Pid::new(pid),
            target_cpu: Cpu::new(target),
        });
    }

    fn explain(&self, end_ns: u64) -> Explanation {
        let mut manifest = empty_manifest();
        manifest.phases.push(Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: Some(0),
            },
            begin_ns: 0,
            end_ns,
        });
        let mut tasks = Tasks::default();
        for (pid, name, kind) in THREADS {
            tasks.push(Task {
                node: NODE,
                pid: Pid::new(pid),
                process: None,
                name: name.to_owned(),
                kind,
            });
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut out = RunWriter::create(&path, manifest).unwrap();
        out.write_table(&tasks).unwrap();
        out.write_table(&self.bursts).unwrap();
        out.write_table(&self.wakeups).unwrap();
        out.write_table(&self.migrations).unwrap();
        out.close(None).unwrap();
        let run = RunReader::open(&path).unwrap();
        explain(&run, &AtomicBool::new(false)).unwrap()
    }
}

fn source<'a>(found: &'a Explanation, name: &str) -> &'a SourceFinding {
    let mut sources = found.findings.sources.iter();
    sources.find(|s| s.name == name).unwrap()
}

#[test]
fn a_thread_waits_on_a_cpu_on_which_it_never_runs() {
    let mut trace = Trace::default();
    // Woken for CPU 3, which cron has, and moved to CPU 0, which backup leaves 100 later.
    trace.burst(0, 10, 1_000, 2_000, EndReason::Sleeping);
    trace.burst(0, 21, 2_000, 2_900, EndReason::Sleeping);
    trace.burst(0, 10, 2_900, 5_000, EndReason::Exited);
    trace.burst(3, 20, 1_500, 4_000, EndReason::Sleeping);
    trace.wakeup(2_500, 10, 3);
    trace.migrations.push(Migration {
        node: NODE,
        time_ns: 2_800,
        pid: Pid::new(10),
        from: Cpu::new(3),
        to: Cpu::new(0),
    });
    let found = trace.explain(5_000);
    assert_eq!(source(&found, "cron").stolen.get(), 300);
    assert_eq!(source(&found, "backup").stolen.get(), 100);
}

#[test]
fn a_culprit_that_is_moved_strikes_once_and_recurs_as_it_is_woken() {
    const PERIOD: u64 = 1_000_000;
    let mut trace = Trace::default();
    let (mut own, mut other) = (0, 0);
    for i in 1..=200 {
        let now = i * PERIOD;
        trace.wakeup(now, 21, 0);
        if i % 2 == 0 {
            // Out of sight of the program.
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
    let found = trace.explain(end);
    let backup = source(&found, "backup");
    assert_eq!((backup.events, backup.stolen.get()), (Some(200), 15_000));
    assert_eq!(backup.length.as_ref().unwrap().value, 150.0);
    let others = &found.findings.contamination.top_tasks;
    assert_eq!(others[..], [("backup".to_owned(), 105_000)]);
    let period = backup.period.as_ref().unwrap().period.value;
    assert!((period / PERIOD as f64 - 1.0).abs() < 1e-3, "{period}");
}
