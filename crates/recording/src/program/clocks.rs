//! Comparisons of this node's clock with others', as the program's ranks made them.

use crate::RecordingError;
use idlewave_units::Rank;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One exchange of a rank with the first rank of another node: the quickest of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockExchange {
    /// The rank on this node.
    pub rank: Rank,
    /// The rank on the other.
    pub peer: Rank,
    /// When this rank sent, CLOCK_MONOTONIC nanoseconds of this node.
    pub sent_ns: u64,
    /// When it had the answer, likewise.
    pub received_ns: u64,
    /// When the peer answered, CLOCK_MONOTONIC nanoseconds of its node.
    pub peer_ns: u64,
}

fn file(bundle: &Path) -> PathBuf {
    bundle.join("clocks.json")
}

/// The comparisons in a node's bundle, in order of time; none if it was alone.
///
/// # Errors
/// The file cannot be read.
pub fn clock_exchanges(bundle: &Path) -> Result<Vec<ClockExchange>, RecordingError> {
    let path = file(bundle);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(RecordingError::io("read", path)(e)),
    };
    serde_json::from_str(&text).map_err(|e| RecordingError::io("read", path)(e.into()))
}

/// Writes them; no file where there are none.
pub(super) fn write(bundle: &Path, exchanges: &[ClockExchange]) -> Result<(), RecordingError> {
    if exchanges.is_empty() {
        return Ok(());
    }
    let path = file(bundle);
    let text = serde_json::to_string_pretty(exchanges)
        .map_err(|e| RecordingError::io("encode", &path)(e.into()))?;
    fs::write(&path, text + "\n").map_err(RecordingError::io("write", &path))
}
