//! What this process may record here, and how to be allowed the rest.
//!
//! Asked before a run to choose how the kernel's view is taken, and stored in the manifest so that
//! every report says what was missing, why, and which command would allow it. Nothing of the
//! machine is changed. Sources: capabilities(7), perf_event_open(2), Documentation/trace/ftrace.rst
//! of the kernel.

mod probe;
mod process;

#[cfg(test)]
mod tests;

pub use probe::{Capabilities, capabilities};
