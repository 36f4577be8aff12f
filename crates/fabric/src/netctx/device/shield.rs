//! Keeps the owner of a device alive when a user shortens the file of one: an access to what is not there any more is SIGBUS, which would
//! end an agent, and with it the turns of everybody's gangs. Such memory is replaced by zeros of the owner's own; the ranks of that
//! user, who have the file, get their signal themselves.

use std::io;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Mappings at a time; an agent has one per device.
const MOST: usize = 256;

/// Begin and length of a mapping, 0 if there is none here.
struct Slot {
    begin: AtomicUsize,
    bytes: AtomicUsize,
}

static SLOTS: [Slot; MOST] = [const {
    Slot {
        begin: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    }
}; MOST];

/// What was to be done with the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping that is covered, as long as this lives. It must end before the mapping does.
#[derive(Debug)]
pub(super) struct Cover(usize);

impl Cover {
    /// Covers a mapping of a file from now on.
    ///
    /// # Errors
    /// The signal cannot be handled, or too many mappings are covered.
    pub(super) fn over(base: NonNull<u8>, bytes: usize) -> io::Result<Self> {
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
        let at = SLOTS.iter().position(|slot| free(&slot));
        let at = at.ok_or_else(|| io::Error::other("too many devices"))?;
        // Release: who reads the length has seen the begin. Before it nothing lies within the slot.
        SLOTS[at].bytes.store(bytes, Ordering::Release);
        Ok(Self(at))
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        let slot = &SLOTS[self.0];
        slot.bytes.store(0, Ordering::Release);
        slot.begin.store(0, Ordering::Release);
    }
}

/// Handles the signal from the first call on.
fn handle() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all-zero bytes are a valid `sigaction`; the calls read and write live structures only.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, null(), &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Of two threads one is too late: both found the same.
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

/// The handler: calls nothing but mmap(2) and sigaction(2), which signals may.
extern "C" fn lost(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a live structure, which has an address for this signal.
    let address = unsafe { (*info).si_addr() } as usize;
    for slot in &SLOTS {
        let bytes = slot.bytes.load(Ordering::Acquire);
        let begin = slot.begin.load(Ordering::Acquire);
        if !(begin..begin.saturating_add(bytes)).contains(&address) {
            continue;
        }
        // SAFETY: this range is a mapping of ours that lives, and what is mapped over it may be read and written just the same.
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
    // Somebody else's: the access is made again, and whoever handled the signal before gets it.
    if let Some(before) = BEFORE.get() {
        // SAFETY: a live structure that the kernel gave.
        unsafe { libc::sigaction(libc::SIGBUS, before, null_mut()) };
    }
}
