//! Message programs: a list of operations for each rank.

use crate::state::Collective;

/// One operation. Ranks are indices into [`Program::ranks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Completes without other ranks.
    Compute,
    /// A send, blocking or not; with rendezvous it completes when the receiver has a receive for
    /// it, otherwise at once.
    Send {
        /// Number of the communicator.
        communicator: u32,
        /// The receiver.
        to: usize,
        /// The tag.
        tag: i32,
        /// Whether it waits for the receiver.
        rendezvous: bool,
        /// Whether the call returns only then.
        blocking: bool,
    },
    /// A receive, blocking or not.
    Receive {
        /// Number of the communicator.
        communicator: u32,
        /// The sender; `None`: anyone.
        from: Option<usize>,
        /// The tag; `None`: any.
        tag: Option<i32>,
        /// Whether the call returns only with the message.
        blocking: bool,
    },
    /// Waits for all of these operations of the same rank, except those already waited for.
    WaitAll(Vec<usize>),
    /// Waits for one of these operations.
    WaitAny(Vec<usize>),
    /// Enters a collective.
    Collective {
        /// Number of the communicator.
        communicator: u32,
        /// Which one.
        kind: Collective,
    },
    /// Waits for something that no rank sends.
    Outside,
}

/// A program of a few ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Operations by rank; after the last one a rank exits.
    pub ranks: Vec<Vec<Op>>,
    /// Members by communicator.
    pub communicators: Vec<Vec<usize>>,
}

impl Op {
    /// A blocking send on communicator 0 that completes at once.
    pub fn send(to: usize, tag: i32) -> Op {
        Op::Send {
            communicator: 0,
            to,
            tag,
            rendezvous: false,
            blocking: true,
        }
    }

    /// A blocking send on communicator 0 that waits for the receiver.
    pub fn rendezvous(to: usize, tag: i32) -> Op {
        Op::Send {
            communicator: 0,
            to,
            tag,
            rendezvous: true,
            blocking: true,
        }
    }

    /// A blocking receive on communicator 0.
    pub fn receive(from: Option<usize>, tag: Option<i32>) -> Op {
        Op::Receive {
            communicator: 0,
            from,
            tag,
            blocking: true,
        }
    }

    /// The same send or receive, not blocking.
    pub fn posted(mut self) -> Op {
        match &mut self {
            Op::Send { blocking, .. } | Op::Receive { blocking, .. } => *blocking = false,
            _ => {}
        }
        self
    }

    /// A barrier.
    pub fn barrier(communicator: u32) -> Op {
        Op::Collective {
            communicator,
            kind: Collective::Barrier,
        }
    }
}

impl Program {
    /// Ranks in one communicator.
    pub fn world(ranks: Vec<Vec<Op>>) -> Program {
        Program {
            communicators: vec![(0..ranks.len()).collect()],
            ranks,
        }
    }
}
