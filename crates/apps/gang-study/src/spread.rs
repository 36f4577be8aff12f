//! A number over the repeats of a study.

use idlewave_stats::quantiles;
use serde::{Deserialize, Serialize};

/// A number over the repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
    /// The 95 % interval of the median; `None` with too few values, or several of one repeat.
    pub interval: Option<(f64, f64)>,
    /// The number of values.
    pub n: usize,
}

impl Spread {
    /// The spread of some numbers, several of which may be of one repeat; `None` without any.
    pub fn of(values: &[f64]) -> Option<Spread> {
        Some(Spread {
            median: quantiles::median_of(values)?,
            least: values.iter().copied().min_by(f64::total_cmp)?,
            most: values.iter().copied().max_by(f64::total_cmp)?,
            interval: None,
            n: values.len(),
        })
    }

    /// The spread of a number of each repeat; `None` without any.
    pub fn of_repeats(values: &[f64]) -> Option<Spread> {
        let estimate = quantiles::median_of_floats(values);
        Some(Spread {
            interval: estimate.median_interval(),
            ..Self::of(values)?
        })
    }

    /// The ends of the interval; of the values where there is none.
    pub fn ends(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.least, self.most))
    }

    /// Whether a ratio is more than this share over 1, by its interval; `None`: not known.
    pub fn is_over(&self, share: f64) -> Option<bool> {
        let (low, high) = self.interval?;
        let bound = 1.0 + share;
        match (low > bound, high <= bound) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        }
    }
}
