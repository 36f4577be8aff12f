//! A node's network device: memory in a file, shared by the ranks of gangs, which are processes,
//! and the process that owns the device and switches the gangs.
//!
//! A rank puts frames into its send rings and takes them from its receive rings on its own. The
//! owner's thread does what the network adapter did in PM: it numbers, sends, acknowledges and
//! retransmits frames (as in SCore-D, SC'98). Ranks of one node put frames directly into each
//! other's receive rings. There is no lock that a frozen or killed rank could hold. One word, the
//! gate, says which gang may be inside the device. A rank announces itself before it reads the
//! gate, and the owner closes the gate before it checks which ranks are inside. So nobody touches
//! contexts while they are copied, whether the ranks are frozen or only kept out.
//!
//! All ranks on a device are processes of one user, the owner's or the one for whom root created
//! the device: the file has mode 0600. A misbehaving rank breaks its own gang and, if contexts are
//! copied, possibly other gangs of that user. It cannot break the owner, even by truncating the
//! file.

mod attach;
mod error;
mod gang;
mod memory;
mod owner;
mod pump;
mod rank;
mod shape;
#[cfg(test)]
mod switches;
#[cfg(test)]
mod tests;
mod waits;

use super::policy::Policy;
use idlewave_units::Nanos;
use std::path::PathBuf;

pub use crate::matching::Awaited;
pub use attach::{At, Attachment, Idle, write_ticket};
pub use error::DeviceError;
pub use pump::{Device, Drained};
pub use rank::{RankPort, Rings};
pub use waits::Doing;

/// A rank that is inside its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// The rank.
    pub rank: u32,
    /// The number of its entry, by what it wrote itself: if it is the same later, the rank has not
    /// left in between.
    pub entry: u32,
    /// Its process, by its PID in its own namespace, and by what it wrote itself.
    pub process: u32,
}

/// The parameters of a new device.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The file, which must not exist yet: in /dev/shm or elsewhere in memory. Beside it lies a
    /// pipe, named like the file with `.bell` appended.
    pub path: PathBuf,
    /// This node's number, as in [`Gang::nodes`].
    pub node: u32,
    /// The most gangs at a time, 1 to 64.
    pub gangs: u32,
    /// The most ranks of a gang on this node, 1 to 1,024.
    pub places: u32,
    /// The most ranks of a gang on all nodes, 1 to 1,024.
    pub ranks: u32,
    /// What a switch does with contexts.
    pub policy: Policy,
    /// Bytes of each context, from [`MIN_BYTES`](super::context::MIN_BYTES) to
    /// [`MAX_BYTES`](super::context::MAX_BYTES). The same on all nodes: it determines how many
    /// frames may be in flight.
    pub context_bytes: usize,
    /// Time without an answer after which everything is retransmitted.
    pub timeout: Nanos,
    /// The user that the ranks run as; `None` for this process's own. Only root may name another.
    pub user: Option<u32>,
}

impl Setup {
    /// Node 0, 8 gangs of up to 64 ranks, all of which may be on this node, resident contexts of 1
    /// MiB, a time-out of 5 ms.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            node: 0,
            gangs: 8,
            places: 64,
            ranks: 64,
            policy: Policy::Resident,
            context_bytes: 1 << 20,
            timeout: Nanos::from_millis(5),
            user: None,
        }
    }
}

/// A gang to be admitted; the same on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gang {
    /// Its number.
    pub gang: u32,
    /// By rank: the node. The ranks of a node take its places in rank order.
    pub nodes: Vec<u32>,
}
