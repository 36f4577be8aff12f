//! The workloads on the real CPUs of this machine: what they record is consistent. No assertion is about speed.

use idlewave_clock::{Calibration, Counter};
use idlewave_run::tables::{Detours, Quanta, Regions, Table, region_kind};
use idlewave_run::{Coupling, RunError};
use idlewave_units::{Cpu, Nanos, Pid};
use idlewave_workloads::{Sink, detour, fixed_work, lockstep};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Default)]
struct Kept {
    threads: Vec<Pid>,
    detours: Detours,
    quanta: Quanta,
    regions: Regions,
}

fn extend<T: Table>(all: &mut T, rows: &T) {
    for row in rows.rows() {
        all.push(row);
    }
}

impl Sink for Kept {
    fn ready(&mut self, threads: &[Pid]) -> Result<(), RunError> {
        self.threads = threads.to_vec();
        Ok(())
    }
    fn detours(&mut self, rows: &Detours) -> Result<(), RunError> {
        extend(&mut self.detours, rows);
        Ok(())
    }
    fn quanta(&mut self, rows: &Quanta) -> Result<(), RunError> {
        extend(&mut self.quanta, rows);
        Ok(())
    }
    fn regions(&mut self, rows: &Regions) -> Result<(), RunError> {
        extend(&mut self.regions, rows);
        Ok(())
    }
    fn tick(&mut self, _: Duration) {}
}

/// One CPU that this process may use.
fn allowed_cpu() -> Cpu {
    // SAFETY: the call takes nothing.
    Cpu::new(unsafe { libc::sched_getcpu() } as u32)
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
    let (mut calibration, readings) = clock();
    let mut kept = Kept::default();
    let params = detour::Params {
        cpus: vec![allowed_cpu()],
        duration: Duration::from_millis(500),
        threshold: Nanos::from_micros(1),
        phase: 3,
    };
    let halt = AtomicBool::new(false);
    let outcome =
        detour::run(&params, readings, &mut calibration, &halt, &mut kept).expect("a detour loop");
    let seen = &outcome.loops[0];
    assert!(outcome.threshold >= outcome.floor);
    assert!(seen.end_ns - seen.begin_ns >= 490_000_000 && seen.turns > 1_000);
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
    // Rounding: each detour to a nanosecond, and the rate moves with every calibration.
    let slack = kept.detours.len() as u64 + seen.stolen.get() / 1_000 + 10;
    assert!(
        sum.abs_diff(seen.stolen.get()) <= slack,
        "{sum} and {}",
        seen.stolen
    );
}

#[test]
fn quanta_follow_each_other_without_overlap() {
    let (mut calibration, _) = clock();
    let mut kept = Kept::default();
    let params = fixed_work::Params {
        cpus: vec![allowed_cpu()],
        duration: Duration::from_millis(300),
        work_steps: 20_000,
        expected: Duration::from_micros(5),
        phase: 0,
    };
    let lost = fixed_work::run(
        &params,
        &mut calibration,
        &AtomicBool::new(false),
        &mut kept,
    )
    .expect("quanta");
    assert_eq!(lost, 0);
    assert!(kept.quanta.len() > 10);
    let rows: Vec<_> = kept.quanta.rows().collect();
    assert!(
        rows.windows(2)
            .all(|w| w[0].begin_ns + w[0].duration.get() <= w[1].begin_ns)
    );
}

fn lockstep(ranks: usize, coupling: Coupling, max_iterations: u64) -> (Kept, lockstep::Outcome) {
    let (mut calibration, _) = clock();
    let mut kept = Kept::default();
    let params = lockstep::Params {
        cpus: vec![allowed_cpu(); ranks],
        coupling,
        duration: Duration::from_millis(400),
        work_steps: 20_000,
        work: Nanos::from_micros(10),
        threshold: Nanos::from_micros(1),
        max_iterations,
        phase: 1,
    };
    let outcome = lockstep::run(
        &params,
        &mut calibration,
        &AtomicBool::new(false),
        &mut kept,
    )
    .expect("a lockstep run");
    assert_eq!(kept.threads.len(), ranks);
    (kept, outcome)
}

fn check(kept: &Kept, outcome: lockstep::Outcome, ranks: u32) {
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
            assert_eq!(pair[0].kind, region_kind::COMPUTE);
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
                .filter(move |r| r.iteration == k && r.kind == region_kind::COMPUTE);
            all.map(|r| r.end_ns).max()
        };
        let first_end = |k: u64| {
            let all = kept
                .regions
                .rows()
                .filter(move |r| r.iteration == k && r.kind == region_kind::BARRIER);
            all.map(|r| r.end_ns).min()
        };
        // Readings of different CPUs may differ a little; here all are on one.
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
        coupling: Coupling::Neighbours,
        duration: Duration::from_secs(3_600),
        work_steps: 20_000,
        work: Nanos::from_micros(10),
        threshold: Nanos::from_micros(1),
        max_iterations: u64::MAX,
        phase: 0,
    };
    let outcome = lockstep::run(&params, &mut calibration, &halt, &mut kept).expect("a short run");
    assert!(halt.load(Ordering::Relaxed) && outcome.iterations < 100);
    check(&kept, outcome, 2);
}
