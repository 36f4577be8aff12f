//! From a run to its explanation: late steps, their causes by name, the table of sources, advice.
//!
//! The way through this crate: [`timeline`] flattens what the kernel recorded into who had each CPU
//! when; [`watch`] says whose time that was taken from; [`steps`] finds the chain of last arrivals
//! of a lockstep run; [`attribute`] lays one over the other, so that the parts of every late step
//! add up to its lateness exactly; the rest makes tables of it. Everything is computed from the
//! bundle alone, and in a fixed order: the same bundle gives the same bytes.

mod activations;
pub mod advice;
pub mod attribute;
pub mod catalog;
mod cpu_noise;
mod edges;
mod error;
mod explain;
mod holes;
mod jitter;
mod kernel;
mod lockstep;
mod noise_events;
mod observe;
mod profile;
pub mod program;
pub mod reference;
mod source_table;
pub mod steps;
mod strikes;
pub mod timeline;
pub mod watch;
mod watched;

pub use error::ExplainError;
pub use explain::{Explanation, ProgramTables, explain};
pub use jitter::jitter_of;
pub use noise_events::{Lane, LaneStrike, NoiseEvents, NoiseOf, SourceStrikes, noise_events};
