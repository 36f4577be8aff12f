//! The result of decoding a trace.

use crate::MarkerLine;
use idlewave_run::Ledger;
use idlewave_units::CpuSet;

/// The result of decoding a capture. The caller must enter the losses into the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the losses belong into the manifest's ledger"]
pub struct DecodeSummary {
    /// CPUs decoded.
    pub cpus: u32,
    /// The decoded CPUs that have events.
    pub seen: CpuSet,
    /// Sub-buffers read; 0 if the events did not come in sub-buffers.
    pub pages: u64,
    /// Events read, those of unknown kind included.
    pub events: u64,
    /// Events lost, by the ring buffer's own count.
    pub missed: u64,
    /// Rows of table `tasks`.
    pub tasks: u64,
    /// Rows of table `sources`.
    pub sources: u64,
    /// Rows of table `bursts`.
    pub bursts: u64,
    /// Rows of table `interrupts`.
    pub interrupts: u64,
    /// Rows of table `wakeups`.
    pub wakeups: u64,
    /// Rows of table `migrations`.
    pub migrations: u64,
    /// Rows of table `syscalls`.
    pub syscalls: u64,
    /// Times of the first and of the last event; `None` without events.
    pub span: Option<(u64, u64)>,
    /// Lines written to `trace_marker`, in time order; `None` if the recorder could not get them,
    /// as on kernels older than Linux 6.15.
    pub lines: Option<Vec<MarkerLine>>,
    /// Whether `stop` ended it early: the tables are valid, but cover only the start of the trace.
    pub stopped: bool,
    /// What is missing or uncertain. It is *not* in the writer's manifest yet.
    pub losses: Ledger,
}
