//! Errors of a simulation.

use crate::question::QuestionError;

/// Why a prediction was not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulateError {
    /// Ranks do not compute at all, so no noise can strike and no ratio exists.
    #[error("simulate: there is no work between two exchanges")]
    NoWork,
    /// So many events that not even the smallest number of ranks can be simulated.
    #[error("noise strikes each step more often than can be simulated")]
    TooManyEvents,
    /// More sources to remove than there are curves for.
    #[error("simulate without {asked} sources: at most {limit} can be removed one by one")]
    TooManyRemoved {
        /// How many were requested.
        asked: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// A model or a program that cannot be simulated.
    #[error("simulate: {0}")]
    Question(QuestionError),
    /// `stop` became true.
    #[error("simulate: stopped before the end")]
    Stopped,
}

impl From<QuestionError> for SimulateError {
    fn from(error: QuestionError) -> Self {
        match error {
            QuestionError::Stopped => SimulateError::Stopped,
            other => SimulateError::Question(other),
        }
    }
}
