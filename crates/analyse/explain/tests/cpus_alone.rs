//! Who took the CPUs of a run that measured nothing but CPUs.

use idlewave_explain::explain;
use idlewave_run::findings::{CpuNoise, Findings};
use idlewave_run::tables::{
    Burst, Bursts, Detour, Detours, EndReason, Quanta, Quantum, Table, Task, TaskKind, Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{DetourLoop, Phase, PhaseKind, RunReader, RunWriter, WorkKernel};
use idlewave_units::{Cpu, Nanos, NodeId, Pid};
use std::sync::atomic::AtomicBool;

const NODE: NodeId = NodeId::new(0);
const CPU: Cpu = Cpu::new(3);
const LOOP: u32 = 100;
const DAEMON: u32 = 500;
/// The loop begins and ends within the bursts of its thread.
const BEGIN: u64 = 10_000_000;
const END: u64 = 20_000_000;
/// When the daemon runs: the last time is after the end.
const STRIKES: [(u64, u64); 4] = [
    (12_000_000, 12_050_000),
    (14_000_000, 14_060_000),
    (16_000_000, 16_070_000),
    (21_000_000, 21_500_000),
];

fn run_of(kind: PhaseKind, write: impl FnOnce(&mut RunWriter)) -> Findings {
    run_of_all(vec![kind], write)
}

fn run_of_all(kinds: Vec<PhaseKind>, write: impl FnOnce(&mut RunWriter)) -> Findings {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut manifest = empty_manifest();
    for kind in kinds {
        manifest.phases.push(Phase {
            kind,
            begin_ns: BEGIN - 1_000_000,
            end_ns: END + 4_000_000,
        });
    }
    let mut out = RunWriter::create(&path, manifest).unwrap();
    let mut tasks = Tasks::default();
    for (pid, name, kind) in [
        (LOOP, "iw-loop-3", TaskKind::Own),
        (DAEMON, "daemon", TaskKind::User),
    ] {
        tasks.push(Task {
            node: NODE,
            pid: Pid::new(pid),
            process: None,
            name: name.to_owned(),
            kind,
        });
    }
    let mut bursts = Bursts::default();
    let mut burst = |pid, begin_ns, end_ns, end_reason| {
        bursts.push(Burst {
            node: NODE,
            cpu: CPU,
            pid: Pid::new(pid),
            begin_ns,
            end_ns,
            end_reason,
            certain: true,
        });
    };
    let mut from = BEGIN - 500_000;
    for (begin, end) in STRIKES {
        burst(LOOP, from, begin, EndReason::Preempted);
        burst(DAEMON, begin, end, EndReason::Sleeping);
        from = end;
    }
    burst(LOOP, from, END + 3_000_000, EndReason::Sleeping);
    out.write_table(&tasks).unwrap();
    out.write_table(&bursts).unwrap();
    write(&mut out);
    out.close(None).unwrap();
    let run = RunReader::open(&path).unwrap();
    explain(&run, &AtomicBool::new(false)).unwrap().findings
}

/// What was taken, how often, and from which CPU.
fn daemon(findings: &Findings) -> (u64, Option<u64>, String) {
    let found = findings.sources.iter().find(|s| s.name == "daemon");
    let found = found.unwrap_or_else(|| panic!("{:?}", findings.sources));
    assert_eq!((found.amplification, found.absorbed), (None, None));
    (found.stolen.get(), found.events, found.cpus.to_string())
}

fn detour(phase: u32, cpu: Cpu, begin_ns: u64, length: u64) -> Detour {
    Detour {
        phase,
        cpu,
        rank: None,
        begin_ns,
        length: Nanos::from_nanos(length),
    }
}

fn quantum(phase: u32, cpu: Cpu, begin_ns: u64, duration: u64) -> Quantum {
    Quantum {
        phase,
        cpu,
        begin_ns,
        duration: Nanos::from_nanos(duration),
        units: None,
    }
}

const TAKEN: u64 = 50_000 + 60_000 + 70_000;

#[test]
fn what_interrupts_a_detour_loop_has_a_name() {
    let kind = PhaseKind::Detour {
        node: NODE,
        threshold: Nanos::from_micros(1),
        floor: Nanos::ZERO,
        loops: vec![detour_loop(3, TAKEN)],
    };
    let findings = run_of(kind, |out| {
        let mut detours = Detours::default();
        for (begin_ns, end) in &STRIKES[..3] {
            detours.push(detour(0, CPU, *begin_ns, end - begin_ns));
        }
        out.write_table(&detours).unwrap();
    });
    assert_eq!(daemon(&findings), (TAKEN, Some(3), "3".to_owned()));
}

/// The thread is watched from its first quantum to its last, not while it starts and ends.
#[test]
fn what_interrupts_fixed_work_has_a_name() {
    let findings = run_of(
        PhaseKind::FixedWork {
            node: NODE,
            work_steps: 1,
            kernel: WorkKernel::Fibonacci,
            array: None,
        },
        |out| {
            let mut quanta = Quanta::default();
            for begin_ns in (BEGIN..END).step_by(1_000_000) {
                quanta.push(quantum(0, CPU, begin_ns, 1_000_000));
            }
            out.write_table(&quanta).unwrap();
        },
    );
    assert_eq!(daemon(&findings), (TAKEN, Some(3), "3".to_owned()));
    let unexplained = findings.sources.iter().find(|s| s.name == "unexplained");
    assert_eq!(unexplained.map(|s| s.stolen), Some(Nanos::ZERO));
}

/// What starts of 200 ms show, of which these are a fifth slower in their first 30 ms.
fn starts(all: u32, slow: std::ops::Range<u32>) -> CpuNoise {
    let kind = PhaseKind::FixedWork {
        node: NODE,
        work_steps: 1,
        kernel: WorkKernel::Fibonacci,
        array: None,
    };
    let mut findings = run_of_all(vec![kind; all as usize], |out| {
        let mut quanta = Quanta::default();
        for phase in 0..all {
            let (mut at, end) = (0, 200_000_000);
            while at < end {
                let slower = slow.contains(&phase) && at < 30_000_000;
                let usual = 100_000 + at * 7_919 % 997;
                let duration = if slower { usual * 6 / 5 } else { usual };
                quanta.push(quantum(
                    phase,
                    CPU,
                    BEGIN + u64::from(phase) * 1_000_000_000 + at,
                    duration,
                ));
                at += duration;
            }
        }
        out.write_table(&quanta).unwrap();
    });
    findings.cpus.remove(0)
}

/// The first of two phases was before anything had run.
#[test]
fn a_warm_up_is_looked_for_in_the_first_phase() {
    let settled = |slow| {
        let work = starts(2, slow).fixed_work.expect("work");
        work.warm_up.settled_after.expect("settled")
    };
    let after = settled(0..1).get();
    assert!((25_000_000..=35_000_000).contains(&after), "{after}");
    assert_eq!(settled(1..2), Nanos::ZERO);
}

/// Eight starts, all with a warm-up or only one.
#[test]
fn a_warm_up_is_one_if_it_repeats() {
    let found = |slow| starts(8, slow).starts.expect("eight starts");
    let all = found(0..8);
    assert!(
        all.is_warm_up() && (all.starts, all.settled) == (8, 8),
        "{all:?}"
    );
    assert!((all.slower.value - 0.2).abs() < 0.01, "{all:?}");
    assert!((25e6..=35e6).contains(&all.settled_after.high), "{all:?}");
    let one = found(3..4);
    assert!(!one.is_warm_up() && one.settled == 1, "{one:?}");
}

/// The loop of a CPU from which so much was stolen.
fn detour_loop(cpu: u32, stolen: u64) -> DetourLoop {
    DetourLoop {
        cpu: Cpu::new(cpu),
        begin_ns: BEGIN,
        end_ns: END,
        turns: 1,
        turn_quanta: 1.0,
        recording: Nanos::ZERO,
        not_kept: 0,
        stolen: Nanos::from_nanos(stolen),
        involuntary_switches: None,
        moved: false,
    }
}

/// One CPU, then two: lengths double with the load, CPU 3 has longer ones than CPU 4, and work takes
/// a tenth longer.
#[test]
fn a_load_sweep_tells_lengths_rates_and_speed_at_every_load() {
    let detours_on = |loops| PhaseKind::Detour {
        node: NODE,
        threshold: Nanos::from_micros(1),
        floor: Nanos::ZERO,
        loops,
    };
    let work = || PhaseKind::FixedWork {
        node: NODE,
        work_steps: 1,
        kernel: WorkKernel::Fibonacci,
        array: None,
    };
    let kinds = vec![
        detours_on(vec![detour_loop(3, 100 * 2_000)]),
        work(),
        detours_on(vec![
            detour_loop(3, 100 * 6_000),
            detour_loop(4, 100 * 4_000),
        ]),
        work(),
    ];
    let findings = run_of_all(kinds, |out| {
        let (mut detours, mut quanta) = (Detours::default(), Quanta::default());
        for (phase, cpu, length) in [(0, 3, 2_000), (2, 3, 6_000), (2, 4, 4_000)] {
            for k in 0..100 {
                detours.push(detour(phase, Cpu::new(cpu), BEGIN + k * 100_000, length));
            }
        }
        for (phase, cpu, duration) in [(1, 3, 20_000), (3, 3, 22_000), (3, 4, 99_000)] {
            for k in 0..100 {
                quanta.push(quantum(phase, Cpu::new(cpu), BEGIN + k * 100_000, duration));
            }
        }
        out.write_table(&detours).unwrap();
        out.write_table(&quanta).unwrap();
    });
    let sweep = findings.load_sweep.expect("two loads");
    let [one, two] = sweep.points.as_slice() else {
        panic!("{sweep:?}");
    };
    let value = |e: &Option<idlewave_run::findings::Estimate>| e.as_ref().map(|e| e.value);
    assert_eq!((sweep.first, one.busy, two.busy), (CPU, 1, 2));
    assert_eq!(two.cpus.to_string(), "3-4");
    assert_eq!(
        (value(&one.work), value(&two.work)),
        (Some(20_000.0), Some(22_000.0))
    );
    assert_eq!(value(&one.length), Some(2_000.0));
    // 100 in 10 ms on every CPU: 10,000 per second, and 2, 6 and 4 % of the time.
    assert_eq!((one.rate.value, two.rate.value), (10_000.0, 10_000.0));
    assert!((one.stolen.value - 0.02).abs() < 1e-9, "{one:?}");
    assert!((two.stolen.value - 0.05).abs() < 1e-9, "{two:?}");
    let firsts = (
        value(&sweep.length_of_first),
        value(&sweep.length_of_others),
    );
    assert_eq!(firsts, (Some(6_000.0), Some(4_000.0)));
}
