//! What a benchmark reports after it has verified its result.

use crate::Parts;

/// What a rank did; the result is right on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Where this rank's time went in the timed part.
    pub parts: Parts,
    /// The same for the verification that follows.
    pub verification: Parts,
    /// Timed iterations, the same on all ranks: fewer than the benchmark has if it was halted.
    pub iterations: u64,
    /// Operations of all ranks in these iterations, as the benchmark counts them: see
    /// [`Benchmark::operation`](crate::Benchmark::operation).
    pub operations: u64,
    /// Checksum of the whole result, if it does not depend on the number of ranks.
    pub checksum: Option<u64>,
}
