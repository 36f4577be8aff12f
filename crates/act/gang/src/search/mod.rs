//! Every state of small configurations: the product of controller, agents, nodes, network and
//! faults.
//!
//! [`World`] holds the real state machines, the messages under way, timers, and what nodes were
//! told to do. A [`Move`] is one thing that can happen next: a message that comes, is lost, doubled
//! or late, a timer, something done or failed on a node, a crash, time. [`explore`] takes all moves
//! from every state, depth first (the states visited are those of a breadth-first walk, the memory
//! is that of one path), and checks in each:
//!
//! - S1: among nodes that are coordinated, no two gangs run at once.
//! - S2: epochs only rise, per agent.
//! - S3: no epoch is both carried out and aborted, anywhere.
//! - S4: at the horizon, by when all faults are over for long, everything is settled: coordinated
//!   nodes run one and the same gang, all others have everything thawed. Time cannot pass a message
//!   or a timer that is due, so every path gets there; and a switch asked for then succeeds on all
//!   nodes that are up.
//! - S5: SWITCH is said only when all were ready, and as much was received as was sent.
//!
//! States are told apart by a hash of 64 bits: of 10^7 states, two are taken for one with
//! probability 3e-6.

mod check;
mod explore;
mod moves;
mod world;

pub use explore::{Found, explore, walk};
pub use moves::Move;
pub use world::{Faults, Shape, World};
