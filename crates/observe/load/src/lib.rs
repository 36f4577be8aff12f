//! The load of a cluster's links, which other jobs put on them: measured from counters of adapters
//! ([`host`]) and of switches ([`dump`]), with the jobs that run ([`jobs`]).
//!
//! A counter read several times gives a rate with an interval ([`rate()`]); [`acquire`] says which
//! link of a topology it belongs to, and what counters of adapters say of links between switches
//! ([`between`]). The result is a [`LoadFile`], which placements subtract from the capacity of links.

mod acquire;
pub mod between;
pub mod dump;
mod error;
mod file;
pub mod host;
pub mod jobs;
mod rate;

pub use acquire::{Sources, SwitchDump, acquire};
pub use error::LoadError;
pub use file::{Ends, JobEntry, LoadEntry, LoadFile, Origin, When};
pub use rate::{Counter, Rate, Rated, Sample, rate};
