//! Calls the recorder before its time.

use crate::ring::{BELL_FILE, HEADER_BYTES};
use crate::sys;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Release;

/// The page of the bell; `None` where the recorder has made none.
static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

/// Finds the bell in the directory of the rings.
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
        // SAFETY: the recorder has made its page before the program was started, and does not cut
        // it short.
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
        // SAFETY: a mapped page, aligned, that is never unmapped; any bits are a count.
        (page as usize != usize::MAX).then(|| unsafe { &*page.cast::<AtomicU32>() })
    });
}

/// Rings it, if there is one.
#[cold]
pub fn ring() {
    let Some(Some(rung)) = PAGE.get() else {
        return;
    };
    // Release: what is rung for can be seen by whoever hears it.
    rung.fetch_add(1, Release);
    // SAFETY: a mapped, aligned word; the call wakes who waits on it, and touches nothing.
    unsafe { sys::syscall(sys::SYS_FUTEX, rung.as_ptr(), sys::FUTEX_WAKE, i32::MAX) };
}
