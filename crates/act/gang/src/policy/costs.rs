//! The slice length, from the cost of switches.

use super::settings::Settings;
use idlewave_units::Nanos;
use std::collections::VecDeque;

/// Number of recent switches kept.
const WINDOW: usize = 64;
/// With fewer samples, the largest is taken: the 0.9 quantile of fewer than 10 samples is their
/// maximum anyway.
const FEW: usize = 10;

/// Costs of the last 64 switches.
///
/// Slices are chosen for the 0.9 quantile (order statistic `ceil(0.9 n)`) of the last `n <= 64`
/// costs: an upper quantile, so that the overhead target also holds in bad moments, but not the
/// maximum, so that one outlier does not lengthen all slices for 64 switches. With a full window a
/// rise shows after 7 dearer switches, a fall after 58 cheaper ones. It is an estimate of the
/// recent past without an interval, since switches are not independent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    last: VecDeque<Nanos>,
}

/// The length of a slice and its basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// How long.
    pub length: Nanos,
    /// The switch cost assumed; `None`: no switch was measured yet, and the longest slice is used.
    pub cost: Option<Nanos>,
    /// Number of switches measured.
    pub n: usize,
    /// Whether the overhead target is met at this cost. `None`: unknown without a cost.
    pub kept: Option<bool>,
}

impl Costs {
    /// Adds the cost of one switch: the time during which neither row ran.
    pub fn add(&mut self, cost: Nanos) {
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(cost);
    }

    /// The upper quantile and the number of samples. `None`: nothing measured.
    pub fn upper(&self) -> Option<(Nanos, usize)> {
        let mut sorted: Vec<Nanos> = self.last.iter().copied().collect();
        sorted.sort_unstable();
        let n = sorted.len();
        let at = if n < FEW { n } else { (9 * n).div_ceil(10) };
        sorted.get(at.checked_sub(1)?).map(|cost| (*cost, n))
    }

    /// The shortest slice that meets the overhead target, within the bounds.
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
