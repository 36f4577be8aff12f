//! Messages between controller and agents. [`crate::wire`] defines their bytes.

use super::{Epoch, Roster, Slot, Tally, Why};
use crate::GangId;
use idlewave_units::{Nanos, NodeId};

/// The content of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// PREPARE: stop, drain and freeze.
    Prepare {
        /// The slot that runs until then.
        from: Slot,
        /// The slot to run next.
        to: Slot,
        /// The stop time.
        stop_at: Nanos,
        /// Whether messages of `from` are drained and counted.
        drain: bool,
    },
    /// SWITCH: switch the context and thaw.
    Switch {
        /// The thaw time.
        thaw_at: Nanos,
    },
    /// ABORT: thaw the old gang.
    Abort {
        /// The reason.
        why: Why,
    },
    /// Only renews the lease of nodes that have carried out this epoch.
    Beat,
}

/// The order that an answer refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// READY, or not.
    Prepare,
    /// RUNNING.
    Switch,
    /// ABORTED.
    Abort,
}

/// An order, from the controller and from parent to child. It lists the participants, so that every
/// receiver can forward it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Epoch of the switch.
    pub epoch: Epoch,
    /// End of the receiver's lease. An expired order is not obeyed.
    pub lease_until: Nanos,
    /// Participants, and the tree.
    pub roster: Roster,
    /// The command.
    pub command: Command,
}

impl Order {
    /// The question to answer; `None` if none.
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
    /// Up the tree: READY, RUNNING or ABORTED of a node and of its descendants that have answered
    /// so far.
    Answer {
        /// Epoch of the switch.
        epoch: Epoch,
        /// The order answered.
        question: Question,
        /// The sum of the answers.
        tally: Tally,
    },
    /// To the controller: it ordered an older epoch than the node has seen.
    Newer {
        /// The highest epoch that the node has seen.
        epoch: Epoch,
    },
    /// To the controller: the node wants to join. Repeated until it is included.
    Join {
        /// The node.
        node: NodeId,
    },
    /// To the controller: the node leaves.
    Leave {
        /// The node.
        node: NodeId,
    },
    /// To the controller: a gang ended on a node, or a rank of it died there. Repeated until
    /// acknowledged.
    Gone {
        /// The node.
        node: NodeId,
        /// The gang.
        gang: GangId,
        /// True if a rank died.
        died: bool,
    },
    /// From the controller: acknowledges that the gang is gone.
    Known {
        /// The gang.
        gang: GangId,
    },
}
