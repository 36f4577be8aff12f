//! Quantities with units: nanoseconds, instants with a clock domain, bytes, rates, ranks, CPUs, sets and ratios.
//!
//! Every other crate of idlewave builds on these types, so that a number always says what it is.
//! Durations and instants are integers; floating point appears only in statistics ([`NoiseRatio`])
//! and rates ([`BytesPerSecond`]).

mod amount;
mod bytes;
mod cpuset;
pub mod foreign;
mod ids;
mod nanos;
mod rate;
mod ratio;
mod time;

pub use bytes::{Bytes, ParseBytesError};
pub use cpuset::{CpuSet, ParseCpuSetError};
pub use ids::{Cpu, NodeId, Pid, Rank};
pub use nanos::{Nanos, ParseNanosError};
pub use rate::{BytesPerSecond, ParseRateError};
pub use ratio::NoiseRatio;
pub use time::{ClockDomain, Instant, InstantError};
