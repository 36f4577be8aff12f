//! What is measured: CPUs, ranks, parts, and how long each takes.

use crate::{CpuMeasurement, CpuOptions, StudyOptions, Work};
use idlewave_run::Coupling;
use idlewave_session::SessionError;
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, Rank};
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
        /// Quanta per CPU, if they are not as many as fit into the duration.
        runs: Option<u64>,
    },
    /// A lockstep run of all ranks.
    Lockstep(Coupling),
    /// Nothing: the CPUs become idle.
    Rest,
}

/// A part, how long it takes, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub part: Part,
    pub duration: Duration,
    /// The CPUs that measure; lockstep runs have the ranks' own.
    pub cpus: Vec<Cpu>,
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
    /// Computation of one iteration.
    pub work: Nanos,
    /// Work of one fixed work quantum.
    pub quantum: Work,
    /// The most iterations per lockstep run.
    pub max_iterations: u64,
    /// The size limit of the run on disk.
    pub max_size: Bytes,
}

impl Part {
    /// How long it takes, if it may take `longest` and a fixed work quantum takes `quantum`.
    pub fn takes(self, longest: Duration, quantum: Nanos) -> Duration {
        match self {
            Part::FixedWork { runs: Some(runs) } => {
                longest.min(Duration::from_nanos(quantum.get().saturating_mul(runs)))
            }
            _ => longest,
        }
    }
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
        let quantum = options.work.clamp(QUANTUM[0], QUANTUM[1]);
        // On a node with very many CPUs, the memory for quanta is full well before the time is
        // over.
        let most_work = Duration::from_nanos(
            quantum
                .get()
                .saturating_mul(MOST_RECORDS / list.len().max(1) as u64),
        );
        Ok(Self {
            rank_cpus: (0..ranks).map(|rank| list[rank % list.len()]).collect(),
            parts: [
                (Part::Detours, share(25)),
                (Part::FixedWork { runs: None }, share(15).min(most_work)),
                (Part::Lockstep(Coupling::Neighbours), share(30)),
                (Part::Lockstep(Coupling::Barrier), share(30)),
            ]
            .map(|(part, duration)| on(&list, part, duration))
            .into(),
            work: options.work,
            quantum: Work::Time(quantum),
            max_iterations: MOST_RECORDS / ranks as u64,
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
        let (parts, quantum) = match options.what {
            CpuMeasurement::Detours => (
                vec![on(&all, Part::Detours, duration)],
                Work::Time(Nanos::ZERO),
            ),
            CpuMeasurement::FixedWork { work, runs } => {
                (vec![on(&all, Part::FixedWork { runs }, duration)], work)
            }
            CpuMeasurement::WarmUp { work, starts, rest } => {
                let start = [
                    on(&all, Part::Rest, rest.to_duration()),
                    on(&all, Part::FixedWork { runs: None }, duration),
                ];
                (vec![start; starts as usize].concat(), work)
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
                    [Part::Detours, Part::FixedWork { runs: None }]
                        .map(|part| on(&all[..busy], part, duration))
                };
                (busy(all.len()).flat_map(point).collect(), work)
            }
        };
        Ok(Self {
            cpus,
            rank_cpus: Vec::new(),
            parts,
            work: Nanos::ZERO,
            quantum,
            max_iterations: 0,
            max_size: options.max_size,
        })
    }

    /// Whether any part works, so that the speed of the CPU matters.
    pub fn works(&self) -> bool {
        let works = |piece: &Piece| !matches!(piece.part, Part::Detours | Part::Rest);
        self.parts.iter().any(works)
    }

    /// The time that all parts take, if a fixed work quantum takes `quantum`.
    pub fn takes(&self, quantum: Nanos) -> Duration {
        let parts = self.parts.iter();
        parts.map(|p| p.part.takes(p.duration, quantum)).sum()
    }

    /// The share of the run's size limit for a part of this duration.
    pub fn share_of_size(&self, duration: Duration, quantum: Nanos) -> Bytes {
        let share = duration.as_secs_f64() / self.takes(quantum).as_secs_f64().max(1e-9);
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

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a CPU list")
    }

    #[test]
    fn the_parts_take_the_time_asked_for() {
        let plan = Plan::of(&StudyOptions::default(), &set("0-3")).expect("a plan");
        assert_eq!(plan.takes(Nanos::ZERO), Duration::from_secs(30));
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
        assert!(plan.max_iterations * 256 <= MOST_RECORDS);
        assert!(plan.parts[1].duration < Duration::from_secs(1));
    }
}
