//! Two engines: what noise costs at scale, bulk-synchronous, with closed forms as its tests; and, in [`goal`], any program as
//! a schedule of messages and computations under the LogGOPS model.
//!
//! Place in the flow of the first: the noise profile of an analysis goes in, a [`Prediction`](idlewave_run::findings::Prediction) comes out.
//! Model: in every step each rank computes, is struck by noise while it computes, and waits for its neighbours,
//! t(i, k+1) = max over itself and its neighbours of (t(j, k) + work + noise(j, k)) + communication.

mod barrier;
mod blocks;
pub mod bulk;
pub mod collectives;
mod error;
mod general;
pub mod goal;
mod grid;
mod kernel;
pub mod lockstep;
mod noise;
mod plan;
mod predict;
pub mod program;
pub mod question;
mod shape;
mod steady;
mod stencil;
mod text;
mod work;

pub use error::SimulateError;
pub use general::{Graph, step};
pub use predict::{MOST_REMOVED, MeasuredRun, PredictConfig, predict, predict_with_effort};
pub use shape::Shape;
pub use steady::{Delay, mean_delay};
pub use stencil::Stencil;
pub use work::Work;
