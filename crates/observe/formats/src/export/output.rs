//! The file that an export writes.

use crate::export::ExportError;
use idlewave_sys::files::Replacement;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes collected before they are written.
const BUFFER: usize = 1 << 20;

/// A file that gets its name once it is whole: an export that fails leaves nothing behind, and the
/// file that was there before stays.
pub(crate) struct Output {
    new: Replacement,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl Output {
    /// Begins the file.
    pub(crate) fn begin(path: &Path) -> Result<Self, ExportError> {
        Ok(Self {
            new: Replacement::begin(path).map_err(ExportError::io(path))?,
            path: path.to_owned(),
            buffer: Vec::with_capacity(BUFFER),
        })
    }

    /// Appends these bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        self.buffer.extend_from_slice(bytes);
        match self.buffer.len() >= BUFFER {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let written = self.new.file().write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(ExportError::io(&self.path))
    }

    /// Ends the file and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), ExportError> {
        self.flush()?;
        self.new.commit().map_err(ExportError::io(&self.path))
    }
}
