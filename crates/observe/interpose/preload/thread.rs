//! What each thread has: its ring, and how deep it is inside of wrapped functions.

use crate::communicators::Cached;
use crate::ring::{self, Header, WORDS, kind};
use crate::{bell, clock, files, losses};
use std::cell::{Cell, UnsafeCell};
use std::collections::{HashMap, HashSet};
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// State of one thread. Only the thread itself, and a signal handler on it, touches it.
pub struct Thread {
    /// Above 0 inside of a wrapped function or of our own code: whatever is called then is passed
    /// through.
    pub depth: u32,
    state: State,
    ring: *mut Header,
    records: *mut [u64; WORDS],
    capacity: u64,
    written: u64,
    /// Records after which the reader's progress is looked at: when the ring seems half full, and
    /// when it seems full.
    limit: u64,
    read_seen: u64,
    polls: Polls,
    /// Communicators used last.
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

/// What is not needed on every call.
#[derive(Default)]
pub struct Extra {
    /// Handles of requests before a call that sets them to MPI_REQUEST_NULL.
    pub handles: Vec<usize>,
    /// Statuses in place of MPI_STATUSES_IGNORE.
    pub statuses: Vec<u64>,
    /// Communicators whose members this ring has.
    pub announced: HashSet<u64>,
    /// Names of marks and their numbers.
    pub marks: HashMap<Vec<u8>, u32>,
}

thread_local! {
    // Never dropped by itself: without a destructor an access is a plain address.
    static THREAD: UnsafeCell<ManuallyDrop<Thread>> =
        const { UnsafeCell::new(ManuallyDrop::new(Thread::NEW)) };
    static AT_END: AtEnd = const { AtEnd(Cell::new(false)) };
}

/// Closes the ring when its thread ends. The main thread has none: MPI may still be called in exit
/// handlers.
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

    /// Whether there is a ring to write to; makes it at the first call.
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
            // Fails where the thread is ending already: the mapping then stays.
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

    /// In a child after fork: the ring is the parent's.
    pub fn forget(&mut self) {
        if self.state == State::Recording {
            files::unmap(self.ring, self.capacity);
            self.capacity = 0;
        }
        // The caches are left as they are: locks of the allocator are safe after fork, those of
        // ours may be held.
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

    /// What is not needed on every call; there is one whenever there is a ring.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_with(Box::default)
    }

    /// Writes one record; `false` and a loss where the ring is full, `false` where there is none.
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
        // SAFETY: `records` has `capacity` records, a power of two, and this thread alone writes
        // them; the reader does not look at this one before `written` says so.
        unsafe {
            *self
                .records
                .add((self.written & (self.capacity - 1)) as usize) = *record;
        }
        self.written += 1;
        self.prefetch();
        // Release: the record is whole before it can be seen.
        self.header().written.0.store(self.written, Release);
        true
    }

    /// Fetches the place of the record after the next: the ring is larger than the nearest cache.
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
        // Acquire: the reader's copies are done before their places are written again. A reader
        // that says more than was written is not believed.
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
            // Once: the next look is when there is no room any more.
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

    /// Writes what is still counted only.
    pub fn flush(&mut self) {
        if self.state == State::Recording {
            if self.polls.many != 0 {
                self.end_polls();
            }
            losses::flush(self);
        }
    }
}
