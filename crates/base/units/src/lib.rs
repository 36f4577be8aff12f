//! Quantities with units: nanoseconds, bytes, rates, ranks, CPUs, sets and ratios.
//!
//! Every other crate of idlewave uses these types, so a number always has its unit. Durations are
//! integers; floating point appears only in statistics ([`NoiseRatio`]) and rates
//! ([`BytesPerSecond`]).

mod amount;
mod bytes;
mod counted;
mod cpuset;
pub mod foreign;
mod ids;
mod nanos;
mod rate;
mod ratio;
pub mod show;

pub use bytes::{Bytes, ParseBytesError};
pub use counted::{counted, grouped, named};
pub use cpuset::{CpuSet, ParseCpuSetError};
pub use ids::{Cpu, NodeId, Pid, Rank};
pub use nanos::{Nanos, ParseNanosError};
pub use rate::{BytesPerSecond, ParseRateError};
pub use ratio::NoiseRatio;
