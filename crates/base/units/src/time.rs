//! Points in time: a number of nanoseconds *and* the clock that counted them.

use crate::{Nanos, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which clock counted. Two nodes do not share a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockDomain {
    /// `CLOCK_MONOTONIC` of this node, also the kernel's trace clock `mono`.
    Monotonic(NodeId),
    /// The virtual clock of a simulation, starting at zero.
    Simulated,
}

/// Nanoseconds since the start of a clock domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instant {
    ns: u64,
    domain: ClockDomain,
}

/// Why two instants could not be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstantError {
    /// They come from different clocks: correct offset and drift first.
    #[error("instants of two clock domains ({0:?}, {1:?}) cannot be compared")]
    Domain(ClockDomain, ClockDomain),
    /// The earlier one was given second.
    #[error("the second instant is later than the first")]
    Order,
}

impl Instant {
    /// `ns` nanoseconds after the start of `domain`.
    pub const fn new(ns: u64, domain: ClockDomain) -> Self {
        Self { ns, domain }
    }
    /// Nanoseconds since the start of the domain.
    pub const fn ns(self) -> u64 {
        self.ns
    }
    /// The clock that counted.
    pub const fn domain(self) -> ClockDomain {
        self.domain
    }
    /// How long after `earlier` this is.
    pub fn since(self, earlier: Instant) -> Result<Nanos, InstantError> {
        if self.domain != earlier.domain {
            return Err(InstantError::Domain(self.domain, earlier.domain));
        }
        let ns = self.ns.checked_sub(earlier.ns).ok_or(InstantError::Order)?;
        Ok(Nanos::from_nanos(ns))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09} s",
            self.ns / 1_000_000_000,
            self.ns % 1_000_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_of_two_nodes_cannot_be_subtracted() {
        let a = Instant::new(5, ClockDomain::Monotonic(NodeId::new(0)));
        let b = Instant::new(3, ClockDomain::Monotonic(NodeId::new(1)));
        assert!(matches!(a.since(b), Err(InstantError::Domain(..))));
    }

    #[test]
    fn an_earlier_instant_is_not_after_a_later_one() {
        let d = ClockDomain::Simulated;
        assert_eq!(
            Instant::new(3, d).since(Instant::new(5, d)),
            Err(InstantError::Order)
        );
        assert_eq!(
            Instant::new(5, d).since(Instant::new(3, d)),
            Ok(Nanos::from_nanos(2))
        );
    }
}
