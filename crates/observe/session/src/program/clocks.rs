//! Comparisons of this node's clock with those of other nodes, made by the program's ranks.

use crate::SessionError;
use idlewave_sys::files;
use idlewave_units::Rank;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// One exchange of a rank with the first rank of another node: the quickest of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockExchange {
    /// The rank on this node.
    pub rank: Rank,
    /// The rank on the other node.
    pub peer: Rank,
    /// When this rank sent, CLOCK_MONOTONIC nanoseconds of this node.
    pub sent_ns: u64,
    /// When it received the answer, likewise.
    pub received_ns: u64,
    /// When the peer answered, CLOCK_MONOTONIC nanoseconds of its node.
    pub peer_ns: u64,
}

/// A longer file counts as damaged.
const LONGEST: u64 = 1 << 30;

fn file(bundle: &Path) -> PathBuf {
    bundle.join("clocks.json")
}

/// The comparisons in a node's bundle, in order of time; none for a single node.
///
/// # Errors
/// The file cannot be read.
pub fn clock_exchanges(bundle: &Path) -> Result<Vec<ClockExchange>, SessionError> {
    let path = file(bundle);
    let text = match files::read_text(&path, LONGEST) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(SessionError::io("read", path)(e)),
    };
    serde_json::from_str(&text).map_err(|e| SessionError::io("read", path)(e.into()))
}

/// Writes the comparisons, or no file if there are none.
pub(super) fn write(bundle: &Path, exchanges: &[ClockExchange]) -> Result<(), SessionError> {
    if exchanges.is_empty() {
        return Ok(());
    }
    let path = file(bundle);
    let text = serde_json::to_string_pretty(exchanges)
        .map_err(|e| SessionError::io("encode", &path)(e.into()))?;
    files::replace(&path, (text + "\n").as_bytes()).map_err(SessionError::io("write", &path))
}
