//! Points at which a process dies when a test asks for it, as SIGKILL would have it die there. Not in release builds.

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Agent: told to freeze.
    Freeze,
    /// Agent: frozen, and READY not said.
    Frozen,
    /// Agent: told to thaw.
    Thaw,
    /// Agent: thawed, and not said so.
    Thawed,
    /// Controller: PREPARE was sent.
    Prepared,
    /// Controller: SWITCH was sent.
    Decided,
}

/// Dies here if `IDLEWAVE_GANG_DIE` says so: the name of the phase in small letters, a colon, and how often it is passed before.
#[cfg(debug_assertions)]
pub fn die_at(phase: Phase) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("IDLEWAVE_GANG_DIE").ok()?;
        let (name, times) = text.split_once(':')?;
        Some((name.to_owned(), times.parse().ok()?))
    });
    let Some((name, times)) = wanted else { return };
    if *name == format!("{phase:?}").to_lowercase()
        && PASSED.fetch_add(1, Ordering::Relaxed) == *times
    {
        // SAFETY: numbers only; the process is this one.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        // The signal may take a moment.
        std::thread::sleep(std::time::Duration::from_secs(10));
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub fn die_at(_: Phase) {}
