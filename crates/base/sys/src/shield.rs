//! Keeps a process alive when another one truncates a file that it has mapped. An access beyond the
//! end raises SIGBUS, which would kill a recorder, or an agent and with it the turns of all gangs.
//! Such memory is replaced by zeros, and its [`Cover`] reports it.

use std::io;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most mappings at a time: an agent has one per device, a recorder one per thread that calls MPI.
const MOST: usize = 16_384;

/// Start and length of a mapping; 0 if the slot is free.
struct Slot {
    begin: AtomicUsize,
    bytes: AtomicUsize,
    lost: AtomicBool,
}

static SLOTS: [Slot; MOST] = [const {
    Slot {
        begin: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; MOST];

/// Where the search for a free slot starts.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// The previous action for the signal.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A covered mapping, for as long as this lives. It must be dropped before the mapping is removed.
#[derive(Debug)]
pub struct Cover(usize);

impl Cover {
    /// Covers a mapping of a file from now on.
    ///
    /// # Errors
    /// The signal cannot be handled, or too many mappings are covered.
    pub fn over(base: NonNull<u8>, bytes: usize) -> io::Result<Self> {
        handle()?;
        let free = |slot: &&Slot| {
            let taken = slot.begin.compare_exchange(
                0,
                base.as_ptr() as usize,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            taken.is_ok()
        };
        // After the last slot given out: usually the next one is free.
        let last = LAST.load(Ordering::Relaxed);
        let places = (last..MOST).chain(0..last);
        let at = places.into_iter().find(|&at| free(&&SLOTS[at]));
        let at = at.ok_or_else(|| io::Error::other("too many files are mapped"))?;
        LAST.store((at + 1) % MOST, Ordering::Relaxed);
        SLOTS[at].lost.store(false, Ordering::Relaxed);
        // Release: a reader of the length has seen the start. Until then the slot covers nothing.
        SLOTS[at].bytes.store(bytes, Ordering::Release);
        Ok(Self(at))
    }

    /// Whether the mapping was replaced; data read from it since the last call may be zeros.
    pub fn is_lost(&self) -> bool {
        // Written by the thread that got the signal, usually the one that asks.
        SLOTS[self.0].lost.load(Ordering::Acquire)
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        let slot = &SLOTS[self.0];
        slot.bytes.store(0, Ordering::Release);
        slot.begin.store(0, Ordering::Release);
    }
}

/// Installs the handler on the first call.
fn handle() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all-zero bytes are a valid `sigaction`; the calls read and write live structures
    // only.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, null(), &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Two threads may race here; both found the same action.
        if BEFORE.set(before).is_err() {
            return Ok(());
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = lost as *const () as usize;
        // On the stack that std gives each thread for such signals.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        match libc::sigaction(libc::SIGBUS, &action, null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The handler: calls only mmap(2) and sigaction(2), which are safe in signal handlers.
extern "C" fn lost(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a live structure, which has an address for this signal.
    let address = unsafe { (*info).si_addr() } as usize;
    for slot in &SLOTS {
        let bytes = slot.bytes.load(Ordering::Acquire);
        let begin = slot.begin.load(Ordering::Acquire);
        if !(begin..begin.saturating_add(bytes)).contains(&address) {
            continue;
        }
        slot.lost.store(true, Ordering::Release);
        // SAFETY: this range is a live mapping of ours, and its replacement may be read and written
        // likewise.
        let over = unsafe {
            libc::mmap(
                begin as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if over != libc::MAP_FAILED {
            return;
        }
    }
    // Not ours: the access is repeated, and the previous handler gets the signal.
    if let Some(before) = BEFORE.get() {
        // SAFETY: a live structure that the kernel filled.
        unsafe { libc::sigaction(libc::SIGBUS, before, null_mut()) };
    }
}
