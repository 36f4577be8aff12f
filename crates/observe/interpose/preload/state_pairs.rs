//! Communicators and message counters in the state page, and how they are found.

use crate::communicators::Comm;
use crate::page::{COMMUNICATORS, PAIRS, Page, Pair, TAGS, WAITS, unknown};
use crate::state::{give_up, written};
use crate::state_write::{Writing, write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64};

/// Hash table of pairs; an entry is the number of the pair plus 1. At least twice as many entries
/// as pairs, so that a search ends.
const PLACES: usize = 4 * PAIRS;
static INDEX: [AtomicU16; PLACES] = [const { AtomicU16::new(0) }; PLACES];
/// The pair used last: its key plus 1, and its number.
static LAST_KEY: AtomicU64 = AtomicU64::new(0);
static LAST_PAIR: AtomicU32 = AtomicU32::new(0);
impl Writing {
    /// The counters of a pair. `None` if the communicator is not in the page or there is no room.
    #[inline(always)]
    pub fn pair(&self, comm: &Comm, peer_plus_one: u32) -> Option<&'static Pair> {
        let slot = comm.slot.load(Relaxed).checked_sub(1)?;
        let key = u64::from(slot) << 32 | u64::from(peer_plus_one.checked_sub(1)?);
        if LAST_KEY.load(Relaxed) == key + 1 {
            return self.page.pairs.get(LAST_PAIR.load(Relaxed) as usize);
        }
        self.find(key)
    }

    fn find(&self, key: u64) -> Option<&'static Pair> {
        let pairs: &'static [Pair; PAIRS] = &self.page.pairs;
        let mut place = hash(key);
        loop {
            let number = match usize::from(INDEX[place].load(Relaxed)) {
                0 => {
                    let used = self.page.pairs_used.load(Relaxed);
                    let Some(pair) = pairs.get(used as usize) else {
                        give_up(self.page, unknown::FULL);
                        return None;
                    };
                    pair.clear();
                    pair.key.store(key, Relaxed);
                    self.page.pairs_used.store(used + 1, Relaxed);
                    INDEX[place].store(used as u16 + 1, Relaxed);
                    used as usize
                }
                number => number - 1,
            };
            let pair = pairs.get(number)?;
            if pair.key.load(Relaxed) == key {
                LAST_KEY.store(key + 1, Relaxed);
                LAST_PAIR.store(number as u32, Relaxed);
                return Some(pair);
            }
            place = (place + 1) % PLACES;
        }
    }
}

/// Counts by tag. Returns the new count, or `None` if there are more tags than places.
#[inline(always)]
pub fn count(
    tags: &[AtomicI32; TAGS],
    counts: &[AtomicU64; TAGS],
    more: &AtomicU64,
    bit: u64,
    tag: i32,
) -> Option<u64> {
    for (at, count) in tags.iter().zip(counts) {
        let before = count.load(Relaxed);
        if before == 0 {
            at.store(tag, Relaxed);
        }
        if before == 0 || at.load(Relaxed) == tag {
            count.store(before + 1, Relaxed);
            // Once some messages were not counted, return no count.
            return (more.load(Relaxed) & bit == 0).then_some(before + 1);
        }
    }
    more.store(more.load(Relaxed) | bit, Relaxed);
    None
}

impl Pair {
    fn clear(&self) {
        for word in [&self.sent, &self.received, &self.more] {
            word.store(0, Relaxed);
        }
        for word in self.sent_by_tag.iter().chain(&self.received_by_tag) {
            word.store(0, Relaxed);
        }
    }

    fn copy(&self, from: &Self) {
        self.key.store(from.key.load(Relaxed), Relaxed);
        self.sent.store(from.sent.load(Relaxed), Relaxed);
        self.received.store(from.received.load(Relaxed), Relaxed);
        self.more.store(from.more.load(Relaxed), Relaxed);
        for at in 0..TAGS {
            self.sent_tags[at].store(from.sent_tags[at].load(Relaxed), Relaxed);
            self.received_tags[at].store(from.received_tags[at].load(Relaxed), Relaxed);
            self.sent_by_tag[at].store(from.sent_by_tag[at].load(Relaxed), Relaxed);
            self.received_by_tag[at].store(from.received_by_tag[at].load(Relaxed), Relaxed);
        }
    }
}

fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize % PLACES
}

/// Enters a new communicator. Returns its slot plus 1, or 0 if none is free.
pub fn new_communicator(key: u64, members: usize, world: bool) -> u32 {
    let Some(page) = written() else {
        return 0;
    };
    let _writing = write(page);
    let used = page.communicators_used.load(Relaxed) as usize;
    let free = |slot: &usize| page.communicators[*slot].key.load(Relaxed) == 0;
    let slot = (0..used.min(COMMUNICATORS)).find(free);
    let Some(slot) = slot.or_else(|| (used < COMMUNICATORS).then_some(used)) else {
        give_up(page, unknown::FULL);
        return 0;
    };
    let place = &page.communicators[slot];
    place.entered.store(0, Relaxed);
    place.last.store(0, Relaxed);
    place
        .members
        .store(members as u64 | u64::from(world) << 32, Relaxed);
    place.key.store(key, Relaxed);
    if slot == used {
        page.communicators_used.store(used as u32 + 1, Relaxed);
    }
    slot as u32 + 1
}

/// Frees a communicator together with its counters.
pub fn free_communicator(page: &'static Page, comm: &Comm) {
    let slot = comm.slot.swap(0, Relaxed).wrapping_sub(1);
    let Some(place) = page.communicators.get(slot as usize) else {
        return;
    };
    let _writing = write(page);
    place.key.store(0, Relaxed);
    let mut kept = 0;
    let used = (page.pairs_used.load(Relaxed) as usize).min(PAIRS);
    for at in 0..used {
        let pair = &page.pairs[at];
        if pair.key.load(Relaxed) >> 32 != u64::from(slot) {
            if kept != at {
                page.pairs[kept].copy(pair);
            }
            kept += 1;
        }
    }
    if kept == used {
        return;
    }
    page.pairs_used.store(kept as u32, Relaxed);
    LAST_KEY.store(0, Relaxed);
    INDEX.iter().for_each(|place| place.store(0, Relaxed));
    for at in 0..kept {
        let mut place = hash(page.pairs[at].key.load(Relaxed));
        while INDEX[place].load(Relaxed) != 0 {
            place = (place + 1) % PLACES;
        }
        INDEX[place].store(at as u16 + 1, Relaxed);
    }
}

// The index holds a number plus 1 in 16 bits, and a wait holds the number of waits in 32.
const _: () = assert!(PAIRS < u16::MAX as usize && WAITS < u32::MAX as usize);
