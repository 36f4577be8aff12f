//! Gang switching on real nodes: the [`Center`] (the controller with its desk and control socket)
//! and a [`Node`] on each node.
//!
//! All decisions are pure, in `idlewave-gang` or in `desk`; `idlewave-freeze` acts. This crate
//! connects them: sockets, timers, processes found by their marks. Both ends are one thread that
//! sleeps in one place, so real-time priority does not occupy a CPU.

mod budget;
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
pub mod prometheus;
mod scout;
mod seat;
mod service;
#[cfg(test)]
mod slurm_tests;
mod tallies;
#[cfg(test)]
mod testing;
mod ticket;
mod wait;
mod witness;

pub use center::{Center, CenterSettings, Note};
pub use clients::{Clients, Control};
pub use contexts::{
    ContextSeen, ContextSpec, Copying, DeviceKey, DeviceSpec, MOST_RANKS, Waiting, What,
};
pub use courier::{Courier, Post};
pub use desk::{DeskError, DeskSettings};
pub use guard::Guard;
pub use held::Gangs;
pub use node::{Node, NodeNote, NodeSettings};
pub use parcel::{Mark, Parcel, ParcelError, Place, Seen, Spec, State};
pub use seat::Seat;
pub use service::{
    CenterOptions, NodeOptions, ServiceError, Trust, serve_center, serve_node, take_seat,
};
pub use tallies::PHASES;
pub use ticket::ticket_of;
pub use wait::wait;
