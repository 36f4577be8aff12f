//! What answers add up to on their way to the controller.

use super::{Nodes, Why};
use idlewave_units::{Nanos, NodeId};

/// How long the phases of a switch took: the longest of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Phases {
    /// From the moment to stop at to the order to stop.
    pub stop: Nanos,
    /// From stop to drained; zero where nothing is drained.
    pub drain: Nanos,
    /// From drained to frozen, confirmed.
    pub freeze: Nanos,
    /// From SWITCH to the context changed.
    pub context: Nanos,
    /// From the moment to thaw at, or the change of the context if that was later, to thawed, confirmed.
    pub thaw: Nanos,
}

impl Phases {
    fn longest(&mut self, other: &Phases) {
        self.stop = self.stop.max(other.stop);
        self.drain = self.drain.max(other.drain);
        self.freeze = self.freeze.max(other.freeze);
        self.context = self.context.max(other.context);
        self.thaw = self.thaw.max(other.thaw);
    }
}

/// Answers of some nodes, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Whose.
    pub who: Nodes,
    /// Of them, those that are uncoordinated: they thawed everything.
    pub left: Nodes,
    /// Who cannot, and why.
    pub refused: Vec<(NodeId, Why)>,
    /// Messages of the old gang that were ever sent.
    pub sent: u64,
    /// Messages of the old gang that were ever received.
    pub received: u64,
    /// The longest times.
    pub phases: Phases,
    /// When the first and the last node had thawed; `None` before any.
    pub thawed: Option<(Nanos, Nanos)>,
}

impl Tally {
    /// Of one node that has nothing to say.
    pub fn of(node: NodeId) -> Self {
        Self {
            who: Nodes::one(node),
            ..Self::default()
        }
    }
    /// Adds answers of other nodes.
    pub fn add(&mut self, other: &Tally) {
        self.who.add(&other.who);
        self.left.add(&other.left);
        self.refused.extend_from_slice(&other.refused);
        // Counters that wrap on both sides are still equal when nothing is under way.
        self.sent = self.sent.wrapping_add(other.sent);
        self.received = self.received.wrapping_add(other.received);
        self.phases.longest(&other.phases);
        self.thawed = match (self.thawed, other.thawed) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }
}
