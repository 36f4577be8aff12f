//! Kernel traces of a recorded program that does not call MPI.

use idlewave_explain::{Explanation, explain};
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Migration, Migrations, Table, Task, TaskKind, Tasks, Wakeup, Wakeups,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Phase, PhaseKind, RunReader, RunWriter};
use idlewave_units::{Cpu, NodeId, Pid};
use std::sync::atomic::AtomicBool;

const NODE: NodeId = NodeId::new(0);

/// The kernel's records of one node.
#[derive(Default)]
pub struct Trace {
    tasks: Tasks,
    bursts: Bursts,
    wakeups: Wakeups,
    migrations: Migrations,
}

impl Trace {
    /// A trace of these threads: number, name and kind.
    pub fn of(threads: &[(u32, &str, TaskKind)]) -> Self {
        let mut trace = Self::default();
        for &(pid, name, kind) in threads {
            trace.tasks.push(Task {
                node: NODE,
                pid: Pid::new(pid),
                process: None,
                name: name.to_owned(),
                kind,
            });
        }
        trace
    }

    /// A thread has a CPU; times in nanoseconds.
    pub fn burst(&mut self, cpu: u32, pid: u32, begin_ns: u64, end_ns: u64, end_reason: EndReason) {
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

    /// A thread is woken for a CPU.
    pub fn wakeup(&mut self, time_ns: u64, pid: u32, target: u32) {
        self.wakeups.push(Wakeup {
            node: NODE,
            time_ns,
            cpu: Cpu::new(0),
            waker: Pid::new(0),
            pid: Pid::new(pid),
            target_cpu: Cpu::new(target),
        });
    }

    /// A thread is moved.
    pub fn migration(&mut self, time_ns: u64, pid: u32, from: u32, to: u32) {
        self.migrations.push(Migration {
            node: NODE,
            time_ns,
            pid: Pid::new(pid),
            from: Cpu::new(from),
            to: Cpu::new(to),
        });
    }

    /// The program ran from `begin_ns` to `end_ns`.
    pub fn explain(&self, begin_ns: u64, end_ns: u64) -> Explanation {
        let mut manifest = empty_manifest();
        manifest.phases.push(Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: Some(0),
            },
            begin_ns,
            end_ns,
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut out = RunWriter::create(&path, manifest).unwrap();
        out.write_table(&self.tasks).unwrap();
        out.write_table(&self.bursts).unwrap();
        out.write_table(&self.wakeups).unwrap();
        out.write_table(&self.migrations).unwrap();
        out.close(None).unwrap();
        let run = RunReader::open(&path).unwrap();
        explain(&run, &AtomicBool::new(false)).unwrap()
    }
}
