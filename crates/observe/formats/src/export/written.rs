//! What an export wrote.

use crate::export::ExportError;
use idlewave_run::Ledger;
use std::fs;
use std::path::{Path, PathBuf};

/// A file that an export wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Rows or records in it; `None` for a file that has none, or does not count them.
    pub records: Option<u64>,
}

/// What an export wrote, and what it had to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// The files, the one to open first.
    pub files: Vec<Written>,
    /// What the format cannot hold.
    pub losses: Ledger,
}

impl Export {
    /// The result of an exporter that wrote one file and did not count its records.
    ///
    /// # Errors
    /// The file is not there.
    pub fn of_file(path: &Path, losses: Ledger) -> Result<Self, ExportError> {
        let there = fs::symlink_metadata(path).map_err(ExportError::io(path))?;
        Ok(Self {
            files: vec![Written {
                path: path.to_owned(),
                bytes: there.len(),
                records: None,
            }],
            losses,
        })
    }
}
