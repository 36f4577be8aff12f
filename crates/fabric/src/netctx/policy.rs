//! How the contexts of several gangs share one network, in three ways with one protocol before and after.
//!
//! What is switched is the same, so their times compare: all of the region is copied (SCore-D's first way), or only what
//! means something (as ParPar copies only valid packets; Etsion and Feitelson 2001), or every gang has a region and one
//! word says which is meant (SCore-D, SC'98).

use super::channel::Ring;
use super::context::{Layout, parts};

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

    /// Replaces `saved` by what the context in a region must have back; the region is at least as long as its layout.
    pub fn save(self, layout: Layout, region: &mut [u64], saved: &mut Vec<u64>) {
        saved.clear();
        match self {
            Self::Whole => saved.extend_from_slice(&region[..layout.bytes() / 8]),
            Self::Valid => save_valid(layout, region, saved),
            Self::Resident => {}
        }
    }

    /// Gives the context of a region back what was saved of it.
    pub fn restore(self, layout: Layout, region: &mut [u64], saved: &[u64]) {
        match self {
            Self::Whole => region[..saved.len()].copy_from_slice(saved),
            Self::Valid => restore_valid(layout, region, saved),
            Self::Resident => {}
        }
    }
}

/// Of each ring of a region, in order, with the frames that wait in it: the first, and how many.
fn each_ring(layout: Layout, region: &mut [u64], mut act: impl FnMut(Ring<'_>, (u32, u32))) {
    let (_, pairs, rings) = parts(layout, region);
    let stored = pairs
        .iter()
        .flat_map(|pair| [pair.send.stored(), pair.receive.stored()]);
    for (ring, (first, count)) in rings.chunks_exact_mut(layout.ring_bytes()).zip(stored) {
        if let Some(ring) = Ring::new(ring, layout.payload()) {
            // A rank that went astray may have written any numbers.
            let count = count.min(ring.slots());
            act(ring, (first, count));
        }
    }
}

/// The ends of all channels and the waiting frames, one behind the other.
fn save_valid(layout: Layout, region: &mut [u64], saved: &mut Vec<u64>) {
    saved.extend_from_slice(&region[..layout.rings() / 8]);
    each_ring(layout, region, |ring, (first, count)| {
        for i in 0..count {
            let used = ring.used(first.wrapping_add(i));
            saved.extend_from_slice(bytemuck::cast_slice(used));
        }
    });
}

fn restore_valid(layout: Layout, region: &mut [u64], saved: &[u64]) {
    let (ends, frames) = saved.split_at(layout.rings() / 8);
    region[..ends.len()].copy_from_slice(ends);
    let mut frames: &[u8] = bytemuck::cast_slice(frames);
    each_ring(layout, region, |mut ring, (first, count)| {
        for i in 0..count {
            frames = ring.refill(first.wrapping_add(i), frames);
        }
    });
}
