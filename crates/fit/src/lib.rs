//! From what was measured to a model of the noise: for every source when it strikes, whom, and for how long, with intervals
//! and tests.
//!
//! Place in the flow: after the explanation of a run, whose strikes it takes, and before the simulation, which plays the
//! [`idlewave_noise::NoiseModel`]. How each law is chosen: docs/noise-model.md.

mod arrivals;
mod error;
mod input;
mod lengths;
mod levels;
mod line;
mod periodic;
mod report;
mod selfish;
mod shares;
mod sharing;
mod source;
mod text;

pub use error::FitError;
pub use idlewave_explain::NoiseOf;
pub use input::{Input, SourceEvents, fit, fit_run, fit_selfish};
pub use line::Line;
pub use report::{Report, SourceReport};
pub use selfish::{Selfish, SelfishError};

use idlewave_noise::NoiseModel;

/// A model with what is to be said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model.
    pub model: NoiseModel,
    /// How it was found, and how well it fits.
    pub report: Report,
}
