//! What the ranks of a gang were seen to do.
//!
//! Rules for a reader, without which verdicts mean nothing:
//!
//! - Each rank has an *epoch*, odd while its record is being written (a seqlock). The epochs of all
//!   ranks on all nodes are read first, then all records, then all epochs again. A rank whose epoch
//!   changed counts as computing: it moved.
//! - A rank counts a message as sent before the message can be received, and as received in the
//!   same write that ends the wait for it.
//! - A send that completes by itself (eager, or buffered) is [`Doing::Computing`], not a wait.

use idlewave_units::Rank;
use std::fmt;

/// Ranks and their communicators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By rank of the world.
    pub ranks: Vec<RankState>,
    /// By number; requests and counters refer to the third as `communicator: 2`.
    pub communicators: Vec<Communicator>,
    /// For how many successive snapshots a rank must have polled for the same before it counts as
    /// waiting; 0 trusts the first one.
    pub polls: u32,
}

/// A communicator's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    /// Ranks of the world, each once.
    pub members: Vec<Rank>,
}

/// The state of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankState {
    /// Its epoch before and after the read. For a process that was killed, perhaps while writing,
    /// two equal even numbers.
    pub epochs: [u64; 2],
    /// Whether it waits, and for what. A rank stopped by gang switching keeps its earlier state.
    pub doing: Doing,
    /// Messages sent so far, ordered by (communicator, peer, tag); peers without any may be
    /// omitted.
    pub sent: Vec<Count>,
    /// Messages received so far, in the same order.
    pub received: Vec<Count>,
    /// The last collective entered per communicator, ordered by communicator; omitted if none.
    pub entered: Vec<Entered>,
    /// Posted receives that are not part of the present wait.
    pub posted: Posted,
}

impl RankState {
    /// Whether its record changed, or was being written, during the read: it was running.
    pub fn moved(&self) -> bool {
        self.epochs[0] != self.epochs[1] || self.epochs[0] % 2 == 1
    }
}

/// A number of messages to or from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// Number of the communicator.
    pub communicator: u32,
    /// The other rank, in the world.
    pub peer: Rank,
    /// `None`: over all tags, because tags are not recorded.
    pub tag: Option<i32>,
    /// Number since the start.
    pub messages: u64,
}

/// A rank's progress in the collectives of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Number of the communicator.
    pub communicator: u32,
    /// Collectives entered so far; also the number of the last one, counted from 1.
    pub number: u64,
    /// The last one.
    pub kind: Collective,
}

/// Posted receives outside the present wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// All of them.
    Known(Vec<Receive>),
    /// Not recorded: then no send to this rank counts as dead.
    Unknown,
}

/// The number of the blocking call in the recorder's list of calls, passed through.
pub type Call = u16;

/// The activity of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Anything that may complete without other ranks.
    Computing,
    /// Inside a call that returns only when its wait ends.
    Blocked {
        /// The call.
        call: Call,
        /// What it waits for.
        wait: Wait,
    },
    /// In a loop of tests. The loop may have another exit, so a verdict based on this is a
    /// suspicion.
    Polling {
        /// The call.
        call: Call,
        /// What the test checks.
        wait: Wait,
        /// Number of successive snapshots with the same call and unchanged counters.
        unchanged: u32,
    },
    /// Gone: it will never send or enter anything.
    Exited,
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One request (blocking calls).
    One(Request),
    /// All of them (`MPI_Waitall`, `MPI_Sendrecv`); empty returns at once.
    All(Vec<Request>),
    /// At least one (`MPI_Waitany`, `MPI_Waitsome`); empty returns at once.
    Any(Vec<Request>),
}

impl Wait {
    /// Its requests.
    pub fn requests(&self) -> &[Request] {
        match self {
            Wait::One(request) => std::slice::from_ref(request),
            Wait::All(requests) | Wait::Any(requests) => requests,
        }
    }
}

/// One awaited event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A message from a peer.
    Receive(Receive),
    /// A peer's receive for a message of ours.
    Send(Send),
    /// The other members of a collective.
    Collective {
        /// Number of the communicator.
        communicator: u32,
        /// Number of the collective in this communicator, from 1.
        number: u64,
        /// Its kind.
        kind: Collective,
    },
    /// Something that no rank of the gang sends: input, a licence, a partner outside.
    Outside,
}

/// A receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receive {
    /// Number of the communicator.
    pub communicator: u32,
    /// The sender, as a rank of the world; `None`: any member.
    pub from: Option<Rank>,
    /// The tag; `None`: any, or not recorded.
    pub tag: Option<i32>,
}

/// A send that completes only when the peer has a matching receive (rendezvous, or synchronous
/// mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Number of the communicator.
    pub communicator: u32,
    /// The receiver, as a rank of the world.
    pub to: Rank,
    /// The tag; `None`: not recorded.
    pub tag: Option<i32>,
    /// Number of the message, from 1, among those to this peer with this communicator and tag
    /// (without recorded tags: with this communicator).
    pub number: u64,
}

/// Collectives, by the members that must have entered before a rank may leave.
///
/// Where the standard allows a rank to leave early, this is the least it must wait for, whatever
/// tree an implementation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// `MPI_Barrier`: no rank leaves before all have entered.
    Barrier,
    /// All need data from all: `Allreduce`, `Allgather`, `Alltoall`, `Reduce_scatter`,
    /// `Comm_split`. The number distinguishes them.
    AllToAll(u16),
    /// All need data from the root: `Bcast`, `Scatter`.
    FromRoot {
        /// Distinguishes them.
        which: u16,
        /// The root, as a rank of the world.
        root: Rank,
    },
    /// The root needs data from all: `Reduce`, `Gather`.
    ToRoot {
        /// Distinguishes them.
        which: u16,
        /// The root, as a rank of the world.
        root: Rank,
    },
    /// Anything else (`Scan`, neighbourhoods): it may complete without other ranks, as far as is
    /// known.
    Other(u16),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Receive(r) => {
                match r.from {
                    Some(from) => write!(f, "a message from rank {from}")?,
                    None => write!(f, "a message from anyone")?,
                }
                if let Some(tag) = r.tag {
                    write!(f, " with tag {tag}")?;
                }
                write!(f, " on communicator {}", r.communicator)
            }
            Request::Send(s) => {
                write!(f, "rank {} to receive", s.to)?;
                if let Some(tag) = s.tag {
                    write!(f, " tag {tag}")?;
                }
                write!(f, " on communicator {}", s.communicator)
            }
            Request::Collective {
                communicator,
                number,
                kind,
            } => write!(
                f,
                "collective {number} of communicator {communicator} ({kind})"
            ),
            Request::Outside => write!(f, "something outside the job"),
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Collective::Barrier => write!(f, "barrier"),
            Collective::AllToAll(n) => write!(f, "all to all, call {n}"),
            Collective::FromRoot { which, root } => write!(f, "from root {root}, call {which}"),
            Collective::ToRoot { which, root } => write!(f, "to root {root}, call {which}"),
            Collective::Other(n) => write!(f, "call {n}"),
        }
    }
}
