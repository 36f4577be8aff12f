//! What comes to a state machine, and what it wants done.

use super::{Epoch, Message, Nodes, Peer, Slot, Tally, Why};
use crate::GangId;
use idlewave_units::{Nanos, NodeId};

/// A timer, by what it is for. A machine has at most one of each: one that is set again replaces the earlier. One that
/// fires nevertheless, or that fires too early, does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Agent: the moment to stop at.
    Stop,
    /// Agent: the moment to thaw at.
    Thaw,
    /// Agent: nothing was heard for too long. Controller: who did not acknowledge is uncoordinated by now.
    Lease,
    /// What was not answered is said again.
    Repeat,
    /// Agent: who is uncoordinated asks to take part, and what the controller must know is said again.
    Join,
    /// Agent: thawing failed and is tried again.
    Again,
    /// Controller: nodes are not waited for any longer.
    Limit,
    /// Controller: leases are prolonged.
    Beat,
}

/// What comes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The machine starts. Once, before anything else.
    Start,
    /// A message came.
    Message {
        /// From whom: known from its authentication, not from its content.
        from: Peer,
        /// What it says.
        message: Message,
    },
    /// A timer fired.
    Timer {
        /// Which.
        name: Timer,
        /// The epoch in which it was set.
        epoch: Epoch,
    },
    /// Agent: an action was carried out, or something happened on the node.
    Notice(Notice),
    /// Controller: the policy wants a switch.
    Switch {
        /// Who shall run.
        to: Slot,
        /// Whether messages of who runs now are drained and counted.
        drain: bool,
    },
}

/// What an agent is told by its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The network of the gang is drained.
    Drained {
        /// Of the order to drain.
        epoch: Epoch,
        /// Messages that the gang's ranks here ever sent.
        sent: u64,
        /// Messages that they ever received.
        received: u64,
    },
    /// All processes are frozen, confirmed.
    Frozen {
        /// Of the order to freeze.
        epoch: Epoch,
    },
    /// The context is that of the next gang.
    ContextSwitched {
        /// Of the order to switch.
        epoch: Epoch,
    },
    /// All processes are thawed, confirmed.
    Thawed {
        /// Of the order to thaw.
        epoch: Epoch,
    },
    /// Draining failed, or when all was frozen a process was found to be putting something in.
    DrainFailed {
        /// Of the order.
        epoch: Epoch,
    },
    /// Freezing failed; some processes may be frozen.
    FreezeFailed {
        /// Of the order.
        epoch: Epoch,
    },
    /// The context could not be changed.
    ContextFailed {
        /// Of the order.
        epoch: Epoch,
    },
    /// Thawing failed; some processes may be frozen.
    ThawFailed {
        /// Of the order.
        epoch: Epoch,
    },
    /// All processes of a gang here have ended.
    GangEnded(GangId),
    /// A rank of a gang died here.
    RankDied(GangId),
    /// The node shall take no part any more.
    Leave,
}

/// What is to be done. Actions on processes are carried out in their order, each after the one before is done or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a message; it may be lost, doubled or late.
    Send {
        /// To whom.
        to: Peer,
        /// What.
        message: Message,
    },
    /// Set a timer, in place of the one of that name.
    SetTimer {
        /// Which.
        name: Timer,
        /// To be given back when it fires.
        epoch: Epoch,
        /// When, on the machine's own clock; a moment that is over fires at once.
        at: Nanos,
    },
    /// Let the ranks of a gang inject nothing new.
    StopInjection(Slot),
    /// Take in what is under way, then say [`Notice::Drained`].
    Drain {
        /// Whose.
        gang: GangId,
        /// For the notice.
        epoch: Epoch,
    },
    /// Freeze processes, then say [`Notice::Frozen`].
    Freeze {
        /// Whose.
        slot: Slot,
        /// For the notice.
        epoch: Epoch,
    },
    /// Change the network context, then say [`Notice::ContextSwitched`].
    SwitchContext {
        /// Whose is saved.
        from: Slot,
        /// Whose is next.
        to: Slot,
        /// For the notice.
        epoch: Epoch,
    },
    /// Thaw processes, then say [`Notice::Thawed`].
    Thaw {
        /// Whose.
        slot: Slot,
        /// For the notice.
        epoch: Epoch,
    },
    /// Let the ranks of a gang inject messages again.
    ResumeInjection(Slot),
    /// For people, metrics and the policy.
    Report(Report),
}

/// How a switch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The next gang runs.
    Switched,
    /// The old gang runs on.
    Aborted(Why),
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// Controller: a switch is over. The next may be asked for, after [`Report::Open`] if anybody is missing.
    Over {
        /// Which.
        epoch: Epoch,
        /// How it ended.
        outcome: Outcome,
        /// Who runs.
        running: Slot,
        /// When the old gang was to stop.
        stop_at: Nanos,
        /// When the next was to thaw; `None` if the switch was aborted.
        thaw_at: Option<Nanos>,
        /// Who had not answered PREPARE when the switch was aborted.
        late: Nodes,
        /// Who did not acknowledge: they take part no more until they ask to.
        missing: Nodes,
        /// What the others said.
        tally: Tally,
    },
    /// Controller: it may be asked for switches from now on.
    Open,
    /// Controller: a switch was asked for while another is under way, or without anybody to take part.
    Busy,
    /// Controller: a gang ended, or a rank of it died.
    GangGone {
        /// Where.
        node: NodeId,
        /// Which.
        gang: GangId,
        /// True if a rank died.
        died: bool,
    },
    /// Controller: another one with higher epochs gives orders. This one does nothing any more.
    Superseded(Epoch),
    /// Agent: everything was thawed, since nothing was heard for too long, an order came too late, or something failed.
    Uncoordinated(Epoch),
    /// Agent: an uncoordinated node hears the controller again.
    HeardAgain(Epoch),
    /// Agent: an epoch was ordered to be aborted after it was carried out, or the other way round. Never, if all are as built.
    Conflict(Epoch),
    /// Agent: thawing failed; it is tried again.
    StillFrozen(Epoch),
    /// Agent: an epoch was carried out here, or aborted; the node's own times.
    Done {
        /// Which.
        epoch: Epoch,
        /// The node's own answer.
        tally: Tally,
    },
}
