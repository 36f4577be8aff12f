//! The workloads on this machine's CPUs: their records are consistent. No test asserts speed.

use idlewave_clock::{Calibration, Counter};
use idlewave_run::spill::Block;
use idlewave_run::tables::{RegionKind, Table};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Coupling, Phase, PhaseKind, RunError, WorkKernel};
use idlewave_units::{Cpu, Nanos, NodeId, Pid};
use idlewave_workloads::{Member, Rows, Sink, detour, fixed_work, lockstep};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Default)]
struct Kept {
    threads: Vec<Pid>,
    blocks: Vec<(Block, Vec<u64>)>,
}

impl Sink for Kept {
    fn ready(&mut self, _: &[Member], threads: &[Pid]) -> Result<(), RunError> {
        self.threads = threads.to_vec();
        Ok(())
    }
    fn records(&mut self, block: &Block, words: &[u64]) -> Result<(), RunError> {
        self.blocks.push((*block, words.to_vec()));
        Ok(())
    }
    fn tick(&mut self, _: Duration) {}
}

impl Kept {
    /// The rows of a run with phases of this kind only.
    fn rows(&self, kind: &PhaseKind, calibration: &Calibration) -> Rows {
        let mut manifest = empty_manifest();
        let phase = Phase {
            kind: kind.clone(),
            begin_ns: 0,
            end_ns: u64::MAX,
        };
        manifest.phases = vec![phase; 4];
        let mut rows = Rows::default();
        for (block, words) in &self.blocks {
            assert_eq!(rows.add(block, words, &manifest, calibration), 0);
        }
        // A block without a phase gives no rows.
        manifest.phases.clear();
        let mut none = Rows::default();
        for (block, words) in &self.blocks {
            let records = (words.len() / block.kind.words()) as u64;
            assert_eq!(none.add(block, words, &manifest, calibration), records);
        }
        assert!(none.detours.is_empty() && none.quanta.is_empty() && none.regions.is_empty());
        rows
    }
}

/// Milliseconds of one attempt after the other: other programs may take all of a short one.
const ATTEMPTS: [u64; 3] = [400, 4_000, 40_000];

/// Runs for longer and longer until there is enough.
fn enough<T>(run: impl Fn(Duration) -> T, is_enough: impl Fn(&T) -> bool) -> T {
    let mut all = ATTEMPTS.into_iter().map(Duration::from_millis).map(run);
    all.find(is_enough).expect("enough in 40 s")
}

/// One CPU that this process may use.
fn allowed_cpu() -> Cpu {
    idlewave_sys::affinity::current()
}

fn clock() -> (Calibration, idlewave_clock::Readings) {
    let counter = Counter::choose(Path::new("/"));
    (
        Calibration::begin(counter),
        counter.measure().expect("a running clock"),
    )
}

#[test]
fn detours_lie_inside_their_loop_and_add_up_to_what_was_stolen() {
    let run = |duration| {
        let (mut calibration, readings) = clock();
        let mut kept = Kept::default();
        let params = detour::Params {
            cpus: vec![allowed_cpu()],
            duration,
            threshold: Nanos::from_micros(1),
            realtime: None,
            phase: 3,
        };
        let halt = AtomicBool::new(false);
        let outcome = detour::run(&params, readings, &mut calibration, &halt, &mut kept);
        (calibration, kept, outcome.expect("a detour loop"), duration)
    };
    let (calibration, kept, outcome, duration) =
        enough(run, |(_, _, outcome, _)| outcome.loops[0].turns > 1_000);
    let kind = PhaseKind::Detour {
        node: NodeId::new(0),
        threshold: outcome.threshold,
        floor: outcome.floor,
        loops: Vec::new(),
    };
    let kept = kept.rows(&kind, &calibration);
    let seen = &outcome.loops[0];
    assert!(outcome.threshold >= outcome.floor);
    assert!((seen.end_ns - seen.begin_ns) as f64 >= 0.98 * duration.as_nanos() as f64);
    assert!(
        kept.detours
            .rows()
            .all(|d| d.phase == 3 && d.rank.is_none())
    );
    assert!(
        kept.detours
            .rows()
            .all(|d| d.begin_ns >= seen.begin_ns && d.begin_ns <= seen.end_ns)
    );
    let sum: u64 = kept.detours.length.iter().map(|l| l.get()).sum();
    assert_eq!(seen.not_kept, 0);
    // Each detour is rounded to a nanosecond, and every calibration moves the rate.
    let slack = kept.detours.len() as u64 + seen.stolen.get() / 1_000 + 10;
    assert!(
        sum.abs_diff(seen.stolen.get()) <= slack,
        "{sum} and {}",
        seen.stolen
    );
}

fn quanta(duration: Duration, runs: Option<u64>) -> Rows {
    let (mut calibration, _) = clock();
    let mut kept = Kept::default();
    let params = fixed_work::Params {
        quanta: idlewave_workloads::Quanta {
            cpus: vec![allowed_cpu()],
            duration,
            kernel: WorkKernel::Fibonacci,
            array: None,
            work_steps: 20_000,
            realtime: None,
            phase: 0,
        },
        expected: Duration::from_micros(5),
        runs,
    };
    let halt = AtomicBool::new(false);
    let lost = fixed_work::run(&params, &mut calibration, &halt, &mut kept);
    assert_eq!(lost.expect("quanta"), 0);
    kept.rows(
        &PhaseKind::FixedWork {
            node: NodeId::new(0),
            work_steps: 20_000,
            kernel: WorkKernel::Fibonacci,
            array: None,
        },
        &calibration,
    )
}

#[test]
fn there_are_as_many_quanta_as_asked_for() {
    let rows = quanta(Duration::from_secs(600), Some(1_234));
    assert_eq!(rows.quanta.len(), 1_234);
}

#[test]
fn quanta_follow_each_other_without_overlap() {
    let kept = enough(
        |duration| quanta(duration, None),
        |kept| kept.quanta.len() > 10,
    );
    let rows: Vec<_> = kept.quanta.rows().collect();
    assert!(
        rows.windows(2)
            .all(|w| w[0].begin_ns + w[0].duration.get() <= w[1].begin_ns)
    );
}

fn lockstep_rows(kept: &Kept, params: &lockstep::Params, calibration: &Calibration) -> Rows {
    let kind = PhaseKind::Lockstep {
        coupling: params.pattern.coupling,
        work_steps: params.work_steps,
        work_target: params.work,
        message_bytes: 0,
        sides: Vec::new(),
        neighbourhood: Default::default(),
        variant: idlewave_run::ExchangeVariant::NonBlocking,
        ranks: None,
        iterations: 0,
        threshold: params.threshold,
        turn: None,
    };
    kept.rows(&kind, calibration)
}

fn lockstep(ranks: usize, coupling: Coupling, max_iterations: u64) -> (Rows, lockstep::Outcome) {
    let run = |duration| {
        let (mut calibration, _) = clock();
        let mut kept = Kept::default();
        let params = lockstep::Params {
            cpus: vec![allowed_cpu(); ranks],
            pattern: lockstep::Pattern::of(coupling),
            duration,
            work_steps: 20_000,
            work: Nanos::from_micros(10),
            threshold: Nanos::from_micros(1),
            max_iterations,
            phase: 1,
        };
        let halt = AtomicBool::new(false);
        let outcome = lockstep::run(&params, &mut calibration, &halt, &mut kept);
        assert_eq!(kept.threads.len(), ranks);
        let rows = lockstep_rows(&kept, &params, &calibration);
        (rows, outcome.expect("a lockstep run"))
    };
    // All that are asked for, or some if that is more than there is time for.
    let least = if max_iterations == u64::MAX {
        1
    } else {
        max_iterations
    };
    enough(run, |(_, outcome)| outcome.iterations >= least)
}

fn check(kept: &Rows, outcome: lockstep::Outcome, ranks: u32) {
    let first = kept
        .regions
        .rows()
        .filter(|r| r.iteration == 0 && r.kind == RegionKind::Compute);
    assert_eq!(first.map(|r| r.begin_ns).max(), Some(outcome.begin_ns));
    let last = kept
        .regions
        .rows()
        .filter(|r| r.iteration + 1 == outcome.iterations && r.kind != RegionKind::Compute);
    let end = last.map(|r| r.end_ns).min().expect("an iteration");
    assert_eq!(outcome.end_ns, end.max(outcome.begin_ns));
    assert_eq!(outcome.lost_iterations, 0);
    assert!(outcome.iterations > 0);
    for rank in 0..ranks {
        let rows: Vec<_> = kept
            .regions
            .rows()
            .filter(|r| r.rank.get() == rank)
            .collect();
        assert_eq!(
            rows.len() as u64,
            2 * outcome.iterations,
            "all ranks end after the same iteration"
        );
        for (k, pair) in rows.chunks(2).enumerate() {
            assert_eq!((pair[0].iteration, pair[1].iteration), (k as u64, k as u64));
            assert_eq!(pair[0].kind, RegionKind::Compute);
            assert!(pair[0].begin_ns <= pair[0].end_ns && pair[0].end_ns == pair[1].begin_ns);
        }
        assert!(
            rows.windows(2).all(|w| w[0].end_ns == w[1].begin_ns),
            "regions leave no gap"
        );
    }
}

#[test]
fn ranks_that_share_a_cpu_stay_in_step_with_their_neighbours() {
    for ranks in [1, 2, 5] {
        let (kept, outcome) = lockstep(ranks, Coupling::Neighbours, u64::MAX);
        check(&kept, outcome, ranks as u32);
    }
}

#[test]
fn ranks_that_share_a_cpu_stay_in_step_at_barriers() {
    for ranks in [1, 2, 5] {
        let (kept, outcome) = lockstep(ranks, Coupling::Barrier, u64::MAX);
        check(&kept, outcome, ranks as u32);
        let last_arrival = |k: u64| {
            let all = kept
                .regions
                .rows()
                .filter(move |r| r.iteration == k && r.kind == RegionKind::Compute);
            all.map(|r| r.end_ns).max()
        };
        let first_end = |k: u64| {
            let all = kept
                .regions
                .rows()
                .filter(move |r| r.iteration == k && r.kind == RegionKind::Barrier);
            all.map(|r| r.end_ns).min()
        };
        // Readings of different CPUs may differ a little; here all ranks share one.
        assert!((0..outcome.iterations.min(100)).all(|k| last_arrival(k) <= first_end(k)));
    }
}

#[test]
fn a_lockstep_run_ends_after_the_most_iterations_asked_for() {
    let (kept, outcome) = lockstep(2, Coupling::Barrier, 17);
    assert_eq!(outcome.iterations, 17);
    check(&kept, outcome, 2);
}

#[test]
fn a_halted_run_ends_in_order() {
    let (mut calibration, _) = clock();
    let mut kept = Kept::default();
    let halt = AtomicBool::new(true);
    let params = lockstep::Params {
        cpus: vec![allowed_cpu(); 2],
        pattern: lockstep::Pattern::of(Coupling::Neighbours),
        duration: Duration::from_secs(3_600),
        work_steps: 20_000,
        work: Nanos::from_micros(10),
        threshold: Nanos::from_micros(1),
        max_iterations: u64::MAX,
        phase: 0,
    };
    let outcome = lockstep::run(&params, &mut calibration, &halt, &mut kept).expect("a short run");
    assert!(halt.load(Ordering::Relaxed) && outcome.iterations < 100);
    let kept = lockstep_rows(&kept, &params, &calibration);
    check(&kept, outcome, 2);
}
