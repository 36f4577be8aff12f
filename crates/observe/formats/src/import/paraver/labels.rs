//! Labels of idlewave's own export, taken apart.

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

/// The program that the label of an application names.
pub(super) fn application_name(label: &str) -> Option<&str> {
    // Of an export without a name.
    (!label.is_empty() && label != "program").then_some(label)
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
