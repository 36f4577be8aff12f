//! Writes what a call waits for, and what it counts, to the state page.

use crate::call::Call;
use crate::communicators::Comm;
use crate::page::{LARGE, PARTIAL, POSTED, Page, Want as Slot, bit, kind, mode, unknown};
use crate::point_to_point::Transfer;
use crate::ring::{ANY_TAG, flags};
use crate::state::{give_up, give_up_any};
use crate::state_pairs::count;
use crate::table::How;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

/// Hash of what the current polls ask for.
static POLLED: AtomicU64 = AtomicU64::new(0);
/// Where to start looking for a free slot for a posted receive.
static FREE_POSTED: AtomicU32 = AtomicU32::new(0);

/// What a request waits for, in the form of its slot in the page.
#[derive(Clone, Copy, Default)]
pub struct Want {
    pub what: u64,
    pub which: u64,
    pub number: u64,
    pub communicator: u64,
    /// Slot among the posted receives plus 1.
    pub posted: u32,
}

impl Want {
    /// For a request about which nothing is known.
    pub const UNKNOWN: Self = Self {
        what: kind::UNKNOWN as u64,
        which: 0,
        number: 0,
        communicator: 0,
        posted: 0,
    };

    fn kind(&self) -> u8 {
        self.what as u8
    }

    /// Whether it sends a message.
    pub fn is_send(&self) -> bool {
        self.kind() == kind::SEND
    }

    fn store(&self, to: &Slot) {
        to.which.store(self.which, Relaxed);
        to.number.store(self.number, Relaxed);
        to.communicator.store(self.communicator, Relaxed);
        to.what.store(self.what, Relaxed);
    }
}

/// The page while it is being written: its epoch is odd as long as this value lives. Nested inside
/// another one it does nothing.
pub struct Writing {
    pub page: &'static Page,
    even: Option<u64>,
}

/// Starts writing. The previous wait is over unless the writer says otherwise.
#[inline(always)]
pub fn write(page: &'static Page) -> Writing {
    let epoch = page.epoch.load(Relaxed);
    let even = (epoch % 2 == 0).then(|| {
        page.epoch.store(epoch + 1, Relaxed);
        // Release: whoever sees a store below sees the odd epoch.
        fence(Release);
        epoch + 2
    });
    page.doing.store(0, Relaxed);
    Writing { page, even }
}

impl Drop for Writing {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(even) = self.even {
            // Release: whoever sees the even epoch sees all stores before it.
            self.page.epoch.store(even, Release);
        }
    }
}

/// After a call: its wait is over.
#[inline(always)]
pub fn ended(call: &Call) -> Option<Writing> {
    call.page.map(write)
}

/// Before a call that waits for one thing.
#[inline(always)]
pub fn waits_for(call: &Call, writing: &Writing, want: &Want) {
    match want.kind() {
        kind::NOTHING | kind::UNKNOWN => {}
        _ => {
            want.store(&writing.page.waits[0]);
            writing.say(mode::ALL, call.entry.number, 1, false);
        }
    }
}

impl Writing {
    fn say(&self, mode: u8, function: u16, waits: usize, partial: bool) {
        let word = u64::from(mode) | u64::from(function) << 16 | (waits as u64) << 32;
        let partial = if partial { PARTIAL } else { 0 };
        self.page.doing.store(word | partial, Relaxed);
    }

    /// Writes what the call waits for. Returns `None` if one of the requests is already complete
    /// or too little is known.
    pub fn waits(
        &self,
        function: u16,
        mode: u8,
        wants: impl Iterator<Item = Option<Want>>,
    ) -> Option<()> {
        let any = matches!(mode, mode::ANY | mode::POLL_ANY);
        let (mut count, mut partial) = (0, false);
        for want in wants {
            let want = want.unwrap_or(Want::UNKNOWN);
            match want.kind() {
                // An active request that is already complete.
                kind::NOTHING if any => return None,
                kind::NOTHING => {}
                kind::UNKNOWN if any => return None,
                kind::UNKNOWN => partial = true,
                _ => {
                    want.store(self.page.waits.get(count)?);
                    count += 1;
                }
            }
        }
        if count > 0 {
            self.say(mode, function, count, partial);
        }
        (count > 0).then_some(())
    }

    /// Counts a message about to be sent; returns what its sender waits for.
    #[inline(always)]
    pub fn sent(&self, call: &Call, comm: &Comm, transfer: &Transfer) -> Want {
        let Some(pair) = self.pair(comm, transfer.peer) else {
            if transfer.peer == 0 {
                give_up(self.page, unknown::OUTSIDE);
            }
            return Want::UNKNOWN;
        };
        let all = pair.sent.load(Relaxed) + 1;
        pair.sent.store(all, Relaxed);
        let nth = count(
            &pair.sent_tags,
            &pair.sent_by_tag,
            &pair.more,
            1,
            transfer.tag,
        );
        let mut bits = if nth.is_some() { bit::TAG } else { 0 };
        if transfer.flags & flags::SYNCHRONOUS != 0 {
            bits |= bit::SYNCHRONOUS;
        } else if transfer.bytes >= LARGE {
            if buffered(call) {
                return Want::default();
            }
            // The kind of a persistent send was given when the request was made and is not known
            // here, so assume only what holds for every kind.
            if !matches!(call.entry.how, How::Start | How::Startall) {
                bits |= bit::LARGE;
            }
        }
        Want {
            what: what(kind::SEND, bits, transfer.peer),
            which: u64::from(transfer.tag as u32),
            number: nth.unwrap_or(all),
            communicator: comm.key,
            posted: 0,
        }
    }

    /// Counts a message that was received.
    #[inline(always)]
    pub fn received(&self, comm: &Comm, peer: u32, tag: i32) {
        // Without a slot the communicator was freed: no rank waits on it any longer.
        if let Some(pair) = self.pair(comm, peer) {
            pair.received
                .store(pair.received.load(Relaxed) + 1, Relaxed);
            count(
                &pair.received_tags,
                &pair.received_by_tag,
                &pair.more,
                2,
                tag,
            );
        }
    }

    /// Posts a receive.
    pub fn post(&self, mut want: Want) -> Want {
        if want.kind() != kind::RECEIVE {
            return want;
        }
        let used = self.page.posted_used.load(Relaxed) as usize;
        let free = |slot: &usize| self.page.posted[*slot].what.load(Relaxed) == 0;
        let hint = FREE_POSTED.load(Relaxed) as usize;
        let slot = (hint < used.min(POSTED))
            .then_some(hint)
            .filter(free)
            .or_else(|| (0..used.min(POSTED)).find(free))
            .or_else(|| (used < POSTED).then_some(used));
        let Some(slot) = slot else {
            give_up(self.page, unknown::FULL);
            return want;
        };
        want.number = slot as u64 + 1;
        want.store(&self.page.posted[slot]);
        if slot == used {
            self.page.posted_used.store(used as u32 + 1, Relaxed);
        }
        FREE_POSTED.store(slot as u32 + 1, Relaxed);
        want.posted = slot as u32 + 1;
        want
    }

    /// Removes a posted receive that is over.
    pub fn unpost(&self, want: &Want) {
        let slot = want.posted.checked_sub(1).unwrap_or(u32::MAX);
        if let Some(posted) = self.page.posted.get(slot as usize) {
            posted.what.store(0, Relaxed);
            FREE_POSTED.store(slot, Relaxed);
        }
    }

    /// Enters a collective; returns what this member waits for, if it waits.
    pub fn entered(&self, comm: &Comm, last: u64, waits: bool) -> Want {
        let slot = comm.slot.load(Relaxed).wrapping_sub(1);
        let Some(place) = self.page.communicators.get(slot as usize) else {
            return Want::UNKNOWN;
        };
        let number = place.entered.load(Relaxed) + 1;
        place.entered.store(number, Relaxed);
        place.last.store(last, Relaxed);
        if !waits {
            return Want::UNKNOWN;
        }
        Want {
            what: what(kind::COLLECTIVE, 0, 0),
            which: last,
            number,
            communicator: comm.key,
            posted: 0,
        }
    }
}

/// What a receive waits for; unknown if from a process outside the world.
pub fn receive(comm: &Comm, peer: u32, tag: i32, any_source: bool) -> Want {
    if peer == 0 && !any_source {
        give_up_any(unknown::OUTSIDE);
        return Want::UNKNOWN;
    }
    let bits = if tag == ANY_TAG { 0 } else { bit::TAG };
    Want {
        what: what(kind::RECEIVE, bits, peer),
        which: u64::from(tag as u32),
        number: 0,
        communicator: comm.key,
        posted: 0,
    }
}

fn what(kind: u8, bits: u8, peer_plus_one: u32) -> u64 {
    u64::from(kind) | u64::from(bits) << 8 | u64::from(peer_plus_one) << 32
}

/// Whether a send by definition is buffered or already has its receive: MPI_Bsend, MPI_Rsend and
/// their variants.
fn buffered(call: &Call) -> bool {
    let name = call.entry.name().to_bytes();
    let name = name.splitn(2, |&byte| byte == b'_').nth(1).unwrap_or(name);
    let first = match name {
        [b'I' | b'i', rest @ ..] => rest.first(),
        _ => name.first(),
    };
    first.is_some_and(|byte| matches!(byte, b'B' | b'b' | b'R' | b'r'))
}

/// Records a test or probe that found nothing. `asked` distinguishes it from others; `wants`
/// writes what it waits for.
#[inline(always)]
pub fn polled(call: &Call, asked: u64, wants: impl FnOnce(&Writing) -> Option<()>) {
    let Some(page) = call.page else { return };
    let asked = (asked ^ u64::from(call.entry.number) << 48).max(1);
    let doing = page.doing.load(Relaxed) as u8;
    if doing < mode::POLL_ALL {
        let writing = write(page);
        POLLED.store(asked, Relaxed);
        page.polls.store(0, Relaxed);
        if wants(&writing).is_none() {
            writing.say(mode::POLL, call.entry.number, 0, false);
        }
    } else if POLLED.load(Relaxed) != asked && doing != mode::POLL {
        // Several are polled in turn: any of them may end the loop.
        let writing = write(page);
        writing.say(mode::POLL, call.entry.number, 0, false);
    }
    page.polls.store(page.polls.load(Relaxed) + 1, Relaxed);
}

/// Hashes one more word of what is polled.
pub fn mix(hash: u64, value: usize) -> u64 {
    (hash ^ value as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23)
}
