//! What an export wrote.

use idlewave_run::Ledger;
use std::path::PathBuf;

/// A file that an export wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Rows, records or events in it; `None` for a file that has none.
    pub records: Option<u64>,
}

/// What an export wrote, and what it had to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// The files, starting with the one to open.
    pub files: Vec<Written>,
    /// What the format cannot hold.
    pub losses: Ledger,
}

impl Export {
    /// The result of an exporter that writes one file.
    pub(crate) fn one(file: Written, losses: Ledger) -> Self {
        let files = vec![file];
        Self { files, losses }
    }
}
