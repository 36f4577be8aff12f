//! Ranks as processes of an MPI job, with the site's library.
//!
//! [`MpiFabric`] maps every operation of [`Fabric`](crate::Fabric) to one of MPI: point-to-point
//! messages to `MPI_Isend` and `MPI_Irecv`, collectives to their non-blocking forms. Waits are
//! loops over `MPI_Test`, so that the hook runs on every iteration; with
//! [`Waits::Blocking`](crate::Waits::Blocking) they are the blocking calls.

mod collectives;
mod fabric;
mod job;
mod operation;

pub use fabric::MpiFabric;
pub use job::{Job, ThreadLevel};
pub use operation::{Receiving, Sending};
