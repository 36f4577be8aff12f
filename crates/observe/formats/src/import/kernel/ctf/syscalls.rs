//! System calls in LTTng's traces, where each call has events of its own, named after the kernel's
//! function.
//!
//! The trace does not name the architecture of the numbers, so it is inferred from the calls that
//! the trace declares.
//!
//! Source: the lists of system calls of lttng-modules 2.13 for kernels 4.4 (arm64) and 5.12 (x86-64).

use super::metadata::Metadata;
use syscalls::{aarch64, x86_64};

/// Functions whose names differ from those of their calls.
const RENAMED: [(&str, &str); 8] = [
    ("newstat", "stat"),
    ("newlstat", "lstat"),
    ("newfstat", "fstat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
    ("newfstatat", "fstatat"),
    ("fadvise64_64", "fadvise64"),
];
/// A trace that declares this many system call events was recorded with all of them.
const ALL: usize = 200;

/// The architecture that numbers the system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    /// The number of a call, by the name of its function.
    fn number(self, function: &str) -> Option<u32> {
        let renamed = RENAMED.iter().find(|(from, _)| *from == function);
        let mut names = [Some(function), renamed.map(|(_, to)| *to)].into_iter();
        names.find_map(|name| {
            let id = match self {
                Self::X86_64 => name?.parse::<x86_64::Sysno>().ok()?.id(),
                Self::Aarch64 => name?.parse::<aarch64::Sysno>().ok()?.id(),
            };
            u32::try_from(id).ok()
        })
    }
}

/// The function that an event names, and whether the call returned.
pub(crate) fn function(event: &str) -> Option<(&str, bool)> {
    let (rest, returned) = match event.strip_prefix("syscall_entry_") {
        Some(rest) => (rest, false),
        None => (event.strip_prefix("syscall_exit_")?, true),
    };
    Some((rest, returned))
}

/// Numbers of the system calls that a trace declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    architecture: Architecture,
    /// Whether the trace declares any call, and whether the calls show the architecture.
    any: bool,
    certain: bool,
}

impl Numbers {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let events = || metadata.events.values().flatten().map(|event| &*event.name);
        let functions = || events().filter_map(function);
        let number = |of: Architecture, (name, _)| of.number(name);
        let only_x86 = functions().any(|function| {
            number(Architecture::X86_64, function).is_some()
                && number(Architecture::Aarch64, function).is_none()
        });
        let is_x86 = only_x86 || events().any(|event| event.starts_with("x86_"));
        // Almost no call exists on aarch64 alone.
        let is_aarch64 = !is_x86 && functions().count() >= ALL;
        Self {
            architecture: match is_aarch64 {
                true => Architecture::Aarch64,
                false => Architecture::X86_64,
            },
            any: functions().next().is_some(),
            certain: is_x86 || is_aarch64,
        }
    }

    /// The number of a call by the name of its function.
    pub(crate) fn number(&self, function: &str) -> Option<u32> {
        self.architecture.number(function)
    }

    /// The architecture of the numbers, as in `uname -m`; `None` if the trace declares no calls.
    pub(crate) fn architecture(&self) -> Option<&'static str> {
        self.any.then_some(match self.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        })
    }

    /// Whether the trace may also be of another architecture.
    pub(crate) fn guessed(&self) -> bool {
        self.any && !self.certain
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::import::kernel::ctf::metadata::EventClass;

    /// A trace that declares these events.
    fn trace(names: &[&str]) -> Metadata {
        let class = |name: &&str| EventClass {
            name: (*name).to_owned(),
            ..EventClass::default()
        };
        let mut metadata = Metadata::default();
        metadata.events.insert(0, names.iter().map(class).collect());
        metadata
    }

    #[test]
    fn functions_have_the_numbers_that_lttng_lists_for_them() {
        for (function, x86, arm) in [
            ("read", Some(0), Some(63)),
            ("newstat", Some(4), None),
            ("newfstat", Some(5), Some(80)),
            ("newlstat", Some(6), None),
            ("sched_yield", Some(24), Some(124)),
            ("sendfile64", Some(40), Some(71)),
            ("newuname", Some(63), Some(160)),
            ("umount", Some(166), Some(39)),
            ("futex", Some(202), Some(98)),
            ("fadvise64", Some(221), Some(223)),
            ("fadvise64_64", Some(221), Some(223)),
            ("newfstatat", Some(262), Some(79)),
            ("no_such_call", None, None),
        ] {
            let of = |architecture: Architecture| architecture.number(function);
            assert_eq!(of(Architecture::X86_64), x86, "{function}");
            assert_eq!(of(Architecture::Aarch64), arm, "{function}");
        }
    }

    #[test]
    fn the_declared_calls_tell_the_architecture() {
        let found = |names: &[&str]| {
            let numbers = Numbers::of(&trace(names));
            (numbers.architecture(), numbers.guessed())
        };
        assert_eq!(found(&["sched_switch"]), (None, false));
        let common = ["syscall_entry_read", "syscall_exit_read"];
        assert_eq!(found(&common), (Some("x86_64"), true));
        let x86 = [&common[..], &["syscall_entry_open"]].concat();
        assert_eq!(found(&x86), (Some("x86_64"), false));
        let vectors = [&common[..], &["x86_irq_vectors_local_timer_entry"]].concat();
        assert_eq!(found(&vectors), (Some("x86_64"), false));
        // All calls of aarch64.
        let all: Vec<String> = (0..300)
            .filter_map(aarch64::Sysno::new)
            .map(|call| format!("syscall_entry_{}", call.name()))
            .collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(found(&all), (Some("aarch64"), false));
    }
}
