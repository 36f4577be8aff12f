//! `idlewave simulate stencil` and `collective`: what does noise cost, at what scale, and what
//! would help?

mod files;
mod like;
mod lists;
mod options;
mod output;
mod plan;
mod question;
mod replayed;
mod run;

pub use like::run_like;
pub use options::{CollectiveArgs, LikeArgs, NoiseArgs, StencilArgs};
pub use plan::model;
pub use run::{run_collective, run_stencil};
