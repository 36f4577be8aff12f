//! How long ranks compute.

/// How long each rank computes in nanoseconds when nothing disturbs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// All alike.
    Same(u64),
    /// Each as its place says; as many as there are ranks.
    Each(Vec<u64>),
}

impl Work {
    /// Of a rank.
    #[inline]
    pub fn of(&self, rank: usize) -> u64 {
        match self {
            Work::Same(ns) => *ns,
            Work::Each(ns) => ns[rank],
        }
    }
}
