//! Failures.

use idlewave_units::foreign::cut;

/// Text that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A line that does not have its form.
    #[error("line {line}: {why}: {}", cut(text))]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
        /// The line.
        text: String,
    },
    /// Text as a whole.
    #[error("{0}")]
    Text(String),
    /// A file of the kernel that cannot be read.
    #[error("read {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

impl LoadError {
    pub(crate) fn line(line: usize, text: &str, why: &'static str) -> Self {
        let text = text.to_owned();
        LoadError::Line { line, why, text }
    }
}
