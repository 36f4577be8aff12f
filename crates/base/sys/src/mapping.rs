//! Files as memory (mmap(2)).

use crate::shield::Cover;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

/// What may be done with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// Both, with all of its pages there at once: no access has to wait for one.
    WriteAtOnce,
}

/// The first bytes of a file as memory, which all who map it share.
#[derive(Debug)]
pub struct Mapping {
    /// Ends before the mapping does.
    cover: Option<Cover>,
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and to this value alone. This gives nothing out but its address: whoever makes references
// of that answers for them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps them.
    ///
    /// # Errors
    /// The kernel refuses: it is no such file, or there is no memory for it.
    pub fn new(file: &File, bytes: usize, access: Access) -> io::Result<Self> {
        let (protection, flags) = match access {
            Access::Read => (ProtFlags::READ, MapFlags::SHARED),
            Access::Write => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED),
            Access::WriteAtOnce => (
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
            ),
        };
        // SAFETY: a new mapping at an address of the kernel's choice: no memory of ours is replaced.
        let base = unsafe { mmap(null_mut(), bytes, protection, flags, file, 0) }?;
        let base = NonNull::new(base.cast());
        Ok(Self {
            cover: None,
            base: base.ok_or_else(|| io::Error::other("mapped at address zero"))?,
            bytes,
        })
    }

    /// Has its bytes be zeros from the moment on at which somebody shortens the file, instead of ending this process.
    ///
    /// # Errors
    /// See [`Cover::over`].
    pub fn cover(mut self) -> io::Result<Self> {
        self.cover = Some(Cover::over(self.base, self.bytes)?);
        Ok(self)
    }

    /// Whether the file was cut short, as far as an access has met it.
    pub fn is_lost(&self) -> bool {
        self.cover.as_ref().is_some_and(Cover::is_lost)
    }

    /// Where it begins: at a page.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.cover = None;
        // SAFETY: exactly what was mapped; references into it do not outlive this. It cannot fail then.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// How long it takes to write to so many pages of new memory, each of which faults.
///
/// # Errors
/// There is no memory.
pub fn touch_new_pages(pages: usize) -> io::Result<Duration> {
    let page = rustix::param::page_size();
    let bytes = page * pages;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory at an address of the kernel's choice. It is written to within its bounds, volatile so that this happens, and
    // nothing refers to it when it is unmapped.
    unsafe {
        let memory = mmap_anonymous(null_mut(), bytes, protection, MapFlags::PRIVATE)?;
        // A huge page would be one fault for all. Whether the advice is taken is all the same to what follows.
        let _ = madvise(memory, bytes, Advice::LinuxNoHugepage);
        let begin = Instant::now();
        for offset in (0..bytes).step_by(page) {
            memory.cast::<u8>().add(offset).write_volatile(1);
        }
        let time = begin.elapsed();
        munmap(memory, bytes)?;
        Ok(time)
    }
}
