//! Molecular dynamics on this machine's CPUs: its records are consistent. No test asserts speed.

#![allow(clippy::unwrap_used)]

use idlewave_clock::{Calibration, Counter};
use idlewave_run::spill::Block;
use idlewave_run::tables::{RegionKind, Regions, Table};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Phase, PhaseKind, RunError};
use idlewave_units::{Pid, Rank};
use idlewave_workloads::md::{self, Outcome, Params, particles_in};
use idlewave_workloads::{Member, Rows, Sink, WorkloadError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Keeps all records and halts the run after a time.
struct Kept<'a> {
    threads: usize,
    blocks: Vec<(Block, Vec<u64>)>,
    halt: &'a AtomicBool,
    halt_at: Duration,
}

impl Sink for Kept<'_> {
    fn ready(&mut self, _: &[Member], threads: &[Pid]) -> Result<(), RunError> {
        self.threads = threads.len();
        Ok(())
    }
    fn records(&mut self, block: &Block, words: &[u64]) -> Result<(), RunError> {
        self.blocks.push((*block, words.to_vec()));
        Ok(())
    }
    fn tick(&mut self, elapsed: Duration) {
        if elapsed >= self.halt_at {
            self.halt.store(true, Ordering::Relaxed);
        }
    }
}

fn params(ranks: usize, cells: u32, steps: u64) -> Params {
    let cpu = idlewave_sys::affinity::current();
    Params {
        // All ranks share a CPU, since any machine has one.
        cpus: vec![cpu; ranks],
        cells,
        steps,
        duration: Duration::from_secs(600),
        energy_every: 50,
        seed: 1,
        phase: 0,
    }
}

fn run(params: &Params) -> (Result<Outcome, WorkloadError>, Regions, usize) {
    run_until(params, Duration::MAX)
}

fn run_until(
    params: &Params,
    halt_at: Duration,
) -> (Result<Outcome, WorkloadError>, Regions, usize) {
    let mut calibration = Calibration::begin(Counter::choose(Path::new("/")));
    let halt = AtomicBool::new(false);
    let mut kept = Kept {
        threads: 0,
        blocks: Vec::new(),
        halt: &halt,
        halt_at,
    };
    let outcome = md::run(params, &mut calibration, &halt, &mut kept);
    let mut manifest = empty_manifest();
    manifest.phases.push(Phase {
        kind: PhaseKind::MolecularDynamics {
            particles_per_rank: particles_in(params.cells),
            steps: params.steps,
            rebuilds: 0,
            pairs: 0,
            energy_drift: None,
        },
        begin_ns: 0,
        end_ns: u64::MAX,
    });
    let mut rows = Rows::default();
    for (block, words) in &kept.blocks {
        assert_eq!(rows.add(block, words, &manifest, &calibration), 0);
    }
    (outcome, rows.regions, kept.threads)
}

#[test]
fn the_regions_of_a_rank_follow_each_other_through_every_step() {
    let (outcome, regions, threads) = run(&params(2, 3, 300));
    let outcome = outcome.unwrap();
    let done = outcome.done;
    assert_eq!((threads, done.steps, outcome.lost_steps), (2, 300, 0));
    assert_eq!(done.particles, 2 * particles_in(3));
    let drift = done.energy.unwrap();
    assert!(drift.largest < 1e-3 * drift.first.kinetic, "{drift:?}");
    for rank in [Rank::new(0), Rank::new(1)] {
        let own: Vec<_> = regions.rows().filter(|r| r.rank == rank).collect();
        let count = |kind| own.iter().filter(|r| r.kind == kind).count() as u64;
        for kind in [RegionKind::Update, RegionKind::Exchange, RegionKind::Force] {
            assert_eq!(count(kind), 300);
        }
        // A rebuild whose start and end are the same count gives no row; none is that short.
        assert_eq!(count(RegionKind::Rebuild), done.rebuilds);
        assert!(done.rebuilds > 2);
        for pair in own.windows(2) {
            assert_eq!(pair[0].end_ns, pair[1].begin_ns);
            assert!(pair[0].begin_ns <= pair[0].end_ns);
            let next = pair[0].kind == RegionKind::Force;
            assert_eq!(pair[1].iteration, pair[0].iteration + u64::from(next));
        }
        assert!(own[0].begin_ns <= outcome.begin_ns);
        assert!(own[own.len() - 1].end_ns >= outcome.end_ns);
    }
}

#[test]
fn a_run_that_is_over_in_time_keeps_the_steps_that_it_did() {
    // Other programs may take all of a short time.
    let mut attempts = [300, 3_000, 30_000].into_iter().map(|ms| {
        let mut params = params(2, 2, u64::MAX);
        params.duration = Duration::from_millis(ms);
        let (outcome, regions, _) = run(&params);
        (outcome.unwrap().done, regions)
    });
    let (done, regions) = attempts.find(|(done, _)| done.steps > 0).unwrap();
    let forces = |rank| {
        regions
            .rows()
            .filter(|r| r.kind == RegionKind::Force && r.rank == Rank::new(rank))
            .count() as u64
    };
    assert_eq!((forces(0), forces(1)), (done.steps, done.steps));
}

#[test]
fn boxes_that_are_too_narrow_are_an_error_that_says_what_to_do() {
    let (outcome, ..) = run(&params(2, 1, 10));
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("give more particles per rank"), "{text}");
    let (none, ..) = run(&Params {
        cpus: Vec::new(),
        ..params(1, 2, 1)
    });
    assert!(matches!(none, Err(WorkloadError::NoRanks)), "{none:?}");
}

#[test]
fn a_run_that_is_halted_ends() {
    let mut steps = [200, 2_000, 20_000].into_iter().map(|ms| {
        let (outcome, ..) = run_until(&params(2, 2, u64::MAX), Duration::from_millis(ms));
        outcome.unwrap().done.steps
    });
    assert!(steps.any(|steps| steps > 0));
}
