//! A file of an export: written beside its destination, and moved there once it is complete.

use crate::export::{ExportError, Written};
use idlewave_sys::files::Replacement;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Text is handed to the kernel in pieces of this size.
const PIECE: usize = 1 << 20;

/// A file being written. Dropped before [`Output::finish`], it leaves nothing behind.
pub(crate) struct Output {
    path: PathBuf,
    file: Replacement,
    /// Text that is not in the file yet. Code that appends to it calls [`Output::pass_on`] now and
    /// then.
    pub(crate) text: Vec<u8>,
    bytes: u64,
}

impl Output {
    pub(crate) fn begin(path: &Path) -> Result<Self, ExportError> {
        Ok(Self {
            path: path.to_owned(),
            file: Replacement::begin(path).map_err(ExportError::io(path))?,
            text: Vec::with_capacity(PIECE + (PIECE >> 2)),
            bytes: 0,
        })
    }

    /// Appends these bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        self.text.extend_from_slice(bytes);
        self.pass_on()
    }

    /// Writes the text to the file once there is a whole piece.
    pub(crate) fn pass_on(&mut self) -> Result<(), ExportError> {
        match self.text.len() < PIECE {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let written = self.file.file().write_all(&self.text);
        written.map_err(ExportError::io(&self.path))?;
        self.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }

    /// Puts the complete file in its place. `records` is the number of its records, if it has any.
    pub(crate) fn finish(mut self, records: Option<u64>) -> Result<Written, ExportError> {
        self.flush()?;
        self.file.commit().map_err(ExportError::io(&self.path))?;
        Ok(Written {
            path: self.path,
            bytes: self.bytes,
            records,
        })
    }
}

/// Appends a number in decimal digits. `write!` takes three times as long.
pub(crate) fn number(text: &mut Vec<u8>, value: impl itoa::Integer) {
    text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}
