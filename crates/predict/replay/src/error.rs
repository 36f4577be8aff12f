//! What can go wrong.

use idlewave_explain::ExplainError;
use idlewave_noise::ModelProblem;
use idlewave_run::RunError;
use idlewave_simulate::bulk::BulkError;
use idlewave_simulate::goal::{BuildError, GoalError};
use std::path::PathBuf;

/// Why a run cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The bundle cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its program cannot be analysed.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// The run has no recorded MPI program.
    #[error("replay {0}: it has no calls of a recorded MPI program")]
    NoProgram(PathBuf),
    /// Nothing in the run shows what a message costs.
    #[error(
        "estimate the cost of a message: no rank waited for a message, or in a collective, before it was sent; give the \
         parameters"
    )]
    NoCosts,
    /// Too many operations for a schedule.
    #[error("write the schedule of rank {rank}: {error}")]
    Build {
        /// The rank.
        rank: u32,
        /// Why the schedule was refused.
        error: BuildError,
    },
    /// The schedule cannot finish.
    #[error("play the schedule: {0}")]
    Play(#[from] GoalError),
    /// The extrapolated program cannot be played.
    #[error("play the program on {ranks} ranks: {error}")]
    Bulk {
        /// Its number of ranks.
        ranks: u32,
        /// Why the engine refused the program.
        error: BulkError,
    },
    /// The noise model contradicts itself.
    #[error(transparent)]
    Noise(#[from] ModelProblem),
}
