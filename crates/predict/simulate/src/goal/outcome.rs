//! The result of a schedule, or why it has none.

use super::unfinished::Unfinished;

/// Why a schedule has no finish times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// A time beyond 64-bit nanoseconds.
    #[error("rank {rank}, {place}: a time exceeds 2^64 ns, which are 584 years")]
    TooLong {
        /// The rank.
        rank: u32,
        /// Line of the text, or number of the operation.
        place: String,
    },
    /// Operations are left that can never happen.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
}

/// The result of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the last CPU of each rank became free, in nanoseconds from the common start.
    pub finish_ns: Vec<u64>,
    /// Number of operations.
    pub operations: u64,
    /// Number of messages, which is the number of sends.
    pub messages: u64,
    /// Total length of the messages; `None` beyond 64 bits.
    pub bytes: Option<u64>,
}

impl Outcome {
    /// When the last rank finished, in nanoseconds.
    pub fn makespan_ns(&self) -> u64 {
        self.finish_ns.iter().copied().max().unwrap_or(0)
    }

    /// The ranks that finish last, with their times in nanoseconds, the last one first; of equal
    /// times the lower rank first.
    pub fn slowest(&self, most: usize) -> Vec<(u32, u64)> {
        let times = self.finish_ns.iter().copied();
        let mut all: Vec<(u32, u64)> = (0..).zip(times).collect();
        let key = |&(rank, time): &(u32, u64)| (std::cmp::Reverse(time), rank);
        if most < all.len() {
            all.select_nth_unstable_by_key(most, key);
            all.truncate(most);
        }
        all.sort_unstable_by_key(key);
        all
    }
}
