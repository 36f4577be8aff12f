//! Foreign traces as runs.

pub mod paraver;
