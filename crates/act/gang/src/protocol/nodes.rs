//! Sets of nodes, and the tree over the participants of a switch.

use super::Peer;
use idlewave_units::NodeId;

/// A set of nodes, one bit each. Equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes {
    /// Without trailing zero words.
    words: Vec<u64>,
}

impl Nodes {
    /// Node numbers in a set are below this. A full set takes 8 KiB.
    pub const LIMIT: u32 = 1 << 16;

    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }
    /// One node.
    pub fn one(node: NodeId) -> Self {
        let mut nodes = Self::new();
        nodes.insert(node);
        nodes
    }
    /// From words of 64 nodes each, lowest first. `None` above [`Nodes::LIMIT`].
    pub fn from_words(mut words: Vec<u64>) -> Option<Self> {
        while words.last() == Some(&0) {
            words.pop();
        }
        (words.len() <= Self::LIMIT as usize / 64).then_some(Self { words })
    }
    /// Words of 64 nodes each, lowest first; the last one is not zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
    /// Adds a node; numbers from [`Nodes::LIMIT`] on are ignored. True if it was new.
    pub fn insert(&mut self, node: NodeId) -> bool {
        if node.get() >= Self::LIMIT {
            return false;
        }
        let (word, bit) = (node.index() / 64, 1_u64 << (node.index() % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }
    /// Removes a node.
    pub fn remove(&mut self, node: NodeId) {
        self.subtract(&Self::one(node));
    }
    /// Whether a node is in it.
    pub fn contains(&self, node: NodeId) -> bool {
        let word = self.words.get(node.index() / 64);
        word.is_some_and(|w| w & (1 << (node.index() % 64)) != 0)
    }
    /// Whether it contains all of `other`.
    pub fn contains_all(&self, other: &Nodes) -> bool {
        let own = self.words.iter().chain(std::iter::repeat(&0));
        other
            .words
            .iter()
            .zip(own)
            .all(|(theirs, own)| theirs & !own == 0)
    }
    /// Adds all of `other`.
    pub fn add(&mut self, other: &Nodes) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (own, theirs) in self.words.iter_mut().zip(&other.words) {
            *own |= theirs;
        }
    }
    /// Removes all of `other`.
    pub fn subtract(&mut self, other: &Nodes) {
        for (own, theirs) in self.words.iter_mut().zip(&other.words) {
            *own &= !theirs;
        }
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0_u32..).zip(&self.words).flat_map(|(i, word)| {
            (0..64)
                .filter(move |b| word & (1 << b) != 0)
                .map(move |b| NodeId::new(i * 64 + b))
        })
    }
    /// Number of nodes below `node`.
    fn below(&self, node: NodeId) -> usize {
        let word = node.index() / 64;
        let full: usize = self
            .words
            .iter()
            .take(word)
            .map(|w| w.count_ones() as usize)
            .sum();
        let last = self
            .words
            .get(word)
            .map_or(0, |w| w & ((1 << (node.index() % 64)) - 1));
        full + last.count_ones() as usize
    }
    /// The node with `position` smaller ones in the set.
    fn at(&self, mut position: usize) -> Option<NodeId> {
        for (i, word) in (0_u32..).zip(&self.words) {
            let ones = word.count_ones() as usize;
            if position < ones {
                let bit = (0..64).filter(|b| word & (1 << b) != 0).nth(position)?;
                return Some(NodeId::new(i * 64 + bit));
            }
            position -= ones;
        }
        None
    }
}

impl FromIterator<NodeId> for Nodes {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::new();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

/// The participants of a switch, and the tree over them: a heap with `arity` children per node, in
/// node order, with the controller as its root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roster {
    /// The participants.
    pub members: Nodes,
    /// Children of each, at least 1 (0 counts as 1).
    pub arity: u16,
}

impl Roster {
    fn fan(&self) -> usize {
        usize::from(self.arity.max(1))
    }
    /// Position in the heap: the controller has 0. `None` for non-participants.
    fn place(&self, peer: Peer) -> Option<usize> {
        match peer {
            Peer::Controller => Some(0),
            Peer::Agent(n) => self.members.contains(n).then(|| self.members.below(n) + 1),
        }
    }
    /// The peer that sends orders to `node` and receives its answers; `None` for non-participants.
    pub fn parent(&self, node: NodeId) -> Option<Peer> {
        let place = self.place(Peer::Agent(node))?;
        match (place - 1) / self.fan() {
            0 => Some(Peer::Controller),
            above => self.members.at(above - 1).map(Peer::Agent),
        }
    }
    /// The nodes to which `peer` forwards orders.
    pub fn children(&self, peer: Peer) -> Vec<NodeId> {
        let Some(place) = self.place(peer) else {
            return Vec::new();
        };
        let first = place * self.fan();
        (first..first + self.fan())
            .map_while(|p| self.members.at(p))
            .collect()
    }
    /// Size of the subtree of `node`, itself included.
    pub fn subtree(&self, node: NodeId) -> usize {
        let Some(place) = self.place(Peer::Agent(node)) else {
            return 0;
        };
        let (last, fan) = (self.members.len(), self.fan());
        // Level by level: the descendants of a node on one level are adjacent in the heap.
        let (mut low, mut high, mut sum) = (place, place, 0);
        while low <= last {
            sum += high.min(last) - low + 1;
            low = low * fan + 1;
            high = high * fan + fan;
        }
        sum
    }
    /// Levels of agents: 0 without members.
    pub fn depth(&self) -> u32 {
        let (last, mut place, mut depth) = (self.members.len(), 1, 0);
        while place <= last {
            depth += 1;
            place = place * self.fan() + 1;
        }
        depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tree_of_two_over_five_nodes_is_the_heap_drawn_by_hand() {
        let members = [3, 70, 71, 200, 201].map(NodeId::new).into_iter().collect();
        let roster = Roster { members, arity: 2 };
        let children = |peer| {
            roster
                .children(peer)
                .iter()
                .map(|n| n.get())
                .collect::<Vec<_>>()
        };
        assert_eq!(children(Peer::Controller), [3, 70]);
        assert_eq!(children(Peer::Agent(NodeId::new(3))), [71, 200]);
        assert_eq!(children(Peer::Agent(NodeId::new(70))), [201]);
        assert_eq!(
            roster.parent(NodeId::new(201)),
            Some(Peer::Agent(NodeId::new(70)))
        );
        assert_eq!(roster.subtree(NodeId::new(3)), 3);
        assert_eq!(roster.depth(), 2);
        assert_eq!(roster.parent(NodeId::new(4)), None);
        assert!(roster.children(Peer::Agent(NodeId::new(4))).is_empty());
    }

    proptest! {
        #[test]
        fn everybody_is_the_child_of_its_parent_and_subtrees_add_up(
            nodes in prop::collection::btree_set(0_u32..300, 0..60), arity in 1_u16..9,
        ) {
            let members: Nodes = nodes.iter().copied().map(NodeId::new).collect();
            prop_assert_eq!(members.iter().map(NodeId::get).collect::<Vec<_>>(), nodes.iter().copied().collect::<Vec<_>>());
            let roster = Roster { members: members.clone(), arity };
            let top = roster.children(Peer::Controller);
            prop_assert_eq!(top.iter().map(|n| roster.subtree(*n)).sum::<usize>(), nodes.len());
            for node in members.iter() {
                let parent = roster.parent(node).unwrap();
                prop_assert!(roster.children(parent).contains(&node));
                let below: usize = roster.children(Peer::Agent(node)).iter().map(|n| roster.subtree(*n)).sum();
                prop_assert_eq!(roster.subtree(node), below + 1);
            }
            let mut less = members.clone();
            for node in nodes.iter().take(3) {
                less.remove(NodeId::new(*node));
                prop_assert!(!less.contains(NodeId::new(*node)) && members.contains_all(&less));
                prop_assert!(!less.contains_all(&members));
            }
        }
    }
}
