//! The peers of a link.

use idlewave_units::NodeId;
use std::fmt;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The one controller.
    Controller,
    /// The agent of a node.
    Agent(NodeId),
}

/// Length of [`Peer::to_bytes`].
pub(crate) const PEER: usize = 5;

impl Peer {
    /// The bytes in a frame: the kind, then the node number, little-endian.
    pub(crate) fn to_bytes(self) -> [u8; PEER] {
        let (kind, number) = match self {
            Peer::Controller => (0, 0),
            Peer::Agent(node) => (1, node.get()),
        };
        let [a, b, c, d] = u32::to_le_bytes(number);
        [kind, a, b, c, d]
    }

    /// `None` if these bytes are not a peer.
    pub(crate) fn from_bytes(bytes: [u8; PEER]) -> Option<Self> {
        let [kind, number @ ..] = bytes;
        match (kind, u32::from_le_bytes(number)) {
            (0, 0) => Some(Peer::Controller),
            (1, node) => Some(Peer::Agent(NodeId::new(node))),
            _ => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Controller => f.write_str("the controller"),
            Peer::Agent(node) => write!(f, "the agent of node {node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is_a_peer() {
        for peer in [Peer::Controller, Peer::Agent(NodeId::new(0x0403_0201))] {
            assert_eq!(Peer::from_bytes(peer.to_bytes()), Some(peer));
        }
        assert_eq!(
            Peer::Agent(NodeId::new(0x0403_0201)).to_bytes(),
            [1, 1, 2, 3, 4]
        );
        assert_eq!(Peer::from_bytes([0, 1, 0, 0, 0]), None);
        assert_eq!(Peer::from_bytes([2, 0, 0, 0, 0]), None);
    }
}
