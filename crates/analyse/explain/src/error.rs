//! What can go wrong with an analysis.

use idlewave_run::RunError;

/// Why a run could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The bundle could not be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The bundle's tables contradict its manifest.
    #[error("explain {what}: {reason}")]
    Inconsistent {
        /// Table or field.
        what: &'static str,
        /// What does not fit, with the offending values.
        reason: String,
    },
    /// A view was requested for which the run has no data.
    #[error("show the view: {0}")]
    Filter(String),
    /// Two runs have nothing in common.
    #[error("compare the runs: {0}")]
    NotComparable(String),
    /// Stopped on request; nothing was written.
    #[error("explain the run: interrupted")]
    Interrupted,
}
