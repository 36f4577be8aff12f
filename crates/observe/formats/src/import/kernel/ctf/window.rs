//! The part of a stream file that is in memory: it is bounded, whatever the packets claim.

use crate::import::error::ImportError;
use idlewave_sys::files;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes read at once.
const PIECE: usize = 256 << 10;
/// Limit on the bytes of one event. The kernel's have kilobytes, and up to 256 files are read side
/// by side.
const LONGEST: usize = 1 << 20;
/// Limit on the bytes of a file, which may have holes, so that positions in bits do not overflow.
const MOST: u64 = 1 << 60;

/// A file, and some of its bytes.
pub(crate) struct Window {
    file: File,
    path: PathBuf,
    length: u64,
    bytes: Vec<u8>,
    /// Where the bytes begin in the file.
    at: u64,
}

impl Window {
    pub(crate) fn open(path: &Path) -> Result<Self, ImportError> {
        let file = files::open(path).map_err(ImportError::io(path))?;
        let length = file.metadata().map_err(ImportError::io(path))?.len();
        Ok(Self {
            file,
            path: path.to_owned(),
            length: length.min(MOST),
            bytes: Vec::new(),
            at: 0,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes in memory from a position on.
    #[inline]
    pub(crate) fn from(&self, place: u64) -> &[u8] {
        let passed = place.checked_sub(self.at);
        let passed = passed.and_then(|passed| usize::try_from(passed).ok());
        let bytes = passed.and_then(|passed| self.bytes.get(passed..));
        bytes.unwrap_or_default()
    }

    /// Reads on, and drops what comes before a position. Returns whether there was more.
    pub(crate) fn more(&mut self, place: u64) -> Result<bool, ImportError> {
        let end = self.at + self.bytes.len() as u64;
        if place >= end || place < self.at {
            self.bytes.clear();
            self.at = place;
        } else {
            self.bytes.drain(..(place - self.at) as usize);
            self.at = place;
        }
        let held = self.bytes.len();
        if held > LONGEST {
            return Err(self.damaged(place, "an event is longer than 1 MiB"));
        }
        let from = place.saturating_add(held as u64);
        let left = self.length.saturating_sub(from);
        let piece = left.min(PIECE.max(held) as u64) as usize;
        self.bytes.resize(held + piece, 0);
        let mut read = 0;
        while read < piece {
            let place = from + read as u64;
            match self.file.read_at(&mut self.bytes[held + read..], place) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ImportError::io(&self.path)(error)),
            }
        }
        self.bytes.truncate(held + read);
        Ok(read > 0)
    }

    pub(crate) fn damaged(&self, offset: u64, reason: impl Into<String>) -> ImportError {
        ImportError::Damaged {
            path: self.path.clone(),
            offset,
            reason: reason.into(),
        }
    }
}
