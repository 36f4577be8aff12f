//! Gang switching: several parallel jobs share nodes in time slices, each running on all of its
//! nodes at once.
//!
//! Decisions only, no actions: no I/O, no threads, no clock, random numbers only from a seed
//! (docs/design/0016). [`matrix`] holds which gangs run together, [`policy`] which of these rows is
//! next and for how long, [`state`] whether a gang can still make progress, [`protocol`] how all
//! nodes switch together, and [`wire`] the byte form of its messages. [`search`] explores the same
//! code exhaustively, [`sim`] runs it on a thousand nodes, and the agents drive it.

mod ids;
pub mod matrix;
pub mod policy;
pub mod protocol;
pub mod search;
pub mod sim;
pub mod state;
pub mod wire;

pub use ids::GangId;
