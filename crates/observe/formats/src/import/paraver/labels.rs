//! Parses the labels of idlewave's own export.

use crate::prv;
use idlewave_run::SourceKind;
use idlewave_units::Pid;

/// A label like `kworker/0:1 (17)` as name and number.
pub(super) fn named(label: &str) -> (String, Option<Pid>) {
    let parts = label.strip_suffix(')').and_then(|l| l.rsplit_once(" ("));
    let found = parts.and_then(|(name, pid)| Some((name, pid.parse::<u32>().ok()?)));
    match found {
        Some((name, pid)) if pid > 0 => (name.to_owned(), Some(Pid::new(pid))),
        _ => (label.to_owned(), None),
    }
}

/// What the first application of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// A program; idlewave's export says that its tasks are ranks.
    Ranks,
    /// A program without MPI, by idlewave's export.
    Processes,
    /// A program; nothing says whether its tasks are ranks.
    Tasks,
    /// What ran beside a program that is not in the trace.
    Others,
}

/// What an application with this label is, and the name of the program.
pub(super) fn application(label: &str) -> (First, Option<&str>) {
    if let Some(name) = label.strip_prefix(prv::RANKS_OF) {
        return (First::Ranks, Some(name));
    }
    if let Some(name) = label.strip_prefix(prv::PROCESSES_OF) {
        return (First::Processes, Some(name));
    }
    match label {
        // The second is the label of every program in earlier exports.
        "" | "program" => (First::Tasks, None),
        label if label.starts_with(prv::ELSE_ON) => (First::Others, None),
        label => (First::Tasks, Some(label)),
    }
}

/// A label like `timer tick local_timer` as class and name.
pub(super) fn source(label: &str) -> (SourceKind, String) {
    let kinds = SourceKind::ALL.iter().filter_map(|kind| {
        let name = label.strip_prefix(kind.label())?;
        let name = if name.is_empty() {
            name
        } else {
            name.strip_prefix(' ')?
        };
        Some((name.len(), *kind, name))
    });
    match kinds.min() {
        Some((_, kind, name)) => (kind, name.to_owned()),
        None => (SourceKind::Unexplained, label.to_owned()),
    }
}
