//! Pieces of messages as frames of a channel carry them.

use crate::mailbox::Header;

/// In front of each piece: tag of its message (4 bytes) and length of the message (8).
pub(super) const PREFIX: usize = 12;

/// What is in front of a piece.
pub(super) fn prefix(tag: u32, message: u64) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    prefix[..4].copy_from_slice(&tag.to_le_bytes());
    prefix[4..].copy_from_slice(&message.to_le_bytes());
    prefix
}

/// A piece from its frame; `None` if the frame is none of ours, though its checksum is right.
pub(super) fn piece(frame: &[u8]) -> Option<(Header, &[u8])> {
    let (prefix, piece) = frame.split_first_chunk::<PREFIX>()?;
    let [a, b, c, d, message @ ..] = *prefix;
    let header = Header {
        tag: u32::from_le_bytes([a, b, c, d]),
        message: u64::from_le_bytes(message),
        piece: piece.len() as u32,
    };
    Some((header, piece))
}
