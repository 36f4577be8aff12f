//! Ways that took turns, compared.

use super::Estimate;
use crate::{ExchangeVariant, Siblings};
use serde::{Deserialize, Serialize};

/// Several ways to run the same steps, measured in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ways {
    /// Rounds in which every way was measured.
    pub rounds: u64,
    /// One per way, in the order in which they were named.
    pub ways: Vec<Way>,
}

/// One way; times in nanoseconds, medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// How the exchange was programmed.
    pub variant: ExchangeVariant,
    /// What the other hardware threads of the cores did; `None` if that did not take turns.
    #[serde(default)]
    pub siblings: Option<Siblings>,
    /// Its turns, as indices of phases of the manifest, in order of time; empty outside of a run.
    #[serde(default)]
    pub phases: Vec<u32>,
    /// Mean time of an iteration.
    pub step: Estimate,
    /// Undisturbed exchange.
    pub exchange: Estimate,
    /// What disturbances cost per iteration.
    pub noise: Estimate,
    /// How much longer an iteration is than in the first way, as a share; `None` for the first.
    pub longer: Option<Estimate>,
}

impl Way {
    /// Its name in displays.
    pub const fn name(&self) -> &'static str {
        match self.siblings {
            Some(siblings) => siblings.name(),
            None => self.variant.name(),
        }
    }
}

/// Whether iterations are longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayVerdict {
    /// Longer in every value of the interval.
    Longer,
    /// Shorter in every value of the interval.
    Shorter,
    /// The interval contains no difference.
    NoDifference,
    /// Too few rounds for a 95 % interval.
    NotKnown,
}

impl WayVerdict {
    /// Of the interval of [`Way::longer`].
    pub fn of(longer: &Estimate) -> Self {
        match longer.median_interval() {
            None => Self::NotKnown,
            Some((low, _)) if low > 0.0 => Self::Longer,
            Some((_, high)) if high < 0.0 => Self::Shorter,
            Some(_) => Self::NoDifference,
        }
    }
}
