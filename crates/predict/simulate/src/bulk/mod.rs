//! Bulk-synchronous programs: loops of computation and communication, the same for all ranks, under
//! noise on the wall clock.
//!
//! Place in the flow: a [`Program`] defines a step, a [`Noise`](idlewave_noise::Noise) when CPUs
//! are disturbed. [`Engine`] runs all ranks phase by phase, in whole nanoseconds. [`Record`] keeps
//! what a finish time was made of. [`schedule()`] writes the same program as single operations for
//! the LogGOPS engine; both engines agree on every rank.
//!
//! Messages cost what the LogGOPS model says, at the point where a program without a progress
//! thread pays: the sender's CPU o + (n - 1) O when it sends, the wire L + (n - 1) G, the
//! receiver's CPU o when it waits for the message.

mod collective;
mod engine;
mod exchange;
mod path;
mod program;
mod schedule;

pub use collective::{Algorithm, Collective, CollectiveError, Pattern, Round};
pub use engine::{BulkError, Ended, Engine, OneOff};
pub use path::{CriticalPath, Record};
pub use program::{Phase, Program, Wait};
pub use schedule::{NoSchedule, schedule};
