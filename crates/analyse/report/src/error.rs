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
    /// A file beside the page could not be written.
    #[error("write {name}: {source}")]
    File {
        /// Its folder and name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
}
