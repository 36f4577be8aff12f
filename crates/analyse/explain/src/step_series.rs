//! Steps of a computation that all ranks repeat.

use crate::series::{RankTimes, warm_up_of};

/// Durations of all ranks in all steps that all of them completed, step by step, in the order of
/// the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSeries {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// What is computed.
    pub name: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Nanoseconds.
    pub durations: Vec<u64>,
    /// When each began.
    pub begins: Vec<u64>,
}

impl StepSeries {
    /// Without any step.
    pub fn empty(phase: u32, name: String, ranks: usize) -> Self {
        Self {
            phase,
            name,
            ranks,
            durations: Vec::new(),
            begins: Vec::new(),
        }
    }

    /// Adds the computations of a turn of all ranks, without its warm-up.
    pub fn add_turn(&mut self, records: &[RankTimes<'_>]) {
        let steps = records.iter().map(RankTimes::iterations).min();
        let (_, skipped) = warm_up_of(records);
        for step in skipped..steps.unwrap_or(0) {
            for record in records {
                let begin = record.begins[step];
                self.begins.push(begin);
                let duration = record.arrivals[step].saturating_sub(begin);
                self.durations.push(duration);
            }
        }
    }
}
