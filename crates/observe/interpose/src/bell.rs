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

/// Wakes the recorder early. Recorded programs ring it, and threads of the recorder itself.
#[derive(Clone, Debug)]
pub struct Bell {
    page: Arc<Page>,
    /// How often it had been rung by the end of the last wait.
    heard: u32,
}

#[derive(Debug)]
struct Page(Mapping);

impl Page {
    fn rung(&self) -> &AtomicU32 {
        // SAFETY: a mapped, aligned page that lives as long as `self`; any bit pattern is a count.
        unsafe { self.0.base().cast::<AtomicU32>().as_ref() }
    }
}

impl Bell {
    /// Makes the bell of the rings in `directory`.
    ///
    /// # Errors
    /// There is a bell already, or no room for one.
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
            // Allocate the page before it is mapped, so that no access can fail for lack of room.
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
        // Release: whoever hears the bell also sees what it was rung for.
        rung.fetch_add(1, Ordering::Release);
        wake(rung);
    }

    /// Waits until the bell is rung or `longest` is over; does not wait if it was rung since the
    /// last call. A signal ends the wait too.
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
        // Nothing is left to hear.
        let begin = Instant::now();
        bell.wait(Duration::from_millis(30));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        assert!(
            Bell::create(directory.path()).is_err(),
            "it is there already"
        );
    }
}
