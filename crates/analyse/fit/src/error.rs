//! Errors of fitting.

use idlewave_explain::ExplainError;
use idlewave_noise::ModelProblem;

/// Why nothing could be fitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// The run could not be read.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// No CPU was watched for any time.
    #[error("fit the noise: no thread was watched for any time")]
    NothingWatched,
    /// The fitted model is invalid: an event is too long, or there are too many sources.
    #[error("fit the noise: {0}")]
    Model(#[from] ModelProblem),
}
