//! Points at which a process dies or stalls at a test's request, as if by SIGKILL or SIGSTOP. Not
//! in release builds.

/// The points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Agent: injection has stopped, and it was told to drain.
    Drain,
    /// Agent: drained if needed, and told to freeze.
    Freeze,
    /// Agent: frozen, and READY not sent.
    Frozen,
    /// Agent: the network context is switched, and not reported.
    Context,
    /// Agent: told to thaw.
    Thaw,
    /// Agent: thawed, and not reported.
    Thawed,
    /// Agent: thawed, and told to enable injection again.
    Resume,
    /// Controller: PREPARE was sent.
    Prepared,
    /// Controller: SWITCH was sent.
    Decided,
}

/// Kills processes here if the file named by `IDLEWAVE_GANG_FAULT` exists and names this phase. Its
/// one line is the phase in lower case and the PIDs to kill; an `s` before a PID stops the process
/// instead. Only the process that removes the file does so, once.
#[cfg(debug_assertions)]
pub fn die_at(phase: Phase) {
    use idlewave_sys::process::{Signal, send};
    use idlewave_units::Pid;
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
    let one = |word: &str| {
        let (number, signal) = match word.strip_prefix('s') {
            Some(number) => (number, Signal::STOP),
            None => (word, Signal::KILL),
        };
        Some((Pid::new(number.parse().ok()?), signal))
    };
    let mut all: Vec<(Pid, Signal)> = words.filter_map(one).collect();
    if std::fs::remove_file(file).is_err() {
        return;
    }
    let own = Pid::new(std::process::id());
    // This process last.
    all.sort_by_key(|(pid, _)| *pid == own);
    for (pid, signal) in all {
        let _ = send(pid, signal);
        if (pid, signal) == (own, Signal::KILL) {
            // The signal may take a moment.
            std::thread::sleep(std::time::Duration::from_secs(10));
        }
    }
}

/// Does nothing.
#[cfg(not(debug_assertions))]
pub fn die_at(_: Phase) {}
