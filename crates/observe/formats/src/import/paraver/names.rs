//! Names of types, values and objects, from .pcf and .row files.

use crate::import::error::ImportError;
use crate::import::paraver::labels::{First, application, named};
use crate::prv;
use idlewave_sys::files;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// A longer file counts as damaged.
const LONGEST: u64 = 256 << 20;

/// The names of a trace; empty if the files are missing.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Names of values, by type and value.
    values: HashMap<(u32, u64), String>,
    types: HashMap<u32, String>,
    /// Labels by level, in order.
    pub cpus: Vec<String>,
    pub nodes: Vec<String>,
    pub applications: Vec<String>,
    pub threads: Vec<String>,
}

impl Names {
    /// Reads the files beside a trace.
    pub(super) fn beside(path: &Path) -> Result<Self, ImportError> {
        let mut names = Self::default();
        if let Some(text) = text(&path.with_extension("pcf"))? {
            names.read_types(&text);
        }
        if let Some(text) = text(&path.with_extension("row"))? {
            names.read_labels(&text);
        }
        Ok(names)
    }

    /// What the first application is, and its name.
    pub(super) fn first(&self) -> (First, Option<&str>) {
        application(self.applications.first().map_or("", String::as_str))
    }

    /// The name of the program: the label of the first application or of its first thread, otherwise
    /// the name of the trace.
    pub(super) fn program(&self, trace: &Path) -> String {
        let (_, application) = self.first();
        let thread = self.threads.first().map(|label| named(label));
        let thread = thread.and_then(|(name, pid)| pid.and(Some(name)));
        let stem = || trace.file_stem().map(|s| s.to_string_lossy().into_owned());
        let label = application.map(str::to_owned).or(thread);
        label.or_else(stem).unwrap_or_default()
    }

    /// Whether there is a .pcf with types.
    pub(super) fn known(&self) -> bool {
        !self.types.is_empty()
    }

    /// Whether events give the CPU of each thread.
    pub(super) fn has_cpu_of_task(&self) -> bool {
        self.types.contains_key(&prv::CPU)
    }

    /// The name of a value.
    pub(super) fn value(&self, kind: u32, value: u64) -> Option<&str> {
        self.values.get(&(kind, value)).map(String::as_str)
    }

    /// The values of a type with their names, in order.
    pub(super) fn values_of(&self, kind: u32) -> Vec<(u64, &str)> {
        let all = self.values.iter().filter(|((of, _), _)| *of == kind);
        let mut all: Vec<_> = all
            .map(|((_, value), name)| (*value, name.as_str()))
            .collect();
        all.sort_unstable();
        all
    }

    fn read_types(&mut self, text: &str) {
        let (mut in_types, mut in_values) = (false, false);
        let mut open: Vec<u32> = Vec::new();
        for line in text.lines() {
            match line.trim() {
                "" => {}
                "EVENT_TYPE" => {
                    (in_types, in_values) = (true, false);
                    open.clear();
                }
                "VALUES" => in_values = in_types,
                section if section.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') => {
                    in_types = false
                }
                line if in_values => {
                    if let Some((value, name)) = numbered(line) {
                        for &kind in &open {
                            self.values.insert((kind, value), name.to_owned());
                        }
                    }
                }
                line if in_types => {
                    let found = numbered(line).and_then(|(_, rest)| numbered(rest));
                    if let Some((kind, name)) =
                        found.and_then(|(k, n)| Some((u32::try_from(k).ok()?, n)))
                    {
                        open.push(kind);
                        self.types.insert(kind, name.to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    fn read_labels(&mut self, text: &str) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let mut words = line.split_whitespace();
            if words.next() != Some("LEVEL") {
                continue;
            }
            let level = words.next().unwrap_or_default();
            let size = words.nth(1).and_then(|n| n.parse::<usize>().ok());
            let labels = lines.by_ref().take(size.unwrap_or(0));
            let labels = labels.map(|label| label.trim().to_owned()).collect();
            match level {
                "CPU" => self.cpus = labels,
                "NODE" => self.nodes = labels,
                "APPL" => self.applications = labels,
                "THREAD" => self.threads = labels,
                _ => {}
            }
        }
    }
}

/// A number and the text after it.
fn numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at(digits);
    Some((number.parse().ok()?, rest.trim()))
}

/// The text of a file, with invalid characters replaced; `None` if there is no file.
fn text(path: &Path) -> Result<Option<String>, ImportError> {
    match files::read(path, LONGEST) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ImportError::io(path)(error)),
    }
}
