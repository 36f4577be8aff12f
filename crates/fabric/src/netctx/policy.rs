//! How the contexts of several gangs share one network, in three ways with one protocol before and after.
//!
//! What is switched is the same, so their times compare: all of the region is copied (SCore-D's first way), or only what
//! means something (as ParPar copies only valid packets; Etsion and Feitelson 2001), or every gang has a region and one
//! word says which is meant (SCore-D, SC'98).

use super::channel::Ring;
use super::context::{Context, ContextError, Layout, parts};
use std::sync::atomic::{AtomicU32, Ordering};

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
}

/// The contexts of one rank's place in several gangs, of which one is active.
#[derive(Debug)]
pub struct Contexts {
    policy: Policy,
    layout: Layout,
    gangs: u32,
    /// The regions that the network may use: one, or with [`Policy::Resident`] one of each gang, one behind the other.
    regions: Vec<u64>,
    /// What was copied out, by gang; nothing of the active one is current.
    saved: Vec<Vec<u64>>,
    /// The one word. Alone in its place, so that it may lie in memory that an agent shares.
    active: AtomicU32,
}

impl Contexts {
    /// Makes one context of `rank` for each of `gangs`, in their order; the first is active. All memory is touched, so
    /// that no switch faults a page.
    ///
    /// # Errors
    /// There are no gangs.
    pub fn new(
        policy: Policy,
        layout: Layout,
        gangs: &[u32],
        rank: u32,
    ) -> Result<Self, ContextError> {
        let (asked, contexts) = (0, 0);
        if gangs.is_empty() {
            return Err(ContextError::NoSuchContext { asked, contexts });
        }
        let words = layout.bytes() / 8;
        // Not zeros: those the kernel would give as one page mapped many times.
        let fresh = || vec![u64::MAX; words];
        let mut saved: Vec<Vec<u64>> = Vec::new();
        let mut regions = Vec::new();
        for &gang in gangs {
            let mut region = fresh();
            Context::begin(layout, &mut region, gang, rank);
            match policy {
                Policy::Resident => regions.append(&mut region),
                Policy::Whole => saved.push(region),
                Policy::Valid => {
                    let mut valid = fresh();
                    save_valid(layout, &mut region, &mut valid);
                    saved.push(valid);
                }
            }
        }
        let mut contexts = Self {
            policy,
            layout,
            gangs: gangs.len() as u32,
            regions,
            saved,
            active: AtomicU32::new(0),
        };
        if policy != Policy::Resident {
            contexts.regions = fresh();
            contexts.restore(0);
        }
        Ok(contexts)
    }

    /// What a switch does.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Where everything lies in each region.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Number of contexts.
    pub fn count(&self) -> u32 {
        self.gangs
    }

    /// The place of the active context in the list of gangs.
    pub fn active(&self) -> u32 {
        // Acquire: whoever sees the word sees the region as it was left when it was stored.
        self.active.load(Ordering::Acquire)
    }

    /// Makes the `asked`-th context the active one and gives the bytes that were copied. The old one's channels must have
    /// been drained; what they hold comes back when it is active again.
    ///
    /// # Errors
    /// There is no such context; nothing is changed.
    pub fn switch(&mut self, asked: u32) -> Result<usize, ContextError> {
        if asked >= self.gangs {
            let contexts = self.gangs;
            return Err(ContextError::NoSuchContext { asked, contexts });
        }
        let old = self.active();
        if asked == old {
            return Ok(0);
        }
        let copied = self.save(old) + self.restore(asked);
        // Release: see `active`.
        self.active.store(asked, Ordering::Release);
        Ok(copied)
    }

    fn save(&mut self, gang: u32) -> usize {
        let Some(saved) = self.saved.get_mut(gang as usize) else {
            return 0;
        };
        match self.policy {
            Policy::Resident => return 0,
            Policy::Whole => saved.copy_from_slice(&self.regions),
            Policy::Valid => save_valid(self.layout, &mut self.regions, saved),
        }
        saved.len() * 8
    }

    fn restore(&mut self, gang: u32) -> usize {
        let Some(saved) = self.saved.get(gang as usize) else {
            return 0;
        };
        match self.policy {
            Policy::Resident => return 0,
            Policy::Whole => self.regions.copy_from_slice(saved),
            Policy::Valid => restore_valid(self.layout, &mut self.regions, saved),
        }
        saved.len() * 8
    }

    /// The active context.
    pub fn current(&mut self) -> Context<'_> {
        let words = self.layout.bytes() / 8;
        let place = match self.policy {
            Policy::Resident => self.active() as usize * words,
            _ => 0,
        };
        Context::of(self.layout, &mut self.regions[place..place + words])
    }
}

/// Of each ring of a region, in order, with the frames that wait in it: the first, and how many.
fn each_ring(layout: Layout, region: &mut [u64], mut act: impl FnMut(Ring<'_>, (u32, u32))) {
    let (_, pairs, rings) = parts(layout, region);
    let stored = pairs
        .iter()
        .flat_map(|pair| [pair.send.stored(), pair.receive.stored()]);
    for (ring, stored) in rings.chunks_exact_mut(layout.ring_bytes()).zip(stored) {
        if let Some(ring) = Ring::new(ring, layout.payload()) {
            act(ring, stored);
        }
    }
}

/// Replaces `saved` by the ends of all channels and the waiting frames, one behind the other.
pub(super) fn save_valid(layout: Layout, region: &mut [u64], saved: &mut Vec<u64>) {
    saved.clear();
    saved.extend_from_slice(&region[..layout.rings() / 8]);
    each_ring(layout, region, |ring, (first, count)| {
        for i in 0..count {
            let used = ring.used(first.wrapping_add(i));
            saved.extend_from_slice(bytemuck::cast_slice(used));
        }
    });
}

pub(super) fn restore_valid(layout: Layout, region: &mut [u64], saved: &[u64]) {
    let (ends, frames) = saved.split_at(layout.rings() / 8);
    region[..ends.len()].copy_from_slice(ends);
    let mut frames: &[u8] = bytemuck::cast_slice(frames);
    each_ring(layout, region, |mut ring, (first, count)| {
        for i in 0..count {
            frames = ring.refill(first.wrapping_add(i), frames);
        }
    });
}
