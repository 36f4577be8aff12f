//! A point of a calibration with the model's prediction.

use super::samples::Probe;
use crate::quantity::Quantity;
use serde::{Deserialize, Serialize};

/// A measured point with its prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointFit {
    /// The measurement.
    pub probe: Probe,
    /// Median over the repetitions with its interval, seconds.
    pub seconds: Quantity,
    /// Predicted seconds; `None` if the model has no time for it.
    pub model_seconds: Option<f64>,
}

impl PointFit {
    /// Logarithm of measured over predicted.
    pub fn residual(&self) -> Option<f64> {
        Some((self.seconds.value / self.model_seconds?).ln())
    }

    /// Bytes per second of all pairs and directions of a stream together, measured and predicted;
    /// `None` for other points.
    pub fn bandwidth(&self) -> Option<(f64, Option<f64>)> {
        let Probe::Stream {
            pairs,
            both_ways,
            bytes,
            messages,
            ..
        } = self.probe
        else {
            return None;
        };
        let ways = if both_ways { 2.0 } else { 1.0 };
        let moved = ways * f64::from(pairs) * bytes as f64 * messages as f64;
        let model = self.model_seconds.map(|seconds| moved / seconds);
        Some((moved / self.seconds.value, model))
    }
}
