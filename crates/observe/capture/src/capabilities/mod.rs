//! What this process may record here, and which commands would allow the rest.
//!
//! Checked before a run to choose the source of the kernel's view, and stored in the manifest so
//! that every report says what was missing, why, and which command would allow it. Nothing on the
//! machine is changed. Sources: capabilities(7), perf_event_open(2), Documentation/trace/ftrace.rst
//! of the kernel.

mod probe;
mod process;

#[cfg(test)]
mod tests;

pub use probe::{Capabilities, capabilities};
