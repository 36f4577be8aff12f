//! Noise as a model: labelled sources, each with when it strikes, whom, and for how long.
//!
//! Place in the flow: a [`NoiseModel`] is fitted from a run, read from a TOML file or written by hand; [`Noise`] is the model
//! with a seed, ready to strike; a [`Timeline`] answers for one CPU when work that begins now is done. Both engines of the
//! simulation take CPU time through [`CpuTime`].
//!
//! Randomness is by counter (seed, source, CPU, number of the event): who asks, when, and on how many threads changes
//! nothing, and removing a source leaves the events of the others where they were.

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
mod text;
mod timeline;
mod transform;

pub use check::ModelProblem;
pub use cputime::{CpuTime, Quiet};
pub use events::{Event, Events};
pub use lone::{LoneStream, Struck};
pub use model::{
    Arrivals, Clock, Fit, GoodnessOfFit, Lengths, NoiseModel, Scope, Source, Tail, Together,
};
pub use noise::{Noise, Place, uniform};
pub use select::{Pattern, PatternError};
pub use served::{Served, ServedEvents};
pub use text::ModelError;
pub use timeline::{Charge, Timeline, Timelines};
