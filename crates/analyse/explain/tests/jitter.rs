//! Synthetic runs with a known jitter, so that the right explanation is known beforehand.

#![allow(clippy::unwrap_used)]

use idlewave_explain::explain;
use idlewave_run::findings::Findings;
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Mark, Marks, Region, RegionKind, Regions, Table, Task, TaskKind,
    Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    BenchmarkRank, BenchmarkSheet, Coupling, ExchangeVariant, Manifest, Phase, PhaseKind,
    RankSheet, RunReader, RunWriter,
};
use idlewave_stats::random::bits_at;
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use std::sync::atomic::AtomicBool;

const NODE: NodeId = NodeId::new(0);
const RANKS: usize = 4;
const STEPS: u64 = 400;
const BEGIN: u64 = 1_000_000;
const PERIOD: u64 = 1_000_000;
/// Length of the force computation, without what varies by rank and step.
const WORK: u64 = 500_000;
const TAKEN: u64 = 200_000;

/// The sum of four numbers from 0 to 100: close to a Gaussian around 200.
fn variation(rank: usize, step: u64) -> u64 {
    let number = |k| bits_at(0, 4 * (step * RANKS as u64 + rank as u64) + k) % 101;
    (0..4).map(number).sum()
}

/// In every tenth step, one rank in turn loses its CPU within the forces.
fn is_struck(rank: usize, step: u64) -> bool {
    step % 10 == 5 && step / 10 % RANKS as u64 == rank as u64
}

fn manifest(kind: PhaseKind) -> Manifest {
    let mut manifest = empty_manifest();
    manifest.phases.push(Phase {
        kind,
        begin_ns: BEGIN,
        end_ns: BEGIN + STEPS * PERIOD,
    });
    for r in 0..RANKS as u32 {
        manifest.ranks.push(RankSheet {
            process: None,
            rank: Rank::new(r),
            node: NODE,
            cpu: Some(Cpu::new(r)),
            threads: vec![Pid::new(100 + r)],
            priority: None,
        });
    }
    manifest
}

/// Rank, step, start and end of a force computation.
type Forces = (usize, u64, u64, u64);

/// The forces of all ranks and steps, and the kernel's view.
fn made() -> (Vec<Forces>, Tasks, Bursts) {
    let (mut tasks, mut bursts, mut all) = (Tasks::default(), Bursts::default(), Vec::new());
    let mut task = |pid, name: String, kind| {
        tasks.push(Task {
            node: NODE,
            pid: Pid::new(pid),
            process: None,
            name,
            kind,
        });
    };
    task(500, "thief".into(), TaskKind::User);
    for rank in 0..RANKS {
        let (cpu, pid) = (Cpu::new(rank as u32), Pid::new(100 + rank as u32));
        task(pid.get(), format!("iw-rank-{rank}"), TaskKind::Rank);
        let mut burst = |pid, begin_ns, end_ns, end_reason| {
            bursts.push(Burst {
                node: NODE,
                cpu,
                pid,
                begin_ns,
                end_ns,
                end_reason,
                certain: true,
            });
        };
        let mut from = BEGIN - 1_000;
        for step in 0..STEPS {
            let begin = BEGIN + step * PERIOD + 300_000;
            let mut end = begin + WORK + variation(rank, step);
            if is_struck(rank, step) {
                let taken = begin + 100_000;
                burst(pid, from, taken, EndReason::Preempted);
                burst(Pid::new(500), taken, taken + TAKEN, EndReason::Sleeping);
                from = taken + TAKEN;
                end += TAKEN;
            }
            all.push((rank, step, begin, end));
        }
        burst(
            pid,
            from,
            BEGIN + STEPS * PERIOD + 1_000,
            EndReason::Sleeping,
        );
    }
    (all, tasks, bursts)
}

fn explained(manifest: Manifest, regions: Option<&Regions>, marks: Option<&Marks>) -> Findings {
    let (_, tasks, bursts) = made();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut out = RunWriter::create(&path, manifest).unwrap();
    out.write_table(&tasks).unwrap();
    out.write_table(&bursts).unwrap();
    if let Some(regions) = regions {
        out.write_table(regions).unwrap();
    }
    if let Some(marks) = marks {
        out.write_table(marks).unwrap();
    }
    out.close(None).unwrap();
    let run = RunReader::open(&path).unwrap();
    explain(&run, &AtomicBool::new(false)).unwrap().findings
}

fn md() -> PhaseKind {
    PhaseKind::MolecularDynamics {
        particles_per_rank: 4_000,
        steps: STEPS,
        rebuilds: 9,
        pairs: 1,
        energy_drift: None,
    }
}

fn regions(keep: impl Fn(usize, u64) -> bool) -> Regions {
    let mut regions = Regions::default();
    for (rank, iteration, begin_ns, end_ns) in made().0 {
        let mut add = |kind, begin_ns, end_ns| {
            regions.push(Region {
                rank: Rank::new(rank as u32),
                phase: 0,
                iteration,
                kind,
                begin_ns,
                end_ns,
                bytes: None,
            });
        };
        if keep(rank, iteration) {
            // The regions around the forces do not matter.
            add(RegionKind::Update, begin_ns - 200_000, begin_ns - 100_000);
            add(RegionKind::Exchange, begin_ns - 100_000, begin_ns);
            add(RegionKind::Force, begin_ns, end_ns);
        }
    }
    regions
}

fn check(found: &idlewave_run::findings::JitterFindings, findings: &Findings) {
    assert_eq!(
        (found.ranks, u64::from(found.ranks) * found.steps),
        (4, 1_600)
    );
    let core = found.core.as_ref().unwrap();
    assert!(
        (core.mean.value - WORK as f64 - 200.0).abs() < 20.0,
        "{core:?}"
    );
    assert_eq!(core.outliers, STEPS / 10);
    assert!((core.tail.value - 0.025).abs() < 0.02, "{core:?}");
    assert!(core.outlier_share.unwrap() > 0.99, "{core:?}");
    // One step in ten takes 200 us more, on average over the ranks a quarter of that.
    let (work, taken) = (WORK as f64, TAKEN as f64);
    let want = (work + taken / 40.0) / (work + taken / 10.0);
    assert!(
        (found.efficiency.value - want).abs() < 5e-4,
        "{:?}",
        found.efficiency
    );
    assert_eq!(found.slowest.step % 10, 5);
    let [culprit] = found.culprits.as_slice() else {
        panic!("{:?}", found.culprits);
    };
    assert_eq!(findings.sources[culprit.source as usize].name, "thief");
    assert_eq!(culprit.time.get(), STEPS / 10 * TAKEN);
    assert_eq!(culprit.steps, STEPS / 10);
    assert_eq!(found.slowest_counts.iter().sum::<u64>(), STEPS);
}

fn benchmark() -> PhaseKind {
    PhaseKind::Benchmark(BenchmarkSheet {
        benchmark: "cg:S".to_owned(),
        verified: true,
        iterations: STEPS,
        all_iterations: STEPS,
        operation: "operations".to_owned(),
        operations: 1,
        rate: 1.0,
        checksum: None,
        memory_per_rank: Bytes::new(1),
        ranks: vec![BenchmarkRank::default(); RANKS],
    })
}

#[test]
fn computations_of_a_benchmark_are_charged_stretch_by_stretch_without_their_calls() {
    let mut regions = Regions::default();
    for (rank, iteration, begin_ns, end_ns) in made().0 {
        let mut add = |kind, begin_ns, end_ns| {
            regions.push(Region {
                rank: Rank::new(rank as u32),
                phase: 0,
                iteration,
                kind,
                begin_ns,
                end_ns,
                bytes: None,
            });
        };
        // The iteration begins with calls, which do not count.
        add(RegionKind::Compute, begin_ns - 200_000, begin_ns - 200_000);
        add(RegionKind::Communication, begin_ns - 200_000, begin_ns);
        add(RegionKind::Compute, begin_ns, begin_ns + 100);
        add(RegionKind::Communication, begin_ns + 100, begin_ns + 100);
        add(RegionKind::Compute, begin_ns + 100, end_ns);
    }
    // As no recorder writes it.
    let last = regions.rows().last().unwrap();
    regions.push(Region {
        iteration: u64::MAX,
        ..last
    });
    let findings = explained(manifest(benchmark()), Some(&regions), None);
    assert_eq!(findings.jitter.len(), 1);
    assert_eq!(findings.jitter[0].name, "computation (cg:S)");
    check(&findings.jitter[0], &findings);
    assert_eq!(findings.benchmarks[0].sheet.benchmark, "cg:S");
}

#[test]
fn outliers_of_the_forces_are_charged_to_the_task_that_took_the_cpu() {
    let findings = explained(manifest(md()), Some(&regions(|_, _| true)), None);
    assert_eq!(findings.jitter.len(), 1);
    assert_eq!(findings.jitter[0].name, "forces");
    check(&findings.jitter[0], &findings);
}

#[test]
fn the_computation_of_a_lockstep_run_is_named_by_how_its_ranks_wait_and_has_the_ranks_that_took_part()
 {
    let lockstep = |coupling, ranks| PhaseKind::Lockstep {
        coupling,
        work_steps: 1,
        work_target: Nanos::from_nanos(WORK),
        message_bytes: 0,
        sides: Vec::new(),
        neighbourhood: Default::default(),
        variant: ExchangeVariant::default(),
        ranks,
        iterations: STEPS,
        threshold: Nanos::from_nanos(1_000),
        turn: None,
    };
    let computations = |ranks: usize| {
        let mut computations = regions(|rank, _| rank < ranks);
        computations.kind.fill(RegionKind::Compute);
        // Of the three rows per rank and step, one is kept.
        let mut kept = Regions::default();
        computations
            .rows()
            .skip(2)
            .step_by(3)
            .for_each(|r| kept.push(r));
        kept
    };
    for (coupling, ranks, name) in [
        (Coupling::Barrier, None, "computation (barrier)"),
        (
            Coupling::Neighbours,
            Some(3),
            "computation (neighbour exchange)",
        ),
    ] {
        let part = ranks.map_or(RANKS, |n| n as usize);
        let manifest = manifest(lockstep(coupling, ranks));
        let findings = explained(manifest, Some(&computations(part)), None);
        let found = &findings.jitter[0];
        assert_eq!((found.name.as_str(), found.ranks), (name, part as u32));
    }
}

#[test]
fn a_region_that_all_ranks_marked_is_analysed_in_the_same_way() {
    let mut marks = Marks::default();
    for (rank, step, begin_ns, end_ns) in made().0 {
        let mut mark = |name: &str, end_ns| {
            marks.push(Mark {
                rank: Some(Rank::new(rank as u32)),
                node: NODE,
                thread: Pid::new(100 + rank as u32),
                name: name.into(),
                begin_ns,
                end_ns,
            });
        };
        mark("solve", Some(end_ns));
        // A point in time, one that was never left, and one that rank 0 alone has.
        mark("checkpoint", Some(begin_ns));
        if step == 3 {
            mark("lost", None);
        }
        if rank == 0 {
            mark("output", Some(end_ns));
        }
    }
    let kind = PhaseKind::Recorded {
        library: None,
        exit_code: Some(0),
    };
    let findings = explained(manifest(kind), None, Some(&marks));
    let names: Vec<&str> = findings.jitter.iter().map(|j| j.name.as_str()).collect();
    assert_eq!(names, ["solve"]);
    check(&findings.jitter[0], &findings);
}

#[test]
fn steps_that_a_rank_lacks_are_left_out_on_all() {
    let kept = |rank, step| rank != 2 || step < 150;
    let findings = explained(manifest(md()), Some(&regions(kept)), None);
    assert_eq!(findings.jitter[0].steps, 150);
    // Also those after one that it lost.
    let lost = |rank, step| rank != 2 || step != 150;
    let findings = explained(manifest(md()), Some(&regions(lost)), None);
    assert_eq!(findings.jitter[0].steps, 150);
    // Also if a rank lacks them all, and even if it is the last one.
    for lacking in [2, 3] {
        let none = |rank, _| rank != lacking;
        let findings = explained(manifest(md()), Some(&regions(none)), None);
        assert!(findings.jitter.is_empty(), "{lacking}");
    }
    assert!(explained(manifest(md()), None, None).jitter.is_empty());
}

#[test]
fn each_phase_has_its_own_steps() {
    let mut two = manifest(md());
    let second_from = BEGIN + 250 * PERIOD;
    let mut second = two.phases[0].clone();
    second.begin_ns = second_from;
    two.phases[0].end_ns = second_from;
    two.phases.push(second);
    let mut steps = Regions::default();
    for mut region in regions(|_, _| true).rows() {
        if region.iteration >= 250 {
            region.phase = 1;
            region.iteration -= 250;
        }
        steps.push(region);
    }
    let findings = explained(two, Some(&steps), None);
    let found = findings.jitter.iter().map(|j| (j.phase, j.steps));
    assert_eq!(found.collect::<Vec<_>>(), [(0, 250), (1, 150)]);
    for (found, from) in findings.jitter.iter().zip([BEGIN, second_from]) {
        let begin = from + found.slowest.step * PERIOD + 300_000;
        assert_eq!(found.slowest.begin_ns, begin);
    }
}

#[test]
fn a_bundle_explained_twice_gives_the_same_bytes() {
    let once = explained(manifest(md()), Some(&regions(|_, _| true)), None);
    let twice = explained(manifest(md()), Some(&regions(|_, _| true)), None);
    assert_eq!(once.jitter, twice.jitter);
}
