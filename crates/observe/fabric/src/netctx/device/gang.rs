//! A gang on a device, as the device's owner sees it: its contexts, the frames sent for its ranks,
//! and whether the ranks are alive.

use super::memory::watch_process;
use super::shape::{FAILED, Marks, RUNS, Seat, Shared, WITHDRAWN, places};
use super::{DeviceError, Gang, Within};
use crate::netctx::context::{Head, Pair, ends};
use crate::netctx::piece::PREFIX;
use crate::netctx::talk::{self, Talk, Traffic};
use crate::netctx::transport::Transport;
use crate::netctx::words::Words;
use crate::netctx::{Context, Counts, Layout, Policy};
use idlewave_sys::futex::wake;
use idlewave_units::Nanos;
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Payload of a frame if all ranks share a node, bytes: with its slot's head, about half a page.
const NEAR_PAYLOAD: usize = 2_000;

/// What is known of the process at a place.
enum Life {
    /// No process has attached yet.
    Awaited,
    /// It is alive; this descriptor reports its end.
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
    /// By place: head and ends of its context, which belong to the owner alone.
    fronts: Vec<Vec<u64>>,
    /// By place: what was copied out, if contexts are copied.
    saved: Vec<Vec<u64>>,
    lives: Vec<Life>,
    /// When the other nodes were last told that it failed; `None` if never.
    pub(super) told: Option<Nanos>,
    /// The gate's value while it runs. The copy in the device is for the ranks, which could change
    /// it.
    pub(super) ticket: u32,
    /// Whether it has failed. Once this is set, the word in the device is only for the ranks.
    failed: Cell<bool>,
    /// Whether the owner no longer waits for its ranks to leave the device.
    pub(super) abandoned: bool,
}

impl Admitted {
    /// Creates the contexts of a gang in a free slot.
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
            fronts: Vec::new(),
            saved: Vec::new(),
            lives: ranks.iter().map(|_| Life::Awaited).collect(),
            ranks,
            told: None,
            ticket,
            failed: Cell::new(false),
            abandoned: false,
        };
        for (place, &rank) in (0..).zip(&admitted.ranks) {
            let mut region = vec![0; shape.region_bytes() / 8];
            Context::begin(layout, &mut region, gang.gang, rank);
            if policy == Policy::Resident {
                shared.words(slot, place).fill(&region);
            } else {
                let mut saved = Vec::new();
                policy.save(layout, &mut region, &mut saved);
                // All marks start at zero.
                saved.resize(saved.len() + mark_words(layout), 0);
                admitted.saved.push(saved);
            }
            region.truncate(layout.rings() / 8);
            admitted.fronts.push(region);
            let seat = shared.seat(slot, place);
            for word in [&seat.process, &seat.left, &seat.busy.inside, &seat.sleeping] {
                word.store(0, Ordering::Relaxed);
            }
            seat.busy.near.store(0, Ordering::Relaxed);
            seat.busy.waits.store(0, Ordering::Relaxed);
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

    /// Calls `act` with the context of each place.
    fn each_context(
        &mut self,
        shared: &Shared,
        mut act: impl FnMut(&mut Self, u32, &mut Context<'_>),
    ) {
        let mut fronts = std::mem::take(&mut self.fronts);
        for (place, front) in (0..).zip(&mut fronts) {
            let mut context = shared.context(self.layout, (self.slot, place), front);
            act(self, place, &mut context);
        }
        self.fronts = fronts;
    }

    /// What the owner knows of the channels of a place, by peer.
    pub(super) fn pairs(&self, place: u32) -> &[Pair] {
        let front = self.fronts.get(place as usize);
        front.map_or(&[], |front| ends(self.layout, front).1)
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
        if failed.load(Ordering::Relaxed) != RUNS {
            self.failed.set(true);
        }
        self.failed.get()
    }

    pub(super) fn fail(&self, shared: &Shared) {
        self.end(shared, FAILED);
    }

    /// Takes the network away from its ranks.
    pub(super) fn withdraw(&self, shared: &Shared) {
        self.end(shared, WITHDRAWN);
    }

    /// Ends the waits of its ranks on this node; the first reason is kept.
    fn end(&self, shared: &Shared, why: u32) {
        self.failed.set(true);
        let failed = &shared.entry(self.slot).failed;
        // Relaxed: no other read depends on it.
        let _ = failed.compare_exchange(RUNS, why, Ordering::Relaxed, Ordering::Relaxed);
        for (_, seat) in self.seats(shared) {
            rouse(seat);
        }
    }

    /// Reads from the marks what a rank has put in and taken out. Impossible marks come from a
    /// misbehaving rank: its gang fails.
    fn pull(&self, shared: &Shared, place: u32, peer: u32, context: &mut Context<'_>) {
        let marks = shared.marks(self.slot, place, peer);
        // Acquire: the slots before a mark are as its writer left them.
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

    /// Tells the rank what its peers have received and what has arrived from them; true if anything
    /// is new.
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
            let Some(pair) = self.pairs(place).get(peer as usize) else {
                return false;
            };
            let marks = &shared.marks(self.slot, place, peer).rank;
            let half = (self.layout.slots() / 2).max(1);
            let filled = marks.filled.load(Ordering::Acquire);
            let taken = marks.taken.load(Ordering::Acquire);
            let sent = pair.send.stored_end() != filled;
            sent || taken.wrapping_sub(pair.receive.stored().0) >= half
        };
        let failed = self.has_failed(shared);
        !failed
            && (0..self.ranks.len() as u32).any(|place| self.far().any(|peer| news(place, peer)))
    }

    /// Moves the frames of all places.
    pub(super) fn speak(
        &mut self,
        shared: &Shared,
        now: Nanos,
        transport: &mut impl Transport,
        traffic: &mut Traffic,
    ) {
        let mut talks = std::mem::take(&mut self.talks);
        self.each_context(shared, |gang, place, context| {
            let Some(talk) = talks.get_mut(place as usize) else {
                return;
            };
            let mut news = false;
            for peer in gang.far() {
                gang.pull(shared, place, peer, context);
                let to = gang.nodes[peer as usize];
                talk.speak(context, (peer, to), now, transport, traffic);
                news |= gang.push(shared, place, peer, context);
            }
            if news {
                fence(Ordering::SeqCst);
                let seat = shared.seat(gang.slot, place);
                if seat.sleeping.load(Ordering::SeqCst) != 0 {
                    rouse(seat);
                }
            }
        });
        self.talks = talks;
    }

    /// Handles an incoming frame; false if it is for no rank on this node, or its channel refuses
    /// it.
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
        let mut front = std::mem::take(&mut self.fronts[place]);
        let at = (self.slot, place as u32);
        let mut context = shared.context(self.layout, at, &mut front);
        self.pull(shared, place as u32, from, &mut context);
        let taken = talk::hear(&mut context, header, payload);
        self.fronts[place] = front;
        taken
    }

    /// Stops the ranks here from injecting anything new.
    pub(super) fn stop(&mut self, shared: &Shared) {
        self.each_context(shared, |gang, _, context| context.stop(gang.far()));
    }

    /// The first rank that is inside the device.
    pub(super) fn inside(&self, shared: &Shared) -> Option<Within> {
        if self.abandoned {
            return None;
        }
        // SeqCst: a rank that saw the gate open had announced before that it is inside; see
        // `RankPort::enter`.
        self.seats(shared).find_map(|(place, seat)| {
            let entry = seat.busy.inside.load(Ordering::SeqCst);
            let rank = *self.ranks.get(place as usize)?;
            let process = seat.process.load(Ordering::Acquire);
            let within = Within {
                rank,
                entry,
                process,
            };
            (entry != 0).then_some(within)
        })
    }

    /// Whether nothing is in flight between nodes.
    pub(super) fn is_drained(&self) -> bool {
        (0..self.ranks.len() as u32).all(|place| {
            let pair = |peer: u32| self.pairs(place).get(peer as usize);
            self.far()
                .all(|peer| pair(peer).is_some_and(Pair::is_drained))
        })
    }

    /// Frames so far: those between nodes, and those between ranks of this node, which are received
    /// the moment they are sent.
    pub(super) fn counts(&self, shared: &Shared) -> Counts {
        let mut sum = Counts::default();
        for (place, seat) in self.seats(shared) {
            let far = Counts::of(self.pairs(place));
            let near = seat.busy.near.load(Ordering::Relaxed);
            // A misbehaving rank may write any count.
            sum.sent = sum.sent.wrapping_add(far.sent).wrapping_add(near);
            sum.received = sum.received.wrapping_add(far.received).wrapping_add(near);
        }
        sum
    }

    pub(super) fn resume(&mut self, shared: &Shared, epoch: u64) -> Result<(), DeviceError> {
        let mut done = Ok(());
        self.each_context(shared, |_, _, context| {
            if done.is_ok() {
                done = context.resume(epoch);
            }
        });
        done?;
        for talk in &mut self.talks {
            talk.reset();
        }
        Ok(())
    }

    pub(super) fn epoch(&self) -> u64 {
        let first = self.fronts.first();
        first.map_or(0, |front| ends(self.layout, front).0.epoch)
    }

    /// Copies the contexts out; no rank may be inside the device. Returns the number of bytes.
    pub(super) fn save(&mut self, shared: &Shared, policy: Policy) -> usize {
        self.each_context(shared, |gang, place, context| {
            for peer in 0..gang.layout.peers() {
                // Frames from ranks of this node bypass the owner. They are noted first, since only
                // what has arrived can have been taken.
                let marks = &shared.marks(gang.slot, place, peer).other;
                if let Some(mut receiver) = context.receiver(peer) {
                    receiver.expect(marks.expected.load(Ordering::Acquire));
                }
                gang.pull(shared, place, peer, context);
            }
        });
        let (layout, slot) = (self.layout, self.slot);
        for ((place, front), saved) in (0..).zip(&self.fronts).zip(&mut self.saved) {
            policy.save_parts(layout, front, behind(shared, layout, slot, place), saved);
            let marks = shared.mark_words(slot, place, layout.peers());
            marks.append_to(saved);
        }
        self.saved.iter().map(|words| words.len() * 8).sum()
    }

    /// Copies the contexts in; no rank may be inside the device. Returns the number of bytes.
    pub(super) fn restore(&mut self, shared: &Shared, policy: Policy) -> usize {
        let (layout, slot) = (self.layout, self.slot);
        for ((place, front), saved) in (0..).zip(&mut self.fronts).zip(&self.saved) {
            let (kept, marks) = saved.split_at(saved.len() - mark_words(layout));
            policy.restore_parts(layout, front, behind(shared, layout, slot, place), kept);
            shared.mark_words(slot, place, layout.peers()).fill(marks);
        }
        self.saved.iter().map(|words| words.len() * 8).sum()
    }

    /// When something must be retransmitted.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.talks.iter().filter_map(Talk::due).min()
    }

    pub(super) fn is_held_up(&self) -> bool {
        self.talks.iter().any(Talk::is_held_up)
    }

    /// Starts watching ranks that have attached, and adds the descriptors of all watched ranks.
    pub(super) fn watch(&mut self, shared: &Shared, descriptors: &mut Vec<i32>) {
        for place in 0..self.lives.len() {
            let seat = shared.seat(self.slot, place as u32);
            let process = seat.process.load(Ordering::Acquire);
            if matches!(self.lives[place], Life::Awaited) && process != 0 {
                match watch_process(process) {
                    Ok(Some(descriptor)) => self.lives[place] = Life::Lives(descriptor),
                    Ok(None) => self.over(shared, place),
                    // Retried on the next turn.
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
        // It is no longer inside, wherever it was.
        seat.busy.inside.store(0, Ordering::SeqCst);
        if seat.left.load(Ordering::Acquire) == 0 {
            self.fail(shared);
        }
    }
}

/// Wakes a rank.
pub(super) fn rouse(seat: &Seat) {
    seat.wake.fetch_add(1, Ordering::Release);
    wake(&seat.wake);
}

/// Words of the marks of all peers.
fn mark_words(layout: Layout) -> usize {
    layout.peers() as usize * size_of::<Marks>() / 8
}

/// The part of a region between the ends of the channels and the marks.
fn behind(shared: &Shared, layout: Layout, slot: u32, place: u32) -> Words<'_> {
    let first = layout.rings() / 8;
    let words = shared.words(slot, place);
    words.part(first, layout.bytes() / 8 - first)
}

const _: () = assert!(size_of::<Head>() % 8 == 0 && size_of::<Marks>() % 8 == 0);
