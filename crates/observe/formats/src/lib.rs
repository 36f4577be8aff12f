//! Traces of other tools.
//!
//! [`import`] reads a foreign trace into a run bundle, [`export`] writes a run for a foreign
//! viewer. One module per format; each streams, and whatever a format cannot hold is entered into a
//! loss ledger. [`steps`] reads times of a computation that all ranks of any program repeat.

pub mod export;
pub mod import;
mod otf2;
mod prv;
pub mod steps;
mod wire;
