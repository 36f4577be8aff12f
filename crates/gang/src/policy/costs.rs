//! The slice from the cost of switches.

use super::settings::Settings;
use idlewave_units::Nanos;
use std::collections::VecDeque;

/// Switches that are remembered.
const WINDOW: usize = 64;
/// Below this many, the largest is taken: the 0.9 quantile of fewer than 10 samples is their maximum anyway.
const FEW: usize = 10;

/// What the last 64 switches cost.
///
/// The cost that slices are made for is the 0.9 quantile (order statistic `ceil(0.9 n)`) of the last `n <= 64`: an upper quantile, so that the
/// overhead is kept in bad moments as well, and not the maximum, so that one outlier does not stretch all slices for 64 switches. With a full window a
/// rise shows after 7 dearer switches, a fall after 58 cheaper ones. It is an estimate of the near past, without an interval: switches are not independent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    last: VecDeque<Nanos>,
}

/// A length of a slice, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// How long.
    pub length: Nanos,
    /// The cost of a switch that it was chosen for; `None`: no switch was measured yet, and the longest slice is taken.
    pub cost: Option<Nanos>,
    /// Switches behind the cost.
    pub n: usize,
    /// Whether the overhead aimed at is kept at this cost. `None`: not known without a cost.
    pub kept: Option<bool>,
}

impl Costs {
    /// Adds the cost of one switch: the time in which neither row ran.
    pub fn add(&mut self, cost: Nanos) {
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(cost);
    }

    /// The upper quantile, and of how many. `None`: nothing measured.
    pub fn upper(&self) -> Option<(Nanos, usize)> {
        let mut sorted: Vec<Nanos> = self.last.iter().copied().collect();
        sorted.sort_unstable();
        let n = sorted.len();
        let at = if n < FEW { n } else { (9 * n).div_ceil(10) };
        sorted.get(at.checked_sub(1)?).map(|cost| (*cost, n))
    }

    /// The shortest slice that keeps the overhead, within the bounds.
    pub fn slice(&self, settings: &Settings) -> Slice {
        let Some((cost, n)) = self.upper() else {
            return Slice {
                length: settings.longest,
                cost: None,
                n: 0,
                kept: None,
            };
        };
        let enough = Nanos::from_nanos((cost.as_f64() / settings.overhead).ceil() as u64);
        let length = enough.clamp(settings.shortest, settings.longest);
        Slice {
            length,
            cost: Some(cost),
            n,
            kept: Some(enough <= length),
        }
    }
}
