//! Wakes the recorder before its next regular round.

use crate::ring::{BELL_FILE, HEADER_BYTES};
use crate::sys;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Release;

/// The mapped bell; `None` if the recorder has made none.
static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

/// Opens the bell in the directory of the rings.
pub fn open(directory: &Path) {
    PAGE.get_or_init(|| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(crate::files::O_NOFOLLOW)
            .open(directory.join(BELL_FILE))
            .ok()?;
        if file.metadata().ok()?.len() < HEADER_BYTES as u64 {
            return None;
        }
        // SAFETY: the recorder created the page before it started the program and does not
        // truncate it.
        let page = unsafe {
            sys::mmap(
                std::ptr::null_mut(),
                HEADER_BYTES,
                sys::PROT_READ_WRITE,
                sys::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        // SAFETY: a mapped, aligned page that is never unmapped; every bit pattern is a valid
        // count.
        (page as usize != usize::MAX).then(|| unsafe { &*page.cast::<AtomicU32>() })
    });
}

/// Rings the bell, if there is one.
#[cold]
pub fn ring() {
    let Some(Some(rung)) = PAGE.get() else {
        return;
    };
    // Release: whoever sees the new count also sees what it was rung for.
    rung.fetch_add(1, Release);
    // SAFETY: a mapped, aligned word; the call only wakes those that wait on it.
    unsafe { sys::syscall(sys::SYS_FUTEX, rung.as_ptr(), sys::FUTEX_WAKE, i32::MAX) };
}
