//! Lines of a .prv, and the numbers of its records.

use crate::import::error::ImportError;
use crate::prv;
use idlewave_sys::files;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A longer line is malformed: the first line of a trace of a million tasks has 10 MB.
const LONGEST: u64 = 64 << 20;
/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// The numbers of a record, without its kind.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// 1 state, 2 event, 3 communication.
    pub kind: u8,
    /// CPU, application, task, thread, and what follows.
    pub fields: Vec<i64>,
}

/// The lines of a file.
pub(super) struct Lines {
    path: PathBuf,
    input: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    /// Bytes of the file, and of the lines so far.
    size: u64,
    done: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        let file = files::open(path).map_err(ImportError::io(path))?;
        let size = file.metadata().map_err(ImportError::io(path))?.len();
        Ok(Self {
            path: path.to_owned(),
            input: BufReader::with_capacity(PIECE, file),
            line: Vec::new(),
            number: 0,
            size,
            done: 0,
        })
    }

    /// The number of the last line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The share of the file read so far, 0..=1.
    pub(super) fn share(&self) -> f64 {
        (self.done as f64 / self.size.max(1) as f64).min(1.0)
    }

    /// An error about the last line.
    pub(super) fn wrong(&self, reason: impl Into<String>) -> ImportError {
        ImportError::Line {
            path: self.path.clone(),
            line: self.number,
            reason: reason.into(),
        }
    }

    /// The next line without its end; `None` at the end of the file.
    pub(super) fn line(&mut self) -> Result<Option<&[u8]>, ImportError> {
        self.line.clear();
        let mut input = (&mut self.input).take(LONGEST);
        let read = input.read_until(b'\n', &mut self.line);
        if read.map_err(ImportError::io(&self.path))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.done += self.line.len() as u64;
        while let Some(b'\n' | b'\r') = self.line.last() {
            self.line.pop();
        }
        Ok(Some(&self.line))
    }

    /// Reads the next record; false if the line is not one. Comments and records of kinds without
    /// meaning here are skipped.
    pub(super) fn next(&mut self, record: &mut Record) -> Result<Option<bool>, ImportError> {
        loop {
            let Some(line) = self.line()? else {
                return Ok(None);
            };
            match line.first() {
                None | Some(b'#' | b'c' | b'C' | b'i' | b'I' | b'4') => {}
                Some(_) => return Ok(Some(numbers(line, record))),
            }
        }
    }

    /// Whether the next bytes have an event with the CPU of a thread.
    pub(super) fn names_cpus(&mut self) -> bool {
        let wanted = format!(":{}:", prv::CPU);
        let next = self.input.fill_buf().unwrap_or_default();
        next.windows(wanted.len())
            .any(|part| part == wanted.as_bytes())
    }
}

/// Splits a line into numbers; false if it is not a record.
fn numbers(line: &[u8], record: &mut Record) -> bool {
    record.fields.clear();
    let (kind, rest) = match line {
        [kind @ b'1'..=b'3', b':', rest @ ..] => (kind - b'0', rest),
        _ => return false,
    };
    record.kind = kind;
    let (mut value, mut negative, mut digits) = (0_i64, false, 0);
    for &byte in rest {
        match byte {
            b'0'..=b'9' => {
                // 18 digits fit; a time of that many nanoseconds is 31 years.
                digits += 1;
                if digits > 18 {
                    return false;
                }
                value = value * 10 + i64::from(byte - b'0');
            }
            b':' if digits > 0 => {
                record.fields.push(if negative { -value } else { value });
                (value, negative, digits) = (0, false, 0);
            }
            b'-' if digits == 0 && !negative => negative = true,
            _ => return false,
        }
    }
    if digits == 0 {
        return false;
    }
    record.fields.push(if negative { -value } else { value });
    match kind {
        1 => record.fields.len() == 7,
        2 => record.fields.len() >= 7 && record.fields.len() % 2 == 1,
        _ => record.fields.len() == 14,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_numbers_in_the_right_number_are_records() {
        let of = |line: &str| {
            let mut record = Record::default();
            numbers(line.as_bytes(), &mut record).then_some((record.kind, record.fields))
        };
        assert_eq!(
            of("1:1:1:1:1:0:-1:2"),
            Some((1, vec![1, 1, 1, 1, 0, -1, 2]))
        );
        assert!(of("2:1:1:1:1:5:60000001:2").is_some());
        assert!(of("2:1:1:1:1:5:60000001:2:7:8").is_some());
        for line in [
            "",
            "1",
            "1:",
            "5:1:1:1:1:0:4:2",
            "1:1:1:1:1:0:4",
            "1:1:1:1:1:0:4:2:3",
            "2:1:1:1:1:5:60000001",
            "2:1:1:1:1:5",
            "1:1:1:1:1::4:2",
            "1:1:1:1:1:0:4:2:",
            "1:1:1:1:1:0:--4:2",
            "1:1:1:1:1:0:4-:2",
            "1:1:1:1:1:0:9999999999999999999:2",
            "1:x:1:1:1:0:4:2",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
