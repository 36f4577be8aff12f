//! The kernel's tracer, in an instance of our own: own buffers, own clock, own set of events.
//!
//! Nothing outside the instance is touched, and every way out removes it: stopping, dropping, and after
//! SIGKILL the next start. Sources: kernel documentation `trace/ftrace.rst` (instances, per_cpu,
//! tracing_cpumask) and `trace/events.rst` (filters).

mod cost;
mod error;
mod instance;
mod locate;
mod reader;
mod session;

pub use error::TraceError;
pub use instance::{Instance, clean_stale};
pub use locate::Tracefs;
pub use session::{TraceConfig, TraceSession, TraceSummary};
