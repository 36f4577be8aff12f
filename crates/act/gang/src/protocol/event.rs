//! Events and actions of the state machines.

use super::{Epoch, Message, Nodes, Peer, Slot, Tally, Why};
use crate::GangId;
use idlewave_units::{Nanos, NodeId};

/// A timer, by purpose. A machine has at most one of each; setting it again replaces the earlier
/// one. A replaced or early timer that fires is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Agent: the stop time.
    Stop,
    /// Agent: the thaw time.
    Thaw,
    /// Agent: nothing was received for too long. Controller: nodes that did not acknowledge are
    /// uncoordinated by now.
    Lease,
    /// Repeats whatever was not answered.
    Repeat,
    /// Agent: an uncoordinated node asks to join, and repeats what the controller must know.
    Join,
    /// Agent: retries a failed thaw.
    Again,
    /// Controller: stops waiting for nodes.
    Limit,
    /// Controller: renews leases.
    Beat,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The machine starts. Once, before anything else.
    Start,
    /// The same, if no previous controller can have granted leases: there is no wait.
    First,
    /// A message arrived.
    Message {
        /// The sender, from its authentication, not from its content.
        from: Peer,
        /// The content.
        message: Message,
    },
    /// A timer fired.
    Timer {
        /// Its name.
        name: Timer,
        /// The epoch in which it was set.
        epoch: Epoch,
    },
    /// Agent: an action completed, or something happened on the node.
    Notice(Notice),
    /// Controller: the policy wants a switch.
    Switch {
        /// The slot to run next.
        to: Slot,
        /// Whether messages of the running slot are drained and counted.
        drain: bool,
    },
}

/// A notice of the node to its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The network of the gang is drained.
    Drained {
        /// Epoch of the order to drain.
        epoch: Epoch,
        /// Messages that the gang's ranks here have ever sent.
        sent: u64,
        /// Messages that they have ever received.
        received: u64,
    },
    /// All processes are frozen, confirmed.
    Frozen {
        /// Epoch of the order to freeze.
        epoch: Epoch,
    },
    /// The context is that of the next gang.
    ContextSwitched {
        /// Epoch of the order to switch.
        epoch: Epoch,
    },
    /// All processes are thawed, confirmed.
    Thawed {
        /// Epoch of the order to thaw.
        epoch: Epoch,
    },
    /// Draining failed, or after freezing a process was found in the middle of an injection.
    DrainFailed {
        /// Epoch of the order.
        epoch: Epoch,
    },
    /// Freezing failed; some processes may be frozen.
    FreezeFailed {
        /// Epoch of the order.
        epoch: Epoch,
    },
    /// The context could not be switched.
    ContextFailed {
        /// Epoch of the order.
        epoch: Epoch,
    },
    /// Thawing failed; some processes may be frozen.
    ThawFailed {
        /// Epoch of the order.
        epoch: Epoch,
    },
    /// All processes of a gang here have ended.
    GangEnded(GangId),
    /// A rank of a gang died here.
    RankDied(GangId),
    /// The watchdog has thawed everything here because the agent was stalled.
    Thawn,
    /// The node is to leave.
    Leave,
}

/// An action. Actions on processes run in order, each after the previous one has completed or
/// failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends a message; it may be lost, duplicated or late.
    Send {
        /// The receiver.
        to: Peer,
        /// The content.
        message: Message,
    },
    /// Sets a timer, replacing the one of that name.
    SetTimer {
        /// Its name.
        name: Timer,
        /// Returned when it fires.
        epoch: Epoch,
        /// When, on the machine's own clock; a past time fires at once.
        at: Nanos,
    },
    /// Stops the ranks of a gang from injecting new messages.
    StopInjection(Slot),
    /// Receives what is in flight, then sends [`Notice::Drained`].
    Drain {
        /// The gang.
        gang: GangId,
        /// For the notice.
        epoch: Epoch,
    },
    /// Freezes processes, then sends [`Notice::Frozen`].
    Freeze {
        /// Their slot.
        slot: Slot,
        /// For the notice.
        epoch: Epoch,
    },
    /// Switches the network context, then sends [`Notice::ContextSwitched`].
    SwitchContext {
        /// The slot whose context is saved.
        from: Slot,
        /// The slot whose context is next.
        to: Slot,
        /// For the notice.
        epoch: Epoch,
    },
    /// Thaws processes, then sends [`Notice::Thawed`].
    Thaw {
        /// Their slot.
        slot: Slot,
        /// For the notice.
        epoch: Epoch,
    },
    /// Lets the ranks of a gang inject messages again.
    ResumeInjection(Slot),
    /// For display, metrics and the policy.
    Report(Report),
}

/// How a switch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The next gang runs.
    Switched,
    /// The old gang continues.
    Aborted(Why),
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// Controller: a switch has ended. The next one is accepted at once, or after [`Report::Open`]
    /// if nodes are missing.
    Over {
        /// Its epoch.
        epoch: Epoch,
        /// How it ended.
        outcome: Outcome,
        /// The running slot.
        running: Slot,
        /// When the old gang was to stop.
        stop_at: Nanos,
        /// When the next was to thaw; `None` if the switch was aborted.
        thaw_at: Option<Nanos>,
        /// Nodes that had not answered PREPARE when the switch was aborted.
        late: Nodes,
        /// Nodes that did not acknowledge: they no longer take part until they ask to.
        missing: Nodes,
        /// The sum of the other answers.
        tally: Tally,
    },
    /// Controller: it accepts switches from now on.
    Open,
    /// Controller: a switch was requested while another is in progress, or without participants.
    Busy,
    /// Controller: a gang ended, or a rank of it died.
    GangGone {
        /// The node.
        node: NodeId,
        /// The gang.
        gang: GangId,
        /// True if a rank died.
        died: bool,
    },
    /// Controller: another one with higher epochs gives orders. This one is inactive.
    Superseded(Epoch),
    /// Agent: it thawed everything, because nothing was received for too long, an order came too
    /// late, or an action failed.
    Uncoordinated(Epoch),
    /// Agent: an uncoordinated node hears the controller again.
    HeardAgain(Epoch),
    /// Agent: an epoch was to be aborted after it was carried out, or the other way round.
    /// Impossible unless a machine is faulty.
    Conflict(Epoch),
    /// Agent: thawing failed and is retried.
    StillFrozen(Epoch),
    /// Agent: an epoch was carried out or aborted here; the node's own times.
    Done {
        /// Its epoch.
        epoch: Epoch,
        /// The node's own answer.
        tally: Tally,
    },
}
