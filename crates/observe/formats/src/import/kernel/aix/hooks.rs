//! What the hooks of threads and interrupts say.
//!
//! Source: AIX, General Programming Concepts, "Trace Hook IDs"; the table of hooks that the command
//! `curt` needs. The texts come from the templates of `/etc/trcfmt`, which differ between versions,
//! so values are found by their keys.

use super::columns::digits;
use memchr::memmem;

/// A thread that a hook names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) tid: u32,
    pub(crate) pid: Option<u32>,
    /// Name of its program; empty if not given.
    pub(crate) name: &'a [u8],
}

/// Kind of an interrupt or exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First<'a> {
    /// The clock interrupt.
    Decrementer,
    /// A page that is not mapped.
    PageFault,
    /// Anything else, by the first words of the text.
    Other(&'a [u8]),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook<'a> {
    /// 106 and 10C: a thread gets the CPU.
    Switch {
        next: Named<'a>,
        /// Whether it is a thread of the idle process.
        idle: bool,
        /// The thread that leaves the CPU, if given.
        prev: Option<u32>,
        /// Whether that thread's priority is that of the idle process.
        prev_idle: bool,
    },
    /// 100: an interrupt or exception begins.
    Interrupt(First<'a>),
    /// 102: a second-level handler begins; its name.
    Second(&'a [u8]),
    /// 103: that handler ends.
    Return,
    /// 200: what was interrupted goes on, or a thread starts after its dispatch.
    Resume,
    /// 11F: a thread becomes runnable.
    Ready(Named<'a>),
    /// 462 and 463: the running thread goes to sleep.
    Sleep,
    /// 101 and 104: the running thread enters or leaves a system call.
    Call,
    /// 134: a thread starts another program.
    Exec(Named<'a>),
    /// 135: the running thread ends.
    Exit,
    /// 139: a process is created; its first thread.
    Fork(Named<'a>),
    /// 001: tracing begins, perhaps again.
    On,
    /// 005 and 006: earlier entries are overwritten; how many, if given.
    Wrapped(Option<u64>),
    /// One that says nothing of interest.
    Other,
}

/// The priority that only the idle process has.
const IDLE_PRIORITY: u64 = 255;
/// Longest name kept.
const NAME: usize = 64;

/// Reads what a hook says.
///
/// # Errors
/// What it lacks, in words.
pub(crate) fn parse(hook: Option<u16>, text: &[u8]) -> Result<Hook<'_>, &'static str> {
    Ok(match hook {
        Some(0x001) => Hook::On,
        Some(0x005) => Hook::Wrapped(None),
        Some(0x006) => Hook::Wrapped(missed(text)),
        Some(0x100) => Hook::Interrupt(first(text)),
        Some(0x101 | 0x104) => Hook::Call,
        Some(0x102) => Hook::Second(second(text)),
        Some(0x103) => Hook::Return,
        Some(hook @ (0x106 | 0x10c)) => Hook::Switch {
            next: named(text).ok_or("hook 106 or 10C names no thread (tid=)")?,
            idle: hook == 0x10c || value(text, b"priority") == Some(IDLE_PRIORITY),
            prev: small(text, b"old_tid"),
            prev_idle: value(text, b"old_priority") == Some(IDLE_PRIORITY),
        },
        Some(0x11f) => Hook::Ready(named(text).ok_or("hook 11F names no thread (tid=)")?),
        Some(0x134) => Hook::Exec(named(text).ok_or("hook 134 names no thread (tid=)")?),
        Some(0x135) => Hook::Exit,
        Some(0x139) => Hook::Fork(named(text).ok_or("hook 139 names no thread (tid=)")?),
        Some(0x200) => Hook::Resume,
        Some(0x462 | 0x463) => Hook::Sleep,
        _ => Hook::Other,
    })
}

/// The CPU that a text names, for reports without a column of CPUs.
pub(crate) fn cpu(text: &[u8]) -> Option<u32> {
    small(text, b"CPUID").or(small(text, b"cpuid"))
}

/// What follows `key=`.
fn after<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    memmem::find_iter(text, key)
        .filter(|at| *at == 0 || text[at - 1].is_ascii_whitespace() || text[at - 1] == b':')
        .find_map(|at| text[at + key.len()..].strip_prefix(b"="))
}

fn word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(u8::is_ascii_whitespace);
    &text[..end.unwrap_or(text.len())]
}

fn value(text: &[u8], key: &[u8]) -> Option<u64> {
    digits(word(after(text, key)?))
}

fn small(text: &[u8], key: &[u8]) -> Option<u32> {
    u32::try_from(value(text, key)?).ok()
}

fn named(text: &[u8]) -> Option<Named<'_>> {
    let command = after(text, b"cmd").unwrap_or_default();
    // Only the command may hold blanks.
    let end = memmem::find(command, b" pid=").or(memmem::find(command, b" tid="));
    Some(Named {
        tid: small(text, b"tid")?,
        pid: small(text, b"pid"),
        name: short(command[..end.unwrap_or(command.len())].trim_ascii()),
    })
}

/// The program of a command line.
pub(crate) fn program(command: &[u8]) -> &[u8] {
    let path = word(command);
    let name = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    &path[name..]
}

fn short(text: &[u8]) -> &[u8] {
    &text[..text.len().min(NAME)]
}

fn first(text: &[u8]) -> First<'_> {
    let has = |part: &[u8]| memmem::find(text, part).is_some();
    // Addresses follow.
    let end = memmem::find(text, b"iar=").or(memmem::find(text, b"cpuid="));
    let words = text[..end.unwrap_or(text.len())].trim_ascii();
    match () {
        () if has(b"DECREMENTER") => First::Decrementer,
        () if has(b"PAGE FAULT") => First::PageFault,
        () => First::Other(short(words)),
    }
}

/// The handler in `slih HANDLER ...`.
fn second(text: &[u8]) -> &[u8] {
    let rest = match after_word(text, b"slih") {
        Some(rest) => rest,
        None => text,
    };
    short(word(rest))
}

fn after_word<'a>(text: &'a [u8], first: &[u8]) -> Option<&'a [u8]> {
    let rest = text.strip_prefix(first)?;
    let trimmed = rest.trim_ascii_start();
    (trimmed.len() < rest.len()).then_some(trimmed)
}

/// The count before `missed entries`.
fn missed(text: &[u8]) -> Option<u64> {
    let before = text[..memmem::find(text, b"missed")?].trim_ascii_end();
    let begin = memchr::memrchr(b' ', before).map_or(0, |space| space + 1);
    digits(&before[begin..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(hook: u16, text: &str) -> Result<Hook<'_>, &'static str> {
        parse(Some(hook), text.as_bytes())
    }

    #[test]
    fn a_dispatch_names_both_threads() {
        let text = "dispatch: cmd=my ksh pid=8526 tid=24713 priority=60 old_tid=517 old_priority=255 CPUID=2 [3 usec]";
        let next = Named {
            tid: 24713,
            pid: Some(8526),
            name: b"my ksh",
        };
        let switch = |next, idle, prev, prev_idle| {
            Ok(Hook::Switch {
                next,
                idle,
                prev,
                prev_idle,
            })
        };
        assert_eq!(read(0x106, text), switch(next, false, Some(517), true));
        assert_eq!(cpu(text.as_bytes()), Some(2));
        let text =
            "dispatch: idle process pid=516 tid=517 priority=255 old_tid=24713 old_priority=60";
        let wait = Named {
            tid: 517,
            pid: Some(516),
            name: b"",
        };
        assert_eq!(read(0x10c, text), switch(wait, true, Some(24713), false));
        assert!(read(0x106, "dispatch: cmd=ksh old_tid=5").is_err());
        assert!(read(0x106, "dispatch: tid=99999999999").is_err());
    }

    #[test]
    fn interrupts_are_of_the_kind_in_the_text() {
        let first = |text| read(0x100, text);
        assert_eq!(
            first("DECREMENTER INTERRUPT iar=1A2B4 cpuid=00"),
            Ok(Hook::Interrupt(First::Decrementer))
        );
        assert_eq!(
            first("DATA ACCESS PAGE FAULT iar=D0040AF8"),
            Ok(Hook::Interrupt(First::PageFault))
        );
        assert_eq!(
            first("I/O INTERRUPT iar=1A2B4"),
            Ok(Hook::Interrupt(First::Other(b"I/O INTERRUPT")))
        );
        assert_eq!(read(0x102, "slih ssapin"), Ok(Hook::Second(b"ssapin")));
        assert_eq!(read(0x102, "slihless"), Ok(Hook::Second(b"slihless")));
    }

    #[test]
    fn programs_are_named_by_their_files() {
        assert_eq!(program(b"../bin/track /tmp/junk"), b"track");
        assert_eq!(program(b"ls"), b"ls");
        assert_eq!(program(b""), b"");
    }

    #[test]
    fn wraparounds_count_what_was_overwritten() {
        let text = "TRACEBUFFER WRAPAROUND 0003 17 missed entries";
        assert_eq!(read(0x006, text), Ok(Hook::Wrapped(Some(17))));
        assert_eq!(read(0x006, "TRACEBUFFER"), Ok(Hook::Wrapped(None)));
    }
}
