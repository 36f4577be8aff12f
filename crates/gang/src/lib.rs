//! Gang switching, what decides: no I/O, no threads, no clock, no random numbers of its own (docs/design/0016).
//!
//! [`matrix`] says which gangs run together, [`policy`] which of these rows comes next and for how long, [`state`] whether a gang can
//! still move.

pub mod matrix;
pub mod policy;
pub mod state;
