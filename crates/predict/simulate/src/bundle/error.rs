//! Why no bundle was written.

use super::limits::{MOST_EVENTS, MOST_RANK_STEPS, MOST_RANKS};
use crate::bulk::BulkError;
use idlewave_noise::ModelProblem;
use idlewave_run::RunError;
use std::path::PathBuf;

/// Why a simulated run was not written. Nothing is left on disk.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The model is invalid.
    #[error(transparent)]
    Model(#[from] ModelProblem),
    /// The program is invalid or takes too long.
    #[error(transparent)]
    Program(#[from] BulkError),
    /// Noise by exposure.
    #[error(
        "noise by exposure has no times on the wall clock for a run to show; simulate on the wall clock, or ask for the numbers without a bundle"
    )]
    Exposure,
    /// A step is not a computation followed by communication of one kind.
    #[error("the program is not a lockstep run: {0}")]
    NoLockstep(&'static str),
    /// A source to leave out that does not exist.
    #[error("source {0} is to be left out, but the model has {1} sources")]
    Without(usize, usize),
    /// A delay of a rank or in a step that does not exist.
    #[error("a delay of rank {rank} in step {step}: the run has {ranks} ranks and {steps} steps")]
    Delay {
        /// Its rank.
        rank: u32,
        /// Its step.
        step: u64,
        /// Ranks of the program.
        ranks: u32,
        /// Steps of the run.
        steps: u64,
    },
    /// More ranks than a bundle may have.
    #[error(
        "{0} ranks are too many for a run bundle, which has a sheet and a time line for each rank, {MOST_RANKS} at most; simulate fewer, or ask for the numbers without a bundle"
    )]
    Ranks(u32),
    /// More ranks times steps than a bundle may have.
    #[error(
        "{ranks} ranks times {steps} steps are too many for a run bundle, which keeps two rows of 41 bytes for each, {MOST_RANK_STEPS} at most; simulate fewer, or ask for the numbers without a bundle"
    )]
    RankSteps {
        /// Ranks of the program.
        ranks: u32,
        /// Steps asked for.
        steps: u64,
    },
    /// The noise model strikes too often.
    #[error(
        "the noise strikes more than {MOST_EVENTS} times in this run, the most that a run bundle keeps; simulate fewer ranks or steps, or leave out a source"
    )]
    Events,
    /// The caller stopped it.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The destination already holds something.
    #[error("{} exists and is not an empty directory", .0.display())]
    Exists(PathBuf),
    /// The bundle could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The finished bundle could not be renamed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
