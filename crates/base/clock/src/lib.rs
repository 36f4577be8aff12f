//! Counters that stamp measurements, and their conversion to CLOCK_MONOTONIC nanoseconds.
//!
//! A measuring loop reads a raw counter ([`Source`]); a [`Calibration`] converts its counts
//! afterwards, so there is no arithmetic between two readings.

mod calibration;
mod choose;
mod quantum;
mod source;

pub use calibration::{Calibration, Pair};
pub use choose::{ClockError, Counter, Readings};
pub use quantum::{Quantum, quantum_of, read_time};
#[cfg(target_arch = "aarch64")]
pub use source::Cntvct;
#[cfg(target_arch = "x86_64")]
pub use source::Tsc;
pub use source::{Monotonic, Source, monotonic_ns};
