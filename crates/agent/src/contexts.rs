//! What controller and agents say to each other about gangs with network contexts: which devices there are, which gangs are on
//! them, and which of their ranks have come. All of it is state, said whole and again, as everything beside the protocol.
//!
//! A gang comes to a device when all of its ranks were seen, on whichever nodes: only then it is known which rank is where. Until then they wait for
//! their ticket, a file in memory that names the device.

use crate::parcel::Mark;
use idlewave_fabric::netctx::Policy;
use idlewave_link::Coder;
use idlewave_units::NodeId;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Gangs with contexts at a time. What agents are told of all of them fits a message of the link.
pub const MOST_GANGS: usize = 8;
/// Ranks of one of them.
pub const MOST_RANKS: u32 = 256;
/// Gangs on one device: each has memory there while it runs, or for good.
pub const MOST_ON_DEVICE: usize = 4;
/// Where tickets and devices are.
pub const MEMORY: &str = "/dev/shm";

/// How the names of tickets begin; the mark of the gang follows.
pub const TICKET: &str = "idlewave-netctx-";

/// What a switch does with the contexts of the gangs on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copying {
    /// All of the old one is copied out, and all of the new one in.
    All,
    /// What means something is.
    Valid,
    /// Each gang has memory of its own, and a pointer says whose turn it is.
    #[default]
    Pointer,
}

impl From<Copying> for Policy {
    fn from(copying: Copying) -> Self {
        match copying {
            Copying::All => Policy::Whole,
            Copying::Valid => Policy::Valid,
            Copying::Pointer => Policy::Resident,
        }
    }
}

/// A gang with contexts, as agents need to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSpec {
    /// Its number.
    pub gang: u32,
    /// Where its ranks are; `None`: not all have come.
    pub placed: Option<Placed>,
    /// Whether one of its nodes has lost its network: it fails on all of them.
    #[serde(default)]
    pub lost: bool,
}

/// Where the ranks of a gang are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The number of its device, the same on all nodes.
    pub device: u32,
    /// By rank: the node.
    pub nodes: Vec<u32>,
}

/// A device, of which each node with ranks of its gangs has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSpec {
    /// Its number.
    pub device: u32,
    /// The user whose ranks are on it.
    pub user: u32,
    /// Bytes of a context.
    pub bytes: u64,
    /// The most ranks of a gang on one node.
    pub places: u32,
    /// The most ranks of a gang.
    pub ranks: u32,
    /// What a switch does.
    pub copying: Copying,
    /// For its frames between nodes; `None`: each of its gangs is on one node, and there are none.
    pub key: Option<DeviceKey>,
    /// Where its frames go on each node.
    pub at: Vec<(NodeId, SocketAddr)>,
}

/// Proves that a frame between nodes comes from an agent with the same device. The controller makes one for each device, and tells it over
/// the link, where nobody else can read it. Printed without its bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceKey([u8; 32]);

impl DeviceKey {
    /// These bytes, which nobody else knows.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Random bytes of the kernel.
    ///
    /// # Errors
    /// It gave none, in words.
    pub fn random() -> Result<Self, String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| format!("get random numbers from the kernel: {error}"))?;
        Ok(Self(bytes))
    }

    pub(crate) fn coder(&self) -> Coder {
        Coder::new(&self.0)
    }
}

impl std::fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceKey(..)")
    }
}

/// What an agent sees of a gang with contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSeen {
    /// Its number.
    pub gang: u32,
    /// Ranks that are here.
    pub ranks: Vec<u32>,
    /// Ranks there are, as their launcher told them.
    pub size: Option<u32>,
    /// How many of those here are attached to their contexts.
    pub attached: u32,
    /// Whether one of its ranks failed or died.
    pub failed: bool,
    /// The last switch away from it at which its ranks here were looked at, frozen and drained.
    pub looked: Option<u64>,
    /// Those that waited then, or had left.
    pub waits: Vec<Waiting>,
    /// Why it has no device here.
    pub trouble: Option<String>,
}

/// A rank that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Which.
    pub rank: u32,
    /// The first of the switches, one after the other up to the last, at each of which it waited for the same.
    pub since: u64,
    /// For what.
    pub what: What,
}

/// What a rank waits for when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A message.
    Receive {
        /// Of whom; `None`: of anybody.
        from: Option<u32>,
        /// With this tag.
        tag: u32,
    },
    /// Room for a message.
    Send {
        /// To whom.
        to: u32,
        /// With this tag.
        tag: u32,
    },
    /// Nothing any more: it has left.
    Left,
}

/// Where the ranks with this mark find their device; `None` if a mark is no name of a file.
pub fn ticket_of(mark: &Mark) -> Option<PathBuf> {
    let Mark::Token(token) = mark else {
        return None;
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = !token.is_empty() && token.bytes().all(plain);
    fits.then(|| Path::new(MEMORY).join(format!("{TICKET}{token}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_to_agents_and_printed_nowhere() {
        let key = DeviceKey::random().unwrap();
        assert_ne!(key, DeviceKey::random().unwrap());
        let spec = DeviceSpec {
            device: 1,
            user: 2,
            bytes: 3,
            places: 4,
            ranks: 5,
            copying: Copying::All,
            key: Some(key.clone()),
            at: Vec::new(),
        };
        let state = crate::State::Gangs {
            version: 1,
            gangs: Vec::new(),
            contexts: Vec::new(),
            devices: vec![spec],
            eager: false,
        };
        let parcel = crate::Parcel::State(state);
        assert_eq!(crate::Parcel::decode(&parcel.encode()).unwrap(), parcel);
        let numbers = key.0.map(|byte| byte.to_string());
        for printed in [format!("{parcel:?}"), format!("{parcel:#?}")] {
            assert!(printed.contains("DeviceKey(..)"));
            assert!(!printed.contains(&numbers[..3].join(", ")));
        }
        assert_eq!(
            format!("{key:?} {:?}", key.coder()),
            "DeviceKey(..) Coder(..)"
        );
    }

    #[test]
    fn a_ticket_is_named_by_a_mark_that_is_no_path() {
        let of = |token: &str| ticket_of(&Mark::Token(token.to_owned()));
        let path = Path::new("/dev/shm/idlewave-netctx-12.34");
        assert_eq!(of("12.34").as_deref(), Some(path));
        assert_eq!(of("../x"), None);
        assert_eq!(of(""), None);
        assert_eq!(ticket_of(&Mark::Slurm(3)), None);
    }
}
