//! The state of each thread: its ring, and how deep it is inside wrapped functions.

use crate::communicators::Cached;
use crate::ring::{self, Header, WORDS, kind};
use crate::{bell, clock, files, losses};
use std::cell::{Cell, UnsafeCell};
use std::collections::{HashMap, HashSet};
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// State of one thread. Only the thread itself, and a signal handler on it, touches it.
pub struct Thread {
    /// Above 0 inside a wrapped function or our own code: calls made then are passed through.
    pub depth: u32,
    state: State,
    ring: *mut Header,
    records: *mut [u64; WORDS],
    capacity: u64,
    written: u64,
    /// Number of records at which the reader's progress is checked: when the ring seems half full,
    /// and when it seems full.
    limit: u64,
    read_seen: u64,
    polls: Polls,
    /// The most recently used communicators.
    pub cache: [Cached; 4],
    extra: Option<Box<Extra>>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Fresh,
    Recording,
    Refused,
}

struct Polls {
    many: u64,
    first: u64,
    last: u64,
    function: u16,
}

/// State that is not needed on every call.
#[derive(Default)]
pub struct Extra {
    /// Handles of requests before a call that sets them to MPI_REQUEST_NULL.
    pub handles: Vec<usize>,
    /// Statuses in place of MPI_STATUSES_IGNORE.
    pub statuses: Vec<u64>,
    /// Communicators whose members have been written to this ring.
    pub announced: HashSet<u64>,
    /// Names of marks and their numbers.
    pub marks: HashMap<Vec<u8>, u32>,
}

thread_local! {
    // Never dropped automatically: without a destructor an access is a plain address.
    static THREAD: UnsafeCell<ManuallyDrop<Thread>> =
        const { UnsafeCell::new(ManuallyDrop::new(Thread::NEW)) };
    static AT_END: AtEnd = const { AtEnd(Cell::new(false)) };
}

/// Closes the ring when its thread ends. The main thread has none, since exit handlers may still
/// call MPI.
struct AtEnd(Cell<bool>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if self.0.get() {
            let thread = current();
            // SAFETY: the state of this thread is not used elsewhere while its destructors run.
            unsafe { (*thread).close() };
        }
    }
}

/// The state of the calling thread; it lives as long as the thread.
#[inline(always)]
pub fn current() -> *mut Thread {
    THREAD.with(UnsafeCell::get).cast()
}

impl Thread {
    const NEW: Self = Self {
        depth: 0,
        state: State::Fresh,
        ring: std::ptr::null_mut(),
        records: std::ptr::null_mut(),
        capacity: 0,
        written: 0,
        limit: 0,
        read_seen: 0,
        polls: Polls {
            many: 0,
            first: 0,
            last: 0,
            function: 0,
        },
        cache: [Cached::NONE; 4],
        extra: None,
    };

    /// Whether there is a ring to write to; the first call makes it.
    #[inline(always)]
    pub fn records(&mut self) -> bool {
        match self.state {
            State::Recording => true,
            State::Refused => false,
            State::Fresh => self.open(),
        }
    }

    #[cold]
    fn open(&mut self) -> bool {
        self.state = State::Refused;
        let Some(ring) = files::make(clock::choose()) else {
            return false;
        };
        self.ring = ring.header;
        // SAFETY: the records follow the header page in the same mapping.
        self.records = unsafe { ring.header.cast::<u8>().add(ring::HEADER_BYTES).cast() };
        self.capacity = ring.capacity;
        self.state = State::Recording;
        self.extra = Some(Box::default());
        if !ring.main_thread {
            // Fails if the thread is already ending; the mapping then stays.
            let _ = AT_END.try_with(|at_end| at_end.0.set(true));
        }
        true
    }

    fn close(&mut self) {
        if self.state == State::Recording {
            self.end_polls();
            self.state = State::Refused;
            files::close(self.ring, self.capacity);
            self.capacity = 0;
            self.extra = None;
            self.cache = [Cached::NONE; 4];
        } else {
            self.state = State::Refused;
        }
    }

    /// Called in a child after fork: the ring is the parent's.
    pub fn forget(&mut self) {
        if self.state == State::Recording {
            files::unmap(self.ring, self.capacity);
            self.capacity = 0;
        }
        // The caches stay as they are: the allocator's locks are safe after fork, but ours may be
        // held.
        self.state = State::Fresh;
        self.written = 0;
        self.limit = 0;
        self.read_seen = 0;
        self.polls.many = 0;
        std::mem::forget(self.extra.take());
    }

    /// Whether there is a ring.
    pub fn has_ring(&self) -> bool {
        self.state == State::Recording
    }

    /// The state that is not needed on every call; it exists whenever there is a ring.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_with(Box::default)
    }

    /// Writes one record. Returns `false` and counts a loss if the ring is full; returns `false`
    /// if there is no ring.
    #[inline(always)]
    pub fn write(&mut self, record: &[u64; WORDS]) -> bool {
        if self.polls.many != 0 {
            self.end_polls();
        }
        self.write_now(record)
    }

    #[inline(always)]
    fn write_now(&mut self, record: &[u64; WORDS]) -> bool {
        if self.written >= self.limit && !self.room() {
            return false;
        }
        // SAFETY: `records` has `capacity` records, a power of two, and only this thread writes
        // them; the reader does not read this one before `written` includes it.
        unsafe {
            *self
                .records
                .add((self.written & (self.capacity - 1)) as usize) = *record;
        }
        self.written += 1;
        self.prefetch();
        // Release: the record is complete before it becomes visible.
        self.header().written.0.store(self.written, Release);
        true
    }

    /// Prefetches the slot of the record after the next: the ring is larger than the nearest cache.
    #[inline(always)]
    fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, at an address within the ring.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            let next = (self.written + 1) & (self.capacity - 1);
            _mm_prefetch::<_MM_HINT_ET0>(self.records.add(next as usize).cast());
        }
    }

    #[cold]
    fn room(&mut self) -> bool {
        if self.state != State::Recording {
            return false;
        }
        // Acquire: the reader has finished copying records before their places are overwritten. A
        // reader that claims to have read more than was written is not believed.
        let read = self.header().read.0.load(Acquire);
        self.read_seen = read.min(self.written).max(self.read_seen);
        let (half, full) = (
            self.read_seen + self.capacity / 2,
            self.read_seen + self.capacity,
        );
        if self.written < half {
            self.limit = half;
            return true;
        }
        if self.written < full {
            // Ring only once: the next check comes when the ring is full.
            self.limit = full;
            bell::ring();
            return true;
        }
        let lost = &self.header().lost.0;
        lost.store(lost.load(Relaxed) + 1, Relaxed);
        false
    }

    fn header(&self) -> &Header {
        // SAFETY: set whenever the state is `Recording`, and mapped until `close`.
        unsafe { &*self.ring }
    }

    /// Counts a test or probe that found nothing.
    #[inline(always)]
    pub fn poll(&mut self, begin: u64, function: u16) {
        if self.polls.many == 0 {
            self.polls.first = begin;
        }
        self.polls.many += 1;
        self.polls.last = begin;
        self.polls.function = function;
    }

    #[cold]
    fn end_polls(&mut self) {
        let Polls {
            many,
            first,
            last,
            function,
        } = self.polls;
        self.polls.many = 0;
        let word = u64::from(kind::POLLS) | u64::from(function) << 16;
        self.write_now(&[first, last, word, 0, 0, many, 0, 0]);
    }

    /// Writes polls that have only been counted so far.
    pub fn flush(&mut self) {
        if self.state == State::Recording {
            if self.polls.many != 0 {
                self.end_polls();
            }
            losses::flush(self);
        }
    }
}
