//! The start of a file, by which its format is recognised.

use crate::import::error::ImportError;
use idlewave_sys::files;
use std::io::Read;
use std::path::Path;

/// Bytes looked at.
pub(crate) const LOOK: u64 = 1 << 16;

/// The first bytes of a file.
pub(crate) fn of_file(path: &Path) -> Result<Vec<u8>, ImportError> {
    let mut start = Vec::new();
    let file = files::open(path).map_err(ImportError::io(path))?;
    let read = file.take(LOOK).read_to_end(&mut start);
    read.map_err(ImportError::io(path))?;
    Ok(start)
}
