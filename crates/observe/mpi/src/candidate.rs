//! A file that may be the MPI library.

use crate::abi::Family;
use std::path::PathBuf;

/// A file or soname to open, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What to pass to the loader.
    pub file: PathBuf,
    /// Why it is tried, as a remark after the file name.
    pub because: String,
    /// The wanted family, if only one will do.
    pub family: Option<Family>,
}

impl Candidate {
    pub fn new(file: impl Into<PathBuf>, because: &str, family: Option<Family>) -> Self {
        Self {
            file: file.into(),
            because: because.to_owned(),
            family,
        }
    }
}

/// The file, if it exists.
pub fn existing(file: PathBuf) -> Option<PathBuf> {
    file.is_file().then_some(file)
}
