//! The protocol of a switch: the [`Controller`] says who runs next, an [`Agent`] on each node carries it out.
//!
//! Both are state machines: an [`Event`] with the time at which it came gives [`Action`]s. Moments are those of one clock that all
//! nodes agree on but for an error (`crates/clock` fits it). What is carried out elsewhere is carried out in the
//! order of its actions, and a [`Notice`] says that it is done.
//!
//! A switch (docs/design/0016): PREPARE, stop at a moment, drain, freeze, READY; SWITCH, change the context, thaw at a moment,
//! RUNNING. Or ABORT in place of SWITCH. Orders go down a tree of nodes, answers are added up along it.
//!
//! Sources: the phases are those of Hori, Tezuka and Ishikawa, *Overhead Analysis of Preemptive Gang Scheduling* (JSSPP 1998);
//! the point of no return is that of two-phase commit, the end of waiting for a lost node is a lease (Gray and
//! Cheriton, *Leases*, SOSP 1989).

mod agent;
mod agent_local;
mod agent_orders;
mod controller;
mod event;
mod gather;
mod ids;
mod message;
mod nodes;
mod tally;

pub use agent::{Agent, AgentSettings};
pub use controller::{Controller, ControllerSettings};
pub use event::{Action, Event, Notice, Outcome, Report, Timer};
pub use ids::{Epoch, Peer, Slot};
pub use message::{Command, Message, Order, Question, Why};
pub use nodes::{Nodes, Roster};
pub use tally::{Phases, Tally};
