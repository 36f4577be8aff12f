//! Writes the state page.
//!
//! One thread writes at a time: a process whose threads may call MPI at the same time says so, and writes nothing more. Everything here
//! is atomic all the same, and every index is checked, so that a program that breaks its promise does not break itself.

use crate::call::Call;
use crate::communicators::Comm;
use crate::page::{
    COMMUNICATORS, DIRECTORY_VARIABLE, EXTENSION, LARGE, MAGIC, PAIRS, PARTIAL, POSTED, Page, Pair,
    TAGS, WAITS, Want as Slot, bit, kind, mode, phase, unknown,
};
use crate::point_to_point::Transfer;
use crate::ring::{ANY_TAG, flags};
use crate::table::How;
use crate::{clock, files, sys};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence};

/// The page that is written: 0 not made yet, 1 none.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The page, also when nothing but its phase is written any more; 0: none.
static WHOLE: AtomicUsize = AtomicUsize::new(0);
/// The thread that calls MPI.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Whether another thread may take over.
static HANDS_OVER: AtomicU32 = AtomicU32::new(0);
static MAKING: Mutex<()> = Mutex::new(());

/// Places of pairs by hash: the number of the pair plus 1. Twice as many and more, so that a search ends.
const PLACES: usize = 4 * PAIRS;
static INDEX: [AtomicU16; PLACES] = [const { AtomicU16::new(0) }; PLACES];
/// The pair used last: its key plus 1, its number.
static LAST_KEY: AtomicU64 = AtomicU64::new(0);
static LAST_PAIR: AtomicU32 = AtomicU32::new(0);
/// What the present polls ask for, as a hash.
static POLLED: AtomicU64 = AtomicU64::new(0);
/// Where to look for a free slot of a posted receive.
static FREE_POSTED: AtomicU32 = AtomicU32::new(0);

/// What a request waits for, as its slot in the page has it.
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
    /// Of a request of which nothing is known.
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

    /// Whether a message goes out.
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

/// The page, for calls of this thread; made at the first call.
#[inline(always)]
pub fn page(thread: usize) -> Option<&'static Page> {
    match PAGE.load(Relaxed) {
        1 => None,
        0 => make(thread),
        at if OWNER.load(Relaxed) == thread => {
            // SAFETY: a mapping that is never unmapped, made by `make`.
            Some(unsafe { &*(at as *const Page) })
        }
        at => another(at, thread),
    }
}

#[cold]
fn another(at: usize, thread: usize) -> Option<&'static Page> {
    // SAFETY: as above.
    let page = unsafe { &*(at as *const Page) };
    if HANDS_OVER.load(Relaxed) != 0 {
        OWNER.store(thread, Relaxed);
        return Some(page);
    }
    give_up(page, unknown::THREADS);
    None
}

#[cold]
fn make(thread: usize) -> Option<&'static Page> {
    let _one = MAKING.lock().ok()?;
    if PAGE.load(Relaxed) != 0 {
        return None;
    }
    let made = map();
    if let Some(page) = made {
        OWNER.store(thread, Relaxed);
        WHOLE.store(std::ptr::from_ref(page) as usize, Relaxed);
        if !files::wanted() {
            clock::unneeded();
        }
        files::handle_forks();
    }
    PAGE.store(
        made.map_or(1, |page| std::ptr::from_ref(page) as usize),
        Release,
    );
    made
}

fn map() -> Option<&'static Page> {
    let directory = std::env::var_os(DIRECTORY_VARIABLE).filter(|name| !name.is_empty())?;
    // SAFETY: only returns a number.
    let pid = unsafe { sys::getpid() } as u32;
    let path = PathBuf::from(directory).join(format!("{pid}.{EXTENSION}"));
    // The number of a process that has ended, or this process before exec: nobody else writes there.
    let _ = std::fs::remove_file(&path);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(files::O_NOFOLLOW);
    let file = options.open(&path).ok()?;
    let length = size_of::<Page>();
    // SAFETY: the file is open; its blocks are there before it is mapped, so that no store can fail for want of room.
    let mapped = unsafe {
        match sys::posix_fallocate(file.as_raw_fd(), 0, length as i64) {
            0 => {
                let all = sys::PROT_READ_WRITE;
                let none = std::ptr::null_mut();
                sys::mmap(none, length, all, sys::MAP_SHARED, file.as_raw_fd(), 0)
            }
            _ => usize::MAX as *mut _,
        }
    };
    if mapped as usize == usize::MAX {
        let _ = std::fs::remove_file(&path);
        return None;
    }
    // SAFETY: a mapping of that length, aligned to a page, never unmapped; all bits zero are a valid page.
    let page = unsafe { &*(mapped as *const Page) };
    page.pid.store(pid, Relaxed);
    page.start.store(started().unwrap_or(0), Relaxed);
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino());
    page.pid_namespace.store(namespace, Relaxed);
    let host = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim_ascii();
    // The last byte stays zero.
    for (at, byte) in host.iter().take(63).enumerate() {
        page.host[at / 8].fetch_or(u64::from(*byte) << (8 * (at % 8)), Relaxed);
    }
    // Release: what is above is there before it.
    page.magic.store(MAGIC, Release);
    Some(page)
}

/// Field 22 of /proc/self/stat, behind the name (proc(5)).
fn started() -> Option<u64> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

fn whole() -> Option<&'static Page> {
    match WHOLE.load(Relaxed) {
        0 => None,
        // SAFETY: as in `page`.
        at => Some(unsafe { &*(at as *const Page) }),
    }
}

/// Nothing more is known of this rank.
#[cold]
pub fn give_up(page: &Page, why: u32) {
    page.unknown.fetch_or(why, Release);
    PAGE.store(1, Relaxed);
}

/// The same, wherever it turns out.
#[cold]
pub fn give_up_any(why: u32) {
    if let Some(page) = whole() {
        give_up(page, why);
    }
}

/// MPI_Init has returned. `level` is 0 (single) to 3 (multiple).
pub fn initialised(rank: u32, size: u32, level: Option<u32>) {
    let Some(page) = whole() else { return };
    match level {
        Some(0 | 1) => {}
        Some(2) => HANDS_OVER.store(1, Relaxed),
        _ => give_up(page, unknown::THREADS),
    }
    page.rank_plus_one.store(rank + 1, Relaxed);
    page.size.store(size, Relaxed);
    // Release: rank, size and what is unknown are there before it.
    page.phase.store(phase::RUNNING, Release);
}

/// Another [`phase`].
pub fn enter_phase(phase: u32) {
    if let Some(page) = whole() {
        page.phase.store(phase, Release);
    }
}

/// The page while it is written: the epoch is odd as long as this lives. Inside of another one it does nothing.
pub struct Writing {
    pub page: &'static Page,
    even: Option<u64>,
}

/// Begins to write; what was waited for is over, unless the writer says otherwise.
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
            // Release: whoever sees the even epoch sees all of it.
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

    /// Says what is waited for. `None`: what is asked for is over already, or not known well enough.
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
                // An active request that is over.
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

    /// The counters of a pair. `None` where the communicator is not there, or there is no room.
    #[inline(always)]
    fn pair(&self, comm: &Comm, peer_plus_one: u32) -> Option<&'static Pair> {
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

    /// Counts a message that is about to be sent; what its sender waits for.
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
            // Which kind of send a persistent one is was said when it was made: it is not taken to be more than it may be.
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
        // Without a slot the communicator was freed: nobody waits on it any more.
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

    /// A receive is about to be posted.
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

    /// A posted receive is over.
    pub fn unpost(&self, want: &Want) {
        let slot = want.posted.checked_sub(1).unwrap_or(u32::MAX);
        if let Some(posted) = self.page.posted.get(slot as usize) {
            posted.what.store(0, Relaxed);
            FREE_POSTED.store(slot, Relaxed);
        }
    }

    /// A collective of a communicator is entered; what its member waits for, if it waits.
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

/// What a receive waits for. From outside of the world: nothing that is known.
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

/// Whether a send is copied, or received already, by its definition: MPI_Bsend, MPI_Rsend and their kin.
fn buffered(call: &Call) -> bool {
    let name = call.entry.name().to_bytes();
    let name = name.splitn(2, |&byte| byte == b'_').nth(1).unwrap_or(name);
    let first = match name {
        [b'I' | b'i', rest @ ..] => rest.first(),
        _ => name.first(),
    };
    first.is_some_and(|byte| matches!(byte, b'B' | b'b' | b'R' | b'r'))
}

/// Counts by tag; the new count, `None` where there are more tags than places.
#[inline(always)]
fn count(
    tags: &[std::sync::atomic::AtomicI32; TAGS],
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
            // Once some were not counted, none is.
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

/// A communicator is known from now on: its slot plus 1, 0 where there is none.
pub fn new_communicator(key: u64, members: usize, world: bool) -> u32 {
    let (Some(page), false) = (whole(), PAGE.load(Relaxed) == 1) else {
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

/// A communicator is freed: its counters go with it.
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

/// A test or probe that found nothing. `asked` tells it from others; `wants` says what it waits for.
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
        // Several are asked in turn: any of them may end the loop.
        let writing = write(page);
        writing.say(mode::POLL, call.entry.number, 0, false);
    }
    page.polls.store(page.polls.load(Relaxed) + 1, Relaxed);
}

/// One of many words, for what is polled.
pub fn mix(hash: u64, value: usize) -> u64 {
    (hash ^ value as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23)
}

// The index holds a number plus 1 in 16 bits, and a wait says how many there are in 32.
const _: () = assert!(PAIRS < u16::MAX as usize && WAITS < u32::MAX as usize);
