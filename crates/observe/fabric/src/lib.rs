//! Ranks that send, receive and synchronise, whatever carries their messages.
//!
//! [`Fabric`] is one rank's end. The semantics of its messages ([`PointToPoint`]) are those of MPI:
//! non-blocking operations on buffers that belong to the fabric until they are complete, order kept
//! per (source, tag), receives matched in the order they were posted. [`threads`] carries messages
//! through shared memory between threads of one process, [`mpi`] through an MPI library, [`netctx`]
//! through a node's network device.

mod collectives;
pub mod conformance;
mod error;
mod fabric;
mod mailbox;
mod matching;
mod meeting;
mod members;
pub mod mpi;
pub mod netctx;
mod nodes;
mod piece;
mod point_to_point;
pub mod threads;

pub use collectives::Reduction;
pub use error::FabricError;
pub use fabric::{Fabric, Waits};
pub use mpi::MpiFabric;
pub use nodes::Nodes;
pub use point_to_point::{Delivery, PointToPoint, Tag};
pub use threads::{Endpoint, Waiting, world};
