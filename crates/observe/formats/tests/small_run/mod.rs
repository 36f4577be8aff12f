//! A small run whose exports can be worked out by hand.

use crate::common::{self, NODE, source};
use idlewave_formats::export::{ExportError, Format};
use idlewave_run::findings::{
    ChargedFinding, Findings, LateFinding, LatePartFinding, SourceFinding,
};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Ledger, NoiseProfile, RankSheet, RunReader, RunWriter, SourceKind};
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, NodeId, Pid, Rank};
use std::path::{Path, PathBuf};

fn burst(cpu: u32, pid: u32, (begin_ns, end_ns): (u64, u64), end_reason: EndReason) -> Burst {
    Burst {
        certain: end_reason != EndReason::Unknown,
        ..common::burst(cpu, pid, begin_ns, end_ns, end_reason)
    }
}

fn interrupt(source: u32, (begin_ns, end_ns): (u64, u64), depth: u8) -> Interrupt {
    common::interrupt(source, 0, 10, begin_ns, end_ns, depth)
}

fn task(pid: u32, process: Option<u32>, name: &str, kind: TaskKind) -> Task {
    Task {
        process: process.map(Pid::new),
        ..common::task(pid, name, kind)
    }
}

fn region(rank: u32, kind: RegionKind, (begin_ns, end_ns): (u64, u64)) -> Region {
    Region {
        rank: Rank::new(rank),
        phase: 0,
        iteration: 4,
        kind,
        begin_ns,
        end_ns,
        bytes: (kind == RegionKind::Barrier).then_some(Bytes::new(8)),
    }
}

fn call(rank: u32, thread: u32, operation: u32, (begin_ns, end_ns): (u64, u64)) -> Call {
    Call {
        rank: Rank::new(rank),
        thread: Pid::new(thread),
        operation,
        begin_ns,
        end_ns,
        comm: Some(0),
        sequence: None,
        root: None,
        sent: None,
        received: None,
        request: None,
    }
}

fn table<T: Table>(out: &mut RunWriter, rows: impl IntoIterator<Item = T::Row>) {
    out.write_table(&common::table::<T>(rows)).unwrap();
}

/// Two ranks on CPUs 0 and 1. crond takes CPU 0 for 1.5 us, so rank 0 comes late; an interrupt on
/// CPU 0 takes 300 ns.
pub fn run(directory: &Path) -> PathBuf {
    let path = directory.join("run");
    let mut manifest = empty_manifest();
    let host = &mut manifest.nodes[0].host;
    host.kernel = "6.18.5".to_owned();
    host.kernel_build = "#1 SMP".to_owned();
    host.architecture = "x86_64".to_owned();
    manifest.ranks = (0..2)
        .map(|n| RankSheet {
            rank: Rank::new(n),
            node: NODE,
            cpu: Some(Cpu::new(n)),
            threads: vec![Pid::new(10 + n)],
            process: None,
            priority: None,
        })
        .collect();
    let trace = manifest.nodes[0].trace.clone();
    let mut out = RunWriter::create(&path, manifest).unwrap();
    table::<Tasks>(
        &mut out,
        [
            task(0, None, "swapper/0", TaskKind::Idle),
            task(10, Some(10), "app", TaskKind::Rank),
            task(11, Some(10), "app", TaskKind::Rank),
            task(20, Some(20), "cr\"ond", TaskKind::User),
            task(30, None, "kworker/0:1", TaskKind::Kernel),
            task(40, None, "gone", TaskKind::Unknown),
        ],
    );
    table::<Sources>(
        &mut out,
        [
            source(0, SourceKind::TimerTick, "timer tick"),
            source(1, SourceKind::Irq, "virtio3-tx"),
            source(2, SourceKind::Softirq, "RCU"),
            source(3, SourceKind::Ipi, "reschedule"),
        ],
    );
    table::<Bursts>(
        &mut out,
        [
            burst(0, 10, (1000, 5000), EndReason::Preempted),
            burst(0, 20, (5000, 6500), EndReason::Uninterruptible),
            burst(0, 10, (6500, 9000), EndReason::Unknown),
            burst(1, 11, (1000, 4000), EndReason::Sleeping),
            burst(1, 0, (4500, 9000), EndReason::Unknown),
        ],
    );
    table::<Interrupts>(
        &mut out,
        [
            interrupt(0, (2000, 2300), 0),
            interrupt(1, (3000, 3900), 0),
            interrupt(2, (3100, 3400), 1),
            interrupt(3, (7000, 7200), 0),
        ],
    );
    table::<Wakeups>(
        &mut out,
        [Wakeup {
            node: NODE,
            time_ns: 4900,
            cpu: Cpu::new(0),
            waker: Pid::new(10),
            pid: Pid::new(20),
            target_cpu: Cpu::new(0),
        }],
    );
    table::<Migrations>(
        &mut out,
        [Migration {
            node: NODE,
            time_ns: 4950,
            pid: Pid::new(20),
            from: Cpu::new(1),
            to: Cpu::new(0),
        }],
    );
    let syscall = |cpu, pid, time_ns, number, returned| Syscall {
        node: NODE,
        time_ns,
        cpu: Cpu::new(cpu),
        pid: Pid::new(pid),
        number,
        returned,
    };
    // sched_yield and read; then a call that a tracer cancelled.
    table::<Syscalls>(
        &mut out,
        [
            syscall(0, 10, 1200, Some(24), false),
            syscall(0, 10, 1250, Some(24), true),
            syscall(0, 10, 6500, None, false),
            syscall(0, 10, 6600, None, true),
            syscall(1, 11, 4000, Some(0), false),
        ],
    );
    table::<Regions>(
        &mut out,
        [
            region(0, RegionKind::Compute, (1000, 6000)),
            region(0, RegionKind::Barrier, (6000, 6100)),
            region(1, RegionKind::Compute, (1000, 3000)),
            region(1, RegionKind::Barrier, (3000, 6100)),
        ],
    );
    table::<Operations>(
        &mut out,
        [Operation {
            id: 0,
            name: "MPI_Barrier".to_owned(),
            class: OperationClass::AllToAll,
        }],
    );
    table::<Calls>(
        &mut out,
        [call(0, 10, 0, (6000, 6100)), call(1, 11, 0, (3000, 6100))],
    );
    table::<Marks>(
        &mut out,
        [Mark {
            rank: Some(Rank::new(1)),
            node: NODE,
            thread: Pid::new(11),
            name: "solve".to_owned(),
            begin_ns: 1100,
            end_ns: None,
        }],
    );
    table::<Messages>(
        &mut out,
        [Message {
            from: Rank::new(1),
            to: Rank::new(0),
            comm: 0,
            tag: 5,
            bytes: Bytes::new(64),
            sent_ns: 1200,
            posted_ns: 1300,
            wait_ns: 1300,
            completed_ns: 1500,
        }],
    );
    table::<Waits>(
        &mut out,
        [Wait {
            rank: Rank::new(1),
            call: 1,
            kind: WaitKind::Collective,
            begin_ns: 3000,
            end_ns: 6000,
            culprit: Rank::new(0),
            parent: None,
            hops: 0,
        }],
    );
    table::<WaitParts>(
        &mut out,
        [WaitPart {
            wait: 0,
            origin: Rank::new(0),
            finding: 0,
            time: Nanos::from_nanos(3000),
        }],
    );
    table::<LateSteps>(
        &mut out,
        [LateStep {
            phase: 0,
            iteration: 4,
            rank: Rank::new(0),
            begin_ns: 1000,
            end_ns: 6000,
            lateness: Nanos::from_nanos(1500),
        }],
    );
    let part = |finding, time| LatePart {
        step: 0,
        finding,
        time: Nanos::from_nanos(time),
    };
    table::<LateParts>(&mut out, [part(0, 1000), part(1, 500)]);
    out.close(None).unwrap();
    let run = RunReader::open(&path).unwrap();
    run.write_findings(&findings(trace)).unwrap();
    path
}

fn findings(trace: idlewave_run::TraceSheet) -> Findings {
    let source = |kind: SourceKind, name: &str| SourceFinding {
        kind,
        name: name.to_owned(),
        events: None,
        stolen: Nanos::ZERO,
        late_steps: 0,
        lateness: Nanos::ZERO,
        lost: Nanos::ZERO,
        amplification: None,
        absorbed: None,
        length: None,
        period: None,
        relation: None,
        cpus: CpuSet::default(),
        detail: None,
    };
    let parts = [(0, 1000), (1, 500)].map(|(source, time)| LatePartFinding {
        source,
        time: Nanos::from_nanos(time),
    });
    Findings {
        header: None,
        trace,
        contamination: Default::default(),
        conditions: Default::default(),
        cpus: Vec::new(),
        nodes: None,
        load_sweep: None,
        ways: None,
        lockstep: Vec::new(),
        sources: vec![
            source(SourceKind::Task, "cr\"ond"),
            source(SourceKind::TimerTick, "timer tick"),
        ],
        latest: vec![LateFinding {
            phase: 0,
            iteration: 4,
            last_rank: Rank::new(0),
            cpu: Some(Cpu::new(0)),
            begin_ns: 1000,
            end_ns: 6000,
            lateness: Nanos::from_nanos(1500),
            parts: parts.to_vec(),
            charged: vec![ChargedFinding {
                source: 0,
                rank: Rank::new(0),
                begin_ns: 5000,
                end_ns: 6000,
            }],
        }],
        lateness: Nanos::from_nanos(1500),
        named: Nanos::from_nanos(1500),
        profile: NoiseProfile::default(),
        prediction: None,
        not_predicted: None,
        advice: Vec::new(),
        losses: Ledger::default(),
        program: None,
        jitter: Vec::new(),
        benchmarks: Vec::new(),
    }
}

/// A run with these bursts and interrupts, on this many nodes.
pub fn kernel_run(
    directory: &Path,
    nodes: u32,
    bursts: Vec<Burst>,
    interrupts: Vec<Interrupt>,
) -> PathBuf {
    let path = directory.join("run");
    let mut manifest = empty_manifest();
    for number in 1..nodes {
        let mut node = manifest.nodes[0].clone();
        node.node = NodeId::new(number);
        node.host.name = format!("node{number}");
        manifest.nodes.push(node);
    }
    let mut out = RunWriter::create(&path, manifest).unwrap();
    let app = |node| Task {
        node: NodeId::new(node),
        ..task(1, Some(1), "app", TaskKind::User)
    };
    table::<Tasks>(&mut out, (0..nodes).map(app));
    table::<Sources>(&mut out, [source(0, SourceKind::TimerTick, "timer tick")]);
    table::<Bursts>(&mut out, bursts);
    table::<Interrupts>(&mut out, interrupts);
    out.close(None).unwrap();
    path
}

/// Exports a run to a file beside it.
pub fn export(run: &Path, name: &str, format: Format) -> Result<(PathBuf, Ledger), ExportError> {
    let output = run.with_file_name(name);
    let export = common::try_export(&RunReader::open(run).unwrap(), format, &output)?;
    assert_eq!(export.files[0].path, output);
    assert_eq!(
        export.files[0].bytes,
        std::fs::metadata(&output).unwrap().len()
    );
    Ok((output, export.losses))
}
