//! The reader's end of a ring.

use crate::InterposeError;
use crate::ring::{HEADER_BYTES, Header, MAGIC, WORDS, clock, life};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Records that a ring may have: more is damage.
const MAX_CAPACITY: u64 = 1 << 24;

/// A ring that is open for reading. One reader at a time may drain a ring.
#[derive(Debug)]
pub struct RingReader {
    path: PathBuf,
    file: File,
    at: *mut u8,
    length: usize,
    capacity: u64,
    read: u64,
}

// SAFETY: the mapping belongs to the reader; what the writer shares of it is read through atomics.
unsafe impl Send for RingReader {}

/// What a header says at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingInfo {
    /// The process that writes.
    pub pid: u32,
    /// Its thread that writes.
    pub tid: u32,
    /// Rank in MPI_COMM_WORLD; `None` until MPI_Init has returned.
    pub rank: Option<u32>,
    /// Size of MPI_COMM_WORLD; `None` until MPI_Init has returned.
    pub size: Option<u32>,
    /// Bits of [`life`].
    pub life: u32,
    /// Whether the times are those of the CPU's counter; otherwise they are ns of CLOCK_MONOTONIC.
    pub counter: bool,
    /// What MPI_Init_thread provided, from 0 (single) to 3 (multiple).
    pub thread_level: Option<u32>,
    /// First line of MPI_Get_library_version, cut.
    pub library: Option<String>,
    /// Records that fit.
    pub capacity: u64,
    /// Records written so far.
    pub written: u64,
    /// Records dropped because the ring was full.
    pub lost: u64,
}

/// What [`RingReader::drain`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Records that are in the buffer now.
    pub records: usize,
    /// Records that were written and are still in the ring: the buffer was too small for them.
    pub left: u64,
    /// Records dropped so far, since the ring was made.
    pub lost: u64,
}

impl RingReader {
    /// Opens a ring.
    ///
    /// # Errors
    /// [`InterposeError::NotReady`] while it is being made; others if it cannot be opened or is no ring.
    pub fn open(path: &Path) -> Result<Self, InterposeError> {
        let fail = |action| {
            move |source| InterposeError::File {
                action,
                path: path.to_owned(),
                source,
            }
        };
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path).map_err(fail("open"))?;
        let data = file.metadata().map_err(fail("open"))?;
        let length = data.size();
        if !data.file_type().is_file() {
            return Err(damaged(path, "it is no plain file"));
        }
        let not_ready = || InterposeError::NotReady {
            path: path.to_owned(),
        };
        if length < HEADER_BYTES as u64 {
            return Err(not_ready());
        }
        if length > bytes(MAX_CAPACITY) {
            return Err(damaged(path, &format!("{length} bytes are too many")));
        }
        let length = length as usize;
        // SAFETY: maps an open file of that length.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(fail("map")(std::io::Error::last_os_error()));
        }
        let mut reader = Self {
            path: path.to_owned(),
            file,
            at: at.cast(),
            length,
            capacity: 0,
            read: 0,
        };
        // Acquire: with the magic the rest of the header is there.
        match reader.header().magic.load(Acquire) {
            MAGIC => {}
            0 => return Err(not_ready()),
            other => return Err(damaged(path, &format!("it begins with {other:#x}"))),
        }
        let capacity = reader.header().capacity;
        if !capacity.is_power_of_two() || capacity > MAX_CAPACITY || bytes(capacity) > length as u64
        {
            let what = format!("{capacity} records do not fit into {length} bytes");
            return Err(damaged(path, &what));
        }
        reader.capacity = capacity;
        // What an earlier reader took is not taken again.
        reader.read = reader.header().read.0.load(Relaxed);
        Ok(reader)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping has a header page, aligned to pages, in which any bits are a valid header; what the writer
        // changes after the magic is atomic, but for the name of the library, which is read as bytes, see `info`.
        unsafe { &*self.at.cast::<Header>() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the header says now.
    pub fn info(&self) -> RingInfo {
        let header = self.header();
        // Acquire: with INITIALISED the name of the library is there.
        let life = header.life.load(Acquire);
        let initialised = life & life::INITIALISED != 0;
        let less_one = |value: u32| value.checked_sub(1);
        RingInfo {
            pid: header.pid,
            tid: header.tid,
            rank: less_one(header.rank_plus_one.load(Relaxed)),
            size: Some(header.size.load(Relaxed)).filter(|&size| size > 0),
            life,
            counter: header.clock == clock::COUNTER,
            thread_level: less_one(header.thread_level_plus_one.load(Relaxed)),
            library: initialised
                .then(|| self.library())
                .filter(|name| !name.is_empty()),
            capacity: self.capacity,
            written: header.written.0.load(Relaxed),
            lost: header.lost.0.load(Relaxed),
        }
    }

    fn library(&self) -> String {
        let name = &self.header().library;
        let bytes: Vec<u8> = name.iter().copied().take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the file was truncated since it was opened: its records must not be touched then.
    fn whole(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|data| data.size() >= self.length as u64)
    }

    /// Moves records from the ring into the buffer, oldest first, and makes room for new ones.
    ///
    /// # Errors
    /// [`InterposeError::Damaged`] if the file was truncated, or the counters contradict each other.
    pub fn drain(&mut self, buffer: &mut [[u64; WORDS]]) -> Result<Drained, InterposeError> {
        if !self.whole() {
            return Err(damaged(&self.path, "it was truncated"));
        }
        // Acquire: the records up to here are whole.
        let written = self.header().written.0.load(Acquire);
        let lost = self.header().lost.0.load(Relaxed);
        let there = written.wrapping_sub(self.read);
        if there > self.capacity {
            let what = format!(
                "{written} records written and {} read do not fit",
                self.read
            );
            return Err(damaged(&self.path, &what));
        }
        let many = there.min(buffer.len() as u64);
        for (place, record) in (self.read..self.read + many).zip(buffer.iter_mut()) {
            let at = HEADER_BYTES + (place & (self.capacity - 1)) as usize * WORDS * 8;
            // SAFETY: within the mapping, whose length was checked against the capacity, and aligned; the writer does not
            // touch the record before `read` is raised, a damaged one may, so the words are read as atomics.
            let words = unsafe { &*self.at.add(at).cast::<[AtomicU64; WORDS]>() };
            for (word, value) in record.iter_mut().zip(words) {
                *word = value.load(Relaxed);
            }
        }
        self.read += many;
        // Release: the copies are made before the places are written again.
        self.header().read.0.store(self.read, Release);
        Ok(Drained {
            records: many as usize,
            left: there - many,
            lost,
        })
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing borrows from it.
        unsafe { libc::munmap(self.at.cast(), self.length) };
    }
}

fn bytes(capacity: u64) -> u64 {
    HEADER_BYTES as u64 + capacity * WORDS as u64 * 8
}

fn damaged(path: &Path, what: &str) -> InterposeError {
    InterposeError::Damaged {
        path: path.to_owned(),
        what: what.to_owned(),
    }
}
