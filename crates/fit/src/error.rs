//! Why there is no model.

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
    /// What was fitted is no model: an event too long, too many sources.
    #[error("fit the noise: {0}")]
    Model(#[from] ModelProblem),
}
