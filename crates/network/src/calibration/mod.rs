//! From measured times between ranks to the parameters of a network.
//!
//! [`CalibrationSamples`] is what `idlewave place calibrate` measured, raw; [`fit`] makes a [`Calibration`] of it, a pure function:
//! the same samples and seed give the same bytes. docs/calibration.md has the model, and when it misleads.

mod curves;
mod fit;
mod judge;
mod model;
mod samples;
#[cfg(test)]
mod tests;

pub use fit::{Calibration, PointFit, fit};
pub use judge::Deviations;
pub use samples::{CalibrationSamples, Distance, Probe, SamplePoint};
