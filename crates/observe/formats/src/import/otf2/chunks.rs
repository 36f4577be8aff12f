//! Files of records: a sequence of chunks of one size, each with a header.
//!
//! A record is a byte with its kind, and its content. No record goes beyond its chunk.

use super::bytes::Bytes;
use crate::import::error::ImportError;
use idlewave_sys::files;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Bytes of the header of a chunk: mark, byte order, numbers of the first and the last record.
const HEADER: usize = 18;

/// Kinds that are no records (OTF2 3.0: OTF2_Buffer.h).
const END_OF_CHUNK: u8 = 0;
const END_OF_FILE: u8 = 2;

/// A file of records.
pub(super) struct Chunks {
    path: PathBuf,
    file: File,
    /// Bytes of a chunk.
    size: usize,
    chunk: Vec<u8>,
    /// Where the chunk begins in the file, and how much of it was read.
    begin: u64,
    at: usize,
    big: bool,
}

/// What comes next in a file.
pub(super) enum Head<'a> {
    /// A record: its kind, and the bytes after it.
    Record(u8, Bytes<'a>),
    End,
    /// The file ends within a chunk.
    Cut,
}

impl Chunks {
    /// Opens a file with chunks of this size; `None` if there is no such file.
    pub(super) fn open(path: PathBuf, size: u64) -> Result<Option<Self>, ImportError> {
        let file = match files::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ImportError::io(&path)(error)),
        };
        Ok(Some(Self {
            path,
            file,
            size: size as usize,
            chunk: Vec::new(),
            begin: 0,
            at: 0,
            big: false,
        }))
    }

    /// The next record. The caller then reports how far it read with [`Chunks::pass`].
    pub(super) fn next(&mut self) -> Result<Head<'_>, ImportError> {
        if self.chunk.is_empty() && !self.next_chunk()? {
            return Ok(Head::Cut);
        }
        loop {
            match self.chunk.get(self.at) {
                None => return self.short().map(|()| Head::Cut),
                Some(&END_OF_CHUNK) => {
                    if !self.next_chunk()? {
                        return Ok(Head::Cut);
                    }
                }
                Some(&END_OF_FILE) => return Ok(Head::End),
                // End of buffer, header of a chunk, and a kind that OTF2 does not use.
                Some(1 | 3 | 4) => return Err(self.damaged("no record begins like this")),
                Some(&kind) => {
                    let rest = Bytes::new(&self.chunk[self.at + 1..], self.big);
                    return Ok(Head::Record(kind, rest));
                }
            }
        }
    }

    /// Goes past the last record, after which `left` bytes of the chunk remain.
    pub(super) fn pass(&mut self, left: usize) {
        self.at = self.chunk.len() - left;
    }

    /// Reads a chunk; false if the file ends before its first record.
    fn next_chunk(&mut self) -> Result<bool, ImportError> {
        self.begin += self.chunk.len() as u64;
        self.at = 0;
        self.chunk.clear();
        let mut part = (&mut self.file).take(self.size as u64);
        let read = part.read_to_end(&mut self.chunk);
        read.map_err(ImportError::io(&self.path))?;
        if self.chunk.len() < HEADER {
            return Ok(false);
        }
        match Bytes::of_file(&self.chunk) {
            Some(bytes) => self.big = bytes.is_big(),
            None => return Err(self.damaged("no chunk begins here")),
        }
        self.at = HEADER;
        Ok(true)
    }

    /// The last record goes beyond its chunk. The file is cut there if the chunk is; else it is
    /// damaged.
    pub(super) fn short(&self) -> Result<(), ImportError> {
        match self.chunk.len() < self.size {
            true => Ok(()),
            false => Err(self.damaged("a record goes beyond its chunk")),
        }
    }

    /// An error about the last record.
    pub(super) fn damaged(&self, reason: &str) -> ImportError {
        ImportError::Damaged {
            path: self.path.clone(),
            offset: self.begin + self.at as u64,
            reason: reason.to_owned(),
        }
    }

    /// Calls `define` with the kind and the fields of each record of a file of definitions.
    pub(super) fn definitions(
        &mut self,
        mut define: impl FnMut(u8, &mut Bytes<'_>) -> Option<()>,
    ) -> Result<(), ImportError> {
        loop {
            let left = match self.next()? {
                Head::End => return Ok(()),
                Head::Cut => return Err(self.damaged("the definitions end early")),
                Head::Record(kind, mut rest) => match rest.record() {
                    None => return Err(self.damaged("the definitions end early")),
                    Some(mut fields) => define(kind, &mut fields).map(|()| rest.len()),
                },
            };
            let wrong = || self.damaged("a definition does not fit its length");
            let left = left.ok_or_else(wrong)?;
            self.pass(left);
        }
    }
}
