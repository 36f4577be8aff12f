//! Identifiers of switches, slots and peers.

use crate::GangId;
use idlewave_units::NodeId;
use std::fmt;

/// The number of a switch. It only increases, even across restarts of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// Before any switch.
    pub const ZERO: Epoch = Epoch(0);

    /// From a stored number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
    /// The base of a controller that starts at `start` (such as seconds since 1970): above all
    /// epochs of earlier controllers, unless one of them made 2^32 switches.
    pub const fn of_start(start: u32) -> Self {
        Self((start as u64) << 32)
    }
    /// The base above all epochs of the controller that used this one; this one itself if no number
    /// is left.
    pub const fn next_start(self) -> Self {
        match ((self.0 >> 32) + 1).checked_mul(1 << 32) {
            Some(base) => Self(base),
            None => self,
        }
    }
    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The next one; `None` after 2^64-1.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// Owner of the nodes' CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// All gangs, like ordinary programs: no switching.
    All,
    /// One gang; the others are frozen.
    Gang(GangId),
}

/// Sender or receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The one controller.
    Controller,
    /// The agent of a node.
    Agent(NodeId),
}
