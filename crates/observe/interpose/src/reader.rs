//! The recorder's end of a ring.

use crate::InterposeError;
use crate::ring::{HEADER_BYTES, Header, MAGIC, WORDS};
use idlewave_sys::mapping::{Access, Mapping};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A ring with more records than this, 4 GiB, counts as damaged.
const MOST_RECORDS: u64 = 1 << 26;

/// What the header of a ring says at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingState {
    /// Process that writes.
    pub pid: u32,
    /// Thread that writes.
    pub tid: u32,
    /// Inode of the PID namespace to which these numbers belong; 0 if not known.
    pub pid_namespace: u64,
    /// Rank in MPI_COMM_WORLD; `None` until MPI_Init has returned.
    pub rank: Option<u32>,
    /// Size of MPI_COMM_WORLD; `None` likewise.
    pub size: Option<u32>,
    /// Bits of [`crate::ring::life`].
    pub life: u32,
    /// See [`crate::ring::clock`].
    pub clock: u32,
    /// Thread level provided, 0 (single) to 3 (multiple).
    pub thread_level: Option<u32>,
    /// Records written since the ring was made.
    pub written: u64,
    /// Records dropped because the ring was full.
    pub lost: u64,
    /// Threads of the process that could not create a ring.
    pub refused: u32,
    /// What the MPI library calls itself.
    pub library: Option<String>,
}

/// A ring, mapped. The file belongs to the recorded program, which may truncate it at any time:
/// then the ring is [torn](Self::is_torn).
#[derive(Debug)]
pub struct RingReader {
    mapping: Mapping,
    capacity: u64,
    /// Records taken.
    taken: u64,
    path: PathBuf,
}

impl RingReader {
    /// Maps a ring; reading begins after the last record that was [released](Self::release).
    ///
    /// # Errors
    /// See [`InterposeError`]; with `NotReady` it can be opened a moment later.
    pub fn open(path: &Path) -> Result<Self, InterposeError> {
        let io = |source| InterposeError::File {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
            .map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        if length < HEADER_BYTES as u64 {
            return Err(InterposeError::NotReady(path.to_owned()));
        }
        let bytes = usize::try_from(length).map_err(|_| io(io::ErrorKind::FileTooLarge.into()))?;
        let mapped = Mapping::new(&file, bytes, Access::Write).and_then(Mapping::cover);
        let mut ring = Self {
            mapping: mapped.map_err(io)?,
            capacity: 0,
            taken: 0,
            path: path.to_owned(),
        };
        // Acquire: pairs with the writer's last store to the header.
        match ring.header().magic.load(Ordering::Acquire) {
            MAGIC => {}
            0 => return Err(InterposeError::NotReady(path.to_owned())),
            other => {
                let reason = if other == MAGIC.swap_bytes() {
                    "it was written in the other byte order"
                } else {
                    "it is not a ring file"
                };
                return Err(ring.damaged(reason));
            }
        }
        let capacity = ring.header().capacity;
        let fits = capacity.is_power_of_two()
            && capacity <= MOST_RECORDS
            && HEADER_BYTES as u64 + capacity * 8 * WORDS as u64 <= length;
        if !fits {
            return Err(ring.damaged(&format!("it cannot hold {capacity} records")));
        }
        ring.capacity = capacity;
        ring.taken = ring.header().read.0.load(Ordering::Relaxed);
        Ok(ring)
    }

    fn damaged(&self, reason: &str) -> InterposeError {
        InterposeError::Damaged {
            path: self.path.clone(),
            reason: reason.to_owned(),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping holds at least a page, is aligned to a page and lives as long as
        // `self`; every bit pattern is a `Header`, and what the writer changes meanwhile is atomic.
        unsafe { self.mapping.base().cast::<Header>().as_ref() }
    }

    fn word(&self, record: u64, word: usize) -> u64 {
        let slot = (record & (self.capacity - 1)) as usize;
        let offset = HEADER_BYTES + 8 * (slot * WORDS + word);
        debug_assert!(offset + 8 <= self.mapping.bytes());
        // SAFETY: inside the mapping (checked in `open`: all slots lie in it) and aligned to 8.
        let cell = unsafe { self.mapping.base().add(offset).cast::<AtomicU64>().as_ref() };
        // The acquire load of `written` ordered it.
        cell.load(Ordering::Relaxed)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records that fit.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Records dropped so far because the ring was full.
    pub fn lost(&self) -> u64 {
        self.header().lost.0.load(Ordering::Relaxed)
    }

    /// Records written that have not been taken.
    pub fn waiting(&self) -> u64 {
        // Acquire: see `word`.
        self.header()
            .written
            .0
            .load(Ordering::Acquire)
            .saturating_sub(self.taken)
    }

    /// What the header says now.
    pub fn state(&self) -> RingState {
        let header = self.header();
        // Acquire: rank, size and library are stored before the bit.
        let life = header.life.load(Ordering::Acquire);
        let known = |n: u32| n.checked_sub(1);
        let library = (life & crate::ring::life::INITIALISED != 0).then(|| {
            let text = header.library.split(|&b| b == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        });
        RingState {
            pid: header.pid,
            tid: header.tid,
            rank: known(header.rank_plus_one.load(Ordering::Relaxed)),
            size: Some(header.size.load(Ordering::Relaxed)).filter(|&n| n > 0),
            life,
            clock: header.clock,
            thread_level: known(header.thread_level_plus_one.load(Ordering::Relaxed)),
            written: header.written.0.load(Ordering::Acquire),
            lost: self.lost(),
            refused: header.refused.load(Ordering::Relaxed),
            pid_namespace: header.pid_namespace,
            library,
        }
    }

    /// Whether the program has truncated the file or overwritten its head: nothing more can be read
    /// from it.
    pub fn is_torn(&self) -> bool {
        self.header().magic.load(Ordering::Relaxed) != MAGIC || self.mapping.is_lost()
    }

    /// Appends to `words` up to `most` records that follow those already taken; returns how many.
    /// Takes none from a torn ring.
    pub fn take(&mut self, most: u64, words: &mut Vec<u64>) -> u64 {
        // A faulty writer cannot make us read more than the ring holds.
        let count = self.waiting().min(most).min(self.capacity);
        let before = words.len();
        words.reserve(count as usize * WORDS);
        for record in self.taken..self.taken + count {
            for word in 0..WORDS {
                words.push(self.word(record, word));
            }
        }
        // Check last: the copies above may have read past the new end of the file.
        if self.is_torn() {
            words.truncate(before);
            return 0;
        }
        self.taken += count;
        count
    }

    /// Skips records that a predecessor took but did not get to release.
    pub fn skip_to(&mut self, record: u64) {
        self.taken = self.taken.max(record.min(self.taken + self.waiting()));
    }

    /// Gives the space of all taken records back to the writer.
    pub fn release(&self) {
        // Release: the copies are made before the writer may overwrite.
        self.header().read.0.store(self.taken, Ordering::Release);
    }
}
