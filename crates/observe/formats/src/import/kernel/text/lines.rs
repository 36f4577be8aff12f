//! Lines of a file, block by block.

use crate::import::error::ImportError;
use idlewave_sys::files;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes read at once.
const BLOCK: usize = 1 << 20;
/// A longer line is damage.
const LONGEST: usize = 1 << 16;

/// Lines between two checks of the stop flag.
const LOOK: u64 = 1 << 14;

/// Lines of a file, without their ends.
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    number: u64,
    long: u64,
    done: u64,
    total: u64,
    over: bool,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, ImportError> {
        let file = files::open(path).map_err(ImportError::io(path))?;
        let total = file.metadata().map_err(ImportError::io(path))?.len();
        Ok(Self {
            file,
            path: path.to_owned(),
            buffer: vec![0; BLOCK + LONGEST],
            begin: 0,
            end: 0,
            number: 0,
            long: 0,
            done: 0,
            total,
            over: false,
        })
    }

    /// Lines left out because of their length.
    pub(crate) fn long(&self) -> u64 {
        self.long
    }

    /// Share of the file read so far.
    pub(crate) fn share(&self) -> f64 {
        self.done as f64 / self.total.max(self.done).max(1) as f64
    }

    /// Passes on every line with its number, from 1; true if `stop` ended that early.
    pub(crate) fn each(
        &mut self,
        stop: &AtomicBool,
        progress: &dyn Fn(f64),
        mut take: impl FnMut(u64, &[u8]) -> Result<(), ImportError>,
    ) -> Result<bool, ImportError> {
        while let Some((number, line)) = self.next()? {
            take(number, line)?;
            if number % LOOK == 0 {
                progress(self.share());
                // The flag carries no data, so no ordering is needed.
                if stop.load(Ordering::Relaxed) {
                    return Ok(true);
                }
            }
        }
        progress(1.0);
        Ok(false)
    }

    /// The next line with its number.
    fn next(&mut self) -> Result<Option<(u64, &[u8])>, ImportError> {
        let mut skipping = false;
        loop {
            let there = &self.buffer[self.begin..self.end];
            if let Some(length) = memchr::memchr(b'\n', there) {
                let begin = self.begin;
                self.begin += length + 1;
                self.number += 1;
                if std::mem::take(&mut skipping) {
                    continue;
                }
                return Ok(Some((self.number, &self.buffer[begin..begin + length])));
            }
            if there.len() > LONGEST {
                self.long += u64::from(!skipping);
                skipping = true;
                self.begin = self.end;
            }
            if self.over {
                let (begin, end) = (self.begin, self.end);
                self.begin = end;
                if begin == end || skipping {
                    return Ok(None);
                }
                self.number += 1;
                return Ok(Some((self.number, &self.buffer[begin..end])));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), ImportError> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        loop {
            match self.file.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.over = count == 0;
                    self.end += count;
                    self.done += count as u64;
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(ImportError::io(&self.path)(e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_come_out_as_they_are_and_too_long_ones_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let long = "x".repeat(3 * BLOCK);
        std::fs::write(&path, format!("a\n\n{long}\nb\nlast")).unwrap();
        let mut lines = Lines::open(&path).unwrap();
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            found.push((number, String::from_utf8(line.to_vec()).unwrap()));
        }
        let expected = [(1, "a"), (2, ""), (4, "b"), (5, "last")];
        assert_eq!(found, expected.map(|(n, l)| (n, l.to_owned())));
        assert_eq!(lines.long(), 1);
    }
}
