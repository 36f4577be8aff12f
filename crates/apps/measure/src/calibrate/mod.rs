//! What a network and its nodes can do, measured between ranks: messages alone, several pairs at a
//! time, everybody with everybody, and computation that shares memory.
//!
//! Place in the flow: it gives [`CalibrationSamples`](idlewave_network::CalibrationSamples), raw;
//! `idlewave_network::fit` makes parameters of them. The points are those of GPCNeT and of the OSU
//! benchmarks, by the number of ranks per node; docs/calibration.md says what each of them
//! measures.

mod job;
mod layout;
mod options;
mod plan;
mod probe;
mod rounds;
mod streams;

pub use job::{Calibrated, calibrate};
pub use options::CalibrateOptions;
