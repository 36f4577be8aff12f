//! How much a bundle of a simulated run holds.

/// Ranks of a bundle at most: each has sheets in the manifest and a time line in every analysis.
pub const MOST_RANKS: u32 = 4_096;
/// Ranks times steps of a bundle at most, as 64 ranks have in 100,000 steps: half a gigabyte of regions.
pub const MOST_RANK_STEPS: u64 = 6_400_000;
/// Rows of noise of a bundle at most: the analysis holds them in memory, in about 100 bytes each.
pub const MOST_EVENTS: u64 = 10_000_000;
