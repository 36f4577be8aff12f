//! What the sort does, in what order, and how many bytes it moves, without sorting: input for
//! simulations.

use super::class::{BEFORE, Class, ITERATIONS};
use super::shares::{KEY_BYTES, ends_of, expected, part, sums_of, values};
use super::sort::VERDICT;

/// One operation that every rank does.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Work on the rank's own keys only.
    Compute(Work),
    /// All ranks combine values.
    Allreduce {
        /// Bytes of the values of one rank.
        bytes: u64,
    },
    /// The same amount from every rank to every rank.
    Alltoall {
        /// Bytes from one rank to another.
        bytes_per_pair: u64,
    },
    /// Keys from every rank to every rank.
    Alltoallv(BytesPerPair),
    /// Every rank but the last sends to the next one.
    SendNext {
        /// Bytes of the message.
        bytes: u64,
    },
}

/// What a rank computes, and which number of keys its time grows with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Count the rank's own keys and order them by bucket: time grows with the rank's part of the
    /// keys.
    Divide,
    /// Count the received keys: time grows with their number and the values they may have.
    Rank,
    /// Sort the received keys.
    Order,
}

/// Bytes of keys from one rank to another.
///
/// Expected values: every rank's keys are a sample of the same distribution. Actual numbers deviate
/// by about the square root of the number of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct BytesPerPair {
    parts: Vec<u64>,
    shares: Vec<f64>,
}

impl BytesPerPair {
    /// From rank `from` to rank `to`; 0 for ranks that do not exist.
    pub fn of(&self, from: u32, to: u32) -> u64 {
        let (part, share) = (self.parts.get(from as usize), self.shares.get(to as usize));
        match (part, share) {
            (Some(&part), Some(&share)) => KEY_BYTES * (part as f64 * share).round() as u64,
            _ => 0,
        }
    }

    /// Keys that a rank starts with.
    pub fn keys_before(&self, rank: u32) -> u64 {
        self.parts.get(rank as usize).copied().unwrap_or(0)
    }

    /// Keys that a rank has after the exchange.
    pub fn keys_after(&self, rank: u32) -> u64 {
        let total: u64 = self.parts.iter().sum();
        let share = self.shares.get(rank as usize);
        share.map_or(0, |share| (share * total as f64).round() as u64)
    }
}

/// The benchmark from its first collective to its last.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Runs of `iteration` before the timed ones.
    pub untimed: u32,
    /// One ranking of all keys.
    pub iteration: Vec<Operation>,
    /// Timed runs of `iteration`.
    pub timed: u32,
    /// The full verification, after the timed part.
    pub verification: Vec<Operation>,
}

/// What [`run`](super::run) does on this many ranks. Bytes are those it moves: it combines
/// eight-byte numbers, where the Fortran and C versions combine four-byte ones.
pub fn traffic(class: Class, ranks: u32) -> Traffic {
    let ranks = ranks.max(1);
    let sizes = expected(class);
    let sums = sums_of(&sizes, &ends_of(&sizes, ranks));
    let total = class.keys() as f64;
    let parts = (0..ranks).map(|rank| part(class, rank, ranks));
    let pairs = BytesPerPair {
        parts: parts.map(|part| part.end - part.start).collect(),
        shares: sums.iter().map(|sum| sum / total).collect(),
    };
    Traffic {
        untimed: BEFORE,
        timed: ITERATIONS,
        iteration: vec![
            Operation::Compute(Work::Divide),
            Operation::Allreduce {
                bytes: 8 * values(class),
            },
            Operation::Alltoall {
                bytes_per_pair: KEY_BYTES,
            },
            Operation::Alltoallv(pairs),
            Operation::Compute(Work::Rank),
        ],
        verification: vec![
            Operation::Compute(Work::Order),
            Operation::SendNext { bytes: KEY_BYTES },
            Operation::Allreduce {
                bytes: 8 * VERDICT as u64,
            },
        ],
    }
}
