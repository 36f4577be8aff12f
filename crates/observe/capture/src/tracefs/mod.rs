//! The kernel's tracer, in an instance with its own buffers, clock and set of events.
//!
//! Nothing outside the instance is touched, and it is always removed: on stop, on drop, and after
//! SIGKILL by the next start. Sources: kernel documentation `trace/ftrace.rst` (instances, per_cpu,
//! tracing_cpumask) and `trace/events.rst` (filters).

mod cost;
mod error;
mod instance;
mod locate;
mod numbers;
mod reader;
mod session;

pub use error::TraceError;
pub use instance::{Instance, clean_stale};
pub use locate::Tracefs;
pub use numbers::Numbers;
pub use session::{TraceConfig, TraceSession, TraceSummary};
