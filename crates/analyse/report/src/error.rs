//! What can go wrong while a report is rendered.

use idlewave_run::RunError;

/// Why a report could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A table of the run could not be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The page's data could not be encoded.
    #[error("encode the data of the page: {0}")]
    Encode(String),
}
