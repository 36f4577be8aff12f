//! Limits of the bundle of a simulated run.

/// Most ranks of a bundle: each has sheets in the manifest and a time line in every analysis.
pub const MOST_RANKS: u32 = 4_096;
/// Most ranks times steps of a bundle, for example 64 ranks for 100,000 steps: half a gigabyte of
/// regions.
pub const MOST_RANK_STEPS: u64 = 6_400_000;
/// Most rows of noise of a bundle: the analysis holds them in memory, at about 100 bytes each.
pub const MOST_EVENTS: u64 = 10_000_000;
