//! Gang switching: several parallel jobs share nodes in time slices, each in step on all of its nodes.
//!
//! What decides, and nothing that acts: no I/O, no threads, no clock, no random numbers but from a seed (docs/design/0016).
//! [`matrix`] says which gangs run together,
//! [`policy`] which of these rows comes next and for how long,
//! [`state`] whether a gang can still move,
//! [`protocol`] how all nodes switch together,
//! [`wire`] what its messages are as bytes.
//! The same code is walked through by [`search`], played on a thousand nodes by [`sim`] and driven by the agents.

mod ids;
pub mod matrix;
pub mod policy;
pub mod protocol;
pub mod search;
pub mod sim;
pub mod state;
pub mod wire;

pub use ids::GangId;
