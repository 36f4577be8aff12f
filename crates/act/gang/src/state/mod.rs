//! The global state of a gang from what its ranks wait for: deadlocked, idle, terminated, or making
//! progress.
//!
//! Data flow: a node's agent reads a [`Snapshot`] from the recorder's shared state, preferably
//! while the gang is frozen, and [`judge`] derives the verdict. The policy then gives the slice of
//! a gang that cannot move to others, and users see which rank waits for which.
//!
//! The model is the wait-for graph with AND and OR nodes: K. M. Chandy, J. Misra, L. M. Haas,
//! "Distributed deadlock detection", ACM TOCS 1(2), 1983 (AND waits deadlock in cycles, OR waits in
//! knots); T. Hilbrich, B. R. de Supinski, M. Schulz, M. S. Mueller, "A graph based approach for
//! MPI deadlock detection", ICS 2009 (the waits of MPI; the tool MUST). Counting sent and received
//! messages instead of observing the network: F. Mattern, "Algorithms for distributed termination
//! detection", Distributed Computing 2, 1987.
//!
//! A rank is *live* if it computes, or if what it waits for can come: the message is in flight, the
//! sender is live, the late members of the collective are live. This is the least fixpoint; a
//! blocked rank outside it is *dead*: only dead ranks could wake it, and none of them ever will. A
//! live rank is assumed to be able to do anything. So the verdict never names a rank that can move,
//! whatever the program does next, but may miss one that cannot. It misses
//!
//! - messages that nobody will receive with that tag, where tags are not recorded;
//! - a message that an earlier posted receive outside the wait has taken;
//! - a message for which a wildcard in a set of several requests competes with others;
//! - what a live rank will never do (the verdict does not look at the program's future).
//!
//! Time is linear in ranks, requests, counters and memberships (times the logarithm of a rank's
//! counters). The search for the smallest cycle has a budget, and reports when that ran out.

mod cause;
mod counts;
mod graph;
mod groups;
mod judge;
mod live;
mod needs;
mod snapshot;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod verdict;

pub use judge::judge;
pub use snapshot::{
    Call, Collective, Communicator, Count, Doing, Entered, Posted, RankState, Receive, Request,
    Send, Snapshot, Wait,
};
pub use verdict::{Cause, Deadlock, Link, Mismatch, Problem, State, Verdict};
