//! Gang switching on real nodes: the [`Center`] (the controller with its desk and its control socket) and a [`Node`] on each node.
//!
//! Everything that decides is pure and elsewhere (`idlewave-gang`), or pure and in `desk`. What acts is `idlewave-freeze`. This crate carries
//! between them: sockets, timers, processes found by their marks. Both ends are one thread that sleeps in one place, so that it may have
//! real-time priority without keeping a CPU.

mod center;
mod clients;
mod common_clock;
mod contexts;
pub mod control;
mod courier;
mod desk;
mod fault;
mod guard;
mod held;
pub mod marked;
mod mover;
mod network;
mod node;
#[cfg(test)]
mod node_tests;
mod parcel;
mod scout;
mod service;
#[cfg(test)]
mod slurm_tests;
mod tallies;
#[cfg(test)]
mod testing;
mod wait;
mod witness;

pub use center::{Center, CenterSettings, Note};
pub use clients::{Clients, Control};
pub use contexts::{
    ContextSeen, ContextSpec, Copying, DeviceKey, DeviceSpec, MOST_RANKS, Waiting, What, ticket_of,
};
pub use courier::{Courier, Post};
pub use desk::{DeskError, DeskSettings};
pub use guard::Guard;
pub use held::Gangs;
pub use node::{Node, NodeNote, NodeSettings};
pub use parcel::{Mark, Parcel, ParcelError, Place, Seen, Spec, State};
pub use service::{
    CenterOptions, NodeOptions, ServiceError, Trust, check_unserved, own_user, serve_center,
    serve_node,
};
pub use tallies::PHASES;
pub use wait::wait;
