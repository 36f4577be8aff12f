//! Reads numbers and texts. Every length is checked before anything is allocated for it.

use crate::import::error::ImportError;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// A part of a file, or what was unpacked from one.
#[derive(Debug)]
pub(crate) struct Input<'p, R> {
    inner: R,
    path: &'p Path,
    /// Where `inner` begins in the file, for messages.
    base: u64,
    at: u64,
    length: u64,
    pub(crate) little: bool,
}

impl<'p, R: Read + Seek> Input<'p, R> {
    pub(crate) fn new(inner: R, path: &'p Path, base: u64, length: u64) -> Self {
        Self {
            inner,
            path,
            base,
            at: 0,
            length,
            little: true,
        }
    }

    pub(crate) fn path(&self) -> &'p Path {
        self.path
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Position of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn left(&self) -> u64 {
        self.length.saturating_sub(self.at)
    }

    /// Goes to a position.
    pub(crate) fn go(&mut self, at: u64) -> Result<(), ImportError> {
        if at > self.length {
            return Err(self.damaged(format!("the place {at} is beyond the end")));
        }
        let sought = self.inner.seek(SeekFrom::Start(at));
        sought.map_err(ImportError::io(self.path))?;
        self.at = at;
        Ok(())
    }

    pub(crate) fn damaged(&self, reason: impl Into<String>) -> ImportError {
        ImportError::Damaged {
            path: self.path.to_owned(),
            offset: self.base + self.at,
            reason: reason.into(),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ImportError> {
        match self.inner.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Err(self.damaged("the file ends")),
            Err(e) => Err(ImportError::io(self.path)(e)),
        }
    }

    /// The next `size` bytes, at most `most`.
    pub(crate) fn bytes(&mut self, size: u64, most: u64) -> Result<Vec<u8>, ImportError> {
        if size > self.left() {
            let left = self.left();
            return Err(self.damaged(format!(
                "{size} bytes should follow, but only {left} are left"
            )));
        }
        if size > most {
            return Err(self.damaged(format!("a part of {size} bytes is too long")));
        }
        let mut bytes = vec![0; size as usize];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn skip(&mut self, size: u64) -> Result<(), ImportError> {
        if size > self.left() {
            let left = self.left();
            return Err(self.damaged(format!(
                "{size} bytes should follow, but only {left} are left"
            )));
        }
        self.go(self.at + size)
    }

    /// Takes exactly these bytes, which must follow.
    pub(crate) fn expect(&mut self, what: &[u8]) -> Result<(), ImportError> {
        let at = self.at;
        let found = self.bytes(what.len() as u64, what.len() as u64)?;
        if found == what {
            return Ok(());
        }
        self.at = at;
        let name = what.escape_ascii();
        Err(self.damaged(format!("`{name}` should stand here")))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ImportError> {
        let mut bytes = [0; 1];
        self.fill(&mut bytes)?;
        Ok(bytes[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ImportError> {
        let mut bytes = [0; 2];
        self.fill(&mut bytes)?;
        Ok(match self.little {
            true => u16::from_le_bytes(bytes),
            false => u16::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ImportError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(match self.little {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ImportError> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(match self.little {
            true => u64::from_le_bytes(bytes),
            false => u64::from_be_bytes(bytes),
        })
    }

    /// A zero-terminated text of at most `most` bytes.
    pub(crate) fn text(&mut self, most: usize) -> Result<String, ImportError> {
        let mut bytes = Vec::new();
        loop {
            match self.u8()? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                byte if bytes.len() < most => bytes.push(byte),
                _ => return Err(self.damaged("a text has no end")),
            }
        }
    }
}
