//! Foreign traces as runs.

pub mod paraver;
pub mod perfetto;
