//! The plan of a study: CPUs, ranks, and how long each part takes.

use crate::StudyOptions;
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

/// The plan of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// CPUs to measure.
    pub cpus: CpuSet,
    /// CPU of each rank.
    pub rank_cpus: Vec<Cpu>,
    /// Duration of the detour loop.
    pub detour: Duration,
    /// Duration of the fixed work quantum.
    pub fixed_work: Duration,
    /// Duration of each of the two lockstep runs.
    pub lockstep: Duration,
    /// Time of one fixed work quantum.
    pub quantum: Nanos,
    /// The most iterations per lockstep run.
    pub max_iterations: u64,
    /// The size limit of the run on disk.
    pub max_size: Bytes,
}

impl Plan {
    /// Makes the plan for the CPUs that this process may use.
    ///
    /// # Errors
    /// An option requests more than is available.
    pub fn of(options: &StudyOptions, allowed: &CpuSet) -> Result<Self, SessionError> {
        options.check()?;
        let cpus = match &options.cpus {
            None => allowed.clone(),
            Some(wanted) => {
                let missing = wanted.difference(allowed);
                if !missing.is_empty() {
                    return Err(SessionError::Option {
                        option: format!("--cpus {wanted}"),
                        reason: format!("this process may not use CPU {missing}"),
                        next: format!("choose from {allowed}"),
                    });
                }
                wanted.clone()
            }
        };
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
            detour: share(25),
            fixed_work: share(15).min(most_work),
            lockstep: share(30),
            quantum,
            max_iterations: MOST_RECORDS / ranks as u64,
            max_size: options.max_size,
            cpus,
        })
    }

    /// The share of the run's size limit for a part of the study of this duration.
    pub fn share_of_size(&self, duration: Duration) -> Bytes {
        let whole = self.detour + self.fixed_work + 2 * self.lockstep;
        let share = duration.as_secs_f64() / whole.as_secs_f64().max(1e-9);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a CPU list")
    }

    #[test]
    fn the_parts_take_the_time_asked_for() {
        let plan = Plan::of(&StudyOptions::default(), &set("0-3")).expect("a plan");
        let total = plan.detour + plan.fixed_work + 2 * plan.lockstep;
        assert_eq!(total, Duration::from_secs(30));
        assert_eq!(plan.rank_cpus, [0, 1, 2, 3].map(Cpu::new));
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
        assert!(plan.fixed_work < Duration::from_secs(1));
    }
}
