//! Passes on signals that are meant for the program, unless the terminal sent them to it as well.

use crate::tree::{ask_to_end, send};
use idlewave_sys::process::Signal;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Signals that are passed on. The first three ask the program to end.
const PASSED: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];
const ENDING: usize = 3;

// Written by the handler, which can reach nothing else.
static SENT: [AtomicU32; PASSED.len()] = [const { AtomicU32::new(0) }; PASSED.len()];
static TYPED: [AtomicU32; PASSED.len()] = [const { AtomicU32::new(0) }; PASSED.len()];
static LAST: AtomicI32 = AtomicI32::new(0);
static PROGRAM_HAS_ENDED: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// What has come since the handlers were installed.
#[derive(Debug, Default)]
pub struct Signals {
    passed: [u32; PASSED.len()],
}

impl Signals {
    /// Installs the handlers; for the whole process. Signals that are ignored, as by nohup(1), stay
    /// ignored: the program is to ignore them too.
    ///
    /// # Errors
    /// The system refuses.
    pub fn install() -> io::Result<Self> {
        for signal in PASSED.map(Signal::as_raw) {
            // SAFETY: all-zero bytes are a valid `sigaction`.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: `action` has room for the answer; nothing is changed.
            if unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } != 0 {
                return Err(io::Error::last_os_error());
            }
            if action.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: the handler uses only atomics and `_exit`, which are async-signal-safe.
            if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self::default())
    }

    /// Passes the signals that have arrived on to the command. The first signal that asks it to end
    /// goes to its whole process group; from the second one on, the caller has to kill it.
    pub fn pass_on(&mut self, command: u32) {
        for signal in self.take_due() {
            match PASSED[..ENDING].contains(&signal) {
                true if self.asked_to_end().0 > 1 => {}
                true => ask_to_end(command, signal),
                false => send(command, signal),
            }
        }
    }

    /// Signals to pass on now, in the order of `PASSED`; each is returned once.
    pub fn take_due(&mut self) -> Vec<Signal> {
        let mut due = Vec::new();
        for (at, signal) in PASSED.into_iter().enumerate() {
            let sent = SENT[at].load(Ordering::Relaxed);
            if sent != self.passed[at] {
                self.passed[at] = sent;
                due.push(signal);
            }
        }
        due
    }

    /// How often the program was asked to end, and with which signal last.
    pub fn asked_to_end(&self) -> (u32, Option<i32>) {
        let count = |counters: &[AtomicU32]| -> u32 {
            let all = counters.iter().take(ENDING);
            all.map(|c| c.load(Ordering::Relaxed)).sum()
        };
        let last = Some(LAST.load(Ordering::Relaxed)).filter(|&signal| signal != 0);
        (count(&SENT) + count(&TYPED), last)
    }

    /// The signal that last asked this command to end: while a program ran, or afterwards.
    pub fn ended_by(&self) -> Option<i32> {
        Some(LAST.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// From now on signals are for the program that starts next.
    pub(crate) fn program_begins(&self) {
        PROGRAM_HAS_ENDED.store(false, Ordering::Relaxed);
    }

    /// From now on signals end the analysis; the second one ends the process.
    pub(crate) fn program_has_ended(&self) -> &'static AtomicBool {
        PROGRAM_HAS_ENDED.store(true, Ordering::Relaxed);
        &STOP
    }
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let Some(at) = PASSED.iter().position(|s| s.as_raw() == signal) else {
        return;
    };
    if PROGRAM_HAS_ENDED.load(Ordering::Relaxed) {
        if at < ENDING {
            LAST.store(signal, Ordering::Relaxed);
            if STOP.swap(true, Ordering::Relaxed) {
                // SAFETY: `_exit` is async-signal-safe.
                unsafe { libc::_exit(128 + signal) };
            }
        }
        return;
    }
    // SAFETY: with SA_SIGINFO the kernel gives a valid pointer.
    let by_terminal = unsafe { (*info).si_code } == libc::SI_KERNEL;
    let counters = if by_terminal { &TYPED } else { &SENT };
    counters[at].fetch_add(1, Ordering::Relaxed);
    if at < ENDING {
        LAST.store(signal, Ordering::Relaxed);
    }
}
