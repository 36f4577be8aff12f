//! The layout of a device's file, and the words in it that several processes use.
//!
//! The file holds a front, an entry for each gang, the seats of all ranks, and the regions. A
//! region holds the rings of a [`Context`], at the same offsets as there, followed by the [`Marks`]
//! for each peer, by which rank and owner tell each other how far they are. The ends of the
//! channels, which precede the rings in a context, belong to the owner alone and lie in its own
//! memory: a rank that writes where it should not damages the messages of its own gang, not these.
//! All words are atomics, and only one side writes each, except the front's `asleep`, an entry's
//! `failed` and the words of a seat that say so.

use super::DeviceError;
use super::memory::Memory;
use crate::netctx::channel::Ring;
use crate::netctx::words::Words;
use crate::netctx::{Context, Layout, Policy};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"iw-netct");
/// Version of the file's format.
const VERSION: u32 = 3;
/// Bytes of the front: a page.
const FRONT: usize = 4_096;
/// Seats, regions and the marks in a region start at multiples of this.
const PAGE: usize = 4_096;
/// The value of a closed gate: no gang's ticket.
pub(super) const CLOSED: u32 = 0;

/// Nothing is wrong with a gang.
pub(super) const RUNS: u32 = 0;
/// One of its ranks failed, here or elsewhere.
pub(super) const FAILED: u32 = 1;
/// The owner has taken its network away.
pub(super) const WITHDRAWN: u32 = 2;

/// The most gangs, places and ranks of a device.
pub(super) const MOST_GANGS: u32 = 64;
pub(super) const MOST_PLACES: u32 = 1_024;
pub(super) const MOST_RANKS: u32 = 1_024;

/// The start of the file. Nothing before the gate ever changes.
#[repr(C)]
pub(super) struct Front {
    magic: AtomicU64,
    version: AtomicU32,
    pub(super) node: AtomicU32,
    gangs: AtomicU32,
    places: AtomicU32,
    ranks: AtomicU32,
    resident: AtomicU32,
    context_bytes: AtomicU64,
    pub(super) gate: Line,
    pub(super) asleep: Line,
}

/// A word on cache lines of its own.
#[repr(C, align(128))]
pub(super) struct Line(pub(super) AtomicU32);

/// A gang; its size is 0 if there is none. The nodes of its ranks follow all entries.
#[repr(C, align(64))]
pub(super) struct Entry {
    pub(super) gang: AtomicU32,
    pub(super) size: AtomicU32,
    pub(super) payload: AtomicU32,
    /// The gate's value while it runs. No two gangs of a device share one, so that processes that
    /// outlive their gang are not mistaken for those of the next gang in its slot.
    pub(super) ticket: AtomicU32,
    /// [`RUNS`], or why it cannot go on; any side may write it.
    pub(super) failed: AtomicU32,
}

/// What a rank and the owner know of each other.
#[repr(C, align(128))]
pub(super) struct Seat {
    /// The process; 0 before it attaches. Written by the rank.
    pub(super) process: AtomicU32,
    /// Whether it has left properly. Written by the rank.
    pub(super) left: AtomicU32,
    /// Whether it sleeps, or is about to. Written by the rank.
    pub(super) sleeping: AtomicU32,
    /// The futex it sleeps on; whoever wakes it adds one.
    pub(super) wake: AtomicU32,
    pub(super) busy: Busy,
}

/// What a rank writes whenever it looks for messages: on cache lines of its own, as its peers read
/// whether it sleeps.
#[repr(C, align(128))]
pub(super) struct Busy {
    /// The number of its entry while it is inside the device, from 1; 0 outside. Written by the rank;
    /// the owner clears it for a rank that died there.
    pub(super) inside: AtomicU32,
    /// What it waits for, as [`super::waits`] encodes it; 0 if it does not wait. Written by the
    /// rank.
    pub(super) waits: AtomicU64,
    /// Frames that it has put to ranks of the same node. Written by the rank.
    pub(super) near: AtomicU64,
}

/// How far both sides are with the two rings of one peer: frame numbers, as in the channel ends.
#[repr(C, align(128))]
pub(super) struct Marks {
    pub(super) rank: RankMarks,
    pub(super) other: OtherMarks,
}

/// Written by the rank whose region it is.
#[repr(C, align(64))]
pub(super) struct RankMarks {
    /// The next frame that it puts into the send ring.
    pub(super) filled: AtomicU32,
    /// The next frame that it takes from the receive ring.
    pub(super) taken: AtomicU32,
}

/// Written by the owner or, for a peer on the same node, by that peer.
#[repr(C, align(64))]
pub(super) struct OtherMarks {
    /// The oldest frame that the send ring still holds.
    pub(super) acked: AtomicU32,
    /// The next frame to arrive in the receive ring.
    pub(super) expected: AtomicU32,
}

/// The numbers from which all offsets follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) node: u32,
    /// Gangs at a time.
    pub(super) gangs: u32,
    /// Ranks of a gang on this node.
    pub(super) places: u32,
    /// Ranks of a gang on all nodes.
    pub(super) ranks: u32,
    /// Whether each gang has a region of its own.
    pub(super) resident: bool,
    /// Bytes of a context.
    pub(super) context_bytes: usize,
}

impl Shape {
    pub(super) fn new(setup: &super::Setup) -> Result<Self, DeviceError> {
        let within = |what: &str, n: u32, most: u32| match n {
            n if (1..=most).contains(&n) => Ok(()),
            n => Err(DeviceError::Setup(format!("{n} {what}: give 1 to {most}"))),
        };
        within("gangs", setup.gangs, MOST_GANGS)?;
        within("places", setup.places, MOST_PLACES)?;
        within("ranks", setup.ranks, MOST_RANKS)?;
        // Rejects sizes that no context can have.
        Layout::fit(setup.context_bytes, 0, 1)?;
        Ok(Self {
            node: setup.node,
            gangs: setup.gangs,
            places: setup.places,
            ranks: setup.ranks,
            resident: setup.policy == Policy::Resident,
            context_bytes: setup.context_bytes,
        })
    }

    /// Bytes of a region.
    pub(super) fn region_bytes(&self) -> usize {
        let marks = self.ranks as usize * size_of::<Marks>();
        (self.marks_at() + marks).next_multiple_of(PAGE)
    }

    /// Where the marks are in a region.
    pub(super) fn marks_at(&self) -> usize {
        self.context_bytes.next_multiple_of(PAGE)
    }

    fn entries(&self) -> usize {
        FRONT
    }

    fn nodes(&self) -> usize {
        self.entries() + self.gangs as usize * size_of::<Entry>()
    }

    fn seats(&self) -> usize {
        let nodes = (self.gangs * self.ranks) as usize * size_of::<AtomicU32>();
        (self.nodes() + nodes).next_multiple_of(PAGE)
    }

    fn regions(&self) -> usize {
        let seats = (self.gangs * self.places) as usize * size_of::<Seat>();
        (self.seats() + seats).next_multiple_of(PAGE)
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> usize {
        let gangs = if self.resident { self.gangs } else { 1 };
        self.regions() + (gangs * self.places) as usize * self.region_bytes()
    }

    /// Where the region of a gang's place is.
    pub(super) fn region(&self, gang: u32, place: u32) -> usize {
        let gang = if self.resident { gang } else { 0 };
        self.regions() + (gang * self.places + place) as usize * self.region_bytes()
    }
}

/// A device's memory with its shape.
#[derive(Debug)]
pub(super) struct Shared {
    memory: Memory,
    pub(super) shape: Shape,
}

impl Shared {
    pub(super) fn create(
        path: &Path,
        shape: Shape,
        user: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let memory = Memory::create(path, shape.bytes(), user)?;
        let shared = Self { memory, shape };
        let front = shared.front();
        let plain = [
            (&front.version, VERSION),
            (&front.node, shape.node),
            (&front.gangs, shape.gangs),
            (&front.places, shape.places),
            (&front.ranks, shape.ranks),
            (&front.resident, u32::from(shape.resident)),
        ];
        for (word, value) in plain {
            word.store(value, Ordering::Relaxed);
        }
        let bytes = shape.context_bytes as u64;
        front.context_bytes.store(bytes, Ordering::Relaxed);
        // Release: whoever sees this sees the rest.
        front.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    pub(super) fn open(path: &Path) -> Result<Self, DeviceError> {
        let memory = Memory::open(path)?;
        let foreign = |reason: String| DeviceError::Foreign {
            path: path.to_owned(),
            reason,
        };
        if memory.bytes() < FRONT {
            return Err(foreign("it is too short".to_owned()));
        }
        // SAFETY: mapped and aligned; it holds only atomics.
        let front: &Front = unsafe { memory.at(0).as_ref() };
        if front.magic.load(Ordering::Acquire) != MAGIC {
            return Err(foreign("it does not begin as one".to_owned()));
        }
        let read = |word: &AtomicU32| word.load(Ordering::Relaxed);
        match read(&front.version) {
            VERSION => {}
            other => return Err(foreign(format!("version {other}, not {VERSION}"))),
        }
        let shape = Shape {
            node: read(&front.node),
            gangs: read(&front.gangs),
            places: read(&front.places),
            ranks: read(&front.ranks),
            resident: read(&front.resident) != 0,
            context_bytes: front.context_bytes.load(Ordering::Relaxed) as usize,
        };
        let possible = (1..=MOST_GANGS).contains(&shape.gangs)
            && (1..=MOST_PLACES).contains(&shape.places)
            && (1..=MOST_RANKS).contains(&shape.ranks)
            && Layout::fit(shape.context_bytes, 0, 1).is_ok();
        if !possible || memory.bytes() < shape.bytes() {
            return Err(foreign("its numbers do not fit its length".to_owned()));
        }
        Ok(Self { memory, shape })
    }

    pub(super) fn front(&self) -> &Front {
        // SAFETY: the file is longer than a front and stays mapped; it holds only atomics.
        unsafe { self.memory.at(0).as_ref() }
    }

    /// A gang's entry, by its slot.
    pub(super) fn entry(&self, slot: u32) -> &Entry {
        assert!(slot < self.shape.gangs, "a slot of the device");
        let at = self.shape.entries() + slot as usize * size_of::<Entry>();
        // SAFETY: one of the entries; it holds only atomics.
        unsafe { self.memory.at(at).as_ref() }
    }

    /// The slot of a gang.
    pub(super) fn slot_of(&self, gang: u32) -> Option<u32> {
        (0..self.shape.gangs).find(|slot| {
            let entry = self.entry(*slot);
            // Acquire: the size is stored last when a gang is admitted.
            let there = entry.size.load(Ordering::Acquire) > 0;
            there && entry.gang.load(Ordering::Relaxed) == gang
        })
    }

    /// The node of a gang's rank.
    pub(super) fn node(&self, slot: u32, rank: u32) -> &AtomicU32 {
        assert!(slot < self.shape.gangs && rank < self.shape.ranks, "a rank");
        let place = (slot * self.shape.ranks + rank) as usize;
        let at = self.shape.nodes() + place * size_of::<AtomicU32>();
        // SAFETY: one of the words after the entries.
        unsafe { self.memory.at(at).as_ref() }
    }

    /// Nodes of all ranks of a gang.
    pub(super) fn nodes(&self, slot: u32) -> Vec<u32> {
        let size = self.entry(slot).size.load(Ordering::Acquire);
        (0..size.min(self.shape.ranks))
            .map(|rank| self.node(slot, rank).load(Ordering::Relaxed))
            .collect()
    }

    /// The seat of a gang's place.
    pub(super) fn seat(&self, slot: u32, place: u32) -> &Seat {
        assert!(
            slot < self.shape.gangs && place < self.shape.places,
            "a seat"
        );
        let seat = (slot * self.shape.places + place) as usize;
        let at = self.shape.seats() + seat * size_of::<Seat>();
        // SAFETY: one of the seats; it holds only atomics.
        unsafe { self.memory.at(at).as_ref() }
    }

    /// The marks of a place with one peer.
    pub(super) fn marks(&self, slot: u32, place: u32, peer: u32) -> &Marks {
        assert!(
            place < self.shape.places && peer < self.shape.ranks,
            "marks"
        );
        let region = self.shape.region(slot, place) + self.shape.marks_at();
        // SAFETY: within the region; they hold only atomics. While a region is copied, nobody has a
        // reference to them.
        unsafe {
            let marks = self.memory.at(region + peer as usize * size_of::<Marks>());
            marks.as_ref()
        }
    }

    /// The context of a place: its ends are in `front`, which belongs to the owner alone, and its
    /// rings in the region.
    pub(super) fn context<'a>(
        &'a self,
        layout: Layout,
        (slot, place): (u32, u32),
        front: &'a mut [u64],
    ) -> Context<'a> {
        Context::at(layout, front, self.rings(layout, slot, place))
    }

    /// All rings of a place.
    pub(super) fn rings(&self, layout: Layout, slot: u32, place: u32) -> Words<'_> {
        assert!(layout.used() <= self.shape.context_bytes, "of this device");
        let first = layout.rings() / 8;
        let count = layout.used() / 8 - first;
        self.words(slot, place).part(first, count)
    }

    /// A place's send ring (`which` is 0) or receive ring (1) for a peer. Only the slots that the
    /// marks give to the caller are meaningful.
    pub(super) fn ring(
        &self,
        layout: Layout,
        (slot, place): (u32, u32),
        (peer, which): (u32, usize),
    ) -> Option<Ring<'_>> {
        assert!(layout.used() <= self.shape.context_bytes, "of this device");
        assert!(peer < layout.peers(), "a peer");
        let (first, count) = (layout.ring(peer, which) / 8, layout.ring_bytes() / 8);
        Ring::at(self.words(slot, place).part(first, count), layout.payload())
    }

    /// All words of a region.
    pub(super) fn words(&self, slot: u32, place: u32) -> Words<'_> {
        assert!(
            slot < self.shape.gangs && place < self.shape.places,
            "a place"
        );
        let begin = self.shape.region(slot, place);
        let bytes = self.shape.region_bytes();
        let _last: std::ptr::NonNull<u64> = self.memory.at(begin + bytes - 8);
        // SAFETY: a region of the file, whose first and last word are mapped as long as `self`
        // lives; everyone else accesses it through atomics.
        unsafe { Words::at(self.memory.at(begin), bytes / 8) }
    }

    /// The marks of a place for its first `peers` peers, as words.
    pub(super) fn mark_words(&self, slot: u32, place: u32, peers: u32) -> Words<'_> {
        let count = peers as usize * size_of::<Marks>() / 8;
        self.words(slot, place)
            .part(self.shape.marks_at() / 8, count)
    }
}

/// The ranks on `node`, by place, from the node of each rank.
pub(super) fn places(nodes: &[u32], node: u32) -> Vec<u32> {
    let here = (0..).zip(nodes).filter(|(_, at)| **at == node);
    here.map(|(rank, _)| rank).collect()
}
