//! What a benchmark reports after it has verified its result.

use crate::stopwatch::{Parts, Record};

/// What a rank did. Unless it was halted, the result is right on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// What this rank did in the timed part.
    pub timed: Record,
    /// Where its time went in the verification that follows.
    pub verification: Parts,
    /// Whether the result was compared with the expected one. Not if the benchmark was halted and
    /// has values to compare only for its end.
    pub verified: bool,
    /// Timed iterations, the same on all ranks: fewer than the benchmark has if it was halted.
    pub iterations: u64,
    /// Operations of all ranks in these iterations, as the benchmark counts them: see
    /// [`Benchmark::operation`](crate::Benchmark::operation).
    pub operations: u64,
    /// Checksum of the whole result, if it does not depend on the number of ranks.
    pub checksum: Option<u64>,
}
