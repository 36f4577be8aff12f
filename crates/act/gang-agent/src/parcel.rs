//! State that controller and agents exchange beside the switch protocol: the nodes, the gangs, and
//! what the nodes see of them. It is sent as a whole and repeatedly, so nothing depends on a single
//! message.

use crate::contexts::{ContextSeen, ContextSpec, DeviceSpec};
use idlewave_gang::protocol::Message;
use idlewave_gang::{GangId, wire};
use idlewave_sys::Uid;
use idlewave_units::{Nanos, NodeId};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// First byte of a message of the protocol.
const PROTOCOL: u8 = 0;
/// First byte of everything else, which is JSON.
const STATE: u8 = 1;

/// How the processes of a gang are recognised on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// By the value of `IDLEWAVE_GANG` in their environment.
    Token(String),
    /// By their Slurm job.
    Slurm(u32),
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mark::Token(token) => write!(f, "mark {token:?}"),
            Mark::Slurm(job) => write!(f, "Slurm job {job}"),
        }
    }
}

/// One gang, for the agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its number.
    pub gang: u32,
    /// The user of its processes; others are excluded.
    pub user: u32,
    /// Its mark.
    pub mark: Mark,
    /// The rows of the matrix in which it runs. Empty: it is not admitted yet and runs freely.
    pub rows: Vec<u32>,
    /// Whether its processes are to be killed.
    pub end: bool,
}

impl Spec {
    /// Its number.
    pub fn id(&self) -> GangId {
        GangId::new(self.gang)
    }
    /// Its user.
    pub fn uid(&self) -> Uid {
        Uid::new(self.user)
    }
}

/// A node's report on a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its number.
    pub gang: u32,
    /// Processes under control here.
    pub processes: u32,
    /// MPI ranks among them.
    pub ranks: u32,
    /// Ranks of the whole gang according to its launcher.
    pub size: Option<u32>,
    /// How long the number of processes has not changed.
    pub steady: Nanos,
    /// CPU time that its processes here have used so far.
    pub cpu: Nanos,
    /// Descendants or marked processes of other users, which are ignored.
    pub others: u32,
    /// Why it could not be brought under control.
    pub trouble: Option<String>,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Parcel {
    /// Part of a switch.
    Protocol(Message),
    /// Anything else.
    State(State),
}

/// State of nodes and gangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Agent to controller, until answered.
    Hello {
        /// The node.
        node: NodeId,
        /// Its host name.
        host: String,
        /// CPUs that the gangs may have.
        cpus: u32,
        /// How it stops processes.
        freezer: String,
        /// Limitations, in words.
        limits: Vec<String>,
    },
    /// Controller to agent: the addresses of the nodes.
    Directory(Vec<(NodeId, Place)>),
    /// Controller to agent: all gangs. The version rises with every change.
    Gangs {
        /// Version of this state.
        version: u64,
        /// All gangs.
        gangs: Vec<Spec>,
        /// Those of them with network contexts.
        contexts: Vec<ContextSpec>,
        /// The devices of these gangs.
        devices: Vec<DeviceSpec>,
        /// Whether ranks are expected soon.
        eager: bool,
    },
    /// Agent to controller: what it sees, for the version that it has applied.
    Sight {
        /// The node.
        node: NodeId,
        /// The version applied here.
        version: u64,
        /// Of each gang.
        seen: Vec<Seen>,
        /// Of each gang with network contexts.
        contexts: Vec<ContextSeen>,
        /// Devices here, and the addresses for their frames.
        devices: Vec<(u32, SocketAddr)>,
        /// Frames of devices dropped here since this agent started because their authentication
        /// code was wrong.
        forged: u64,
    },
    /// Agent to controller: asks for the time.
    AskTime {
        /// The agent's clock when it asked.
        sent: Nanos,
    },
    /// Controller to agent: the answer, sent at once.
    Time {
        /// From the request.
        sent: Nanos,
        /// The controller's clock.
        now: Nanos,
    },
    /// Controller to agent: the controller ends; thaw and leave everything.
    Farewell,
}

/// Why bytes are not a valid message.
#[derive(Debug, thiserror::Error)]
pub enum ParcelError {
    /// No content, or an unknown kind of it.
    #[error("parse a message: unknown kind; all nodes need the same idlewave")]
    Kind,
    /// Not a message of the protocol.
    #[error(transparent)]
    Wire(#[from] wire::WireError),
    /// Not a valid state of nodes and gangs.
    #[error("parse a message: {0}; all nodes need the same idlewave")]
    State(#[from] serde_json::Error),
}

impl Parcel {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Parcel::Protocol(message) => {
                let mut bytes = vec![PROTOCOL];
                bytes.extend(wire::encode(message));
                bytes
            }
            Parcel::State(state) => {
                let mut bytes = vec![STATE];
                // Serialisation cannot fail: no maps, and writing to memory.
                let _ = serde_json::to_writer(&mut bytes, state);
                bytes
            }
        }
    }

    /// Decodes bytes from a holder of the key; they may still be invalid.
    ///
    /// # Errors
    /// Not a message of this version.
    pub fn decode(bytes: &[u8]) -> Result<Parcel, ParcelError> {
        match bytes.split_first() {
            Some((&PROTOCOL, rest)) => Ok(Parcel::Protocol(wire::decode(rest)?)),
            Some((&STATE, rest)) => Ok(Parcel::State(serde_json::from_slice(rest)?)),
            _ => Err(ParcelError::Kind),
        }
    }
}

/// Address of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A socket of this machine.
    Unix(PathBuf),
    /// A socket of the network.
    Udp(SocketAddr),
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_gang::protocol::{Epoch, Message};
    use proptest::prelude::*;

    fn specs() -> impl Strategy<Value = Spec> {
        let mark = prop_oneof![
            "[a-z0-9\\\\\"é]{0,20}".prop_map(Mark::Token),
            any::<u32>().prop_map(Mark::Slurm)
        ];
        let rows = prop::collection::vec(any::<u32>(), 0..4);
        (any::<u32>(), any::<u32>(), mark, rows, any::<bool>()).prop_map(
            |(gang, user, mark, rows, end)| Spec {
                gang,
                user,
                mark,
                rows,
                end,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(gangs in prop::collection::vec(specs(), 0..5), version: u64, eager: bool) {
            let contexts = gangs.iter().map(|spec| ContextSpec { gang: spec.gang, placed: None, lost: false });
            let contexts = contexts.collect();
            let parcel = Parcel::State(State::Gangs { version, gangs, contexts, devices: Vec::new(), eager });
            prop_assert_eq!(Parcel::decode(&parcel.encode()).unwrap(), parcel);
        }

        #[test]
        fn any_bytes_are_a_parcel_or_an_error(bytes: Vec<u8>) {
            if let Ok(parcel) = Parcel::decode(&bytes) {
                prop_assert_eq!(Parcel::decode(&parcel.encode()).unwrap(), parcel);
            }
        }
    }

    #[test]
    fn a_message_of_the_protocol_keeps_its_bytes() {
        let message = Message::Newer {
            epoch: Epoch::new(7),
        };
        let bytes = Parcel::Protocol(message.clone()).encode();
        assert_eq!(bytes[1..], wire::encode(&message));
        assert_eq!(Parcel::decode(&bytes).unwrap(), Parcel::Protocol(message));
        assert!(matches!(Parcel::decode(&[]), Err(ParcelError::Kind)));
        assert!(matches!(Parcel::decode(&[9, 9]), Err(ParcelError::Kind)));
    }
}
