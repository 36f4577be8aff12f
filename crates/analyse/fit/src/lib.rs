//! From a measurement to a noise model: when each source strikes, what it strikes and for how long,
//! with intervals and tests.
//!
//! Place in the flow: after the explanation of a run, whose strikes it uses, and before the
//! simulation, which plays the [`idlewave_noise::NoiseModel`]. How each law is chosen:
//! docs/noise-model.md.

mod arrivals;
mod error;
mod fit;
mod input;
mod lengths;
mod levels;
mod periodic;
mod report;
mod selfish;
mod shares;
mod sharing;
mod source;
mod text;

pub use error::FitError;
pub use fit::{fit, fit_run, fit_selfish};
pub use idlewave_explain::NoiseOf;
pub use idlewave_stats::line::Line;
pub use input::{Input, SourceEvents};
pub use report::{Report, SourceReport};
pub use selfish::{Selfish, SelfishError};

use idlewave_noise::NoiseModel;

/// A model with the report on its fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model.
    pub model: NoiseModel,
    /// How it was fitted, and how well it fits.
    pub report: Report,
}
