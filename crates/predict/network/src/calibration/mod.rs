//! From measured times between ranks to the parameters of a network.
//!
//! [`CalibrationSamples`] are the raw measurements of `idlewave place calibrate`. [`fit`] turns
//! them into a [`Calibration`] as a pure function: the same samples and seed give the same bytes.
//! docs/calibration.md describes the model and its limits.

mod curves;
mod fit;
mod judge;
mod model;
mod point_fit;
mod samples;
#[cfg(test)]
mod tests;

pub use fit::{Calibration, fit};
pub use judge::Deviations;
pub use point_fit::PointFit;
pub use samples::{CalibrationSamples, Distance, Probe, SamplePoint};
