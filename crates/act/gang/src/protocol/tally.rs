//! Sums of answers on their way to the controller.

use super::Nodes;
use idlewave_units::{Nanos, NodeId};

/// Durations of the phases of a switch: the longest of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Phases {
    /// From the stop time to the order to stop.
    pub stop: Nanos,
    /// From stop to drained; zero if nothing is drained.
    pub drain: Nanos,
    /// From drained to frozen, confirmed.
    pub freeze: Nanos,
    /// From SWITCH to the switched context.
    pub context: Nanos,
    /// From the thaw time, or the switched context if that was later, to thawed, confirmed.
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

/// Why a switch does not take place, or a node does not take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// A node did not answer in time.
    Missing,
    /// A node could not drain the network.
    Drain,
    /// A node could not freeze the gang.
    Freeze,
    /// Not all sent messages were received.
    UnderWay,
    /// The gang ended, or one of its ranks died.
    GangGone,
    /// A node leaves.
    Leaving,
}

/// The sum of the answers of some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// These nodes.
    pub who: Nodes,
    /// Those of them that are uncoordinated: they thawed everything.
    pub left: Nodes,
    /// Nodes that refuse, with the reason.
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
    /// Of one node without further data.
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
        // Counters that wrap on both sides are still equal when nothing is in flight.
        self.sent = self.sent.wrapping_add(other.sent);
        self.received = self.received.wrapping_add(other.received);
        self.phases.longest(&other.phases);
        self.thawed = match (self.thawed, other.thawed) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }
}
