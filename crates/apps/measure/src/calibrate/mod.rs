//! Measures a network and its nodes between ranks: single messages, several pairs at once, all
//! ranks with all ranks, and computation that shares memory.
//!
//! It produces raw [`CalibrationSamples`](idlewave_network::CalibrationSamples), from which
//! `idlewave_network::fit` derives parameters. The points are those of GPCNeT and of the OSU
//! benchmarks, by the number of ranks per node; docs/calibration.md describes what each of them
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
