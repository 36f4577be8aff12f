//! Finds the kernel's trace below a directory: in the directory of a session, LTTng has one
//! directory for the kernel and one for each user.

use super::metadata::Metadata;
use super::text::is_metadata;
use crate::import::error::ImportError;
use idlewave_sys::files;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Levels of directories that are searched: `archives/TIME/ust/uid/1000/64-bit` has six.
const DEEPEST: usize = 8;
/// Most directories that are searched.
const MOST: usize = 1 << 12;

/// Finds the kernel's trace; `None` if there is no CTF trace at all.
pub(crate) fn find(directory: &Path) -> Result<Option<PathBuf>, ImportError> {
    let found = traces(directory)?;
    let mut of_kernel = Vec::new();
    for trace in &found {
        if is_of_kernel(&Metadata::read(trace)?) {
            of_kernel.push(trace);
        }
    }
    let refused = |reason: String, next: String| ImportError::Format {
        path: directory.to_owned(),
        reason,
        next,
    };
    match (of_kernel.as_slice(), found.is_empty()) {
        ([trace], _) => Ok(Some((*trace).clone())),
        ([], true) => Ok(None),
        ([], false) => Err(refused(
            "it is a CTF trace of programs (LTTng-UST or another tracer), not of the kernel".to_owned(),
            "record the kernel too: lttng enable-event -k sched_switch; docs/import.md shows all events"
                .to_owned(),
        )),
        ([first, ..], _) => Err(refused(
            format!("it holds {} traces of the kernel", of_kernel.len()),
            format!("give one of them, such as {}", first.display()),
        )),
    }
}

/// Whether a trace is of the kernel: it says so, perf wrote it, or it has the kernel's switches.
fn is_of_kernel(metadata: &Metadata) -> bool {
    match metadata.fact(&["domain"]) {
        Some(domain) => domain == "kernel",
        None => {
            let switch = |name| matches!(name, "sched_switch" | "sched:sched_switch");
            let mut events = metadata.events.values().flatten();
            metadata.is_of_perf() || events.any(|event| switch(&event.name))
        }
    }
}

/// Directories with metadata, in order of their names.
fn traces(directory: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let mut found = Vec::new();
    let mut open = vec![(directory.to_owned(), 0)];
    let mut searched = 0;
    while let Some((directory, depth)) = open.pop() {
        searched += 1;
        if has_metadata(&directory)? {
            found.push(directory);
            continue;
        }
        if depth == DEEPEST || searched > MOST {
            continue;
        }
        let entries = fs::read_dir(&directory).map_err(ImportError::io(&directory))?;
        for entry in entries {
            let entry = entry.map_err(ImportError::io(&directory))?;
            // Not links, which may lead anywhere, even back.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && open.len() < MOST {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn has_metadata(directory: &Path) -> Result<bool, ImportError> {
    let (path, mut start) = (directory.join("metadata"), Vec::new());
    match files::open(&path) {
        Ok(file) => {
            let read = file.take(64).read_to_end(&mut start);
            read.map_err(ImportError::io(&path))?;
            Ok(is_metadata(&start))
        }
        // Traces of the kernel belong to root.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(ImportError::io(&path)(error))
        }
        Err(_) => Ok(false),
    }
}

/// The stream files of a trace, in order of their names.
pub(super) fn streams(directory: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(ImportError::io(directory))? {
        let entry = entry.map_err(ImportError::io(directory))?;
        let name = entry.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        // LTTng keeps an index of packets in a directory beside them.
        let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
        if regular && !hidden && name != "metadata" {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
