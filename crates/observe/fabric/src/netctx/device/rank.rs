//! A rank's side of a device: it puts frames into the rings and takes them out while its gang runs.

use super::DeviceError;
use super::attach::{Attachment, Idle};
use super::gang::rouse;
use super::memory::Bell;
use super::shape::{FAILED, RUNS, Seat, Shared, WITHDRAWN, places};
use super::waits::Doing;
use crate::FabricError;
use crate::netctx::Layout;
use crate::netctx::piece::{PREFIX, header, prefix};
use crate::piece::{Header, Piece, Pieces};
use idlewave_sys::futex::sleep_on;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// The longest sleep: whoever should wake a rank may die first.
const LONGEST: Duration = Duration::from_millis(10);
/// Iterations of a wait after which a rank yields its CPU.
const TURNS_BEFORE_YIELD: u32 = 16;
/// Iterations of a wait after which a rank sleeps, if it may.
const TURNS_BEFORE_SLEEP: u32 = 200;
/// Spinning iterations, over all waits, between checks that the device's owner is alive: ranks of
/// one node could go on without it for a long time, in many short waits.
const TURNS_PER_LOOK: u32 = 1 << 16;
/// Tests between such checks. A program that does other work in between may test only every few
/// milliseconds; a check costs some 0.3 us.
const TESTS_PER_LOOK: u32 = 64;

/// A rank that is attached to a device.
pub struct RankPort {
    rings: Rings,
    gang: u32,
    idle: Idle,
    /// Value of the futex when this rank announced that it would sleep.
    announced: Option<u32>,
    /// Whether the owner of the device is gone.
    orphaned: bool,
    /// Tests since the last check that the owner is alive.
    tests: u32,
    /// Iterations of waits since the last check that the owner is alive.
    turns: u32,
    /// What this rank waits for, as written in its seat.
    waits: u64,
}

/// The rings that a rank uses.
pub struct Rings {
    shared: Shared,
    bell: Bell,
    slot: u32,
    /// The gate's value while the gang runs.
    ticket: u32,
    /// This rank's place.
    place: u32,
    rank: u32,
    layout: Layout,
    /// By rank: the node.
    nodes: Vec<u32>,
    /// By rank: the place, if it is on this node.
    near: Vec<Option<u32>>,
    /// By rank: what it had taken when this was last looked at. Its mark is on a cache line that it
    /// writes with every message.
    taken: Vec<u32>,
    open: bool,
    /// The number of its last entry, for [`Seat::inside`].
    entries: u32,
    /// Whether anything was put or taken since the rank entered the device.
    moved: bool,
    /// Whether the owner has something to do.
    kick: bool,
    /// Places whose ranks may be waiting for what was done.
    wake: Vec<u32>,
}

impl RankPort {
    pub(in crate::netctx) fn new(attachment: &Attachment) -> Result<Self, DeviceError> {
        let (path, gang) = attachment.device()?;
        let refused = |reason: String| DeviceError::Attach {
            gang,
            rank: attachment.rank,
            reason,
        };
        let shared = Shared::open(&path)?;
        let bell = Bell::open(&path)?;
        let slot = shared.slot_of(gang).ok_or(DeviceError::NoSuchGang(gang))?;
        let nodes = shared.nodes(slot);
        let size = nodes.len() as u32;
        if size != attachment.size {
            let reason = format!("the gang has {size} ranks, not {}", attachment.size);
            return Err(refused(reason));
        }
        let here = places(&nodes, shared.shape.node);
        let place = here.iter().position(|rank| *rank == attachment.rank);
        let place = place.ok_or_else(|| refused("it is not on this node".to_owned()))? as u32;
        let payload = shared.entry(slot).payload.load(Ordering::Relaxed) as usize;
        let layout = Layout::fit(shared.shape.context_bytes, size, payload)?;
        let mut near = vec![None; nodes.len()];
        for (place, rank) in (0..).zip(&here) {
            near[*rank as usize] = Some(place);
        }
        let seat = shared.seat(slot, place);
        let own = std::process::id();
        // A seat is taken only once: what another process left in the rings is not for this one.
        let taken = seat
            .process
            .compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed);
        if let Err(other) = taken {
            return Err(refused(format!("process {other} is, or was")));
        }
        // Wakes the owner, so that it watches for the end of this process from now on.
        bell.ring();
        Ok(Self {
            rings: Rings {
                bell,
                slot,
                ticket: shared.entry(slot).ticket.load(Ordering::Relaxed),
                place,
                rank: attachment.rank,
                layout,
                taken: vec![0; nodes.len()],
                nodes,
                near,
                open: false,
                entries: 0,
                moved: false,
                kick: false,
                wake: Vec::new(),
                shared,
            },
            gang,
            idle: attachment.idle,
            announced: None,
            orphaned: false,
            tests: 0,
            turns: 0,
            waits: 0,
        })
    }

    fn seat(&self) -> &Seat {
        self.rings.seat()
    }

    /// Enters the device, until [`leave`](Self::leave), if the gate is open for this gang.
    fn enter(&mut self) {
        let gate = &self.rings.shared.front().gate.0;
        let own = self.rings.ticket;
        self.rings.open = false;
        // A rank that waits at a closed gate must not appear to be inside.
        if gate.load(Ordering::Relaxed) != own {
            return;
        }
        self.rings.entries = self.rings.entries.wrapping_add(1).max(1);
        let inside = &self.rings.seat().busy.inside;
        // SeqCst on both words, here and where the gate is closed: either this rank sees the gate
        // closed, or the owner that closed it sees this rank inside.
        inside.store(self.rings.entries, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let open = gate.load(Ordering::SeqCst) == own;
        if !open {
            inside.store(0, Ordering::Release);
        }
        self.rings.open = open;
    }

    fn leave(&mut self) {
        if !std::mem::take(&mut self.rings.open) {
            return;
        }
        if std::mem::take(&mut self.rings.moved) && self.waits != 0 {
            // While still inside: an owner that finds this rank outside must see that its wait may
            // be over.
            self.waits = 0;
            self.seat().busy.waits.store(0, Ordering::Release);
        }
        // Release: whoever sees this rank outside sees what it did inside.
        self.seat().busy.inside.store(0, Ordering::Release);
        let kick = std::mem::take(&mut self.rings.kick);
        if !kick && self.rings.wake.is_empty() {
            return;
        }
        // The marks were stored before these words are read, so at least one side sees the other.
        fence(Ordering::SeqCst);
        let rings = &mut self.rings;
        let asleep = &rings.shared.front().asleep.0;
        if kick && asleep.load(Ordering::SeqCst) != 0 && asleep.swap(0, Ordering::SeqCst) != 0 {
            rings.bell.ring();
        }
        for place in rings.wake.drain(..) {
            let seat = rings.shared.seat(rings.slot, place);
            if seat.sleeping.load(Ordering::SeqCst) != 0 {
                rouse(seat);
            }
        }
    }

    /// Sleeps until something arrives. The first call only announces the sleep, so that the caller
    /// checks once more.
    fn doze(&mut self) {
        let seat = self.rings.shared.seat(self.rings.slot, self.rings.place);
        match self.announced {
            Some(seen) => {
                sleep_on(&seat.wake, seen, LONGEST);
                self.orphaned = !self.rings.bell.is_heard();
            }
            None => seat.sleeping.store(1, Ordering::SeqCst),
        }
        self.announced = Some(seat.wake.load(Ordering::SeqCst));
        fence(Ordering::SeqCst);
    }
}

impl Rings {
    fn seat(&self) -> &Seat {
        self.shared.seat(self.slot, self.place)
    }

    fn put_far(&mut self, to: u32, parts: [&[u8]; 3], end: bool) -> Option<()> {
        let marks = self.shared.marks(self.slot, self.place, to);
        let filled = marks.rank.filled.load(Ordering::Relaxed);
        // Acquire: the owner has read what was in the slot.
        let acked = marks.other.acked.load(Ordering::Acquire);
        if filled.wrapping_sub(acked) >= self.layout.slots() {
            return None;
        }
        let own = (self.slot, self.place);
        let ring = self.shared.ring(self.layout, own, (to, 0));
        ring?.put_parts(filled, end, parts).then_some(())?;
        // Release: whoever sees the mark sees the slot.
        let next = filled.wrapping_add(1);
        marks.rank.filled.store(next, Ordering::Release);
        self.kick = true;
        Some(())
    }

    fn put_near(&mut self, (to, place): (u32, u32), parts: [&[u8]; 3], end: bool) -> Option<()> {
        let marks = self.shared.marks(self.slot, place, self.rank);
        let expected = marks.other.expected.load(Ordering::Relaxed);
        let taken = &mut self.taken[to as usize];
        if expected.wrapping_sub(*taken) >= self.layout.slots() {
            // Acquire: the rank has read what was in the slot.
            *taken = marks.rank.taken.load(Ordering::Acquire);
        }
        if expected.wrapping_sub(*taken) >= self.layout.slots() {
            return None;
        }
        let theirs = (self.slot, place);
        let ring = self.shared.ring(self.layout, theirs, (self.rank, 1));
        ring?.put_parts(expected, end, parts).then_some(())?;
        // Release: whoever sees the mark sees the slot.
        let next = expected.wrapping_add(1);
        marks.other.expected.store(next, Ordering::Release);
        self.seat().busy.near.fetch_add(1, Ordering::Relaxed);
        self.note(place);
        Some(())
    }

    /// Whether a rank is on this node.
    pub fn is_near(&self, rank: u32) -> bool {
        self.near.get(rank as usize).is_some_and(Option::is_some)
    }

    /// The most bytes of a message in one piece.
    fn longest(&self) -> usize {
        self.layout.payload().saturating_sub(PREFIX)
    }

    /// Puts a piece like [`put`](Pieces::put), with `front` before `rest`: the piece takes all of
    /// `front`, and as much of `rest` as fits. The number of bytes of `rest` is returned; `None`
    /// also if there is no such rank or `front` is longer than a piece.
    pub fn put_behind(
        &mut self,
        to: u32,
        (tag, message): (u32, u64),
        front: &[u8],
        rest: &[u8],
    ) -> Option<usize> {
        if !self.open || to >= self.layout.peers() {
            return None;
        }
        let room = self.longest().checked_sub(front.len())?;
        let piece = &rest[..rest.len().min(room)];
        let end = piece.len() == rest.len();
        let parts = [&prefix(tag, message)[..], front, piece];
        match self.near.get(to as usize).copied().flatten() {
            Some(place) => self.put_near((to, place), parts, end)?,
            None => self.put_far(to, parts, end)?,
        }
        self.moved = true;
        Some(piece.len())
    }

    /// Notes that the rank at a place may be waiting for what was done.
    fn note(&mut self, place: u32) {
        if place != self.place && !self.wake.contains(&place) {
            self.wake.push(place);
        }
    }
}

impl Pieces for Rings {
    fn size(&self) -> u32 {
        self.layout.peers()
    }

    fn put(&mut self, to: u32, tag: u32, message: u64, rest: &[u8]) -> Option<usize> {
        self.put_behind(to, (tag, message), &[], rest)
    }

    fn take<R>(&mut self, from: u32, read: impl FnOnce(Header, &dyn Piece) -> R) -> Option<R> {
        let mut read = Some(read);
        while self.open && from < self.layout.peers() {
            let marks = self.shared.marks(self.slot, self.place, from);
            let taken = marks.rank.taken.load(Ordering::Relaxed);
            // Acquire: the slots before the mark are as they were filled.
            let expected = marks.other.expected.load(Ordering::Acquire);
            let there = expected.wrapping_sub(taken);
            if there == 0 || there > self.layout.slots() {
                return None;
            }
            let own = (self.slot, self.place);
            let content = self
                .shared
                .ring(self.layout, own, (from, 1))?
                .content(taken);
            // A frame that is too short for a piece is forged: it must not hold up the next one.
            let done = header(&content).and_then(|header| Some(read.take()?(header, &content)));
            // Release: the slot was read before.
            let next = taken.wrapping_add(1);
            marks.rank.taken.store(next, Ordering::Release);
            self.moved = true;
            match self.near.get(from as usize).copied().flatten() {
                Some(place) => self.note(place),
                // As often as the owner grants the sender space.
                None => self.kick |= next % (self.layout.slots() / 2).max(1) == 0,
            }
            if done.is_some() {
                return done;
            }
        }
        None
    }
}

impl RankPort {
    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rings.rank
    }

    /// Ranks of the gang.
    pub fn size(&self) -> u32 {
        self.rings.layout.peers()
    }

    /// Its gang.
    pub fn gang(&self) -> u32 {
        self.gang
    }

    /// The most bytes of a message in one piece.
    pub fn longest_piece(&self) -> usize {
        self.rings.longest()
    }

    /// Whether this rank is done: then nobody misses its process when it ends.
    pub fn set_left(&self, left: bool) {
        let entry = self.rings.shared.entry(self.rings.slot);
        if entry.ticket.load(Ordering::Relaxed) == self.rings.ticket {
            // Release: whoever sees it sees what was put and taken before.
            self.seat().left.store(u32::from(left), Ordering::Release);
        }
    }

    /// The node of a rank; this node if there is no such rank.
    pub(in crate::netctx) fn node_of(&self, rank: u32) -> u32 {
        let node = self.rings.nodes.get(rank as usize);
        node.copied().unwrap_or(self.rings.shared.shape.node)
    }

    /// Calls `act` with the rings and returns whether the gang runs: nothing goes in or out while
    /// it does not.
    pub fn reach<R>(&mut self, act: impl FnOnce(&mut Rings) -> R) -> (R, bool) {
        self.enter();
        let open = self.rings.open;
        let done = act(&mut self.rings);
        self.leave();
        (done, open)
    }

    /// One iteration of a wait: the `turn`-th, from 1. `runs` is what the last
    /// [`reach`](Self::reach) returned.
    pub fn rest(&mut self, turn: u32, runs: bool) {
        if turn == 1 && self.announced.take().is_some() {
            self.seat().sleeping.store(0, Ordering::Relaxed);
        }
        self.turns += 1;
        if !runs || self.turns >= TURNS_PER_LOOK {
            self.turns = 0;
            self.orphaned = !self.rings.bell.is_heard();
        }
        if !runs {
            let gate = &self.rings.shared.front().gate.0;
            let seen = gate.load(Ordering::Relaxed);
            if seen != self.rings.ticket {
                sleep_on(gate, seen, LONGEST);
            }
            return;
        }
        match self.idle {
            Idle::Sleep if turn >= TURNS_BEFORE_SLEEP => self.doze(),
            Idle::Yield | Idle::Sleep if turn % TURNS_BEFORE_YIELD == 0 => {
                // It may be milliseconds until this rank runs again.
                self.turns += TURNS_PER_LOOK / 64;
                std::thread::yield_now();
            }
            _ => std::hint::spin_loop(),
        }
    }

    /// Called on each iteration of a wait: announces what this rank is about to wait for.
    pub(in crate::netctx) fn awaits(&mut self, what: Doing) {
        let word = what.word();
        if word != self.waits {
            self.waits = word;
            // Release: whoever reads it sees what was put and taken before.
            self.seat().busy.waits.store(word, Ordering::Release);
        }
    }

    /// A test does not wait, but now and then it checks that the owner is alive, as waits do.
    pub fn tested(&mut self) {
        self.tests += 1;
        if self.tests >= TESTS_PER_LOOK {
            self.tests = 0;
            self.orphaned = !self.rings.bell.is_heard();
        }
    }

    /// Why the gang cannot go on; `None` if it can.
    pub fn failure(&self) -> Option<FabricError> {
        let rings = &self.rings;
        let entry = rings.shared.entry(rings.slot);
        // Relaxed: no other read depends on it.
        let read = |word: &AtomicU32| word.load(Ordering::Relaxed);
        match read(&entry.failed) {
            RUNS if self.orphaned || read(&entry.ticket) != rings.ticket => {
                Some(FabricError::NetworkGone)
            }
            RUNS => None,
            WITHDRAWN => Some(FabricError::NetworkGone),
            _ => Some(FabricError::PeerFailed),
        }
    }

    /// Called by a rank that gives up: fails the gang.
    pub fn fail(&self) {
        let entry = self.rings.shared.entry(self.rings.slot);
        if entry.ticket.load(Ordering::Relaxed) != self.rings.ticket {
            return;
        }
        entry.failed.store(FAILED, Ordering::Relaxed);
        for place in self.rings.near.iter().flatten() {
            rouse(self.rings.shared.seat(self.rings.slot, *place));
        }
        // The owner tells the other nodes.
        self.rings.bell.ring();
    }
}

impl Drop for RankPort {
    fn drop(&mut self) {
        // A rank that panics has not left properly: the owner fails the gang when the process ends.
        if !std::thread::panicking() {
            self.set_left(true);
        }
    }
}
