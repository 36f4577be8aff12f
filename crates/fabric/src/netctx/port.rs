//! Where a rank of a gang gets at the network, whether it shares it with threads or with processes.

use super::node::Node;
use super::transport::Transport;
use super::world::Shared;
use crate::mailbox::Header;
use crate::matching::Pieces;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// In front of each piece: tag of its message (4 bytes) and length of the message (8).
pub(super) const PREFIX: usize = 12;

/// Turns after which a waiting rank lets another one run.
pub(super) const TURNS_BEFORE_YIELD: u32 = 16;
/// Between two looks of a rank whose gang does not run, or that takes no part.
pub(super) const ASLEEP: Duration = Duration::from_micros(100);

/// One rank's way to the network.
pub trait Port {
    /// The rings of its gang; nothing goes in or out while the gang does not run.
    type Place<'a>: Pieces
    where
        Self: 'a;

    /// The own rank.
    fn rank(&self) -> u32;
    /// Ranks of the gang.
    fn size(&self) -> u32;
    /// The node of a rank, by any number.
    fn node_of(&self, rank: u32) -> u32;
    /// Does `act` with the rings, and tells whether the gang runs.
    fn reach<R>(&mut self, act: impl FnOnce(&mut Self::Place<'_>) -> R) -> (R, bool);
    /// One turn of a wait: the `turn`-th, from 1. `runs` is what the last [`reach`](Self::reach) told.
    fn rest(&mut self, turn: u32, runs: bool);
    /// Whether a rank of the gang failed.
    fn has_failed(&self) -> bool;
    /// A rank of the gang failed.
    fn fail(&self);
}

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

/// The port of a rank that is a thread.
pub struct ThreadPort<T: Transport> {
    shared: Arc<Shared<T>>,
    gang: u32,
    rank: u32,
}

impl<T: Transport> ThreadPort<T> {
    pub(super) fn new(shared: &Arc<Shared<T>>, gang: u32, rank: u32) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, gang, rank }
    }
}

/// A node's active context as the place of one gang's pieces.
pub struct Place<'a, T> {
    node: &'a mut Node<T>,
    gang: u32,
}

impl<T: Transport> Pieces for Place<'_, T> {
    fn size(&self) -> u32 {
        self.node.size()
    }

    fn put(&mut self, to: u32, tag: u32, message: u64, rest: &[u8]) -> Option<usize> {
        if self.node.active() != self.gang {
            return None;
        }
        let mut context = self.node.current();
        let mut sender = context.sender(to)?;
        let piece = &rest[..rest.len().min(sender.payload() - PREFIX)];
        let end = piece.len() == rest.len();
        let parts = [&prefix(tag, message)[..], piece];
        sender.push_parts(parts, end).then_some(piece.len())
    }

    fn take<R>(&mut self, from: u32, read: impl FnOnce(Header, &[u8]) -> R) -> Option<R> {
        if self.node.active() != self.gang {
            return None;
        }
        let mut context = self.node.current();
        let mut receiver = context.receiver(from)?;
        // A frame that is too short for a piece is forged: it must not keep the next one back.
        while receiver.front().is_some_and(|(f, _)| piece(f).is_none()) {
            receiver.release();
        }
        let (frame, _) = receiver.front()?;
        let (header, bytes) = piece(frame)?;
        let read = read(header, bytes);
        receiver.release();
        Some(read)
    }
}

impl<T: Transport> Port for ThreadPort<T> {
    type Place<'a>
        = Place<'a, T>
    where
        Self: 'a;

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shared.size()
    }

    fn node_of(&self, _rank: u32) -> u32 {
        0
    }

    fn reach<R>(&mut self, act: impl FnOnce(&mut Place<'_, T>) -> R) -> (R, bool) {
        let mut node = self.shared.node(self.rank);
        node.listen();
        let gang = self.gang;
        let node_of_rank = &mut *node;
        let done = act(&mut Place {
            node: node_of_rank,
            gang,
        });
        node.speak(self.shared.now());
        (done, node.active() == gang)
    }

    fn rest(&mut self, turn: u32, runs: bool) {
        if !runs {
            std::thread::sleep(ASLEEP);
        } else if turn % TURNS_BEFORE_YIELD == 0 {
            std::thread::yield_now();
        }
    }

    fn has_failed(&self) -> bool {
        // Relaxed: nothing else is read because of it.
        self.shared.failed[self.gang as usize].load(Ordering::Relaxed)
    }

    fn fail(&self) {
        self.shared.failed[self.gang as usize].store(true, Ordering::Relaxed);
    }
}
