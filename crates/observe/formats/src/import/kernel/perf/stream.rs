//! The records of a perf.data in order.

use crate::import::error::ImportError;
use idlewave_ftrace::page::{read_u16, read_u32};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes read at once.
const BLOCK: usize = 1 << 20;
/// The size of a record has 16 bits.
const LONGEST: usize = 1 << 16;
/// Size of a record's head.
pub(crate) const HEAD: usize = 8;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// `PERF_RECORD_*`.
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    /// What follows the head.
    pub(crate) body: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at the start of `bytes`; `None` if it is incomplete.
    ///
    /// # Errors
    /// Its size is less than that of its head.
    #[inline]
    pub(crate) fn first<const LE: bool>(bytes: &'a [u8]) -> Result<Option<Self>, String> {
        let fields = (read_u32::<LE>(bytes, 0), read_u16::<LE>(bytes, 4));
        let (Some(kind), Some(misc)) = fields else {
            return Ok(None);
        };
        let Some(size) = read_u16::<LE>(bytes, 6).map(usize::from) else {
            return Ok(None);
        };
        if size < HEAD {
            return Err(format!("no record has a size of {size} bytes"));
        }
        let body = bytes.get(HEAD..size);
        Ok(body.map(|body| Self { kind, misc, body }))
    }
}

/// The part of a file that holds the records.
pub(crate) struct Stream<'p> {
    file: File,
    path: &'p Path,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Position in the file of the byte at `begin`.
    at: u64,
    /// Bytes that are not in the buffer yet.
    left: u64,
    total: u64,
    cut: bool,
}

impl<'p> Stream<'p> {
    /// The records in the `size` bytes from `at` on.
    pub(crate) fn new(
        mut file: File,
        path: &'p Path,
        at: u64,
        size: u64,
    ) -> Result<Self, ImportError> {
        let sought = file.seek(SeekFrom::Start(at));
        sought.map_err(ImportError::io(path))?;
        Ok(Self {
            file,
            path,
            buffer: vec![0; BLOCK + LONGEST],
            begin: 0,
            end: 0,
            at,
            left: size,
            total: size,
            cut: false,
        })
    }

    /// Share of the records read so far.
    pub(crate) fn share(&self) -> f64 {
        1.0 - self.left as f64 / self.total.max(1) as f64
    }

    /// Whether the records end within one.
    pub(crate) fn cut(&self) -> bool {
        self.cut
    }

    /// Position in the file of what comes next.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn damaged(&self, reason: impl Into<String>) -> ImportError {
        ImportError::Damaged {
            path: self.path.to_owned(),
            offset: self.at,
            reason: reason.into(),
        }
    }

    /// The next record.
    pub(crate) fn next<const LE: bool>(&mut self) -> Result<Option<Record<'_>>, ImportError> {
        loop {
            let there = &self.buffer[self.begin..self.end];
            let size = match Record::first::<LE>(there) {
                Ok(record) => record.map(|r| HEAD + r.body.len()),
                Err(reason) => return Err(self.damaged(reason)),
            };
            if let Some(size) = size {
                let begin = self.begin;
                self.begin += size;
                self.at += size as u64;
                // Once more, for the lifetime: the returned record must not be borrowed while
                // filling.
                return Ok(Record::first::<LE>(&self.buffer[begin..self.end]).unwrap_or(None));
            }
            if !self.fill()? {
                self.cut |= self.begin < self.end;
                self.begin = self.end;
                return Ok(None);
            }
        }
    }

    /// Data that follows the last record; `None` if it is incomplete.
    pub(crate) fn data(&mut self, size: u64, most: u64) -> Result<Option<Vec<u8>>, ImportError> {
        if size > most {
            return Err(self.damaged(format!("a part of {size} bytes is too long")));
        }
        let mut data = Vec::new();
        while (data.len() as u64) < size {
            let there = (self.end - self.begin).min((size - data.len() as u64) as usize);
            data.extend_from_slice(&self.buffer[self.begin..self.begin + there]);
            self.begin += there;
            self.at += there as u64;
            if (data.len() as u64) < size && !self.fill()? {
                self.cut = true;
                return Ok(None);
            }
        }
        Ok(Some(data))
    }

    /// Skips data that follows the last record.
    pub(crate) fn skip(&mut self, size: u64) -> Result<(), ImportError> {
        let there = (self.end - self.begin) as u64;
        let beyond = size.saturating_sub(there);
        self.begin += size.min(there) as usize;
        self.cut |= beyond > self.left;
        let beyond = beyond.min(self.left);
        if beyond > 0 {
            let to = self.at + there + beyond;
            let sought = self.file.seek(SeekFrom::Start(to));
            sought.map_err(ImportError::io(self.path))?;
            self.left -= beyond;
        }
        self.at += size.min(there) + beyond;
        Ok(())
    }

    /// Reads on; `false` at the end.
    fn fill(&mut self) -> Result<bool, ImportError> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        let room = (self.buffer.len() - self.end) as u64;
        let most = self.end + room.min(self.left) as usize;
        loop {
            match self.file.read(&mut self.buffer[self.end..most]) {
                Ok(0) => {
                    // The file has fewer bytes than the header says.
                    self.cut |= self.left > 0;
                    self.left = 0;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    self.left -= count as u64;
                    return Ok(true);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(ImportError::io(self.path)(e)),
            }
        }
    }
}
