//! Foreign traces as runs.

pub mod perfetto;
