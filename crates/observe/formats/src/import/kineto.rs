//! Traces of PyTorch's profiler (Kineto), one file for each rank, as JSON or packed with gzip.
//!
//! What becomes of the events:
//!
//! | event | table |
//! |---|---|
//! | `gloo:all_reduce` and the like, kernels of NCCL | `calls`, `operations` |
//! | process groups | `communicators` |
//! | `ProfilerStep#N` and other annotations | `marks` |
//!
//! A collective is one call. On a GPU, the call lasts as long as the kernel and belongs to a thread
//! that stands for the stream; the CPU's part is a call of its own, a launch. With gloo, a worker
//! thread runs the collective. If the thread that launched it waits for it, the call belongs to
//! that thread and lasts from the launch until the thread goes on; otherwise it belongs to the
//! worker.
//!
//! ```text
//! json          the bytes as events, one at a time
//! value         values that are kept
//! head          what a file says besides its events
//! event         the parts of an event that matter
//! trace         what a file says, gathered
//! names         names of collectives and kernels
//! collectives   launches and runs as calls
//! losses        what is missing or uncertain
//! fill          the files as a run
//! ```

mod collectives;
mod event;
mod fill;
mod head;
mod json;
mod losses;
mod names;
mod trace;
mod value;

use crate::import::error::ImportError;
use crate::import::start;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use fill::read;

/// More ranks than any program has.
const MOST_RANKS: u64 = 1 << 20;

/// First bytes of a gzip file.
pub(crate) const GZIP: &[u8] = b"\x1f\x8b";

/// Whether a file that starts with these bytes is such a trace, packed or not.
pub(crate) fn is_trace(first: &[u8]) -> bool {
    if first.starts_with(GZIP) {
        let mut inner = Vec::new();
        // The start of a packed file ends anywhere, which is no error here.
        let _ = MultiGzDecoder::new(first)
            .take(start::LOOK)
            .read_to_end(&mut inner);
        return is_json(&inner);
    }
    is_json(first)
}

/// Whether a text names at least two of the fields: the process groups of a large program may fill
/// the rest of it.
fn is_json(start: &[u8]) -> bool {
    const FIELDS: [&[u8]; 4] = [
        b"\"schemaVersion\"",
        b"\"distributedInfo\"",
        b"\"baseTimeNanoseconds\"",
        b"\"traceEvents\"",
    ];
    let found = FIELDS
        .into_iter()
        .filter(|field| memchr::memmem::find(start, field).is_some());
    start.trim_ascii_start().starts_with(b"{") && found.count() >= 2
}

/// The traces in a directory, by name.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn of_directory(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(ImportError::io(path))? {
        let file = entry.map_err(ImportError::io(path))?.path();
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let is_named = name.is_some_and(|n| n.ends_with(".json") || n.ends_with(".json.gz"));
        if is_named && file.is_file() && is_trace(&start::of_file(&file)?) {
            found.push(file);
        }
    }
    found.sort();
    Ok(found)
}
