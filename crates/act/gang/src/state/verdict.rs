//! Verdicts on snapshots.

use super::snapshot::{Call, Collective, Request};
use idlewave_units::Rank;
use std::fmt;

/// The state of a gang, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The state.
    pub state: State,
    /// Whether any rank moves before an external event. If not, the gang cannot use its slice.
    pub moves: bool,
    /// Members that entered different collectives under one number. The standard forbids it; ranks
    /// that wait in one are assumed not to return.
    pub mismatches: Vec<Mismatch>,
}

/// The state of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All ranks have exited.
    Terminated,
    /// Some rank moves and none is dead, as far as is known.
    Progressing,
    /// All wait, ultimately for external events, and nothing is in flight.
    Idle {
        /// Ranks that wait for external events.
        outside: Vec<Rank>,
    },
    /// Some ranks wait for something that never comes.
    Deadlocked(Deadlock),
    /// The same, if the polling ranks among them have no other exit from their loops, such as a
    /// file that they also check. If the polling ranks can continue, no rank is known to be dead.
    Suspected(Deadlock),
    /// The snapshot contradicts itself, so there is no verdict.
    Unknown(Problem),
}

/// Ranks that will never move again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// All of them, in order, including those that only wait for ranks of the cause.
    pub ranks: Vec<Rank>,
    /// Their cause.
    pub cause: Cause,
}

impl State {
    /// Ranks that wait for something that never comes, certainly or as far as is known.
    pub fn dead(&self) -> Option<&Deadlock> {
        match self {
            State::Deadlocked(deadlock) | State::Suspected(deadlock) => Some(deadlock),
            State::Terminated | State::Progressing | State::Idle { .. } | State::Unknown(_) => None,
        }
    }
}

/// The core of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Each waits for the next, the last one for the first.
    Cycle {
        /// In order, starting at the lowest rank.
        links: Vec<Link>,
        /// Whether it is known to be the shortest; otherwise the search ended at its budget.
        smallest: bool,
    },
    /// Each waits for any of several others, all in the same set.
    Knot {
        /// The waits inside the set, in rank order. At most 16 per rank, about a thousand in all.
        links: Vec<Link>,
    },
    /// A rank waits for one that has exited (or for none).
    Exited {
        /// The wait; `None` for a communicator with no other member left.
        waits: Link,
    },
    /// None of these; the list of ranks is valid nevertheless.
    Unnamed,
    /// A rank waits in a collective while another one entered a different one; see
    /// [`Verdict::mismatches`].
    Mismatch {
        /// The wait.
        waits: Link,
    },
}

/// One rank that waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The waiting rank.
    pub from: Rank,
    /// The call in which it waits.
    pub call: Call,
    /// What it waits for.
    pub request: Request,
    /// The rank it waits for. `None`: no rank is left that could.
    pub to: Option<Rank>,
}

/// Two members of a communicator in different collectives with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Number of the communicator.
    pub communicator: u32,
    /// Number of the collective.
    pub number: u64,
    /// One member, and what it entered.
    pub one: (Rank, Collective),
    /// Another member, and what it entered.
    pub other: (Rank, Collective),
}

/// Why there is no verdict on a snapshot. Fits "failed to ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// More messages received than sent, while neither side moved.
    #[error(
        "read the state: rank {to} has received {received} of the {sent} messages that rank {from} has sent"
    )]
    Counts {
        /// The sender.
        from: Rank,
        /// The receiver.
        to: Rank,
        /// Sent.
        sent: u64,
        /// Received.
        received: u64,
    },
    /// The counters of a rank are not in order.
    #[error(
        "read the state: the counters of rank {rank} are not in the order of communicators and peers"
    )]
    Order {
        /// The rank.
        rank: Rank,
    },
    /// A communicator outside the snapshot.
    #[error(
        "read the state: rank {rank} refers to communicator {communicator}, but there are {given}"
    )]
    Communicator {
        /// The rank that refers to it.
        rank: Rank,
        /// Its number.
        communicator: u32,
        /// Communicators given.
        given: usize,
    },
    /// A rank outside the snapshot.
    #[error("read the state: it refers to rank {named}, but there are {given}")]
    Rank {
        /// Its number.
        named: Rank,
        /// Ranks given.
        given: usize,
    },
    /// A rank waits in a collective that it has not entered.
    #[error(
        "read the state: rank {rank} waits in collective {number} of communicator {communicator}, but has entered {entered}"
    )]
    NotEntered {
        /// The waiting rank.
        rank: Rank,
        /// Number of the communicator.
        communicator: u32,
        /// Number of the collective.
        number: u64,
        /// Collectives entered.
        entered: u64,
    },
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} waits for {}", self.from, self.request)?;
        match self.to {
            Some(to) => write!(f, ": rank {to}"),
            None => write!(f, ": no rank is left"),
        }
    }
}
