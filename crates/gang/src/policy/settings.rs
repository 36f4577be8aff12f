//! What a site decides about the policy.

use idlewave_units::Nanos;
use thiserror::Error;

/// What a site decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Time lost to switches, as a part of all time, that is aimed at: above 0, below 1. Default 0.02.
    pub overhead: f64,
    /// The shortest slice, above zero. Default 10 ms.
    pub shortest: Nanos,
    /// The longest slice, at least the shortest. Default 100 ms.
    pub longest: Nanos,
    /// The most that interactive rows get while production waits, as a part of all time: 0 to below 1. Default 0.5.
    pub share: f64,
    /// What interactive rows may have saved up while nobody used them. Default 200 ms.
    pub burst: Nanos,
    /// How often an idle row has a short turn, to see whether its input came. Default 1 s.
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

/// Why a policy cannot work so. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The overhead is not a part of the time.
    #[error("set the overhead to {0}: it has to be above 0 and below 1, as in 0.02")]
    Overhead(f64),
    /// The share is not a part of the time.
    #[error("set the share of interactive rows to {0}: it has to be at least 0 and below 1")]
    Share(f64),
    /// No slice fits between the bounds.
    #[error(
        "choose slices of {shortest} to {longest}: the shortest is above zero, and not above the longest"
    )]
    Bounds {
        /// The shortest.
        shortest: Nanos,
        /// The longest.
        longest: Nanos,
    },
    /// A row without a share.
    #[error("add row {0} with weight 0: weights start at 1")]
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
