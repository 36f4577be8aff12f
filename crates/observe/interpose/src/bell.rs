//! The recorder's end of the bell: see [`BELL_FILE`].

use crate::InterposeError;
use crate::ring::{BELL_FILE, HEADER_BYTES};
use idlewave_sys::files::allocate;
use idlewave_sys::futex::{sleep_on, wake};
use idlewave_sys::mapping::{Access, Mapping};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Wakes the recorder before its time: rung by recorded programs, and by threads of the recorder
/// itself.
#[derive(Clone, Debug)]
pub struct Bell {
    page: Arc<Page>,
    /// How often it had been rung when this was last asked.
    heard: u32,
}

#[derive(Debug)]
struct Page(Mapping);

impl Page {
    fn rung(&self) -> &AtomicU32 {
        // SAFETY: a mapped page, aligned, that lives as long as `self`; any bits are a count.
        unsafe { self.0.base().cast::<AtomicU32>().as_ref() }
    }
}

impl Bell {
    /// Makes the bell of the rings in `directory`.
    ///
    /// # Errors
    /// There is one already, or no room for it.
    pub fn create(directory: &Path) -> Result<Self, InterposeError> {
        let path = directory.join(BELL_FILE);
        let make = || -> io::Result<Mapping> {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
                .open(&path)?;
            // Its page is there before it is mapped: no access to it can fail for want of room.
            allocate(&file, HEADER_BYTES as u64)?;
            Mapping::new(&file, HEADER_BYTES, Access::Write)?.cover()
        };
        let page = make().map_err(|source| InterposeError::File {
            action: "write",
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            page: Arc::new(Page(page)),
            heard: 0,
        })
    }

    /// Rings it.
    pub fn ring(&self) {
        let rung = self.page.rung();
        // Release: what is rung for can be seen by whoever hears it.
        rung.fetch_add(1, Ordering::Release);
        wake(rung);
    }

    /// Waits until it is rung, was rung since this was last asked, or `longest` is over; a signal
    /// ends it too.
    pub fn wait(&mut self, longest: Duration) {
        let rung = self.page.rung();
        sleep_on(rung, self.heard, longest);
        // Acquire: pairs with `ring`.
        self.heard = rung.load(Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_waits_is_called_and_no_call_is_missed() {
        let directory = tempfile::tempdir().unwrap();
        let mut bell = Bell::create(directory.path()).unwrap();
        let begin = Instant::now();
        // Rung before anybody waits.
        bell.ring();
        bell.wait(LONG);
        // Rung while somebody waits, by another thread.
        let other = bell.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                other.ring();
            });
            bell.wait(LONG);
        });
        assert!(begin.elapsed() < LONG);
        // All calls were heard.
        let begin = Instant::now();
        bell.wait(Duration::from_millis(30));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        assert!(
            Bell::create(directory.path()).is_err(),
            "it is there already"
        );
    }
}
