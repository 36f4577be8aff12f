//! Every state of small configurations: the product of controller, agents, nodes, network and
//! faults.
//!
//! [`World`] holds the real state machines, the messages in flight, timers, and the pending tasks
//! of nodes. A [`Move`] is one thing that can happen next: a message arrives, is lost, duplicated
//! or delayed; a timer fires; an action on a node completes or fails; something crashes; time
//! passes. [`explore`] takes all moves from every state, depth first (it visits the same states as
//! a breadth-first search, but keeps full states only along one path), and checks in each:
//!
//! - S1: among nodes that are coordinated, no two gangs run at once.
//! - S2: epochs only rise, per agent.
//! - S3: no epoch is both carried out and aborted, anywhere.
//! - S4: at the horizon, long after the last fault, everything is settled: coordinated nodes run
//!   one and the same gang, all others have everything thawed. Time cannot pass a message or a
//!   timer that is due, so every path gets there. A switch requested then succeeds on all nodes
//!   that are up.
//! - S5: SWITCH is sent only when all nodes were ready and, after draining, had received as many
//!   messages as were sent.
//!
//! States are told apart by a 64-bit hash: among 10^7 states, the probability of a collision is
//! 3e-6.

mod check;
mod explore;
mod moves;
mod world;

pub use explore::{Found, explore, walk};
pub use moves::Move;
pub use world::{Faults, Shape, World};
