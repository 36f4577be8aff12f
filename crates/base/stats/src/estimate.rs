//! Estimates as the estimators return them and as `findings.json` of the run bundle stores them.

use serde::{Deserialize, Serialize};

/// An estimate with what is needed to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of samples.
    pub n: u64,
    /// Method of estimate and interval, with the confidence level: "median, order statistics, 95
    /// %".
    pub method: String,
}

impl Estimate {
    /// Why a slow-down with this interval is not known; `None` if it is known. The rule: the
    /// interval reaches from no slow-down at all to more than double, so neither can be excluded.
    pub fn not_known_slowdown(&self) -> Option<String> {
        let says_nothing = !(self.low > 0.0 || self.high <= 1.0) || !self.value.is_finite();
        says_nothing.then(|| format!("not known: {} steps, too noisy", self.n))
    }
}

/// A periodic component of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Periodicity {
    /// Distance between events.
    pub period: Estimate,
    /// Share of the events that lie on the comb, 0..=1.
    pub share: f64,
    /// Power of the event periodogram over its significance threshold; significant above 1.
    pub power: f64,
    /// Where its comb lies; `None` if the events keep no phase.
    #[serde(default)]
    pub phase: Option<CombPhase>,
}

/// Where the comb of a period lies in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CombPhase {
    /// The time, in nanoseconds on the clock of the events, to which the offset refers: the mean
    /// time of the events on the comb, where the estimates of phase and period are independent.
    pub reference_ns: u64,
    /// Time from there to the next tooth in nanoseconds, 0 to one period. The interval may reach
    /// beyond either end.
    pub offset: Estimate,
}

/// Outline of an event periodogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spectrum {
    /// Significance threshold of the powers: no power of events without a period is above it, except
    /// for one call of a thousand.
    pub threshold: f64,
    /// Frequency in Hz, in rising order, and power over the median around it (1 on average without a
    /// period): the highest of each bin of logarithmic frequency.
    pub points: Vec<(f64, f64)>,
}
