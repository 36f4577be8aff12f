//! What the ranks of a gang were seen to do.
//!
//! What a reader must keep to, or verdicts mean nothing:
//!
//! - Each rank has an *epoch*, odd while its record is being written (a seqlock). All first reads of epochs, of all ranks on all nodes, come before
//!   all reads of records, and those before all second reads. A rank whose epoch changed counts as computing: it moved.
//! - A rank counts a message as sent before the message can be received, and as received in the same write that ends the wait for it.
//! - A send that would end by itself (eager, or buffered) is [`Doing::Computing`], not a wait.

use idlewave_units::Rank;
use std::fmt;

/// Ranks, and the groups in which they talk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By rank of the world.
    pub ranks: Vec<RankState>,
    /// By number: requests and counters say `communicator: 2` for the third.
    pub communicators: Vec<Communicator>,
    /// For how many looks in a row a rank must have been polling for the same before it counts as blocked; 0 trusts the first look.
    pub polls: u32,
}

/// A communicator's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    /// Ranks of the world, each once.
    pub members: Vec<Rank>,
}

/// What one rank was seen to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankState {
    /// Its epoch before and after the read. Of a process that was killed, perhaps while it wrote, two equal even numbers.
    pub epochs: [u64; 2],
    /// Whether it waits, and for what. A rank that was stopped by gang switching counts by what it was doing.
    pub doing: Doing,
    /// Messages sent so far, ordered by (communicator, peer, tag); peers without any may be left out.
    pub sent: Vec<Count>,
    /// Messages received so far, ordered in the same way.
    pub received: Vec<Count>,
    /// The collective entered last, for each communicator, ordered by it; left out: none so far.
    pub entered: Vec<Entered>,
    /// Receives that are posted and not part of the present wait.
    pub posted: Posted,
}

impl RankState {
    /// Whether its record changed, or was being written, during the read: then it ran.
    pub fn moved(&self) -> bool {
        self.epochs[0] != self.epochs[1] || self.epochs[0] % 2 == 1
    }
}

/// A number of messages to or from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// Number of the communicator.
    pub communicator: u32,
    /// The other rank, of the world.
    pub peer: Rank,
    /// `None`: of all tags, because tags are not recorded.
    pub tag: Option<i32>,
    /// How many since the start.
    pub messages: u64,
}

/// How far a rank is in the collectives of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Number of the communicator.
    pub communicator: u32,
    /// Collectives entered so far; that many is also the number of the last one, counted from 1.
    pub number: u64,
    /// What the last one was.
    pub kind: Collective,
}

/// Receives that are posted outside the present wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// All of them.
    Known(Vec<Receive>),
    /// Not recorded: then no send to this rank is ever called dead.
    Unknown,
}

/// The number of the blocking call in the recorder's list of calls. It is passed on and not looked at.
pub type Call = u16;

/// What a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Anything that may end by itself.
    Computing,
    /// Inside a call that returns only when its wait is over.
    Blocked {
        /// The call.
        call: Call,
        /// What must come.
        wait: Wait,
    },
    /// In a loop of tests. Nothing proves that the loop has no other way out; the verdict says where it rests on this.
    Polling {
        /// The call.
        call: Call,
        /// What the test asks for.
        wait: Wait,
        /// For how many looks in a row it was the same call and no counter moved.
        unchanged: u32,
    },
    /// Gone: it will never send or enter anything.
    Exited,
}

/// What must come for a call to return.
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

/// One thing that is waited for.
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
        /// Which collective of this communicator it is, from 1.
        number: u64,
        /// What it is.
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
    /// From whom, as a rank of the world; `None`: from any member.
    pub from: Option<Rank>,
    /// With which tag; `None`: any, or not recorded.
    pub tag: Option<i32>,
}

/// A send that ends only when the peer has a receive for it (rendezvous, or synchronous mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Number of the communicator.
    pub communicator: u32,
    /// To whom, as a rank of the world.
    pub to: Rank,
    /// With which tag; `None`: not recorded.
    pub tag: Option<i32>,
    /// Which message it is, from 1, of those to this peer with this communicator and tag (without a recorded tag: with this communicator).
    pub number: u64,
}

/// Collectives by who must have entered before a rank may leave.
///
/// Where the standard lets a rank leave early, the least that it must wait for is taken, whatever tree an implementation builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// `MPI_Barrier`: nobody leaves before all have come.
    Barrier,
    /// All need something of all: `Allreduce`, `Allgather`, `Alltoall`, `Reduce_scatter`, `Comm_split`. The number tells them apart.
    AllToAll(u16),
    /// All need something of the root: `Bcast`, `Scatter`.
    FromRoot {
        /// Tells them apart.
        which: u16,
        /// The root, as a rank of the world.
        root: Rank,
    },
    /// The root needs something of all: `Reduce`, `Gather`.
    ToRoot {
        /// Tells them apart.
        which: u16,
        /// The root, as a rank of the world.
        root: Rank,
    },
    /// Anything else (`Scan`, neighbourhoods): it may end by itself, as far as is known.
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
