//! Why there are no findings of a run, or no page.

use idlewave_explain::ExplainError;
use idlewave_report::ReportError;
use idlewave_run::RunError;
use idlewave_session::{COPY_AGAIN, SessionError};

/// Why there are no findings of a run, or no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The run could not be recorded, opened or completed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It could not be explained.
    #[error(transparent)]
    Explain(ExplainError),
    /// The page could not be made.
    #[error(transparent)]
    Report(ReportError),
}

impl PipelineError {
    /// What the user can do about it, one line.
    pub fn next_step(&self) -> Option<String> {
        match self {
            PipelineError::Session(error) => error.next_step(),
            PipelineError::Explain(ExplainError::Filter(_)) => Some(
                "leave the filter out; idlewave explain RUN --view processes lists what there is"
                    .to_owned(),
            ),
            PipelineError::Explain(ExplainError::NotComparable(_)) => Some(
                "compare two runs of the same measurement, recorded in the same way".to_owned(),
            ),
            PipelineError::Explain(_) => Some(COPY_AGAIN.to_owned()),
            PipelineError::Report(_) => None,
        }
    }
}

impl From<RunError> for PipelineError {
    fn from(error: RunError) -> Self {
        SessionError::from(error).into()
    }
}

impl From<ExplainError> for PipelineError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Run(error) => error.into(),
            ExplainError::Interrupted => SessionError::Interrupted {
                kept: "the bundle is as it was".to_owned(),
            }
            .into(),
            other => PipelineError::Explain(other),
        }
    }
}

impl From<ReportError> for PipelineError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Run(error) => error.into(),
            other => PipelineError::Report(other),
        }
    }
}
