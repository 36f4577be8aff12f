//! Collects the answers of a node's children: which have answered in full, and the sum.

use super::{Message, Nodes, Order, Peer, Question, Roster, Tally};
use idlewave_units::NodeId;

/// One forwarded order and its answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gather {
    order: Order,
    children: Vec<Child>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Child {
    node: NodeId,
    /// Number of nodes that it answers for.
    subtree: usize,
    tally: Option<Tally>,
}

impl Child {
    fn complete(&self) -> bool {
        self.tally
            .as_ref()
            .is_some_and(|t| t.who.len() >= self.subtree)
    }
}

impl Gather {
    pub(super) fn new(order: Order, own: Peer) -> Self {
        let roster: &Roster = &order.roster;
        let child = |node| Child {
            node,
            subtree: roster.subtree(node),
            tally: None,
        };
        let children = roster.children(own).into_iter().map(child).collect();
        Self { order, children }
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// Adds an answer. True if it contains anything new.
    pub(super) fn take(&mut self, from: Peer, question: Question, tally: Tally) -> bool {
        if self.order.question() != Some(question) {
            return false;
        }
        let Some(child) = self
            .children
            .iter_mut()
            .find(|c| Peer::Agent(c.node) == from)
        else {
            return false;
        };
        // Answers may overtake each other; the later one includes all nodes of the earlier.
        let more = child
            .tally
            .as_ref()
            .is_none_or(|old| tally.who.contains_all(&old.who) && tally.who.len() > old.who.len());
        if more {
            child.tally = Some(tally);
        }
        more
    }

    /// Whether all children have answered in full.
    pub(super) fn complete(&self) -> bool {
        self.children.iter().all(Child::complete)
    }

    /// The order again, for children that have not answered in full.
    pub(super) fn again(&self) -> impl Iterator<Item = (Peer, Message)> + '_ {
        let open = self.children.iter().filter(|c| !c.complete());
        open.map(|c| (Peer::Agent(c.node), Message::Order(self.order.clone())))
    }

    /// The sum of the children's answers so far.
    pub(super) fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in self.children.iter().filter_map(|c| c.tally.as_ref()) {
            sum.add(tally);
        }
        sum
    }

    /// Participants without an answer.
    pub(super) fn missing(&self) -> Nodes {
        let mut missing = self.order.roster.members.clone();
        missing.subtract(&self.sum().who);
        missing
    }
}
