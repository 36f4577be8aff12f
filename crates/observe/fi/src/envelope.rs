//! What is sent with each message, and which messages a receive wants.

use crate::abi::flag;
use crate::direct::SHORTEST;
use idlewave_fabric::netctx::{Piece, PieceHeader, Pieces, device::Rings};
use std::mem::MaybeUninit;

/// Bytes in front of a message: its tag and its data for the completion queue.
pub const FRONT: usize = 16;
/// Bits of a piece's tag.
pub const TAGGED: u32 = 1;
const WITH_DATA: u32 = 2;
/// The message is offered: see [`direct`](crate::direct).
pub const OFFER: u32 = 4;
/// An offered message was copied: no message, but the number of the offer.
pub const TAKEN: u32 = 8;
/// An offered message cannot be copied; likewise.
pub const REFUSED: u32 = 16;
/// A message that was offered and refused. Its number is in front.
pub const AGAIN: u32 = 32;

/// The longest message that is sent at once or not at all: with its front it fits into a frame
/// between nodes.
pub const LONGEST_INJECT: usize = 1_024;
/// The shortest piece with which this works.
pub const SHORTEST_PIECE: usize = FRONT + LONGEST_INJECT;

/// What carries pieces of messages.
pub trait Wire: Pieces {
    /// Puts a piece as [`Rings::put_behind`] does.
    fn put_behind(&mut self, to: u32, head: (u32, u64), front: &[u8], rest: &[u8])
    -> Option<usize>;

    /// The shortest message to a rank that is worth an offer, bytes; `None` if the rank cannot read
    /// this process's memory.
    fn offers_from(&self, to: u32) -> Option<usize>;
}

impl Wire for Rings {
    fn put_behind(
        &mut self,
        to: u32,
        head: (u32, u64),
        front: &[u8],
        rest: &[u8],
    ) -> Option<usize> {
        Rings::put_behind(self, to, head, front, rest)
    }

    fn offers_from(&self, to: u32) -> Option<usize> {
        self.is_near(to).then_some(SHORTEST)
    }
}

/// What a message carries besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The tag; `None` for messages without.
    pub tag: Option<u64>,
    /// Data for the receiver's completion queue.
    pub data: Option<u64>,
    /// Bytes.
    pub length: usize,
}

impl Envelope {
    /// A piece's tag, and the bytes of the message.
    pub fn head(&self) -> (u32, u64) {
        let tagged = self.tag.map_or(0, |_| TAGGED);
        let data = self.data.map_or(0, |_| WITH_DATA);
        (tagged | data, self.length as u64)
    }

    /// What is in front of the message.
    pub fn front(&self) -> [u8; FRONT] {
        let mut front = [0; FRONT];
        front[..8].copy_from_slice(&self.tag.unwrap_or(0).to_le_bytes());
        front[8..].copy_from_slice(&self.data.unwrap_or(0).to_le_bytes());
        front
    }

    /// From the first piece of a message; `None` if that is too short.
    pub fn read(header: PieceHeader, piece: &dyn Piece) -> Option<Self> {
        let [tag, data] = words_in_front(piece)?;
        Some(Self {
            tag: (header.tag & TAGGED != 0).then_some(tag),
            data: (header.tag & WITH_DATA != 0).then_some(data),
            length: usize::try_from(header.message).ok()?,
        })
    }

    /// Flags of its completion.
    pub fn flags(&self) -> u64 {
        let kind = self.tag.map_or(flag::MSG, |_| flag::TAGGED);
        kind | self.data.map_or(0, |_| flag::REMOTE_CQ_DATA)
    }
}

/// The two words in front of a message; `None` if its first piece is too short.
pub fn words_in_front(piece: &dyn Piece) -> Option<[u64; 2]> {
    let mut front = [MaybeUninit::new(0); FRONT];
    if piece.copy_to(0, &mut front) < FRONT {
        return None;
    }
    // SAFETY: all bytes have values from the beginning.
    let front = front.map(|byte| unsafe { byte.assume_init() });
    let (tag, data) = front.split_first_chunk()?;
    Some([
        u64::from_le_bytes(*tag),
        u64::from_le_bytes(*data.first_chunk()?),
    ])
}

/// Which messages a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The source; `None` for any.
    pub from: Option<u32>,
    /// Tag, and the bits of it that do not matter; `None` for messages without tags.
    pub tag: Option<(u64, u64)>,
}

impl Want {
    /// Whether it wants this message.
    pub fn fits(&self, source: u32, envelope: &Envelope) -> bool {
        let tag = match (self.tag, envelope.tag) {
            (Some((tag, ignore)), Some(theirs)) => (tag ^ theirs) & !ignore == 0,
            (None, None) => true,
            _ => false,
        };
        tag && self.from.is_none_or(|from| from == source)
    }
}
