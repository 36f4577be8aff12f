//! From a recorded run to what users see: findings, prediction, summary and page.
//!
//! Everything here reads only the bundle, so that doing it again gives the same bytes. [`analyse`]
//! explains a run and predicts from it; [`summary`], [`calls`] and [`write_report`] show what came
//! out, and [`render`] does both for `report`. [`view`] lists everything of one kind, whether or
//! not it delayed anybody, and [`compare`] compares two runs.

mod analyse;
mod beside;
mod effort;
mod error;
mod show;
mod steps;
mod view;

pub use analyse::{Analysis, analyse, analyse_locked, explained};
pub use effort::Effort;
pub use error::PipelineError;
pub use idlewave_explain::compare::compare_steps;
pub use idlewave_report::{render_comparison, render_jitter};
pub use show::{calls, render, summary, write_report};
pub use steps::Steps;
pub use view::{compare, view, view_text};
