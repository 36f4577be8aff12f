//! How long ranks compute.

/// How long each rank computes without noise, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// All ranks alike.
    Same(u64),
    /// One value per rank.
    Each(Vec<u64>),
}

impl Work {
    /// The work of a rank.
    #[inline]
    pub fn of(&self, rank: usize) -> u64 {
        match self {
            Work::Same(ns) => *ns,
            Work::Each(ns) => ns[rank],
        }
    }
}
