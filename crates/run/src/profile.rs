//! The noise profile: what the analysis hands to the simulation.

use crate::SourceKind;
use idlewave_units::Nanos;
use serde::{Deserialize, Serialize};

/// Noise of one CPU, averaged over the CPUs of a run, labelled by source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseProfile {
    /// Sources; their events are independent of each other.
    pub sources: Vec<NoiseSource>,
    /// Undisturbed computation of one iteration.
    pub work: Nanos,
    /// Undisturbed step beyond the computation with a neighbour exchange; `None` if not measured.
    pub exchange: Option<Nanos>,
    /// Undisturbed step beyond the computation with a barrier; `None` if not measured.
    pub barrier: Option<Nanos>,
}

/// One source of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseSource {
    /// Class.
    pub kind: SourceKind,
    /// Name, as in the table of sources.
    pub name: String,
    /// Events per second of one CPU's time.
    pub rate_per_s: f64,
    /// Events from which this was learnt.
    pub events: u64,
    /// CPU time that was watched.
    pub watched: Nanos,
    /// Distance of regular events, if they are regular.
    pub period: Option<Nanos>,
    /// Lengths of events in nanoseconds, sorted: all of them, or 4,096 evenly spaced quantiles with both ends.
    pub lengths_ns: Vec<u64>,
}

impl NoiseSource {
    /// Mean length of an event in nanoseconds; 0 without events.
    pub fn mean_length_ns(&self) -> f64 {
        if self.lengths_ns.is_empty() {
            return 0.0;
        }
        self.lengths_ns.iter().map(|&l| l as f64).sum::<f64>() / self.lengths_ns.len() as f64
    }
    /// Share of one CPU's time that this source takes, 0..=1 for a source that fits.
    pub fn stolen_fraction(&self) -> f64 {
        self.rate_per_s * self.mean_length_ns() / 1e9
    }
}
