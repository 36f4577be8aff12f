//! The switch protocol: the [`Controller`] decides which slot runs next, and an [`Agent`] on each
//! node carries it out.
//!
//! Both are state machines: an [`Event`] with its arrival time yields [`Action`]s. Times are those
//! of one clock on which all nodes agree up to an error (`crates/base/clock` fits it). Actions are
//! executed elsewhere, in order, and a [`Notice`] reports completion.
//!
//! A switch (docs/design/0016): PREPARE, stop at a set time, drain, freeze, READY; SWITCH, switch
//! the context, thaw at a set time, RUNNING. Or ABORT instead of SWITCH. Orders go down a tree of
//! nodes, and answers are added up on the way back.
//!
//! Sources: the phases are those of Hori, Tezuka and Ishikawa, *Overhead Analysis of Preemptive
//! Gang Scheduling* (JSSPP 1998); the point of no return is that of two-phase commit, and waiting
//! for a lost node ends with a lease (Gray and Cheriton, *Leases*, SOSP 1989).

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
pub use message::{Command, Message, Order, Question};
pub use nodes::{Nodes, Roster};
pub use tally::{Phases, Tally, Why};
