//! State that controller and agents exchange about gangs with network contexts: the devices, the
//! gangs on them, and the ranks that have arrived. Like everything beside the protocol, it is sent
//! as a whole and repeatedly.
//!
//! A gang is assigned to a device once each of its ranks has been found on some node, since only
//! then are all locations known. Until then the ranks wait for their ticket, a file in memory that
//! names the device.

use idlewave_fabric::netctx::Policy;
use idlewave_link::Coder;
use idlewave_units::NodeId;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Most gangs with contexts at a time. The state of all of them fits in one message of the link.
pub const MOST_GANGS: usize = 8;
/// Most ranks of such a gang.
pub const MOST_RANKS: u32 = 256;
/// Most gangs on one device; each takes memory there, while it runs or permanently.
pub const MOST_ON_DEVICE: usize = 4;
/// How a switch exchanges the contexts of the gangs on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copying {
    /// Copies all of the old context out, and all of the new one in.
    All,
    /// Copies only the valid parts.
    Valid,
    /// Each gang has memory of its own, and a pointer selects the active one.
    #[default]
    Pointer,
}

impl Copying {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::All, Self::Valid, Self::Pointer];

    /// Its name, as `gang start --contexts` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Valid => "valid",
            Self::Pointer => "pointer",
        }
    }
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

/// A gang with contexts, for the agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSpec {
    /// Its number.
    pub gang: u32,
    /// The location of its ranks; `None`: not all have arrived.
    pub placed: Option<Placed>,
    /// Whether one of its nodes has lost its network: then the gang fails on all nodes.
    #[serde(default)]
    pub lost: bool,
}

/// Location of the ranks of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The number of its device, the same on all nodes.
    pub device: u32,
    /// By rank: the node.
    pub nodes: Vec<u32>,
}

/// A device; each node with ranks of its gangs has an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSpec {
    /// Its number.
    pub device: u32,
    /// The user whose ranks are on it.
    pub user: u32,
    /// Bytes of a context.
    pub bytes: u64,
    /// Most ranks of a gang on one node.
    pub places: u32,
    /// Most ranks of a gang.
    pub ranks: u32,
    /// How a switch exchanges contexts.
    pub copying: Copying,
    /// Key for its frames between nodes; `None`: each of its gangs is on one node, so there are no
    /// such frames.
    pub key: Option<DeviceKey>,
    /// Address for its frames on each node.
    pub at: Vec<(NodeId, SocketAddr)>,
}

/// Proves that a frame between nodes comes from an agent with the same device. The controller
/// creates a key for each device and sends it over the link, where no one else can read it. Debug
/// output omits its bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceKey([u8; 32]);

impl DeviceKey {
    /// Wraps these secret bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Random bytes from the kernel.
    ///
    /// # Errors
    /// The kernel's error, in words.
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

/// An agent's view of a gang with contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSeen {
    /// Its number.
    pub gang: u32,
    /// Ranks on this node.
    pub ranks: Vec<u32>,
    /// Total number of ranks according to their launcher.
    pub size: Option<u32>,
    /// Number of ranks here that are attached to their contexts.
    pub attached: u32,
    /// Whether one of its ranks failed or died.
    pub failed: bool,
    /// The last switch away from it at which its ranks here were examined, frozen and drained.
    pub looked: Option<u64>,
    /// Ranks that waited then, or had left.
    pub waits: Vec<Waiting>,
    /// Why it has no device here.
    pub trouble: Option<String>,
}

/// A rank that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The rank.
    pub rank: u32,
    /// The first of the consecutive switches, up to the last one, at which it waited for the same
    /// thing.
    pub since: u64,
    /// What it waits for.
    pub what: What,
}

/// What a rank waited for when examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A message.
    Receive {
        /// The sender; `None`: anyone.
        from: Option<u32>,
        /// The tag.
        tag: u32,
    },
    /// Space for a message.
    Send {
        /// The receiver.
        to: u32,
        /// The tag.
        tag: u32,
    },
    /// Nothing: it has left.
    Left,
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
}
