//! Sizes of the problems.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A size of the problem, named as in the NAS Parallel Benchmarks. From one class to the next, work
/// grows 2.6 to 37 times, and from S to W 2 to 177 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    /// A sample: well under a second.
    S,
    /// A workstation of 1994.
    W,
    /// Small.
    A,
    /// Medium.
    B,
    /// Large.
    C,
    /// Very large: all ranks together need 8 to 128 GiB, except for EP, which needs hardly any.
    D,
}

impl Class {
    /// All classes, in ascending order.
    pub const ALL: [Self; 6] = [Self::S, Self::W, Self::A, Self::B, Self::C, Self::D];

    /// The entry of a table in the order of [`ALL`](Self::ALL).
    pub(super) const fn of<T: Copy>(self, table: &[T; Self::ALL.len()]) -> T {
        table[self as usize]
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A text that is none of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the classes are S, W, A, B, C, D")]
pub struct ParseClassError;

impl FromStr for Class {
    type Err = ParseClassError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |class: &Self| class.to_string().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(named).ok_or(ParseClassError)
    }
}
