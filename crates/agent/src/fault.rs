//! Points at which a process dies when a test asks for it, as SIGKILL would have it die there. Not in release builds.

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Agent: nothing is injected any more, and told to drain.
    Drain,
    /// Agent: told to freeze; what had to be drained is.
    Freeze,
    /// Agent: frozen, and READY not said.
    Frozen,
    /// Agent: the network context is another one, and not said so.
    Context,
    /// Agent: told to thaw.
    Thaw,
    /// Agent: thawed, and not said so.
    Thawed,
    /// Agent: thawed, and told to let messages be injected again.
    Resume,
    /// Controller: PREPARE was sent.
    Prepared,
    /// Controller: SWITCH was sent.
    Decided,
}

/// Kills here if the file that `IDLEWAVE_GANG_FAULT` names is there: its one line is the phase in small letters, and the processes that
/// are to die. Whoever takes the file away does it, once.
#[cfg(debug_assertions)]
pub fn die_at(phase: Phase) {
    use std::sync::OnceLock;
    static FILE: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("IDLEWAVE_GANG_FAULT").map(Into::into));
    let Some(file) = file else { return };
    let Ok(line) = std::fs::read_to_string(file) else {
        return;
    };
    let mut words = line.split_ascii_whitespace();
    if words.next() != Some(&format!("{phase:?}").to_lowercase()) {
        return;
    }
    let pids: Vec<libc::pid_t> = words.filter_map(|word| word.parse().ok()).collect();
    if std::fs::remove_file(file).is_err() {
        return;
    }
    // SAFETY: it reads a number of this process and cannot fail.
    let own = unsafe { libc::getpid() };
    for pid in pids.iter().filter(|pid| **pid > 0 && **pid != own) {
        // SAFETY: numbers only, of processes that the test named.
        unsafe { libc::kill(*pid, libc::SIGKILL) };
    }
    if pids.contains(&own) {
        // SAFETY: numbers only; the process is this one.
        unsafe { libc::kill(own, libc::SIGKILL) };
        // The signal may take a moment.
        std::thread::sleep(std::time::Duration::from_secs(10));
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub fn die_at(_: Phase) {}
