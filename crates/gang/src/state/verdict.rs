//! What follows from a snapshot.

use super::snapshot::{Call, Collective, Request};
use idlewave_units::Rank;
use std::fmt;

/// The state of a gang, with what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The state.
    pub state: State,
    /// Whether any rank moves before something comes from outside. Without, the gang's slice is of no use to it.
    pub moves: bool,
    /// Members that entered different collectives under one number. The standard forbids it; those who wait in one are taken not to return.
    pub mismatches: Vec<Mismatch>,
}

/// The state of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All ranks have exited.
    Terminated,
    /// Some rank moves and none is dead, as far as is known.
    Progressing,
    /// All wait, in the end for something outside, and nothing is under way.
    Idle {
        /// Ranks that wait for something outside.
        outside: Vec<Rank>,
    },
    /// Some ranks wait for what never comes.
    Deadlocked(Deadlock),
    /// The snapshot contradicts itself, so nothing follows from it.
    Unknown(Problem),
}

/// Ranks that will never move again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// All of them, in order. Those that wait for the cause are among them.
    pub ranks: Vec<Rank>,
    /// What holds them.
    pub cause: Cause,
    /// Whether a rank that polls is among them: then the verdict holds if that loop has no other way out.
    pub polling: bool,
}

/// The core of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Each waits for the next, the last one for the first.
    Cycle {
        /// In order; it starts at the lowest rank.
        links: Vec<Link>,
        /// Whether it is known that no shorter one exists; otherwise the search ended at its budget.
        smallest: bool,
    },
    /// Each waits for any of several, and these are all of the same set.
    Knot {
        /// Who waits for whom inside the set, in order of ranks. Of many that one rank waits for, the
        /// first 16; some thousand in all.
        links: Vec<Link>,
    },
    /// A rank waits for one that has exited (or for nobody).
    Exited {
        /// Who waits for whom; `None` for a communicator of which nobody else is left.
        waits: Link,
    },
    /// None of these; the list of ranks holds all the same.
    Unnamed,
    /// A rank waits in a collective in which another one entered something else; see [`Verdict::mismatches`].
    Mismatch {
        /// Who waits for whom.
        waits: Link,
    },
}

/// One rank that waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who waits.
    pub from: Rank,
    /// In which call.
    pub call: Call,
    /// For what.
    pub request: Request,
    /// For whom. `None`: nobody is left who could.
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

/// Why nothing follows from a snapshot. Fits "failed to ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// More messages received than sent, while neither side moved.
    #[error(
        "read the state: rank {to} has received {received} messages of {sent} that rank {from} has sent"
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
        /// Whose.
        rank: Rank,
    },
    /// A communicator that was not given.
    #[error("read the state: rank {rank} names communicator {communicator}, of {given}")]
    Communicator {
        /// Who names it.
        rank: Rank,
        /// Its number.
        communicator: u32,
        /// Communicators given.
        given: usize,
    },
    /// A rank that was not given.
    #[error("read the state: rank {named} is named, of {given}")]
    Rank {
        /// Its number.
        named: Rank,
        /// Ranks given.
        given: usize,
    },
    /// A rank waits in a collective that it has not entered.
    #[error(
        "read the state: rank {rank} waits in collective {number} of communicator {communicator}, and has entered {entered}"
    )]
    NotEntered {
        /// Who waits.
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
            None => write!(f, ": nobody is left"),
        }
    }
}
