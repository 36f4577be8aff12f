//! The files that hold the rings.

use crate::ring::{
    CAPACITY, CAPACITY_VARIABLE, DIRECTORY_VARIABLE, HEADER_BYTES, Header, MAGIC,
    REFUSED_EXTENSION, WORDS, life,
};
use crate::{bell, sys, thread};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

pub const O_NOFOLLOW: i32 = if cfg!(target_arch = "aarch64") {
    0o100000
} else {
    0o400000
};
const MIN_CAPACITY: u64 = 16;
const MAX_CAPACITY: u64 = 1 << 24;
/// How many times the number of an ended thread may be reused.
const MAX_SAME_NAME: u32 = 10_000;

/// A new ring.
pub struct Ring {
    pub header: *mut Header,
    pub capacity: u64,
    pub main_thread: bool,
}

/// What the headers of all rings of the process have in common.
#[derive(Default)]
struct Common {
    life: AtomicU32,
    rank_plus_one: AtomicU32,
    size: AtomicU32,
    thread_level_plus_one: AtomicU32,
    refused: AtomicU32,
}

static COMMON: Common = Common {
    life: AtomicU32::new(0),
    rank_plus_one: AtomicU32::new(0),
    size: AtomicU32::new(0),
    thread_level_plus_one: AtomicU32::new(0),
    refused: AtomicU32::new(0),
};
static LIBRARY: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static RINGS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static HANDLERS: Once = Once::new();
static FORKED: AtomicBool = AtomicBool::new(false);
static SETTINGS: OnceLock<Option<(PathBuf, u64)>> = OnceLock::new();
/// Rings made by this process, including closed ones.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Whether this is a child forked after the first ring was made; such a child must not use MPI.
pub fn forked() -> bool {
    FORKED.load(Relaxed)
}

/// Whether a directory for rings was given.
pub fn wanted() -> bool {
    settings().is_some()
}

fn settings() -> Option<&'static (PathBuf, u64)> {
    let read = || {
        let directory = std::env::var_os(DIRECTORY_VARIABLE).filter(|name| !name.is_empty())?;
        let asked = std::env::var(CAPACITY_VARIABLE)
            .ok()
            .and_then(|text| text.parse().ok());
        let capacity = asked
            .unwrap_or(CAPACITY)
            .clamp(MIN_CAPACITY, MAX_CAPACITY)
            .next_power_of_two();
        Some((PathBuf::from(directory), capacity))
    };
    SETTINGS.get_or_init(read).as_ref()
}

/// Makes the ring of the calling thread. `None` without a directory or without room: the program
/// runs on without a ring, and the process's other rings, or else an empty file, say so.
pub fn make(clock: u32) -> Option<Ring> {
    let (directory, capacity) = settings()?;
    bell::open(directory);
    let ring = make_in(directory, *capacity, clock);
    // The recorder inspects the thread while it still exists.
    bell::ring();
    if ring.is_none() {
        COMMON.refused.fetch_add(1, Relaxed);
        alive(0);
        if MADE.load(Relaxed) == 0 {
            // SAFETY: only returns a number.
            let pid = unsafe { sys::getpid() };
            // The file exists already or cannot be made either; then there is no way to report it.
            let _ = new_file(&directory.join(format!("{pid}.{REFUSED_EXTENSION}")));
        }
    }
    ring
}

/// The largest file that this process may write (`ulimit -f`). Exceeding it raises a signal that
/// ends the program.
fn longest_file() -> u64 {
    let mut limit = sys::Limit {
        soft: u64::MAX,
        hard: u64::MAX,
    };
    // SAFETY: the structure is that of 64-bit Linux, and is only written.
    unsafe { sys::getrlimit(sys::RLIMIT_FSIZE, &mut limit) };
    limit.soft
}

/// The number of records whose ring fits the file size limit: as many as requested, or fewer.
fn fitting(mut capacity: u64) -> u64 {
    let longest = longest_file();
    while capacity > MIN_CAPACITY && bytes(capacity) as u64 > longest {
        capacity /= 2;
    }
    capacity
}

/// Creates a file readable by this user alone; it must not exist.
pub fn new_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(O_NOFOLLOW);
    options.open(path)
}

/// Extends a new file to its length, all zeros, and maps it for good; `None` if there is no room.
pub fn map_new(file: &File, length: usize) -> Option<*mut u8> {
    if length as u64 > longest_file() {
        return None;
    }
    let descriptor = file.as_raw_fd();
    // SAFETY: the file is open; its blocks are allocated before it is mapped, so no store can fail
    // for lack of room.
    let mapped = unsafe {
        if sys::posix_fallocate(descriptor, 0, length as i64) != 0 {
            return None;
        }
        let (none, all) = (std::ptr::null_mut(), sys::PROT_READ_WRITE);
        sys::mmap(none, length, all, sys::MAP_SHARED, descriptor, 0)
    };
    if mapped as usize == usize::MAX {
        return None;
    }
    // Fault the pages in now rather than during the program's calls. MAP_POPULATE would map a
    // shared file on a disk read-only, and the first store to each page would still fault. Linux
    // before 5.14 does not have MADV_POPULATE_WRITE; there the pages fault later.
    // SAFETY: the mapping made above.
    unsafe { sys::madvise(mapped, length, sys::MADV_POPULATE_WRITE) };
    Some(mapped.cast())
}

fn make_in(directory: &Path, capacity: u64, clock: u32) -> Option<Ring> {
    // SAFETY: both only return a number.
    let (pid, tid) = unsafe { (sys::getpid(), sys::gettid()) };
    let (file, path) = (1..MAX_SAME_NAME).find_map(|n| {
        let name = match n {
            1 => format!("{pid}.{tid}.ring"),
            n => format!("{pid}.{tid}.{n}.ring"),
        };
        let path = directory.join(name);
        match new_file(&path) {
            Ok(file) => Some(Some((file, path))),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
            Err(_) => Some(None),
        }
    })??;
    let capacity = fitting(capacity);
    let length = bytes(capacity);
    let Some(mapped) = map_new(&file, length) else {
        let _ = std::fs::remove_file(&path);
        return None;
    };
    let header = mapped.cast::<Header>();
    // SAFETY: the mapping is larger than the header and all zero, which is a valid header, and it
    // is not shared yet.
    unsafe {
        (*header).capacity = capacity;
        (*header).pid = pid as u32;
        (*header).tid = tid as u32;
        (*header).clock = clock;
        (*header).pid_namespace = pid_namespace();
    }
    handle_forks();
    if !forked() {
        let mut rings = RINGS.lock().unwrap_or_else(PoisonError::into_inner);
        rings.push(header as usize);
        // Do this under the lock: whatever is published from now on reaches this ring too. SAFETY:
        // as above.
        unsafe { say(header) };
    }
    MADE.fetch_add(1, Relaxed);
    // SAFETY: as above. Release: once the magic can be read, the header is complete.
    unsafe { (*header).magic.store(MAGIC, Release) };
    Some(Ring {
        header,
        capacity,
        main_thread: pid == tid,
    })
}

/// Inode of this process's PID namespace; 0 without /proc.
pub fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino())
}

/// Installs the handlers for fork and exit: children forked from now on leave the rings and the
/// state page alone, and the exit of this process is recorded.
pub fn handle_forks() {
    HANDLERS.call_once(|| {
        // SAFETY: the functions live as long as the process: the library is never unloaded.
        unsafe {
            sys::atexit(at_exit);
            sys::pthread_atfork(None, None, Some(in_child));
        }
    });
}

fn bytes(capacity: u64) -> usize {
    HEADER_BYTES + capacity as usize * WORDS * 8
}

/// # Safety
/// The header is mapped, and the list of rings is locked.
unsafe fn say(header: *mut Header) {
    let library = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: only this function writes the name, under the lock; the reader reads it only after
    // INITIALISED.
    unsafe {
        let name = (&raw mut (*header).library).cast::<u8>();
        let length = library.len().min(size_of_val(&(*header).library) - 1);
        std::ptr::copy_nonoverlapping(library.as_ptr(), name, length);
    }
    // SAFETY: the remaining fields are atomics.
    let header = unsafe { &*header };
    header
        .rank_plus_one
        .store(COMMON.rank_plus_one.load(Relaxed), Relaxed);
    header.size.store(COMMON.size.load(Relaxed), Relaxed);
    header
        .thread_level_plus_one
        .store(COMMON.thread_level_plus_one.load(Relaxed), Relaxed);
    header.refused.store(COMMON.refused.load(Relaxed), Relaxed);
    // Release: everything that INITIALISED announces is written before it.
    header.life.store(COMMON.life.load(Acquire), Release);
}

/// Records in all rings that MPI is initialised.
pub fn initialised(rank: u32, size: u32, thread_level: Option<u32>, library: &[u8]) {
    COMMON.rank_plus_one.store(rank + 1, Relaxed);
    COMMON.size.store(size, Relaxed);
    COMMON
        .thread_level_plus_one
        .store(thread_level.map_or(0, |level| level + 1), Relaxed);
    *LIBRARY.lock().unwrap_or_else(PoisonError::into_inner) = library.to_vec();
    alive(life::INITIALISED);
    bell::ring();
}

/// Sets a bit of [`life`] in all rings.
pub fn alive(bit: u32) {
    COMMON.life.fetch_or(bit, AcqRel);
    if forked() {
        return;
    }
    let rings = RINGS.lock().unwrap_or_else(PoisonError::into_inner);
    for &ring in rings.iter() {
        // SAFETY: the list holds mapped rings only; a ring is removed from it, under the lock,
        // before it is unmapped.
        unsafe { say(ring as *mut Header) };
    }
}

/// Removes the ring of an ending thread from the list and unmaps it; the file stays for the
/// reader.
pub fn close(header: *mut Header, capacity: u64) {
    if !forked() {
        let mut rings = RINGS.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|&ring| ring != header as usize);
    }
    unmap(header, capacity);
}

/// Unmaps a ring of this thread.
pub fn unmap(header: *mut Header, capacity: u64) {
    // SAFETY: it was mapped with this length, and its thread no longer uses it.
    unsafe { sys::munmap(header.cast(), bytes(capacity)) };
}

extern "C" fn at_exit() {
    // Do nothing while this thread is inside our own code: exit was then called in a signal
    // handler.
    let thread = thread::current();
    // SAFETY: the state of the calling thread.
    let thread = unsafe { &mut *thread };
    if thread.depth == 0 {
        thread.depth = 1;
        thread.flush();
        alive(life::EXITED);
        thread.depth = 0;
    }
}

extern "C" fn in_child() {
    FORKED.store(true, Relaxed);
    // SAFETY: the state of the calling thread, the only one of the child.
    unsafe { (*thread::current()).forget() };
}
