//! What the ranks of a gang wait for, seen from outside: a word in each rank's seat, and whether
//! anything has arrived since.
//!
//! A rank writes the word when it waits and nothing has moved. When anything moves, it clears the
//! word before it leaves the device. So once a gang is stopped and its ranks are outside, the words
//! of all ranks describe one consistent global state, whether the ranks are frozen or only kept
//! out.

use super::gang::Admitted;
use super::shape::{Seat, Shared};
use crate::matching::Awaited;
use std::sync::atomic::Ordering;

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Anything that may end without help, or a wait whose condition already holds.
    Computing,
    /// Waiting for this, which has not happened yet.
    Waits(Awaited),
    /// It has left.
    Left,
}

/// Kinds of waits, in the upper byte of a word. The next 24 bits are the peer, the rest the tag.
const RECEIVE: u64 = 1;
const ANY: u64 = 2;
const SEND: u64 = 3;

impl Doing {
    /// The word that encodes it; ranks have numbers below 2^24.
    pub(super) fn word(self) -> u64 {
        let word = |kind: u64, peer: u32, tag: u32| {
            kind << 56 | u64::from(peer & 0xFF_FFFF) << 32 | u64::from(tag)
        };
        match self {
            Self::Computing | Self::Left => 0,
            Self::Waits(Awaited::Receive { from, tag }) => match from {
                Some(from) => word(RECEIVE, from, tag),
                None => word(ANY, 0, tag),
            },
            Self::Waits(Awaited::Send { to, tag }) => word(SEND, to, tag),
        }
    }

    fn of(word: u64) -> Self {
        let (peer, tag) = ((word >> 32) as u32 & 0xFF_FFFF, word as u32);
        match word >> 56 {
            RECEIVE => Self::Waits(Awaited::Receive {
                from: Some(peer),
                tag,
            }),
            ANY => Self::Waits(Awaited::Receive { from: None, tag }),
            SEND => Self::Waits(Awaited::Send { to: peer, tag }),
            _ => Self::Computing,
        }
    }
}

impl Admitted {
    /// By place: the rank, and what it is doing. The gang must be the active one, stopped and
    /// drained.
    pub(super) fn doing(&self, shared: &Shared) -> Vec<(u32, Doing)> {
        let place = |(place, rank): (u32, &u32)| (*rank, self.at(shared, place));
        (0..).zip(&self.ranks).map(place).collect()
    }

    fn at(&self, shared: &Shared, place: u32) -> Doing {
        let seat: &Seat = shared.seat(self.slot, place);
        let size = self.nodes.len() as u32;
        let doing = match seat.left.load(Ordering::Acquire) {
            0 => Doing::of(seat.busy.waits.load(Ordering::Acquire)),
            _ => Doing::Left,
        };
        // What it has put into the ring is sent without its help, and others may be waiting for
        // that.
        if (0..size).any(|peer| self.will_send(shared, place, peer)) {
            return Doing::Computing;
        }
        let Doing::Waits(awaited) = doing else {
            return doing;
        };
        let waits = match awaited {
            Awaited::Receive { from: None, .. } => {
                (0..size).all(|peer| !self.has_come(shared, place, peer))
            }
            Awaited::Receive {
                from: Some(from), ..
            } => from < size && !self.has_come(shared, place, from),
            Awaited::Send { to, .. } => to < size && self.is_full(shared, place, to),
        };
        if waits { doing } else { Doing::Computing }
    }

    /// Whether a frame from a peer waits to be taken.
    fn has_come(&self, shared: &Shared, place: u32, peer: u32) -> bool {
        let marks = shared.marks(self.slot, place, peer);
        let taken = marks.rank.taken.load(Ordering::Acquire);
        let near = self.place_of(peer).is_some();
        let mut come = marks.other.expected.load(Ordering::Acquire) != taken;
        if !near {
            // What the owner has received but not yet told the rank.
            let pair = self.pairs(place).get(peer as usize);
            come |= pair.is_some_and(|pair| pair.receive.expected() != taken);
        }
        come
    }

    /// Whether frames to a peer on another node were put in but not sent before the gang was
    /// stopped, and will be sent once it runs.
    fn will_send(&self, shared: &Shared, place: u32, peer: u32) -> bool {
        if self.place_of(peer).is_some() {
            return false;
        }
        let filled = &shared.marks(self.slot, place, peer).rank.filled;
        let filled = filled.load(Ordering::Acquire);
        let pair = self.pairs(place).get(peer as usize);
        pair.is_some_and(|pair| pair.send.will_send(filled))
    }

    /// Whether there is no room for another frame to a peer.
    fn is_full(&self, shared: &Shared, place: u32, peer: u32) -> bool {
        let slots = self.layout.slots();
        match self.place_of(peer) {
            Some(theirs) => {
                let own = self.ranks[place as usize];
                let marks = shared.marks(self.slot, theirs, own);
                let expected = marks.other.expected.load(Ordering::Acquire);
                expected.wrapping_sub(marks.rank.taken.load(Ordering::Acquire)) >= slots
            }
            None => {
                let filled = &shared.marks(self.slot, place, peer).rank.filled;
                let pair = self.pairs(place).get(peer as usize);
                let filled = filled.load(Ordering::Acquire);
                pair.is_some_and(|pair| filled.wrapping_sub(pair.send.acked()) >= slots)
            }
        }
    }

    /// The place of a rank of this node.
    fn place_of(&self, rank: u32) -> Option<u32> {
        let place = self.ranks.iter().position(|other| *other == rank)?;
        Some(place as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_was_written_in_it() {
        let tag = 32_528;
        for doing in [
            Doing::Computing,
            Doing::Waits(Awaited::Receive {
                from: Some(1_023),
                tag,
            }),
            Doing::Waits(Awaited::Receive { from: None, tag: 0 }),
            Doing::Waits(Awaited::Send { to: 0, tag }),
        ] {
            assert_eq!(Doing::of(doing.word()), doing);
        }
        assert_eq!(Doing::of(u64::MAX), Doing::Computing);
    }
}
