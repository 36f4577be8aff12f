//! What is measured: CPUs, ranks, parts, and how long each takes.

use crate::{CpuMeasurement, CpuOptions, StudyOptions, Work};
use idlewave_run::Coupling;
use idlewave_session::SessionError;
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, Rank};
use idlewave_workloads::fibonacci::Speed;
use std::time::Duration;

/// Gaps of at least this length are detours.
pub const THRESHOLD: Nanos = Nanos::from_micros(1);
/// The most rows that one part may record over all ranks, so that a node with 256 CPUs needs no
/// more memory than a small one.
const MOST_RECORDS: u64 = 4 << 20;
/// Bounds of the fixed work quantum: short enough to tell one tick from the next, long enough to
/// dwarf a clock reading.
const QUANTUM: [Nanos; 2] = [Nanos::from_micros(5), Nanos::from_millis(1)];

/// A part of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The detour loop on every CPU.
    Detours,
    /// The fixed work quantum on every CPU.
    FixedWork {
        /// Work of a quantum.
        work: Work,
        /// Quanta per CPU, if they are not as many as fit into the duration.
        runs: Option<u64>,
    },
    /// A lockstep run of all ranks.
    Lockstep {
        /// How they meet.
        coupling: Coupling,
        /// Computation of one iteration.
        work: Nanos,
        /// The most iterations.
        max_iterations: u64,
    },
    /// Nothing: the CPUs become idle.
    Rest,
}

/// A part, how long it may take, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// What is measured.
    pub part: Part,
    /// The longest time.
    pub duration: Duration,
    /// The CPUs that measure; lockstep runs have the ranks' own.
    pub cpus: Vec<Cpu>,
}

impl Piece {
    /// How long it takes on CPUs of this speed.
    pub fn takes(&self, speed: Speed) -> Duration {
        match self.part {
            Part::FixedWork {
                work,
                runs: Some(runs),
            } => {
                let all = work.time(speed).get().saturating_mul(runs);
                self.duration.min(Duration::from_nanos(all))
            }
            _ => self.duration,
        }
    }
}

/// What to measure, in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// CPUs to measure.
    pub cpus: CpuSet,
    /// CPU of each rank; empty without lockstep runs.
    pub rank_cpus: Vec<Cpu>,
    /// The parts, one after the other.
    pub parts: Vec<Piece>,
    /// The size limit of the run on disk.
    pub max_size: Bytes,
}

impl Plan {
    /// Makes the plan of a study on the CPUs that this process may use.
    ///
    /// # Errors
    /// An option requests more than is available.
    pub fn of(options: &StudyOptions, allowed: &CpuSet) -> Result<Self, SessionError> {
        options.check()?;
        let cpus = chosen(options.cpus.as_ref(), allowed)?;
        let list: Vec<Cpu> = cpus.iter().collect();
        let ranks = options.ranks.map_or(list.len(), |r| r as usize);
        let share = |percent: u64| Duration::from_nanos(options.duration.get() / 100 * percent);
        let quantum = Self::quantum(options);
        // On a node with very many CPUs, the memory for quanta is full well before the time is
        // over.
        let most_work = Duration::from_nanos(
            quantum
                .get()
                .saturating_mul(MOST_RECORDS / list.len().max(1) as u64),
        );
        let lockstep = |coupling| Part::Lockstep {
            coupling,
            work: options.work,
            max_iterations: MOST_RECORDS / ranks as u64,
        };
        let work = Part::FixedWork {
            work: Work::Time(quantum),
            runs: None,
        };
        Ok(Self {
            rank_cpus: (0..ranks).map(|rank| list[rank % list.len()]).collect(),
            parts: vec![
                on(&list, Part::Detours, share(25)),
                on(&list, work, share(15).min(most_work)),
                on(&list, lockstep(Coupling::Neighbours), share(30)),
                on(&list, lockstep(Coupling::Barrier), share(30)),
            ],
            max_size: options.max_size,
            cpus,
        })
    }

    /// Time of the fixed work quantum of a study.
    pub fn quantum(options: &StudyOptions) -> Nanos {
        options.work.clamp(QUANTUM[0], QUANTUM[1])
    }

    /// Makes the plan of a study of one of several nodes: detours and a quantum of `steps` on all
    /// CPUs of the node.
    ///
    /// # Errors
    /// As for [`Plan::of`].
    pub fn of_node(
        options: &StudyOptions,
        allowed: &CpuSet,
        steps: u64,
    ) -> Result<Self, SessionError> {
        options.check()?;
        let cpus = chosen(options.cpus.as_ref(), allowed)?;
        let list: Vec<Cpu> = cpus.iter().collect();
        let share = |percent: u64| Duration::from_nanos(options.duration.get() / 100 * percent);
        let work = Part::FixedWork {
            work: Work::Steps(steps),
            runs: Some(MOST_RECORDS / list.len().max(1) as u64),
        };
        Ok(Self {
            parts: vec![
                on(&list, Part::Detours, share(60)),
                on(&list, work, share(40)),
            ],
            rank_cpus: Vec::new(),
            max_size: options.max_size,
            cpus,
        })
    }

    /// Makes the plan of one measurement of every CPU.
    ///
    /// # Errors
    /// As for [`Plan::of`].
    pub fn of_cpus(options: &CpuOptions, allowed: &CpuSet) -> Result<Self, SessionError> {
        options.check()?;
        let duration = options.duration.to_duration();
        let cpus = chosen(options.cpus.as_ref(), allowed)?;
        let all: Vec<Cpu> = cpus.iter().collect();
        let fixed = |work, runs| Part::FixedWork { work, runs };
        let parts = match options.what {
            CpuMeasurement::Detours => vec![on(&all, Part::Detours, duration)],
            CpuMeasurement::FixedWork { work, runs } => {
                vec![on(&all, fixed(work, runs), duration)]
            }
            CpuMeasurement::WarmUp { work, starts, rest } => {
                let start = [
                    on(&all, Part::Rest, rest.to_duration()),
                    on(&all, fixed(work, None), duration),
                ];
                vec![start; starts as usize].concat()
            }
            CpuMeasurement::LoadSweep { work } => {
                if all.len() < 2 {
                    return Err(SessionError::Option {
                        option: format!("--cpus {cpus}"),
                        reason: "a load sweep needs two CPUs or more".to_owned(),
                        next: "let this process use more CPUs".to_owned(),
                    });
                }
                let point = |busy: usize| {
                    [Part::Detours, fixed(work, None)].map(|part| on(&all[..busy], part, duration))
                };
                busy(all.len()).flat_map(point).collect()
            }
        };
        Ok(Self {
            cpus,
            rank_cpus: Vec::new(),
            parts,
            max_size: options.max_size,
        })
    }

    /// The time that all parts take on CPUs of this speed.
    pub fn takes(&self, speed: Speed) -> Duration {
        self.parts.iter().map(|piece| piece.takes(speed)).sum()
    }

    /// The share of the run's size limit for a part.
    pub fn share_of_size(&self, piece: &Piece, speed: Speed) -> Bytes {
        let whole = self.takes(speed).as_secs_f64().max(1e-9);
        let share = piece.takes(speed).as_secs_f64() / whole;
        Bytes::new((self.max_size.get() as f64 * share) as u64)
    }

    /// The ranks with their CPUs.
    pub fn ranks(&self) -> impl Iterator<Item = (Rank, Cpu)> + '_ {
        self.rank_cpus
            .iter()
            .enumerate()
            .map(|(rank, &cpu)| (Rank::new(rank as u32), cpu))
    }
}

fn on(cpus: &[Cpu], part: Part, duration: Duration) -> Piece {
    Piece {
        part,
        duration,
        cpus: cpus.to_vec(),
    }
}

/// How many CPUs are busy at the points of a load sweep: every number up to eight, then powers of
/// two, and all.
fn busy(all: usize) -> impl Iterator<Item = usize> {
    let numbers = (1..all).filter(|n| *n <= 8 || n.is_power_of_two());
    numbers.chain([all])
}

/// The CPUs that were asked for, or all.
fn chosen(wanted: Option<&CpuSet>, allowed: &CpuSet) -> Result<CpuSet, SessionError> {
    let Some(wanted) = wanted else {
        return Ok(allowed.clone());
    };
    let missing = wanted.difference(allowed);
    if !missing.is_empty() {
        return Err(SessionError::Option {
            option: format!("--cpus {wanted}"),
            reason: format!("this process may not use CPU {missing}"),
            next: format!("choose from {allowed}"),
        });
    }
    Ok(wanted.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Speed = Speed {
        per_thousand: 250.0,
    };

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a CPU list")
    }

    #[test]
    fn the_parts_take_the_time_asked_for() {
        let plan = Plan::of(&StudyOptions::default(), &set("0-3")).expect("a plan");
        assert_eq!(plan.takes(SPEED), Duration::from_secs(30));
        assert_eq!(plan.rank_cpus, [0, 1, 2, 3].map(Cpu::new));
    }

    #[test]
    fn a_load_sweep_keeps_more_and_more_cpus_busy() {
        let of = |all| busy(all).collect::<Vec<_>>();
        assert_eq!(of(2), [1, 2]);
        assert_eq!(of(24), [1, 2, 3, 4, 5, 6, 7, 8, 16, 24]);
        let options = CpuOptions {
            what: CpuMeasurement::LoadSweep {
                work: Work::Time(Nanos::from_micros(20)),
            },
            output: None,
            duration: Nanos::from_secs(1),
            cpus: Some(set("3,5")),
            trace: false,
            max_size: Bytes::new(1 << 30),
            command: Vec::new(),
        };
        let plan = Plan::of_cpus(&options, &set("0-7")).expect("a plan");
        let where_: Vec<_> = plan.parts.iter().map(|p| p.cpus.len()).collect();
        assert_eq!(where_, [1, 1, 2, 2]);
        let alone = CpuOptions {
            cpus: Some(set("3")),
            ..options
        };
        let refused = Plan::of_cpus(&alone, &set("0-7")).expect_err("one CPU");
        assert!(refused.to_string().contains("--cpus 3"), "{refused}");
    }

    #[test]
    fn ranks_beyond_the_cpus_share_them_in_turn() {
        let options = StudyOptions {
            ranks: Some(5),
            cpus: Some(set("2,7")),
            ..StudyOptions::default()
        };
        let plan = Plan::of(&options, &set("0-7")).expect("a plan");
        assert_eq!(plan.rank_cpus, [2, 7, 2, 7, 2].map(Cpu::new));
    }

    #[test]
    fn cpus_that_are_not_allowed_are_refused_by_number() {
        let options = StudyOptions {
            cpus: Some(set("0-9")),
            ..StudyOptions::default()
        };
        let refused = Plan::of(&options, &set("0-3")).expect_err("CPUs 4 to 9 are not allowed");
        assert!(refused.to_string().contains("4-9"), "{refused}");
        assert!(refused.next_step().is_some_and(|n| n.contains("0-3")));
    }

    #[test]
    fn a_node_of_many_cpus_records_no_more_than_memory_allows() {
        let plan = Plan::of(&StudyOptions::default(), &set("0-255")).expect("a plan");
        let Part::Lockstep { max_iterations, .. } = plan.parts[2].part else {
            panic!("{:?}", plan.parts);
        };
        assert!(max_iterations * 256 <= MOST_RECORDS);
        assert!(plan.parts[1].duration < Duration::from_secs(1));
    }
}
