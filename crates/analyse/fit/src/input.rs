//! The input of a fit: events of sources, and the time for which they were watched.

use idlewave_run::SourceKind;
use idlewave_stats::line::Line;

/// Events of all sources with the time for which they were watched.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Their origin, for display.
    pub about: String,
    /// CPUs of a node; at least 1.
    pub cpus_per_node: u32,
    /// Whether times on different CPUs of a node come from one clock.
    pub common_clock: bool,
    /// The sources.
    pub sources: Vec<SourceEvents>,
    /// CPU time watched, nanoseconds.
    pub watched_ns: u64,
    /// Reasons to doubt the model, as sentences.
    pub warnings: Vec<String>,
    /// Notes for the result, as sentences.
    pub notes: Vec<String>,
}

/// Events of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceEvents {
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// Share of its speed that a CPU keeps during an event, 0 or more and less than 1.
    pub keeps: f64,
    /// A line per watched CPU, including those without events.
    pub lines: Vec<Line>,
}
