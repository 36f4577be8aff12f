//! Compressed parts of a trace.dat 7.

use super::parts::Packing;
use std::cell::Cell;
use std::io::{self, Read};

/// Unpacks a part that must yield `outside` bytes.
pub(crate) fn unpack(packing: Packing, bytes: &[u8], outside: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let read = unpacker(packing, bytes).and_then(|r| r.take(outside + 1).read_to_end(&mut out));
    match read {
        Err(error) => Err(error.to_string()),
        Ok(size) if size as u64 == outside => Ok(out),
        Ok(size) => Err(format!("{size} bytes come out instead of {outside}")),
    }
}

fn unpacker<'a>(packing: Packing, bytes: &'a [u8]) -> io::Result<Box<dyn Read + 'a>> {
    let damaged =
        |e: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
    Ok(match packing {
        Packing::Plain => Box::new(bytes),
        Packing::Zlib => Box::new(flate2::read::ZlibDecoder::new(bytes)),
        Packing::Zstd => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(bytes);
            Box::new(decoder.map_err(|e| damaged(&e))?)
        }
    })
}

/// Limit on a chunk of sub-buffers, packed and unpacked; trace-cmd makes chunks of ten pages.
const LONGEST_CHUNK: u64 = 64 << 20;

/// Sub-buffers stored in compressed chunks: a count, then sizes and data of each.
pub(crate) struct Chunks<'a, R> {
    inner: R,
    /// Counts CPUs whose data ended before its last chunk.
    cut: &'a Cell<u64>,
    packing: Packing,
    little: bool,
    left: Option<u32>,
    chunk: Vec<u8>,
    at: usize,
}

impl<'a, R: Read> Chunks<'a, R> {
    pub(crate) fn new(inner: R, packing: Packing, little: bool, cut: &'a Cell<u64>) -> Self {
        Self {
            inner,
            cut,
            packing,
            little,
            left: None,
            chunk: Vec::new(),
            at: 0,
        }
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut word = [0; 4];
        self.inner.read_exact(&mut word)?;
        Ok(match self.little {
            true => u32::from_le_bytes(word),
            false => u32::from_be_bytes(word),
        })
    }

    /// Unpacks the next chunk; `false` if there is none.
    fn next_chunk(&mut self) -> io::Result<bool> {
        let left = match self.left {
            Some(left) => left,
            None => self.u32()?,
        };
        self.left = Some(left.saturating_sub(1));
        if left == 0 {
            return Ok(false);
        }
        let (inside, outside) = (u64::from(self.u32()?), u64::from(self.u32()?));
        if inside.max(outside) > LONGEST_CHUNK {
            return Err(invalid(format!("a chunk of {outside} bytes is too long")));
        }
        let mut bytes = Vec::new();
        (&mut self.inner).take(inside).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < inside {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.chunk = unpack(self.packing, &bytes, outside).map_err(invalid)?;
        self.at = 0;
        Ok(true)
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl<R: Read> Read for Chunks<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            match self.next_chunk() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                // The chunks before are whole.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    self.cut.set(self.cut.get() + 1);
                    self.left = Some(0);
                    return Ok(0);
                }
                Err(e) => return Err(e),
            }
        }
        let count = buffer.len().min(self.chunk.len() - self.at);
        buffer[..count].copy_from_slice(&self.chunk[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
