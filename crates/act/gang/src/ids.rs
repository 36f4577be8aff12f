//! Identifiers of gangs.

use std::fmt;

/// A gang: one parallel job under gang switching. The protocol switches whole rows of the matrix
/// and treats all gangs of a row as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GangId(u32);

impl GangId {
    /// Wraps a number assigned on admission.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }
    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for GangId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
