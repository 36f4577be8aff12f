//! Foreign traces as runs.
