//! What can go wrong in a simulation.

use crate::question::QuestionError;

/// Why a prediction was not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulateError {
    /// Ranks compute for no time at all, so that no noise can strike and no ratio exists.
    #[error("simulate: there is no work between two exchanges")]
    NoWork,
    /// So many events that not even the smallest number of ranks can be computed.
    #[error("simulate: more events than can be simulated strike each step")]
    TooManyEvents,
    /// More sources to remove than curves are made for.
    #[error("simulate without {asked} sources: at most {limit} can be removed one by one")]
    TooManyRemoved {
        /// How many were asked for.
        asked: usize,
        /// How many are possible.
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
