//! From a run to its explanation: late steps, their causes by name, the table of sources, advice.
//!
//! [`timeline`] flattens the kernel's records into who had each CPU when. [`watch`] tells whose
//! time that was. [`steps`] finds the chain of last arrivals of a lockstep run. [`attribute`]
//! combines them, so that the parts of every late step add up to its lateness exactly. The rest
//! builds tables. Everything is computed from the bundle alone, in a fixed order: the same bundle
//! gives the same bytes.

mod activations;
pub mod advice;
pub mod attribute;
mod by_rate;
pub mod catalog;
pub mod compare;
mod cpu_noise;
mod crowd;
mod detours;
mod edges;
mod error;
mod explain;
mod fixed_time;
mod fixed_work;
mod holes;
mod jitter;
mod kernel;
pub mod limits;
mod load_sweep;
mod lockstep;
mod node_ranks;
mod noise_events;
mod observe;
mod others;
mod profile;
pub mod program;
mod ran;
pub mod reference;
mod reserved;
pub mod series;
mod source_table;
mod spans;
mod step_series;
pub mod steps;
mod strikes;
pub mod timeline;
mod turns;
pub mod views;
pub mod watch;
mod watched;
mod ways;

pub use crowd::Crowd;
pub use error::ExplainError;
pub use explain::{Explanation, ProgramTables, explain};
pub use fixed_work::{Work, fixed_work};
pub use jitter::{jitter_of, step_series};
pub use noise_events::{Lane, LaneStrike, NoiseEvents, NoiseOf, SourceStrikes, noise_events};
pub use step_series::StepSeries;
pub use ways::{WayOf, way_change, way_sentence, ways};
