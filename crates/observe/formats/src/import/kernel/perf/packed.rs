//! Compressed records: pieces of one Zstandard frame, which perf never ends.
//!
//! The decoder holds back a window of the last bytes until a frame ends. It must be known how many,
//! because rounds end between pieces. So each frame is begun with filling: blocks of one repeated
//! byte, as many bytes as the window has. From then on, as many bytes come out as go in, the
//! filling first. Filling at the end of the file brings out the last bytes.
//!
//! Source: RFC 8878, and `tools/perf/util/zstd.c` for what perf writes.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io;

/// Largest window: the one of level 22, and the largest that other decoders accept unasked.
const LARGEST_WINDOW: usize = 128 << 20;
/// Size of a block's head.
const BLOCK_HEAD: usize = 3;
/// Largest size of a block, unpacked.
const LARGEST_BLOCK: usize = 128 << 10;
/// Longest head of a frame.
const FRAME_HEAD: usize = 18;
/// Bytes of the checksum after a frame that has one.
const CHECKSUM: usize = 4;

/// Input that has not been unpacked yet, and the state of the frame.
pub(crate) struct Unpacker {
    decoder: FrameDecoder,
    input: Vec<u8>,
    /// Bytes of the input that are done.
    done: usize,
    frame: Option<Frame>,
    ended: bool,
    /// Bytes unpacked, including those that are held back.
    unpacked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    checksum: bool,
    /// Bytes that the decoder holds back.
    window: usize,
    /// Bytes of filling that have not come out yet.
    filling: usize,
}

fn damaged(error: &dyn std::fmt::Display) -> String {
    format!("its Zstandard frame cannot be unpacked: {error}")
}

/// Unpacks one block.
fn decode(decoder: &mut FrameDecoder, block: &[u8]) -> Result<(), String> {
    let decoded = decoder.decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1));
    decoded.map(|_| ()).map_err(|e| damaged(&e))
}

impl Default for Unpacker {
    fn default() -> Self {
        Self {
            decoder: FrameDecoder::new(),
            input: Vec::new(),
            done: 0,
            frame: None,
            ended: false,
            unpacked: 0,
        }
    }
}

impl Unpacker {
    /// Takes the next piece.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        self.input.drain(..std::mem::take(&mut self.done));
        self.input.extend_from_slice(piece);
    }

    /// Bytes unpacked so far, including those that are held back.
    pub(crate) fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// Unpacks one block and appends what comes out; `false` if no block is complete.
    pub(crate) fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        let Some(frame) = self.frame else {
            return self.begin();
        };
        let there = &self.input[self.done..];
        let Some(head) = there.first_chunk::<BLOCK_HEAD>() else {
            return Ok(false);
        };
        let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let (last, repeated) = (head & 1 == 1, head >> 1 & 3 == 1);
        let size = if repeated { 1 } else { head as usize >> 3 };
        let tail = if last && frame.checksum { CHECKSUM } else { 0 };
        let Some(block) = there.get(..BLOCK_HEAD + size + tail) else {
            return Ok(false);
        };
        decode(&mut self.decoder, block)?;
        self.done += block.len();
        let came = self.collect(out)?;
        // The last block of a frame also releases the window.
        let window = if last { frame.window } else { 0 };
        self.unpacked += came.saturating_sub(window) as u64;
        if last {
            (self.frame, self.ended) = (None, true);
        }
        Ok(true)
    }

    /// Gets the last bytes out. Returns how many bytes are left of a piece that was cut short.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<usize, String> {
        let mut window = self.frame.map_or(0, |frame| frame.window);
        while window > 0 {
            let size = window.min(LARGEST_BLOCK);
            self.fill(size)?;
            self.collect(out)?;
            window -= size;
        }
        Ok(self.input.len() - self.done)
    }

    /// Begins a frame; `false` if its head is not complete.
    fn begin(&mut self) -> Result<bool, String> {
        let mut there = &self.input[self.done..];
        if self.ended && !there.is_empty() {
            return Err("more follows its only Zstandard frame".to_owned());
        }
        let (length, flags) = (there.len(), there.get(4).copied());
        match (self.decoder.init(&mut there), flags) {
            (Ok(()), Some(flags)) => {
                self.done += length - there.len();
                let window = self.first_filling()?;
                self.frame = Some(Frame {
                    checksum: flags >> 2 & 1 == 1,
                    window,
                    filling: window,
                });
                Ok(true)
            }
            (Err(error), _) if length >= FRAME_HEAD => Err(damaged(&error)),
            _ => Ok(false),
        }
    }

    /// Fills the window, and returns its size.
    fn first_filling(&mut self) -> Result<usize, String> {
        let mut filled = 0;
        while self.decoder.can_collect() == 0 {
            if filled > LARGEST_WINDOW {
                return Err("its Zstandard window is larger than 128 MiB".to_owned());
            }
            self.fill(LARGEST_BLOCK)?;
            filled += LARGEST_BLOCK;
        }
        let beyond = self.decoder.can_collect();
        let drained = self.decoder.collect_to_writer(io::sink());
        drained.map_err(|e| damaged(&e))?;
        Ok(filled - beyond)
    }

    /// Feeds a block that repeats one byte.
    fn fill(&mut self, size: usize) -> Result<(), String> {
        let head = ((size as u32) << 3 | 1 << 1).to_le_bytes();
        decode(&mut self.decoder, &[head[0], head[1], head[2], 0])
    }

    /// Appends what comes out, without the filling. Returns how many bytes came out, with the
    /// filling.
    fn collect(&mut self, out: &mut Vec<u8>) -> Result<usize, String> {
        let begin = out.len();
        let came = self.decoder.collect_to_writer(&mut *out);
        let came = came.map_err(|e| damaged(&e))?;
        if let Some(frame) = &mut self.frame {
            let filling = frame.filling.min(came);
            frame.filling -= filling;
            out.drain(begin..begin + filling);
        }
        Ok(came)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A frame of raw blocks, with a window of 1 KiB: head, blocks, and a checksum if the frame
    /// ends.
    fn frame(blocks: &[&[u8]], ends: bool) -> Vec<u8> {
        let mut out = b"\x28\xb5\x2f\xfd\x04\0".to_vec();
        for (n, block) in blocks.iter().enumerate() {
            let last = u32::from(ends && n + 1 == blocks.len());
            out.extend(&((block.len() as u32) << 3 | last).to_le_bytes()[..3]);
            out.extend(*block);
        }
        if ends {
            // Not checked.
            out.extend([0; CHECKSUM]);
        }
        out
    }

    /// What comes out of a frame fed in pieces of this size, and the bytes counted after each
    /// piece.
    fn unpack(frame: &[u8], size: usize) -> (Vec<u8>, Vec<u64>) {
        let mut unpacker = Unpacker::default();
        let (mut out, mut counted) = (Vec::new(), Vec::new());
        for piece in frame.chunks(size) {
            unpacker.feed(piece);
            while unpacker.step(&mut out).unwrap() {}
            counted.push(unpacker.unpacked());
        }
        assert_eq!(unpacker.end(&mut out), Ok(0));
        (out, counted)
    }

    #[test]
    fn what_is_unpacked_is_known_before_it_comes_out() {
        let blocks: Vec<Vec<u8>> = (0..9_u8)
            .map(|n| vec![n; usize::from(n) * 100 + 1])
            .collect();
        let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        for ends in [false, true] {
            let packed = frame(&blocks, ends);
            for size in [1, 7, 300, packed.len()] {
                let (out, counted) = unpack(&packed, size);
                assert_eq!(out, blocks.concat(), "{size} {ends}");
                assert_eq!(counted.last(), Some(&(out.len() as u64)));
                // The first two blocks have 1 and 101 bytes.
                if size == 1 {
                    assert_eq!(counted[9..][..105], [[1; 104].as_slice(), &[102]].concat());
                }
            }
        }
    }

    #[test]
    fn a_block_cut_short_is_told() {
        let mut unpacker = Unpacker::default();
        let packed = frame(&[b"abc", b"defg"], false);
        unpacker.feed(&packed[..packed.len() - 1]);
        let mut out = Vec::new();
        while unpacker.step(&mut out).unwrap() {}
        assert_eq!(unpacker.unpacked(), 3);
        assert_eq!(unpacker.end(&mut out), Ok(BLOCK_HEAD + 3));
        assert_eq!(out, b"abc");
    }
}
