//! Pieces of messages, as carried by the frames of a channel.

use super::channel::Content;
use crate::piece::{Header, Piece};
use std::mem::MaybeUninit;

/// Bytes in front of each piece: the tag (4) and the length (8) of its message.
pub(super) const PREFIX: usize = 12;

/// The prefix of a piece.
pub(super) fn prefix(tag: u32, message: u64) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    prefix[..4].copy_from_slice(&tag.to_le_bytes());
    prefix[4..].copy_from_slice(&message.to_le_bytes());
    prefix
}

/// Reads the prefix of a piece in its frame; `None` if the frame is too short for one, although its
/// checksum is right.
pub(super) fn header(frame: &Content<'_>) -> Option<Header> {
    let [a, b, c, d, message @ ..] = frame.first::<PREFIX>()?;
    Some(Header {
        tag: u32::from_le_bytes([a, b, c, d]),
        message: u64::from_le_bytes(message),
        piece: (frame.len() - PREFIX) as u32,
    })
}

/// A piece in place, behind its prefix.
impl Piece for Content<'_> {
    fn len(&self) -> usize {
        Content::len(self) - PREFIX
    }

    fn append_to(&self, skip: usize, most: usize, data: &mut Vec<u8>) {
        Content::append_to(self, PREFIX.saturating_add(skip), most, data);
    }

    fn copy_to(&self, skip: usize, to: &mut [MaybeUninit<u8>]) -> usize {
        Content::copy_to(self, PREFIX.saturating_add(skip), to)
    }
}
