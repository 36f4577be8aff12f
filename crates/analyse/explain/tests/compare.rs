//! Pairs of runs that differ by what is known beforehand.

use idlewave_explain::compare::{
    Comparison, Quantity, Row, Subject, Verdict, compare, compare_steps,
};
use idlewave_explain::{ExplainError, StepSeries, explain};
use idlewave_run::findings::Findings;
use idlewave_run::tables::{Detour, Detours, Quanta, Quantum, Region, RegionKind, Regions, Table};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    Coupling, DetourLoop, ExchangeVariant, Phase, PhaseKind, RankSheet, RunReader, RunWriter,
    TraceMode, WorkKernel,
};
use idlewave_stats::random::bits_at;
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const SECOND: u64 = 1_000_000_000;
const RANKS: u32 = 2;

/// A number from 0 to 100.
fn draw(seed: u64, at: u64) -> u64 {
    bits_at(seed, at) % 101
}

/// A run in the making.
struct Made {
    seed: u64,
    /// Steps of work of a quantum.
    work: u64,
    /// Time of a quantum, without what varies.
    quantum: u64,
    /// Time of a lockstep computation, without what varies.
    compute: u64,
    /// Length of a detour; one strikes CPU 0 about every millisecond.
    detour: u64,
    /// Seconds of the detour loop.
    seconds: u64,
    traced: bool,
}

const USUAL: Made = Made {
    seed: 1,
    work: 1_000,
    quantum: 20_000,
    compute: 50_000,
    detour: 5_000,
    seconds: 1,
    traced: false,
};

/// A run on disk, with its findings.
struct Recorded {
    _directory: TempDir,
    run: RunReader,
    findings: Findings,
}

impl Made {
    fn detours(&self) -> (PhaseKind, Detours) {
        let mut detours = Detours::default();
        let mut stolen = [0; 2];
        for cpu in 0..2_u32 {
            for k in 0..1_000 * self.seconds / 4_u64.pow(cpu) {
                let length = self.detour + 10 * draw(self.seed, 2 * k + u64::from(cpu));
                stolen[cpu as usize] += length;
                detours.push(Detour {
                    phase: 0,
                    cpu: Cpu::new(cpu),
                    rank: None,
                    begin_ns: SECOND
                        + k * 1_000_000 * 4_u64.pow(cpu)
                        + 5_000 * draw(self.seed + 1, k),
                    length: Nanos::from_nanos(length),
                });
            }
        }
        let sheet = |cpu: u32| DetourLoop {
            cpu: Cpu::new(cpu),
            begin_ns: SECOND,
            end_ns: SECOND + self.seconds * SECOND,
            turns: 1_000_000,
            turn_quanta: 20.0,
            recording: Nanos::ZERO,
            not_kept: 0,
            stolen: Nanos::from_nanos(stolen[cpu as usize]),
            involuntary_switches: None,
            moved: false,
        };
        let kind = PhaseKind::Detour {
            node: NodeId::new(0),
            threshold: Nanos::from_nanos(1_000),
            floor: Nanos::from_nanos(100),
            loops: vec![sheet(0), sheet(1)],
        };
        (kind, detours)
    }

    fn quanta(&self) -> (PhaseKind, Quanta) {
        let mut quanta = Quanta::default();
        let mut now = SECOND;
        for k in 0..2_000 {
            let duration = self.quantum + draw(self.seed + 2, k);
            quanta.push(Quantum {
                phase: 1,
                cpu: Cpu::new(0),
                begin_ns: now,
                duration: Nanos::from_nanos(duration),
                units: None,
            });
            now += duration;
        }
        (
            PhaseKind::FixedWork {
                node: NodeId::new(0),
                work_steps: self.work,
                kernel: WorkKernel::Fibonacci,
                array: None,
            },
            quanta,
        )
    }

    fn lockstep(&self) -> (PhaseKind, Regions) {
        let mut regions = Regions::default();
        let mut now = SECOND;
        let iterations = 1_000;
        for iteration in 0..iterations {
            let mut last = now;
            for rank in 0..RANKS {
                let end = now + self.compute + draw(self.seed + 3, iteration * 2 + u64::from(rank));
                regions.push(Region {
                    rank: Rank::new(rank),
                    phase: 2,
                    iteration,
                    kind: RegionKind::Compute,
                    begin_ns: now,
                    end_ns: end,
                    bytes: None,
                });
                last = last.max(end);
            }
            now = last + 1_000;
        }
        let kind = PhaseKind::Lockstep {
            coupling: Coupling::Barrier,
            work_steps: self.work,
            work_target: Nanos::from_nanos(self.compute),
            message_bytes: 8,
            sides: Vec::new(),
            neighbourhood: Default::default(),
            variant: ExchangeVariant::default(),
            ranks: None,
            iterations,
            threshold: Nanos::from_nanos(1_000),
            turn: None,
        };
        (kind, regions)
    }

    fn record(&self) -> Recorded {
        let (detour, detours) = self.detours();
        let (work, quanta) = self.quanta();
        let (lockstep, regions) = self.lockstep();
        recorded(self.traced, vec![detour, work, lockstep], |out| {
            out.write_table(&detours).unwrap();
            out.write_table(&quanta).unwrap();
            out.write_table(&regions).unwrap();
        })
    }
}

fn recorded(traced: bool, kinds: Vec<PhaseKind>, write: impl FnOnce(&mut RunWriter)) -> Recorded {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut manifest = empty_manifest();
    manifest.nodes[0].host.kernel = if traced { "7.1" } else { "7.0" }.to_owned();
    manifest.nodes[0].trace.mode = if traced {
        TraceMode::Tracefs
    } else {
        TraceMode::Off
    };
    for kind in kinds {
        manifest.phases.push(Phase {
            kind,
            begin_ns: SECOND,
            end_ns: 3 * SECOND,
        });
    }
    for rank in 0..RANKS {
        manifest.ranks.push(RankSheet {
            cpu: Some(Cpu::new(rank)),
            threads: vec![Pid::new(100 + rank)],
            ..RankSheet::unrecorded(Rank::new(rank))
        });
    }
    let mut out = RunWriter::create(&path, manifest).unwrap();
    write(&mut out);
    out.close(None).unwrap();
    let run = RunReader::open(&path).unwrap();
    let findings = explain(&run, &AtomicBool::new(false)).unwrap().findings;
    Recorded {
        _directory: directory,
        run,
        findings,
    }
}

fn compared(a: &Made, b: &Made) -> Comparison {
    let [a, b] = [a.record(), b.record()];
    compare([(&a.run, &a.findings), (&b.run, &b.findings)]).unwrap()
}

#[track_caller]
fn row<'a>(found: &'a Comparison, quantity: Quantity, subject: &str) -> &'a Row {
    let is = |row: &&Row| row.quantity == quantity && row.subject.to_string() == subject;
    let row = found.rows.iter().find(is);
    row.unwrap_or_else(|| panic!("{quantity:?} of {subject}: {:#?}", found.rows))
}

#[test]
fn runs_that_differ_by_chance_do_not_differ_significantly() {
    let found = compared(&USUAL, &Made { seed: 10, ..USUAL });
    let significant: Vec<&Row> = found.rows.iter().filter(|r| r.verdict.differs()).collect();
    assert!(significant.is_empty(), "{significant:#?}");
    // Stolen and rate of two CPUs and of both, time and slow-down of one CPU, two of the steps,
    // four of the computation, and the detours as a source.
    assert_eq!(found.differing(), (0, 15));
    assert_eq!(
        found.conclusion,
        "no significant difference between A and B in 15 comparisons"
    );
    assert!(
        found.warnings.is_empty() && found.only_one.is_empty(),
        "{found:#?}"
    );
    assert!(
        found
            .rows
            .iter()
            .all(|r| r.a.blocks == 20 && r.b.blocks == 20)
    );
}

#[test]
fn every_change_is_found_with_its_size_and_nothing_else() {
    let b = Made {
        seed: 10,
        quantum: 20_200,
        compute: 51_000,
        detour: 6_000,
        seconds: 2,
        ..USUAL
    };
    let found = compared(&USUAL, &b);
    let near = |quantity, subject: &str, change: f64, within: f64| {
        let row = row(&found, quantity, subject);
        assert_eq!(row.verdict, Verdict::More, "{row:#?}");
        assert!((row.shift.value - change).abs() < within, "{row:#?}");
        assert!(row.shift.low <= row.shift.value && row.shift.value <= row.shift.high);
        assert_eq!(row.superiority.value, 1.0);
    };
    near(Quantity::QuantumTime, "CPU 0", 200.0, 5.0);
    near(Quantity::StepTime, "barrier, 2 ranks", 1_000.0, 5.0);
    near(
        Quantity::Mean,
        "computation (barrier), 2 ranks",
        1_000.0,
        5.0,
    );
    // A microsecond more in every millisecond.
    near(Quantity::Stolen, "CPU 0", 1e-3, 2e-5);
    // The mean of CPU 0 and of a quarter of that on CPU 1.
    near(Quantity::Stolen, "all CPUs", 1e-3 * 1.25 / 2.0, 2e-5);
    assert_eq!(row(&found, Quantity::Stolen, "CPU 1").b.blocks, 40);
    for same in [Quantity::DetourRate, Quantity::QuantumSlowdown] {
        assert!(!row(&found, same, "CPU 0").verdict.differs());
    }
    assert!(
        found
            .conclusion
            .starts_with("B against A, step time of barrier, 2 ranks: longer, by +")
    );
}

#[test]
fn times_of_different_work_are_not_compared() {
    let found = compared(
        &USUAL,
        &Made {
            work: 2_000,
            seed: 10,
            ..USUAL
        },
    );
    let has = |quantity| found.rows.iter().any(|row| row.quantity == quantity);
    for time in [
        Quantity::QuantumTime,
        Quantity::StepTime,
        Quantity::Mean,
        Quantity::Slowest,
    ] {
        assert!(!has(time), "{time:?}");
    }
    for relative in [
        Quantity::QuantumSlowdown,
        Quantity::StepSlowdown,
        Quantity::Efficiency,
    ] {
        assert!(has(relative), "{relative:?}");
    }
    let why = found.not_compared.join("; ");
    assert!(
        why.contains("one is --work 1000, another --work 2000"),
        "{why}"
    );
    assert!(why.contains("times of barrier, 2 ranks: work"), "{why}");
}

#[test]
fn an_unfair_comparison_is_called_unfair() {
    let found = compared(
        &USUAL,
        &Made {
            traced: true,
            ..USUAL
        },
    );
    let warnings = found.warnings.join("; ");
    assert!(
        warnings.contains("only B was recorded with a kernel trace"),
        "{warnings}"
    );
    assert!(warnings.contains("kernel (7.0, 7.1)"), "{warnings}");
    assert!(
        found
            .sources_not_compared
            .unwrap()
            .contains("traced in B only")
    );
}

#[test]
fn runs_without_anything_in_common_say_what_they_have() {
    let (detour, detours) = USUAL.detours();
    let a = recorded(false, vec![detour], |out| {
        out.write_table(&detours).unwrap()
    });
    let (work, mut quanta) = USUAL.quanta();
    quanta.phase.fill(0);
    let b = recorded(false, vec![work], |out| out.write_table(&quanta).unwrap());
    let error = compare([(&a.run, &a.findings), (&b.run, &b.findings)]).unwrap_err();
    assert!(matches!(error, ExplainError::NotComparable(_)));
    let text = error.to_string();
    assert!(
        text.contains("(A: detours of CPUs; B: fixed work of CPUs)"),
        "{text}"
    );
}

#[test]
fn a_rare_straggler_costs_efficiency_and_nothing_else() {
    // One rank of four in every tenth step takes twice as long.
    let times = |seed: u64, slow: bool| -> Vec<u64> {
        let one = |i: u64| match slow && i % 40 == 4 {
            true => 200_000,
            false => 100_000 + draw(seed, i),
        };
        (0..4_000).map(one).collect()
    };
    let (a, b) = (times(1, false), times(2, true));
    let steps = |name: &str, times: &[u64], ranks| StepSeries {
        phase: 0,
        name: name.to_owned(),
        ranks,
        durations: times.to_vec(),
        begins: Vec::new(),
    };
    let quiet = [steps("forces", &a, 4)];
    let found = compare_steps([&quiet, &[steps("other file", &b, 4)]]).unwrap();
    let efficiency = row(&found, Quantity::Efficiency, "forces, 4 ranks");
    assert_eq!(efficiency.verdict, Verdict::Less);
    // Of 11 times the usual step in ten steps, 10.25 are work.
    assert!(
        (efficiency.shift.value - (10.25 / 11.0 - 1.0)).abs() < 1e-3,
        "{efficiency:#?}"
    );
    let slowest = row(&found, Quantity::Slowest, "forces, 4 ranks");
    assert!(
        (slowest.shift.value - 99_900.0).abs() < 20.0,
        "{slowest:#?}"
    );
    assert!(matches!(
        &slowest.subject,
        Subject::Computation { ranks: 4, .. }
    ));
    assert_eq!(compare_steps([&quiet, &[steps("forces", &b, 5)]]), None);
    assert_eq!(
        compare_steps([&quiet, &[steps("forces", &b[..12], 4)]]),
        None
    );
    // Of several, those of one name.
    let several = [steps("update", &a, 4), steps("forces", &b, 4)];
    let found = compare_steps([&quiet, &several]).unwrap();
    assert_eq!(found.rows.len(), 4);
    assert_eq!(found.only_one, ["update, 4 ranks (B)"]);
}

/// CPUs of the second node lose twice as much: those of one number do not stand for each other.
#[test]
fn cpus_of_several_nodes_are_compared_all_together() {
    let of_nodes = |seed, detour| {
        let mut kinds = Vec::new();
        let mut all = Detours::default();
        for (phase, detour) in [(0_u32, detour), (1, 2 * detour)] {
            let made = Made {
                seed: seed + u64::from(phase),
                detour,
                ..USUAL
            };
            let (mut kind, detours) = made.detours();
            if let PhaseKind::Detour { node, .. } = &mut kind {
                *node = NodeId::new(phase);
            }
            kinds.push(kind);
            for row in detours.rows() {
                all.push(Detour { phase, ..row });
            }
        }
        recorded(false, kinds, |out| out.write_table(&all).unwrap())
    };
    let [a, b] = [of_nodes(1, 5_000), of_nodes(7, 6_000)];
    let found = compare([(&a.run, &a.findings), (&b.run, &b.findings)]).unwrap();
    // Of four CPUs, 1,000 or 250 detours of 5 or 10 us and half a microsecond each: 0.49 %.
    let stolen = row(&found, Quantity::Stolen, "all CPUs");
    assert!((stolen.a.mean - 0.0050).abs() < 0.0003, "{stolen:#?}");
    assert_eq!(stolen.verdict, Verdict::More);
    let single = |row: &&Row| row.subject.to_string().starts_with("CPU ");
    assert_eq!(found.rows.iter().find(single), None);
    let why = found.not_compared.join("; ");
    assert!(why.contains("CPUs of several nodes"), "{why}");
}
