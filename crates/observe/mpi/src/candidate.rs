//! A file that may be the MPI library.

use crate::abi::Family;
use std::path::PathBuf;

/// A file or soname to open, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What is given to the loader.
    pub file: PathBuf,
    /// Why, as a remark after the file.
    pub because: String,
    /// Only a library of this family is wanted.
    pub family: Option<Family>,
}

impl Candidate {
    /// A candidate of any name.
    pub fn new(file: impl Into<PathBuf>, because: &str, family: Option<Family>) -> Self {
        Self {
            file: file.into(),
            because: because.to_owned(),
            family,
        }
    }
}

/// The file, if there is one.
pub fn existing(file: PathBuf) -> Option<PathBuf> {
    file.is_file().then_some(file)
}
