//! The noise model: named sources, with when, where and for how long they strike.
//!
//! Place in the flow: a [`NoiseModel`] is fitted from a run, read from a TOML file or written by
//! hand. [`Noise`] is the model with a seed. A [`Timeline`] computes for one CPU when work that
//! starts now finishes. Both simulation engines take CPU time through [`CpuTime`].
//!
//! Randomness is counter-based (seed, source, CPU, event number): the order, time and thread of a
//! query do not change the events, and removing a source leaves the events of all others in place.

mod check;
mod cputime;
pub mod draw;
mod events;
mod lengths;
mod lone;
mod model;
mod noise;
pub mod philox;
mod select;
mod served;
mod stream;
mod text;
mod timeline;
mod transform;

pub use check::ModelProblem;
pub use cputime::{CpuTime, Quiet};
pub use events::Event;
pub use lone::{LoneStream, Struck};
pub use model::{
    Arrivals, Clock, Fit, GoodnessOfFit, Lengths, NoiseModel, Scope, Source, Tail, Together,
};
pub use noise::{Noise, uniform};
pub use select::{Pattern, PatternError};
pub use served::{Served, ServedEvents};
pub use stream::Place;
pub use text::ModelError;
pub use timeline::{Charge, Timeline, Timelines};
