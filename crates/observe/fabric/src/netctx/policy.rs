//! How the contexts of several gangs share one network: three policies, with the same protocol
//! before and after.
//!
//! All three switch the same contexts, so their times are comparable. One copies the whole region
//! (SCore-D's first method), one copies only what is in use (as ParPar copies only valid packets;
//! Etsion and Feitelson 2001), and one gives every gang a region of its own, so that one word
//! selects the active one (SCore-D, SC'98).

use super::channel::Ring;
use super::context::{Layout, ends};
use super::words::Words;

/// What a switch does with contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Copies the whole region of the old gang out and that of the new one in.
    Whole,
    /// Copies the ends of the channels, and the frames that wait in rings.
    Valid,
    /// Copies nothing: each gang has a region of its own.
    Resident,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Valid, Self::Resident];

    /// Replaces `saved` with what is needed to restore the context in a region; the region is at
    /// least as long as its layout.
    pub fn save(self, layout: Layout, region: &mut [u64], saved: &mut Vec<u64>) {
        let (front, rings) = region.split_at_mut(layout.rings() / 8);
        self.save_parts(layout, front, Words::of(rings), saved);
    }

    /// Restores the context in a region from what was saved of it.
    pub fn restore(self, layout: Layout, region: &mut [u64], saved: &[u64]) {
        let (front, rings) = region.split_at_mut(layout.rings() / 8);
        self.restore_parts(layout, front, Words::of(rings), saved);
    }

    /// [`save`](Self::save) of a context in two parts: what precedes its rings, and everything from
    /// there on.
    pub(super) fn save_parts(
        self,
        layout: Layout,
        front: &[u64],
        behind: Words<'_>,
        saved: &mut Vec<u64>,
    ) {
        saved.clear();
        if self != Self::Resident {
            saved.extend_from_slice(front);
        }
        match self {
            Self::Whole => behind
                .part(0, layout.bytes() / 8 - front.len())
                .append_to(saved),
            Self::Valid => each_ring(layout, front, behind, |ring, (first, count)| {
                for i in 0..count {
                    ring.save(first.wrapping_add(i), saved);
                }
            }),
            Self::Resident => {}
        }
    }

    /// [`restore`](Self::restore) of a context in two parts.
    pub(super) fn restore_parts(
        self,
        layout: Layout,
        front: &mut [u64],
        behind: Words<'_>,
        saved: &[u64],
    ) {
        if self == Self::Resident {
            return;
        }
        let (ends, mut frames) = saved.split_at(front.len());
        front.copy_from_slice(ends);
        match self {
            Self::Whole => behind.fill(frames),
            Self::Valid => each_ring(layout, front, behind, |mut ring, (first, count)| {
                for i in 0..count {
                    frames = ring.refill(first.wrapping_add(i), frames);
                }
            }),
            Self::Resident => {}
        }
    }
}

/// Calls `act` for each ring, in order, with the frames that wait in it: the first, and how many.
fn each_ring(
    layout: Layout,
    front: &[u64],
    rings: Words<'_>,
    mut act: impl FnMut(Ring<'_>, (u32, u32)),
) {
    let stored = ends(layout, front)
        .1
        .iter()
        .flat_map(|pair| [pair.send.stored(), pair.receive.stored()]);
    let words = layout.ring_bytes() / 8;
    for (at, (first, count)) in stored.enumerate() {
        if let Some(ring) = Ring::at(rings.part(at * words, words), layout.payload()) {
            // A misbehaving rank may have written any numbers.
            let count = count.min(ring.slots());
            act(ring, (first, count));
        }
    }
}
