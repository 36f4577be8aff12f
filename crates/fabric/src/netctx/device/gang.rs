//! A gang on a device, as its owner sees it: its contexts, what is said for its ranks, and whether they live.

use super::memory::watch_process;
use super::shape::{FAILED, Marks, RUNS, Seat, Shared, WITHDRAWN, places};
use super::{DeviceError, Gang};
use crate::netctx::context::Head;
use crate::netctx::piece::PREFIX;
use crate::netctx::talk::{self, Talk, Traffic};
use crate::netctx::transport::Transport;
use crate::netctx::{Context, Counts, Layout, Policy};
use idlewave_units::Nanos;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Payload of a frame where all ranks share a node, bytes: half a page with what is in front of it, about.
const NEAR_PAYLOAD: usize = 2_000;

/// What is known of the process of a place.
enum Life {
    /// Nobody has come yet.
    Awaited,
    /// Ends of it are noticed through this.
    Lives(OwnedFd),
    /// It has ended.
    Over,
}

/// A gang that was admitted.
pub(super) struct Admitted {
    pub(super) gang: u32,
    pub(super) slot: u32,
    pub(super) layout: Layout,
    /// By place: the rank.
    pub(super) ranks: Vec<u32>,
    /// By rank: the node.
    pub(super) nodes: Vec<u32>,
    own: u32,
    talks: Vec<Talk>,
    /// By place: what was copied out, if contexts are copied.
    saved: Vec<Vec<u64>>,
    lives: Vec<Life>,
    /// Whether the other nodes were told that it failed, and when last.
    pub(super) told: Option<Nanos>,
}

impl Admitted {
    /// Makes the contexts of a gang whose slot is free.
    pub(super) fn new(
        shared: &Shared,
        (slot, ticket): (u32, u32),
        policy: Policy,
        gang: &Gang,
        longest: usize,
        timeout: Nanos,
    ) -> Result<Self, DeviceError> {
        let shape = shared.shape;
        let size = gang.nodes.len() as u32;
        let refused = |reason: String| DeviceError::NoRoom {
            gang: gang.gang,
            reason,
        };
        if size == 0 || size > shape.ranks {
            let most = shape.ranks;
            return Err(refused(format!("it has {size} ranks, not 1 to {most}")));
        }
        let ranks = places(&gang.nodes, shape.node);
        if ranks.len() > shape.places as usize {
            let (here, most) = (ranks.len(), shape.places);
            return Err(refused(format!("{here} ranks are here, {most} at most")));
        }
        let near = gang.nodes.iter().all(|node| *node == gang.nodes[0]);
        let payload = match near {
            true => NEAR_PAYLOAD,
            false => longest.saturating_sub(crate::netctx::frame::HEADER_BYTES),
        };
        if payload <= PREFIX {
            return Err(crate::netctx::ContextError::Payload(payload).into());
        }
        let layout = Layout::fit(shape.context_bytes, size, payload)?;
        let mut admitted = Self {
            gang: gang.gang,
            slot,
            layout,
            nodes: gang.nodes.clone(),
            own: shape.node,
            talks: ranks.iter().map(|_| Talk::new(size, timeout)).collect(),
            saved: Vec::new(),
            lives: ranks.iter().map(|_| Life::Awaited).collect(),
            ranks,
            told: None,
        };
        for (place, &rank) in (0..).zip(&admitted.ranks) {
            let mut region = vec![0; shape.region_bytes() / 8];
            Context::begin(layout, &mut region, gang.gang, rank);
            match policy {
                Policy::Resident => {
                    // SAFETY: no rank of this gang has come yet, and the region is its alone.
                    let own = unsafe { shared.words(slot, place).as_mut() };
                    own.copy_from_slice(&region);
                }
                _ => {
                    let mut saved = Vec::new();
                    save(policy, layout, shape.marks_at(), &mut region, &mut saved);
                    admitted.saved.push(saved);
                }
            }
            let seat = shared.seat(slot, place);
            for word in [&seat.process, &seat.left, &seat.inside, &seat.sleeping] {
                word.store(0, Ordering::Relaxed);
            }
            seat.near.store(0, Ordering::Relaxed);
            seat.waits.store(0, Ordering::Relaxed);
        }
        for (rank, node) in (0..).zip(&gang.nodes) {
            shared.node(slot, rank).store(*node, Ordering::Relaxed);
        }
        let entry = shared.entry(slot);
        entry.gang.store(gang.gang, Ordering::Relaxed);
        entry.payload.store(payload as u32, Ordering::Relaxed);
        entry.failed.store(RUNS, Ordering::Relaxed);
        entry.ticket.store(ticket, Ordering::Relaxed);
        // Release: whoever sees the size sees the rest.
        entry.size.store(size, Ordering::Release);
        Ok(admitted)
    }

    /// The context of a place and the marks of its peers.
    pub(super) fn context<'a>(&self, shared: &'a Shared, place: u32) -> Context<'a> {
        // SAFETY: the owner's thread has the device, and `self` is the active gang or has a region of its own; of the rings
        // only those slots are used that ranks have given away by their marks.
        unsafe { shared.context(self.layout, self.slot, place) }
    }

    fn seats<'a>(&self, shared: &'a Shared) -> impl Iterator<Item = (u32, &'a Seat)> {
        let slot = self.slot;
        (0..self.ranks.len() as u32).map(move |place| (place, shared.seat(slot, place)))
    }

    /// By place: the process.
    pub(super) fn processes(&self, shared: &Shared) -> Vec<Option<u32>> {
        let process = |(_, seat): (u32, &Seat)| match seat.process.load(Ordering::Acquire) {
            0 => None,
            process => Some(process),
        };
        self.seats(shared).map(process).collect()
    }

    /// Ranks on other nodes.
    fn far(&self) -> impl Iterator<Item = u32> + Clone + use<'_> {
        let nodes = (0..).zip(&self.nodes);
        nodes.filter_map(|(rank, node)| (*node != self.own).then_some(rank))
    }

    pub(super) fn has_failed(&self, shared: &Shared) -> bool {
        let failed = &shared.entry(self.slot).failed;
        failed.load(Ordering::Relaxed) != RUNS
    }

    pub(super) fn fail(&self, shared: &Shared) {
        self.end(shared, FAILED);
    }

    /// Takes the network away from its ranks.
    pub(super) fn withdraw(&self, shared: &Shared) {
        self.end(shared, WITHDRAWN);
    }

    /// Ends the waits of its ranks here; the first reason stays.
    fn end(&self, shared: &Shared, why: u32) {
        let failed = &shared.entry(self.slot).failed;
        // Relaxed: nothing else is read because of it.
        let _ = failed.compare_exchange(RUNS, why, Ordering::Relaxed, Ordering::Relaxed);
        for (_, seat) in self.seats(shared) {
            rouse(seat);
        }
    }

    /// Learns from the marks what ranks have put in and taken out. Marks that cannot be are those of a rank that went
    /// astray: its gang has failed.
    fn pull(&self, shared: &Shared, place: u32, peer: u32, context: &mut Context<'_>) {
        let marks = shared.marks(self.slot, place, peer);
        // Acquire: the slots in front of a mark are as its writer left them.
        let filled = marks.rank.filled.load(Ordering::Acquire);
        let taken = marks.rank.taken.load(Ordering::Acquire);
        let filled = context.sender(peer).is_some_and(|mut s| s.fill_to(filled));
        let taken = context
            .receiver(peer)
            .is_some_and(|mut r| r.release_to(taken));
        if !(filled && taken) {
            self.fail(shared);
        }
    }

    /// Tells the rank what was received by its peers and from them.
    fn push(&self, shared: &Shared, place: u32, peer: u32, context: &mut Context<'_>) -> bool {
        let marks = &shared.marks(self.slot, place, peer).other;
        // Release: see `pull`.
        let tell = |mark: &AtomicU32, now: u32| mark.swap(now, Ordering::Release) != now;
        let acked = context.sender(peer).map(|s| s.acked());
        let expected = context.receiver(peer).map(|r| r.expected());
        acked.is_some_and(|n| tell(&marks.acked, n))
            | expected.is_some_and(|n| tell(&marks.expected, n))
    }

    /// Whether a rank has put something in or taken something out that the owner has not seen yet.
    pub(super) fn has_news(&self, shared: &Shared) -> bool {
        let news = |place: u32, peer: u32| {
            let mut context = self.context(shared, place);
            let marks = &shared.marks(self.slot, place, peer).rank;
            let half = (self.layout.slots() / 2).max(1);
            let filled = marks.filled.load(Ordering::Acquire);
            let taken = marks.taken.load(Ordering::Acquire);
            let sent = context
                .sender(peer)
                .is_some_and(|s| s.state().stored_end() != filled);
            let freed = context
                .receiver(peer)
                .is_some_and(|r| taken.wrapping_sub(r.state().stored().0) >= half);
            sent || freed
        };
        let failed = self.has_failed(shared);
        !failed
            && (0..self.ranks.len() as u32).any(|place| self.far().any(|peer| news(place, peer)))
    }

    /// Moves frames of all places on.
    pub(super) fn speak(
        &mut self,
        shared: &Shared,
        now: Nanos,
        transport: &mut impl Transport,
        traffic: &mut Traffic,
    ) {
        let mut talks = std::mem::take(&mut self.talks);
        for (place, talk) in (0..).zip(&mut talks) {
            let mut context = self.context(shared, place);
            let mut news = false;
            for peer in self.far() {
                self.pull(shared, place, peer, &mut context);
                let to = self.nodes[peer as usize];
                talk.speak(&mut context, (peer, to), now, transport, traffic);
                news |= self.push(shared, place, peer, &mut context);
            }
            if news {
                fence(Ordering::SeqCst);
                let seat = shared.seat(self.slot, place);
                if seat.sleeping.load(Ordering::SeqCst) != 0 {
                    rouse(seat);
                }
            }
        }
        self.talks = talks;
    }

    /// A frame that came; false if it is for nobody here.
    pub(super) fn hear(
        &mut self,
        shared: &Shared,
        header: &crate::netctx::Header,
        payload: &[u8],
    ) -> bool {
        let (to, from) = match header.kind.is_answer() {
            true => (header.link.source, header.link.destination),
            false => (header.link.destination, header.link.source),
        };
        let near = self.nodes.get(from as usize).is_none_or(|n| *n == self.own);
        let place = self.ranks.iter().position(|rank| *rank == to);
        let (Some(place), false) = (place, near) else {
            return false;
        };
        let mut context = self.context(shared, place as u32);
        self.pull(shared, place as u32, from, &mut context);
        talk::hear(&mut context, header, payload)
    }

    /// Ranks here inject nothing new.
    pub(super) fn stop(&mut self, shared: &Shared) {
        for place in 0..self.ranks.len() as u32 {
            let mut context = self.context(shared, place);
            context.stop(self.far());
        }
    }

    /// The first rank that is within the device.
    pub(super) fn inside(&self, shared: &Shared) -> Option<u32> {
        // SeqCst: a rank that saw the gate open said before that it is inside; see `RankPort::enter`.
        let within = |(_, seat): &(u32, &Seat)| seat.inside.load(Ordering::SeqCst) != 0;
        let place = self.seats(shared).find(within)?.0;
        self.ranks.get(place as usize).copied()
    }

    /// Whether nothing is under way between nodes.
    pub(super) fn is_drained(&self, shared: &Shared) -> bool {
        (0..self.ranks.len() as u32).all(|place| {
            let mut context = self.context(shared, place);
            context.is_drained(self.far())
        })
    }

    /// Frames so far: those between nodes, and those between ranks here, which are received as they are sent.
    pub(super) fn counts(&self, shared: &Shared) -> Counts {
        let mut sum = Counts::default();
        for (place, seat) in self.seats(shared) {
            let far = self.context(shared, place).counts();
            let near = seat.near.load(Ordering::Relaxed);
            // What a rank that went astray counts is any number.
            sum.sent = sum.sent.wrapping_add(far.sent).wrapping_add(near);
            sum.received = sum.received.wrapping_add(far.received).wrapping_add(near);
        }
        sum
    }

    pub(super) fn resume(&mut self, shared: &Shared, epoch: u64) -> Result<(), DeviceError> {
        for place in 0..self.ranks.len() as u32 {
            self.context(shared, place).resume(epoch)?;
        }
        for talk in &mut self.talks {
            talk.reset();
        }
        Ok(())
    }

    pub(super) fn epoch(&self, shared: &Shared) -> u64 {
        let first = (!self.ranks.is_empty()).then(|| self.context(shared, 0).epoch());
        first.unwrap_or(0)
    }

    /// Copies the contexts out; nobody is within the device. Gives the bytes.
    pub(super) fn save(&mut self, shared: &Shared, policy: Policy) -> usize {
        let mut saved = std::mem::take(&mut self.saved);
        for (place, saved) in (0..).zip(&mut saved) {
            let mut context = self.context(shared, place);
            for peer in 0..self.layout.peers() {
                // What came from a rank of this node came without the owner; it is first, since nothing else was taken.
                let marks = &shared.marks(self.slot, place, peer).other;
                if let Some(mut receiver) = context.receiver(peer) {
                    receiver.expect(marks.expected.load(Ordering::Acquire));
                }
                self.pull(shared, place, peer, &mut context);
            }
            // SAFETY: the gate is closed and no rank is inside, so the region is the owner's alone.
            let region = unsafe { shared.words(self.slot, place).as_mut() };
            save(policy, self.layout, shared.shape.marks_at(), region, saved);
        }
        let bytes = saved.iter().map(|words| words.len() * 8).sum();
        self.saved = saved;
        bytes
    }

    /// Copies the contexts in; nobody is within the device. Gives the bytes.
    pub(super) fn restore(&mut self, shared: &Shared, policy: Policy) -> usize {
        for (place, saved) in (0..).zip(&self.saved) {
            // SAFETY: the gate is closed and no rank is inside, so the region is the owner's alone.
            let region = unsafe { shared.words(self.slot, place).as_mut() };
            restore(policy, self.layout, shared.shape.marks_at(), region, saved);
        }
        self.saved.iter().map(|words| words.len() * 8).sum()
    }

    /// When something must be said again.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.talks.iter().filter_map(Talk::due).min()
    }

    pub(super) fn is_held_up(&self) -> bool {
        self.talks.iter().any(Talk::is_held_up)
    }

    /// Begins to watch ranks that have come, and what tells of the end of all that are watched.
    pub(super) fn watch(&mut self, shared: &Shared, descriptors: &mut Vec<i32>) {
        for place in 0..self.lives.len() {
            let seat = shared.seat(self.slot, place as u32);
            let process = seat.process.load(Ordering::Acquire);
            if matches!(self.lives[place], Life::Awaited) && process != 0 {
                match watch_process(process) {
                    Ok(Some(descriptor)) => self.lives[place] = Life::Lives(descriptor),
                    Ok(None) => self.over(shared, place),
                    // Asked for again at the next turn.
                    Err(_) => {}
                }
            }
            if let Life::Lives(descriptor) = &self.lives[place] {
                descriptors.push(descriptor.as_raw_fd());
            }
        }
    }

    /// Notices processes that have ended.
    pub(super) fn look_after(&mut self, shared: &Shared, ended: impl Fn(i32) -> bool) {
        for place in 0..self.lives.len() {
            let over = match &self.lives[place] {
                Life::Lives(descriptor) => ended(descriptor.as_raw_fd()),
                _ => false,
            };
            if over {
                self.over(shared, place);
            }
        }
    }

    fn over(&mut self, shared: &Shared, place: usize) {
        self.lives[place] = Life::Over;
        let seat = shared.seat(self.slot, place as u32);
        // It holds nothing any more, wherever it was.
        seat.inside.store(0, Ordering::SeqCst);
        if seat.left.load(Ordering::Acquire) == 0 {
            self.fail(shared);
        }
    }
}

/// Wakes a rank.
pub(super) fn rouse(seat: &Seat) {
    seat.wake.fetch_add(1, Ordering::Release);
    super::memory::wake(&seat.wake);
}

/// Words of the marks of all peers.
fn mark_words(layout: Layout) -> usize {
    layout.peers() as usize * size_of::<Marks>() / 8
}

fn save(policy: Policy, layout: Layout, marks_at: usize, region: &mut [u64], saved: &mut Vec<u64>) {
    let (context, marks) = region.split_at_mut(marks_at / 8);
    policy.save(layout, context, saved);
    saved.extend_from_slice(&marks[..mark_words(layout)]);
}

fn restore(policy: Policy, layout: Layout, marks_at: usize, region: &mut [u64], saved: &[u64]) {
    let (context, marks) = region.split_at_mut(marks_at / 8);
    let (kept, kept_marks) = saved.split_at(saved.len() - mark_words(layout));
    policy.restore(layout, context, kept);
    marks[..kept_marks.len()].copy_from_slice(kept_marks);
}

const _: () = assert!(size_of::<Head>() % 8 == 0 && size_of::<Marks>() % 8 == 0);
