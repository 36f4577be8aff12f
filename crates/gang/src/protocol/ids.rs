//! Who and what: numbers of switches, gangs, and those that exchange messages.

use crate::GangId;
use idlewave_units::NodeId;
use std::fmt;

/// The number of a switch. It only rises, over restarts of the controller as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// Before any switch.
    pub const ZERO: Epoch = Epoch(0);

    /// A number that was written down.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
    /// The base of a controller that starts in its `start`th way (such as seconds since 1970): above all numbers of those
    /// that started before it, as long as none of them switched 2^32 times.
    pub const fn of_start(start: u32) -> Self {
        Self((start as u64) << 32)
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

/// Who has the CPUs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// All gangs, as any programs would: no switching.
    All,
    /// One gang; the others are frozen.
    Gang(GangId),
}

/// Who sends or takes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The one controller.
    Controller,
    /// The agent of a node.
    Agent(NodeId),
}
