//! Gang switching, what decides: no I/O, no threads, no clock, no random numbers of its own (docs/design/0016).
//!
//! [`state`] says whether a gang can still move.

pub mod state;
