//! A synthetic run of many nodes whose CPUs were measured, with two bad nodes among them.

use idlewave_run::tables::{
    Burst, Bursts, Detour, Detours, EndReason, Interrupt, Interrupts, Quanta, Quantum, Source,
    SourceKind, Sources, Table, Task, TaskKind, Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    DetourLoop, Manifest, Phase, PhaseKind, RunError, RunReader, RunWriter, WorkKernel,
};
use idlewave_units::{Cpu, Nanos, NodeId, Pid};
use std::path::Path;

/// CPUs of every node.
const CPUS: u32 = 2;
/// How long each measurement takes.
const MEASURED: u64 = 500_000_000;
const TICK: u64 = 25_000_000;
const DAEMON_PERIOD: u64 = 10_000_000;
const TICK_LENGTH: u64 = 3_000;
const DAEMON_LENGTH: u64 = 200_000;
const QUANTUM: u64 = 2_500_000;
const DAEMON: Pid = Pid::new(700);
const BEGIN: u64 = 1_000_000_000;

/// Nodes with two CPUs each and a tick of 3 us every 25 ms, on which detours and then fixed work
/// were measured for half a second, with the kernel's view.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticNodes {
    /// How many.
    pub nodes: u32,
    /// The node on whose CPU 1 `healthd` runs for 200 us every 10 ms.
    pub noisy: Option<u32>,
    /// The node whose CPU 0 is 8 % slower.
    pub slow: Option<u32>,
}

impl SyntheticNodes {
    /// Writes the run; it is not explained.
    ///
    /// # Errors
    /// The bundle cannot be written.
    pub fn write(&self, path: &Path) -> Result<RunReader, RunError> {
        let mut out = RunWriter::create(path, self.manifest())?;
        out.write_table(&sources())?;
        out.write_table(&self.tasks())?;
        self.write_detours(&mut out)?;
        let mut quanta = out.table::<Quanta>()?;
        for (node, cpu) in self.cpus() {
            let slower = self.slow == Some(node) && cpu == 0;
            let mut at = BEGIN + MEASURED;
            for k in 0..MEASURED / QUANTUM {
                // One quantum in ten contains a tick; the others vary by 0.1 %.
                let usual = QUANTUM + varied(node, cpu, k) % 1_000;
                let work = if slower { usual * 108 / 100 } else { usual };
                let duration = work + if k % 10 == 0 { TICK_LENGTH } else { 0 };
                quanta.push(Quantum {
                    phase: 2 * node + 1,
                    cpu: Cpu::new(cpu),
                    begin_ns: at,
                    duration: Nanos::from_nanos(duration),
                    units: None,
                })?;
                at += duration;
            }
        }
        out.finish_table(quanta)?;
        out.close(None)?;
        RunReader::open(path)
    }

    fn cpus(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.nodes).flat_map(|node| (0..CPUS).map(move |cpu| (node, cpu)))
    }

    /// Detours of a CPU: start, length, and whether the daemon took them.
    fn detours(&self, node: u32, cpu: u32) -> Vec<(u64, u64, bool)> {
        let noisy = self.noisy == Some(node) && cpu == 1;
        let first = BEGIN + 1_000_000 + varied(node, cpu, 0) % 1_000_000;
        let mut all = Vec::new();
        for k in 0..MEASURED / TICK - 1 {
            let at = first + k * TICK;
            all.push((at, TICK_LENGTH + varied(node, cpu, k) % 500, false));
        }
        if noisy {
            let times =
                (0..MEASURED / DAEMON_PERIOD).map(|k| BEGIN + 5_000_000 + k * DAEMON_PERIOD);
            all.extend(times.map(|at| (at, DAEMON_LENGTH, true)));
        }
        all.sort_unstable();
        all
    }

    fn write_detours(&self, out: &mut RunWriter) -> Result<(), RunError> {
        let mut detours = out.table::<Detours>()?;
        let mut interrupts = out.table::<Interrupts>()?;
        let mut bursts = out.table::<Bursts>()?;
        for (node, cpu) in self.cpus() {
            let (at_node, at_cpu, own) = (NodeId::new(node), Cpu::new(cpu), thread(cpu));
            let mut burst = |pid, begin_ns, end_ns, end_reason| {
                bursts.push(Burst {
                    node: at_node,
                    cpu: at_cpu,
                    pid,
                    begin_ns,
                    end_ns,
                    end_reason,
                    certain: true,
                })
            };
            let mut from = BEGIN - 1_000;
            for (begin_ns, length, is_daemon) in self.detours(node, cpu) {
                detours.push(Detour {
                    phase: 2 * node,
                    cpu: at_cpu,
                    rank: None,
                    begin_ns,
                    length: Nanos::from_nanos(length),
                })?;
                let end_ns = begin_ns + length;
                if is_daemon {
                    burst(own, from, begin_ns, EndReason::Preempted)?;
                    burst(DAEMON, begin_ns, end_ns, EndReason::Sleeping)?;
                    from = end_ns;
                } else {
                    interrupts.push(Interrupt {
                        node: at_node,
                        cpu: at_cpu,
                        source: 0,
                        pid: own,
                        begin_ns,
                        end_ns,
                        depth: 0,
                        certain: true,
                    })?;
                }
            }
            burst(own, from, BEGIN + 2 * MEASURED, EndReason::Sleeping)?;
        }
        out.finish_table(detours)?;
        out.finish_table(interrupts)?;
        out.finish_table(bursts)
    }

    fn tasks(&self) -> Tasks {
        let mut tasks = Tasks::default();
        let mut add = |node, pid, name: &str, kind| {
            Table::push(
                &mut tasks,
                Task {
                    node: NodeId::new(node),
                    pid,
                    process: None,
                    name: name.to_owned(),
                    kind,
                },
            );
        };
        for (node, cpu) in self.cpus() {
            let name = format!("iw-loop-{cpu}");
            add(node, thread(cpu), &name, TaskKind::Own);
        }
        if let Some(node) = self.noisy {
            add(node, DAEMON, "healthd", TaskKind::User);
        }
        tasks
    }

    fn manifest(&self) -> Manifest {
        let mut manifest = empty_manifest();
        let sheet = manifest.nodes.remove(0);
        for node in 0..self.nodes {
            let mut own = sheet.clone();
            own.node = NodeId::new(node);
            own.host.name = format!("n{node:04}");
            own.host.online = (0..CPUS).map(Cpu::new).collect();
            own.host.allowed = own.host.online.clone();
            manifest.nodes.push(own);
            let loops = (0..CPUS).map(|cpu| self.sheet(node, cpu)).collect();
            let phase = |kind, begin_ns| Phase {
                kind,
                begin_ns,
                end_ns: begin_ns + MEASURED,
            };
            let detour = PhaseKind::Detour {
                node: NodeId::new(node),
                threshold: Nanos::from_micros(1),
                floor: Nanos::ZERO,
                loops,
            };
            let work = PhaseKind::FixedWork {
                node: NodeId::new(node),
                work_steps: 1_000_000,
                kernel: WorkKernel::Fibonacci,
                array: None,
            };
            manifest.phases.push(phase(detour, BEGIN));
            manifest.phases.push(phase(work, BEGIN + MEASURED));
        }
        manifest
    }

    fn sheet(&self, node: u32, cpu: u32) -> DetourLoop {
        DetourLoop {
            cpu: Cpu::new(cpu),
            begin_ns: BEGIN,
            end_ns: BEGIN + MEASURED,
            turns: 1,
            turn_quanta: 1.0,
            recording: Nanos::ZERO,
            not_kept: 0,
            stolen: Nanos::from_nanos(self.detours(node, cpu).iter().map(|d| d.1).sum()),
            involuntary_switches: None,
            moved: false,
        }
    }
}

/// The measuring thread of a CPU.
fn thread(cpu: u32) -> Pid {
    Pid::new(1_000 + cpu)
}

fn sources() -> Sources {
    let mut sources = Sources::default();
    Table::push(
        &mut sources,
        Source {
            id: 0,
            kind: SourceKind::TimerTick,
            name: "timer tick".to_owned(),
        },
    );
    sources
}

/// The same number for the same arguments, and any for others.
fn varied(node: u32, cpu: u32, k: u64) -> u64 {
    let mut x = (u64::from(node) << 40) ^ (u64::from(cpu) << 32) ^ k;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
