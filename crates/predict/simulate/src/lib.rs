//! What noise costs at scale, and how long any program takes: bulk-synchronous programs ([`bulk`],
//! [`lockstep`]) and, in [`goal`], schedules of messages and computations under the LogGOPS model,
//! all with the same noise model. [`bundle`] writes a simulated run as a run bundle.
//!
//! Place in the flow: a [`NoiseModel`](idlewave_noise::NoiseModel) goes in, an
//! [`Answer`](question::Answer) or a [`Prediction`](idlewave_run::findings::Prediction) comes out.
//! In every step each rank computes, is delayed by noise, and waits for its neighbours: t(i, k+1) =
//! max over itself and its neighbours j of the end of j's computation, plus communication.

mod blocks;
mod budget;
pub mod bulk;
pub mod bundle;
pub mod collectives;
mod curve;
mod error;
mod general;
pub mod goal;
pub mod lockstep;
mod predict;
pub mod program;
pub mod question;
mod quiet_step;
mod rate_law;
mod shape;
mod stencil;
mod text;
mod thin;
mod work;

pub use error::SimulateError;
pub use general::{Graph, step};
pub use predict::{MOST_REMOVED, MeasuredRun, PredictConfig, predict};
pub use quiet_step::QuietStep;
pub use shape::Shape;
pub use stencil::Stencil;
pub use work::Work;
