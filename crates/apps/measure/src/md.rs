//! Molecular dynamics on all ranks: collects every step of every rank on rank 0, and analyses how
//! much the times of the forces vary.

use crate::bundle::Bundle;
use crate::keeping::Keeping;
use crate::options::MOST_STEPS;
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, What, gather};
use idlewave_clock::{Calibration, with_source};
use idlewave_explain::jitter_of;
use idlewave_fabric::Fabric;
use idlewave_run::findings::{Estimate, JitterFindings};
use idlewave_run::tables::{Region, RegionKind};
use idlewave_run::{Phase, PhaseKind};
use idlewave_session::align::Correction;
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_stats::blocks;
use idlewave_units::{Nanos, Rank, counted};
use idlewave_workloads::md::{Done, Plan, Step, cells_for, particles_in, run_rank};
use serde::Serialize;

/// No step is shorter: the fewest particles take about 100 us.
const SHORTEST_STEP: Nanos = Nanos::from_micros(50);
/// Words per step.
const WORDS: usize = 4;

/// Results of molecular dynamics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MdOutcome {
    /// Number of ranks.
    pub ranks: u32,
    /// Particles of each rank at the start.
    pub particles_per_rank: u64,
    /// Seed of the velocities.
    pub seed: u64,
    /// Steps that every rank completed.
    pub steps: u64,
    /// Steps in which the lists of close pairs were rebuilt.
    pub rebuilds: u64,
    /// Close pairs in the lists of all ranks at the end.
    pub pairs: u64,
    /// Largest deviation of the total energy from its first value, over the kinetic energy at the
    /// start; `None` if the energy was not summed.
    pub energy_drift: Option<f64>,
    /// Mean time of a step, nanoseconds.
    pub step: Estimate,
    /// How much the times of the forces vary; `None` with fewer than two steps.
    pub jitter: Option<JitterFindings>,
}

/// The record of one rank: the starts of step, exchange, list and forces, in nanoseconds of its
/// node's CLOCK_MONOTONIC, and the end in the last row. On rank 0, after correction, on the first
/// node's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pairs: u64,
    rows: Vec<[u64; WORDS]>,
}

impl Record {
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = vec![self.pairs];
        words.extend_from_slice(self.rows.as_flattened());
        words
    }

    /// Reads words; an empty record if they are invalid.
    pub fn of_words(words: &[u64]) -> Self {
        let Some((&pairs, rest)) = words.split_first() else {
            return Self::default();
        };
        let row = |c: &[u64]| std::array::from_fn(|i| c[i]);
        Self {
            pairs,
            rows: rest.chunks_exact(WORDS).map(row).collect(),
        }
    }

    /// Converts the times to the first node's clock.
    fn correct(&mut self, by: &Correction) {
        for time in self.rows.as_flattened_mut() {
            *time = by.apply(*time);
        }
    }

    pub fn steps(&self) -> usize {
        self.rows.len().saturating_sub(1)
    }

    /// The time of each step, and the part of it in forces.
    pub fn times(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.rows.windows(2).map(|pair| {
            let ([begin, .., force], [end, ..]) = (pair[0], pair[1]);
            (end.saturating_sub(begin), end.saturating_sub(force))
        })
    }
}

/// Molecular dynamics with a box of `cells` lattice cells along each edge on each of `number` ranks,
/// for this time if the number of steps is not given; `None` if `what` is something else.
///
/// # Errors
/// More steps than the ranks can keep.
pub(crate) fn plan<'a>(
    what: &What,
    (cells, number): (u32, u32),
    duration: Nanos,
    calibration: &Calibration,
    stop: &'a Stop,
) -> Result<Option<Plan<'a>>, MeasureError> {
    let &What::MolecularDynamics {
        steps,
        energy_every,
        seed,
        ..
    } = what
    else {
        return Ok(None);
    };
    let counts = duration.as_secs_f64() * calibration.counts_per_second();
    Ok(Some(Plan {
        cells,
        steps: most_steps(steps, duration, number)?,
        duration: match steps {
            Some(_) => u64::MAX,
            None => counts as u64,
        },
        energy_every,
        seed,
        halt: &stop.flag,
    }))
}

/// The most steps to run: as many as requested, or as can fit into the time.
fn most_steps(steps: Option<u64>, duration: Nanos, ranks: u32) -> Result<u64, MeasureError> {
    let room = MOST_STEPS / u64::from(ranks.max(1));
    match steps {
        Some(steps) if steps > room => Err(MeasureError::option(
            format!("--steps {steps}"),
            format!("more than {ranks} ranks can keep"),
            format!("give at most {room}"),
        )),
        Some(steps) => Ok(steps),
        None => Ok((duration.get() / SHORTEST_STEP.get() + 1_024).min(room)),
    }
}

/// Runs this rank. All ranks call it with the same plan.
pub(crate) fn run<F: Fabric>(
    fabric: &mut F,
    plan: &Plan<'_>,
    calibration: &mut Calibration,
) -> Result<(Done, Record), MeasureError> {
    // Written to beforehand, so that no page fault occurs while it is filled.
    let mut steps = vec![Step::default(); plan.steps as usize + 1];
    std::hint::black_box(steps.as_mut_ptr());
    steps.clear();
    calibration.update();
    let counter = calibration.counter();
    let done = with_source!(counter, s => run_rank(fabric, s, plan, |step| steps.push(step)));
    calibration.update();
    let done = done?;
    let ns = |counts| calibration.to_ns(counts);
    let rows = steps
        .iter()
        .map(|s| [ns(s.begin), ns(s.exchange), ns(s.list), ns(s.force)])
        .collect();
    let pairs = done.pairs;
    Ok((done, Record { pairs, rows }))
}

/// Measures; the outcome is on rank 0.
pub fn measure<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    ranks: &Ranks,
    mut calibration: Calibration,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<MdOutcome>, MeasureError> {
    let What::MolecularDynamics {
        particles, seed, ..
    } = options.what
    else {
        return Ok(None);
    };
    let size = fabric.size();
    if let Some(&number) = options.ranks.first().filter(|&&n| n != size) {
        return Err(MeasureError::option(
            format!("--ranks {number}"),
            format!(
                "molecular dynamics runs on all {size} of the job",
                size = counted(size, "rank")
            ),
            format!("start {number} with the launcher"),
        ));
    }
    let cells = cells_for(particles);
    let (what, target) = (&options.what, (cells, size));
    let Some(plan) = plan(what, target, options.duration, &calibration, stop)? else {
        return Ok(None);
    };
    let Some(mut keeping) = Keeping::begin(fabric, options, ranks, &calibration)? else {
        return Ok(None);
    };
    progress.part(&format!(
        "molecular dynamics on {size}",
        size = counted(size, "rank")
    ));
    let (done, record) = run(fabric, &plan, &mut calibration)?;
    keeping.compare(fabric)?;
    let all = gather::to_root(fabric, &record.to_words(), size)?;
    let found = all.map(|all| {
        let mut records: Vec<Record> = all.iter().map(|words| Record::of_words(words)).collect();
        let clocks = keeping.clocks();
        for (record, by) in records.iter_mut().zip(clocks.of_ranks(&ranks.nodes)) {
            record.correct(by);
        }
        let found = outcome(&records, &done, particles_in(cells), seed);
        keeping.add(|bundle| add(bundle, &records, &found));
        found
    });
    keeping.finish(fabric, options, ranks, &mut calibration, stop)?;
    match found {
        Some(found) if found.steps == 0 => Err(SessionError::Interrupted {
            kept: "nothing was measured".to_owned(),
        }
        .into()),
        found => Ok(found),
    }
}

fn outcome(records: &[Record], done: &Done, particles_per_rank: u64, seed: u64) -> MdOutcome {
    let steps = records.iter().map(Record::steps).min().unwrap_or(0);
    let (mut begins, mut durations) = (Vec::new(), Vec::new());
    let mut means = Vec::with_capacity(steps);
    for step in 0..steps {
        let mut sum = 0;
        for record in records {
            let ([begin, .., force], [end, ..]) = (record.rows[step], record.rows[step + 1]);
            begins.push(force);
            durations.push(end.saturating_sub(force));
            sum += end.saturating_sub(begin);
        }
        means.push(sum as f64 / records.len() as f64);
    }
    let mean = blocks::mean(&means, blocks::BLOCKS);
    let drift = |d: idlewave_workloads::md::Drift| d.largest / d.first.kinetic;
    MdOutcome {
        ranks: records.len() as u32,
        particles_per_rank,
        seed,
        steps: steps as u64,
        rebuilds: done.rebuilds,
        pairs: records.iter().map(|r| r.pairs).sum(),
        energy_drift: done.energy.map(drift),
        step: Estimate {
            value: mean.mean,
            low: mean.mean - mean.half_width,
            high: mean.mean + mean.half_width,
            n: steps as u64,
            method: "mean, batch means, 95 %".to_owned(),
        },
        jitter: jitter_of("forces", records.len(), begins, durations),
    }
}

/// Adds the phase and its regions.
fn add(bundle: &mut Bundle, records: &[Record], found: &MdOutcome) -> Result<(), MeasureError> {
    let edge = |row: Option<&[u64; WORDS]>| row.map_or(0, |row| row[0]);
    let begin_ns = records.iter().map(|r| edge(r.rows.first())).max();
    let end_ns = records.iter().map(|r| edge(r.rows.last())).min();
    let begin_ns = begin_ns.unwrap_or(0);
    let phase = Phase {
        kind: PhaseKind::MolecularDynamics {
            particles_per_rank: found.particles_per_rank,
            steps: found.steps,
            rebuilds: found.rebuilds,
            pairs: found.pairs,
            energy_drift: found.energy_drift,
        },
        begin_ns,
        end_ns: end_ns.unwrap_or(0).max(begin_ns),
    };
    bundle.add_regions(phase, |phase, regions| {
        for (rank, record) in records.iter().enumerate() {
            for (step, pair) in record.rows.windows(2).enumerate() {
                let [begin, exchange, list, force] = pair[0];
                let edges = [
                    (RegionKind::Update, begin, exchange),
                    (RegionKind::Exchange, exchange, list),
                    (RegionKind::Rebuild, list, force),
                    (RegionKind::Force, force, pair[1][0]),
                ];
                for (kind, begin_ns, end_ns) in edges {
                    // The list is not rebuilt in most steps.
                    if kind != RegionKind::Rebuild || begin_ns != end_ns {
                        regions.push(Region {
                            rank: Rank::new(rank as u32),
                            phase,
                            iteration: step as u64,
                            kind,
                            begin_ns,
                            end_ns,
                            bytes: None,
                        })?;
                    }
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_being_sent() {
        let rows = vec![[1, 2, 2, 3], [5, 6, 7, 8], [9; 4]];
        let record = Record { pairs: 11, rows };
        assert_eq!(Record::of_words(&record.to_words()), record);
        assert_eq!((record.steps(), Record::of_words(&[]).steps()), (2, 0));
    }

    #[test]
    fn forces_and_steps_are_hand_arithmetic() {
        // Steps of 10 and 20 ns on both ranks; forces of 4 and 8, and of 6 and 12.
        let rank = |forces: [u64; 2]| Record {
            pairs: 5,
            rows: vec![
                [100, 101, 102, 110 - forces[0]],
                [110, 111, 112, 130 - forces[1]],
                [130; 4],
            ],
        };
        let done = Done {
            steps: 2,
            rebuilds: 1,
            particles: 8,
            pairs: 5,
            energy: None,
            digest: 0,
            begin: 0,
            end: 0,
        };
        let found = outcome(&[rank([4, 8]), rank([6, 12])], &done, 4, 1);
        assert_eq!((found.steps, found.pairs, found.rebuilds), (2, 10, 1));
        assert_eq!(found.step.value, 15.0);
        let jitter = found.jitter.expect("two steps");
        // Means 5 and 10 over maxima 6 and 12.
        assert!((jitter.efficiency.value - 15.0 / 18.0).abs() < 1e-12);
        assert_eq!(jitter.slowest_counts, [0, 2]);
        assert_eq!(
            (jitter.slowest.rank, jitter.slowest.step),
            (Rank::new(1), 1)
        );
    }

    #[test]
    fn steps_beyond_the_room_are_refused_and_time_is_bounded_by_it() {
        assert_eq!(most_steps(Some(10), Nanos::ZERO, 2).ok(), Some(10));
        assert!(most_steps(Some(MOST_STEPS), Nanos::ZERO, 2).is_err());
        let hour = Nanos::from_secs(3_600);
        assert_eq!(most_steps(None, hour, 2).ok(), Some(MOST_STEPS / 2));
    }
}
