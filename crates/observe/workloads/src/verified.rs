//! What a benchmark tells that verified its result.

use crate::Parts;

/// What a rank did, with a result that is right on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Where the time of this rank went in the timed part.
    pub parts: Parts,
    /// The same of what came after it to verify the result.
    pub verification: Parts,
    /// Timed iterations, of all ranks alike: fewer than the benchmark has where it was halted.
    pub iterations: u64,
    /// Operations of all ranks in them, as the benchmark counts them: see
    /// [`Benchmark::operation`](crate::Benchmark::operation).
    pub operations: u64,
    /// Of the whole result, where it does not depend on the number of ranks.
    pub checksum: Option<u64>,
}
