//! Site settings of the policy.

use idlewave_units::Nanos;
use thiserror::Error;

/// Site settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Target for the share of time lost to switches: above 0, below 1. Default 0.02.
    pub overhead: f64,
    /// The shortest slice, above zero. Default 10 ms.
    pub shortest: Nanos,
    /// The longest slice, at least the shortest. Default 100 ms.
    pub longest: Nanos,
    /// Largest share of the time for interactive rows while production waits: 0 or more, below 1.
    /// Default 0.5.
    pub share: f64,
    /// Largest saved-up time of interactive rows. Default 200 ms.
    pub burst: Nanos,
    /// Interval of the short turns by which an idle row is checked for input. Default 1 s.
    pub probe: Nanos,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            overhead: 0.02,
            shortest: Nanos::from_millis(10),
            longest: Nanos::from_millis(100),
            share: 0.5,
            burst: Nanos::from_millis(200),
            probe: Nanos::from_secs(1),
        }
    }
}

/// Why settings are invalid. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The overhead is not a valid share.
    #[error("set the overhead to {0}: it must be above 0 and below 1, as in 0.02")]
    Overhead(f64),
    /// The share is out of range.
    #[error("set the share of interactive rows to {0}: it must be at least 0 and below 1")]
    Share(f64),
    /// The bounds of the slice are invalid.
    #[error(
        "choose slices of {shortest} to {longest}: the shortest must be above 0 and at most the longest"
    )]
    Bounds {
        /// The shortest.
        shortest: Nanos,
        /// The longest.
        longest: Nanos,
    },
    /// A row without a share.
    #[error("add row {0} with weight 0: the least weight is 1")]
    Weight(u32),
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), PolicyError> {
        if !(self.overhead > 0.0 && self.overhead < 1.0) {
            return Err(PolicyError::Overhead(self.overhead));
        }
        if !(self.share >= 0.0 && self.share < 1.0) {
            return Err(PolicyError::Share(self.share));
        }
        if self.shortest == Nanos::ZERO || self.shortest > self.longest {
            return Err(PolicyError::Bounds {
                shortest: self.shortest,
                longest: self.longest,
            });
        }
        Ok(())
    }
}
