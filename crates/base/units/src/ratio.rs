//! The noise ratio and its two forms.

use crate::show;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The *stolen fraction* f of a CPU: time in detours over wall time, 0 ..= 1.
///
/// The literature mixes three ratios; idlewave fixes this vocabulary (docs/glossary.md):
/// stolen fraction f (wall-based), slow-down s = f / (1 - f) (work-based), availability 1 - f.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NoiseRatio(f64);

impl NoiseRatio {
    /// From a stolen fraction; `None` outside 0 ..= 1 or for NaN.
    pub fn from_stolen_fraction(f: f64) -> Option<Self> {
        (0.0..=1.0).contains(&f).then_some(Self(f))
    }
    /// From a slow-down s >= 0 of fixed work: f = s / (1 + s). `None` for negative s or NaN.
    pub fn from_slowdown(s: f64) -> Option<Self> {
        (s >= 0.0).then(|| Self(if s.is_finite() { s / (1.0 + s) } else { 1.0 }))
    }
    /// The stolen fraction f, 0 ..= 1.
    pub fn stolen_fraction(self) -> f64 {
        self.0
    }
    /// The slow-down s = f / (1 - f) of fixed work; infinite at f = 1.
    pub fn slowdown(self) -> f64 {
        self.0 / (1.0 - self.0)
    }
}

impl fmt::Display for NoiseRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show::percent(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_stolen_slows_fixed_work_by_5_263_percent() {
        let ratio = NoiseRatio::from_stolen_fraction(0.05).unwrap();
        assert!((ratio.slowdown() - 0.052_631_578_9).abs() < 1e-9);
        let back = NoiseRatio::from_slowdown(ratio.slowdown()).unwrap();
        assert!((back.stolen_fraction() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn impossible_ratios_are_refused() {
        assert!(NoiseRatio::from_stolen_fraction(1.01).is_none());
        assert!(NoiseRatio::from_stolen_fraction(f64::NAN).is_none());
        assert!(NoiseRatio::from_slowdown(-0.1).is_none());
    }
}
