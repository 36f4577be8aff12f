//! Why a question has no answer.

use crate::bulk::BulkError;
use crate::lockstep::LockstepError;
use idlewave_noise::ModelProblem;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The program cannot be run.
    #[error(transparent)]
    Program(#[from] BulkError),
    /// It takes too long.
    #[error(transparent)]
    Lockstep(#[from] LockstepError),
    /// The noise is invalid.
    #[error(transparent)]
    Noise(#[from] ModelProblem),
    /// The program takes no time, so that nothing can be relative to it.
    #[error("the program takes no time")]
    NoTime,
    /// Noise makes its steps longer than the caller's limit.
    #[error("its steps take longer than can be simulated")]
    TooLong,
    /// `stop` became true.
    #[error("stopped before the end")]
    Stopped,
}
