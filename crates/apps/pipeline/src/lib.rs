//! From a recorded run to what users see: findings, prediction, summary and page.
//!
//! Everything here reads the bundle alone, so that doing it again gives the same bytes. [`analyse`] explains a run and predicts from it;
//! [`summary`], [`calls`] and [`write_report`] show what came out, and [`render`] does both for `report`.

mod analyse;
mod effort;
mod error;
mod show;

pub use analyse::{Analysis, analyse, analyse_locked};
pub use effort::Effort;
pub use error::PipelineError;
pub use show::{calls, render, summary, write_report};
