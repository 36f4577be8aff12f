//! The state page: made at the first call, given up once nothing more can be said.
//!
//! One thread writes at a time: a process whose threads may call MPI at the same time says so and
//! writes nothing more. Even so, everything is atomic and every index is checked, so that a program
//! that breaks its promise does itself no damage.

use crate::page::{DIRECTORY_VARIABLE, EXTENSION, MAGIC, Page, phase, unknown};
pub use crate::state_pairs::{free_communicator, new_communicator};
pub use crate::state_write::{Want, Writing, ended, mix, polled, receive, waits_for, write};
use crate::{clock, files, sys};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// The page being written; 0: not made yet, 1: none.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The page, even when only its phase is still written; 0: none.
static WHOLE: AtomicUsize = AtomicUsize::new(0);
/// The thread that currently calls MPI.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Whether another thread may take over.
static HANDS_OVER: AtomicU32 = AtomicU32::new(0);
static MAKING: Mutex<()> = Mutex::new(());

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
    // Left over from an ended process with the same number, or from this process before exec: no
    // other process writes there.
    let _ = std::fs::remove_file(&path);
    let file = files::new_file(&path).ok()?;
    let Some(mapped) = files::map_new(&file, size_of::<Page>()) else {
        let _ = std::fs::remove_file(&path);
        return None;
    };
    // SAFETY: a page-aligned mapping of that length, never unmapped; all zero bits are a valid
    // page.
    let page = unsafe { &*mapped.cast::<Page>() };
    page.pid.store(pid, Relaxed);
    page.start.store(started().unwrap_or(0), Relaxed);
    page.pid_namespace.store(files::pid_namespace(), Relaxed);
    let host = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim_ascii();
    // The last byte stays zero.
    for (at, byte) in host.iter().take(63).enumerate() {
        page.host[at / 8].fetch_or(u64::from(*byte) << (8 * (at % 8)), Relaxed);
    }
    // Release: everything above is written before it.
    page.magic.store(MAGIC, Release);
    Some(page)
}

/// Start time of the process: field 22 of /proc/self/stat, after the name (proc(5)).
fn started() -> Option<u64> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// The page, even if only its phase is still written.
pub fn whole() -> Option<&'static Page> {
    match WHOLE.load(Relaxed) {
        0 => None,
        // SAFETY: as in `page`.
        at => Some(unsafe { &*(at as *const Page) }),
    }
}

/// Gives up the page: nothing more is known about this rank.
#[cold]
pub fn give_up(page: &Page, why: u32) {
    page.unknown.fetch_or(why, Release);
    PAGE.store(1, Relaxed);
}

/// The same from code that does not have the page at hand.
#[cold]
pub fn give_up_any(why: u32) {
    if let Some(page) = whole() {
        give_up(page, why);
    }
}

/// Called when MPI_Init has returned. `level` is 0 (single) to 3 (multiple).
pub fn initialised(rank: u32, size: u32, level: Option<u32>) {
    let Some(page) = whole() else { return };
    match level {
        Some(0 | 1) => {}
        Some(2) => HANDS_OVER.store(1, Relaxed),
        _ => give_up(page, unknown::THREADS),
    }
    page.rank_plus_one.store(rank + 1, Relaxed);
    page.size.store(size, Relaxed);
    // Release: rank, size and what is unknown are written before it.
    page.phase.store(phase::RUNNING, Release);
}

/// Enters another [`phase`].
pub fn enter_phase(phase: u32) {
    if let Some(page) = whole() {
        page.phase.store(phase, Release);
    }
}

/// The page if it is being written, whichever thread calls.
pub fn written() -> Option<&'static Page> {
    whole().filter(|_| PAGE.load(Relaxed) != 1)
}
