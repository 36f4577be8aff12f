//! The parts of a trace.dat, whatever its version.

use crate::import::kernel::events::Events;
use idlewave_ftrace::{CpuStats, PageSheet, Scale};
use idlewave_run::Ledger;
use idlewave_units::{Cpu, Pid};

/// How the sub-buffers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Zlib,
    Zstd,
}

/// Where the sub-buffers of one CPU are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) cpu: Cpu,
    /// Bytes from the start of the file.
    pub(crate) offset: u64,
    /// Bytes in the file.
    pub(crate) size: u64,
}

/// The sub-buffers of one ring buffer: of the kernel's own, or of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffer {
    /// Empty for the kernel's own.
    pub(crate) name: String,
    /// The clock of its stamps, if named.
    pub(crate) clock: Option<String>,
    /// Size of a sub-buffer, if named.
    pub(crate) page_size: Option<u32>,
    pub(crate) packed: bool,
    pub(crate) extents: Vec<Extent>,
}

impl Buffer {
    pub(crate) fn bytes(&self) -> u64 {
        self.extents.iter().map(|e| e.size).sum()
    }
}

/// What the options of a file say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) clock: Option<String>,
    pub(crate) uname: Option<String>,
    pub(crate) stats: Vec<CpuStats>,
    pub(crate) scale: Option<Scale>,
    /// Process of each thread.
    pub(crate) processes: Vec<(Pid, Pid)>,
    pub(crate) guest: bool,
}

/// A trace.dat without its sub-buffers.
#[derive(Clone, Debug)]
pub struct Head {
    /// How to decode the sub-buffers.
    pub(crate) sheet: PageSheet,
    pub(crate) packing: Packing,
    /// Where the sub-buffers are.
    pub(crate) extents: Vec<Extent>,
    /// The clock of the stamps: `local` where the file names none.
    pub clock: String,
    /// `uname -a`, as far as recorded.
    pub uname: Option<String>,
    /// Version of the file: 6 or 7.
    pub version: u32,
    /// What is not used.
    pub losses: Ledger,
}

/// Everything that the two versions store, each in its own way.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) version: u32,
    pub(crate) little: bool,
    pub(crate) page_size: u32,
    pub(crate) header_page: Option<String>,
    pub(crate) events: Events,
    pub(crate) names: Vec<(Pid, String)>,
    pub(crate) told: Told,
    pub(crate) packing: Packing,
    pub(crate) buffers: Vec<Buffer>,
}
