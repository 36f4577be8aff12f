//! Reads settings one by one, and keeps the reasons for those that cannot be read.

use super::root::Root;
use idlewave_units::CpuSet;
use std::str::FromStr;

/// Settings of a machine, with those that could not be read.
pub(crate) struct Notes<'a> {
    pub(crate) root: &'a Root,
    pub(crate) unreadable: Vec<String>,
}

impl<'a> Notes<'a> {
    pub(crate) fn new(root: &'a Root) -> Self {
        Notes {
            root,
            unreadable: Vec::new(),
        }
    }

    /// Adds a setting that could not be read. Repetitions are ignored.
    pub(crate) fn note(&mut self, setting: &str, why: &str) {
        let note = format!("{setting}: {why}");
        if !self.unreadable.contains(&note) {
            self.unreadable.push(note);
        }
    }

    /// Trimmed text of a file; `None` if it does not exist, or (noted) cannot be read.
    pub(crate) fn text(&mut self, setting: &str, path: &str) -> Option<String> {
        match self.root.text(path) {
            Ok(text) => text.map(|t| t.trim().to_owned()),
            Err(why) => {
                self.note(setting, &why);
                None
            }
        }
    }

    /// Like [`text`](Self::text); an empty file counts as absent.
    pub(crate) fn word(&mut self, setting: &str, path: &str) -> Option<String> {
        self.text(setting, path).filter(|t| !t.is_empty())
    }

    /// A number or another parsed word; invalid text is noted.
    pub(crate) fn parsed<T: FromStr>(&mut self, setting: &str, path: &str) -> Option<T> {
        let text = self.word(setting, path)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.note(setting, &format!("{path} holds `{}`", cut(&text)));
        }
        value
    }

    /// A list of CPUs like `0-3,8`. An empty file is the empty set, as is `(null)`, which kernels
    /// before 4.15 print for no CPUs.
    pub(crate) fn cpus(&mut self, setting: &str, path: &str) -> Option<CpuSet> {
        let text = self.text(setting, path)?;
        if text == "(null)" {
            return Some(CpuSet::new());
        }
        match text.parse() {
            Ok(set) => Some(set),
            Err(e) => {
                self.note(setting, &format!("{path}: {e}"));
                None
            }
        }
    }
}

/// The start of foreign text, for a message.
pub(crate) fn cut(text: &str) -> String {
    text.chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect()
}
