//! What controller and agents say to each other. [`crate::wire`] has the bytes.

use super::{Epoch, Roster, Slot, Tally};
use crate::GangId;
use idlewave_units::{Nanos, NodeId};

/// Why a switch does not take place, or a node takes no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// A node did not answer in time.
    Missing,
    /// A node could not drain the network.
    Drain,
    /// A node could not freeze the gang.
    Freeze,
    /// Not everything that was sent was received.
    UnderWay,
    /// The gang ended, or one of its ranks died.
    GangGone,
    /// A node takes no part any more.
    Leaving,
}

/// What is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// PREPARE: stop, drain and freeze.
    Prepare {
        /// Who runs until then.
        from: Slot,
        /// Who shall run.
        to: Slot,
        /// The moment to stop at.
        stop_at: Nanos,
        /// Whether messages of `from` are drained and counted.
        drain: bool,
    },
    /// SWITCH: change the context and thaw.
    Switch {
        /// The moment to thaw at.
        thaw_at: Nanos,
    },
    /// ABORT: thaw the old gang.
    Abort {
        /// Why.
        why: Why,
    },
    /// Nothing, but the lease of who has carried out this epoch is prolonged.
    Beat,
}

/// Which order an answer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// READY, or not.
    Prepare,
    /// RUNNING.
    Switch,
    /// ABORTED.
    Abort,
}

/// An order, from the controller and from parent to child. It says who takes part, so that whoever gets it can send it on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Of which switch.
    pub epoch: Epoch,
    /// Until when the one who obeys need hear nothing. An order whose time is over is not obeyed.
    pub lease_until: Nanos,
    /// Who takes part, and the tree.
    pub roster: Roster,
    /// What is ordered.
    pub command: Command,
}

impl Order {
    /// What has to be answered; `None` for what needs no answer.
    pub fn question(&self) -> Option<Question> {
        match self.command {
            Command::Prepare { .. } => Some(Question::Prepare),
            Command::Switch { .. } => Some(Question::Switch),
            Command::Abort { .. } => Some(Question::Abort),
            Command::Beat => None,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Down the tree.
    Order(Order),
    /// Up the tree: READY, RUNNING or ABORTED of a node and of those below it that have answered so far.
    Answer {
        /// Of which switch.
        epoch: Epoch,
        /// To which order.
        question: Question,
        /// Of whom, and what they say.
        tally: Tally,
    },
    /// To the controller: an older epoch was ordered than the node has seen.
    Newer {
        /// The highest epoch that the node has seen.
        epoch: Epoch,
    },
    /// To the controller: the node wants to take part. Said again until it is told to.
    Join {
        /// The node.
        node: NodeId,
    },
    /// To the controller: the node takes no part any more.
    Leave {
        /// The node.
        node: NodeId,
    },
    /// To the controller: a gang ended on a node, or a rank of it died there. Said again until it is known.
    Gone {
        /// The node.
        node: NodeId,
        /// The gang.
        gang: GangId,
        /// True if a rank died.
        died: bool,
    },
    /// From the controller: it is known that the gang is gone.
    Known {
        /// The gang.
        gang: GangId,
    },
}
