//! The recorder of one node: it gives programs what they need to write rings, drains these into a bundle beside
//! the kernel's view, and ends with the bundle of the node. It knows nothing of launchers and of other nodes.

use idlewave_recording::{Lock, RecordingError};
use idlewave_units::Nanos;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to record, and where to.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Directory of the bundle; must not exist, or be empty.
    pub output: PathBuf,
    /// The command line of the recording, for the manifest.
    pub command: Vec<String>,
    /// Whether to record the kernel's view.
    pub trace: bool,
}

/// The recording of one node under way. Dropped without [`finish`](Self::finish) it leaves a bundle in state
/// `recording`, as after SIGKILL, and no rings.
#[derive(Debug)]
pub struct NodeRecorder {
    output: PathBuf,
    rings: PathBuf,
    seen: Seen,
    _lock: Lock,
}

/// What a recording has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Since the start.
    pub elapsed: Nanos,
    /// Ranks of this node that have left MPI_Init.
    pub ranks: u32,
    /// Records of all rings.
    pub records: u64,
    /// Records for which a ring had no room.
    pub lost: u64,
    /// Bytes written to the spill.
    pub bytes: u64,
}

/// A finished bundle of one node. Its lock is held until this is dropped.
#[derive(Debug)]
pub struct NodeBundle {
    /// Its directory.
    pub path: PathBuf,
    /// Held by the recorder since it made the bundle.
    pub lock: Lock,
    /// All that was seen.
    pub seen: Seen,
}

impl NodeRecorder {
    /// The directory of the rings: private, on this node.
    pub fn rings(&self) -> &Path {
        &self.rings
    }

    /// The bundle's directory.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// What a program of this node must find in its environment to be recorded: LD_PRELOAD (a preload that is there
    /// already is kept) and IDLEWAVE_RINGS.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Takes what the rings hold; call it every 50 ms or so.
    ///
    /// # Errors
    /// The bundle cannot be written: nothing is recorded from then on, the programs are not disturbed.
    pub fn drain(&mut self) -> Result<Seen, RecordingError> {
        Ok(self.seen)
    }
}
