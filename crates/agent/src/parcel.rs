//! What controller and agents carry to each other beside the protocol of a switch: who is there, which gangs there are, and
//! what the nodes see of them. All of it is state, said whole and again, so that nothing depends on a single message.

use crate::contexts::{ContextSeen, ContextSpec, DeviceSpec};
use idlewave_freeze::Uid;
use idlewave_gang::protocol::Message;
use idlewave_gang::{GangId, wire};
use idlewave_units::{Nanos, NodeId};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// First byte of a message of the protocol.
const PROTOCOL: u8 = 0;
/// First byte of everything else, which is JSON.
const STATE: u8 = 1;

/// How the processes of a gang are known on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// By `IDLEWAVE_GANG` in their environment.
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

/// One gang, as agents need to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its number.
    pub gang: u32,
    /// Whose processes it may hold, and nobody else's.
    pub user: u32,
    /// How they are known.
    pub mark: Mark,
    /// The rows of the matrix in which it runs. None: it is not admitted yet and runs freely.
    pub rows: Vec<u32>,
    /// Whether its processes are to be ended.
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

/// What a node sees of a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its number.
    pub gang: u32,
    /// Processes under control here.
    pub processes: u32,
    /// Ranks of MPI among them.
    pub ranks: u32,
    /// Ranks of the whole gang, if its launcher told them.
    pub size: Option<u32>,
    /// For how long the number of processes has not changed.
    pub steady: Nanos,
    /// CPU time that its processes here have used so far.
    pub cpu: Nanos,
    /// Descendants or marked processes of other users, which are left alone.
    pub others: u32,
    /// Why it could not be taken under control.
    pub trouble: Option<String>,
}

/// What is said.
#[derive(Clone, Debug, PartialEq)]
pub enum Parcel {
    /// Part of a switch.
    Protocol(Message),
    /// Anything else.
    State(State),
}

/// What is said about nodes and gangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Agent to controller, until it is answered.
    Hello {
        /// The node.
        node: NodeId,
        /// Its host name.
        host: String,
        /// CPUs that the gangs may have.
        cpus: u32,
        /// How it stops processes.
        freezer: String,
        /// What does not work as well as it could, in words.
        limits: Vec<String>,
    },
    /// Controller to agent: the nodes and where they are.
    Directory(Vec<(NodeId, Place)>),
    /// Controller to agent: all gangs. The version rises with every change.
    Gangs {
        /// Which state this is.
        version: u64,
        /// All gangs there are.
        gangs: Vec<Spec>,
        /// Those of them that have network contexts.
        contexts: Vec<ContextSpec>,
        /// The devices of these.
        devices: Vec<DeviceSpec>,
        /// Where ranks that are waited for may show up soon.
        eager: bool,
    },
    /// Agent to controller: what it sees, of the version that it has carried out.
    Sight {
        /// The node.
        node: NodeId,
        /// The version that is carried out here.
        version: u64,
        /// Of each gang.
        seen: Vec<Seen>,
        /// Of each gang with network contexts.
        contexts: Vec<ContextSeen>,
        /// Devices here, and where their frames come to.
        devices: Vec<(u32, SocketAddr)>,
        /// Frames of devices that were dropped here since this agent began, as nobody with their key made them.
        forged: u64,
    },
    /// Agent to controller: what time is it there?
    AskTime {
        /// The agent's clock when it asked.
        sent: Nanos,
    },
    /// Controller to agent, at once.
    Time {
        /// As it was asked.
        sent: Nanos,
        /// The controller's clock.
        now: Nanos,
    },
    /// Controller to agent: the controller ends in order; everything is to be thawed and left.
    Farewell,
}

/// Why bytes are no parcel.
#[derive(Debug, thiserror::Error)]
pub enum ParcelError {
    /// No content, or an unknown kind of it.
    #[error("understand a message: its kind is not known; all nodes need the same idlewave")]
    Kind,
    /// Not a message of the protocol.
    #[error(transparent)]
    Wire(#[from] wire::WireError),
    /// Not what is said about nodes and gangs.
    #[error("understand a message: {0}; all nodes need the same idlewave")]
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
                // Nothing in it can fail: no maps, and writing to memory.
                let _ = serde_json::to_writer(&mut bytes, state);
                bytes
            }
        }
    }

    /// From bytes that came from whoever has the key, and may still be wrong.
    ///
    /// # Errors
    /// They are no parcel of this version.
    pub fn decode(bytes: &[u8]) -> Result<Parcel, ParcelError> {
        match bytes.split_first() {
            Some((&PROTOCOL, rest)) => Ok(Parcel::Protocol(wire::decode(rest)?)),
            Some((&STATE, rest)) => Ok(Parcel::State(serde_json::from_slice(rest)?)),
            _ => Err(ParcelError::Kind),
        }
    }
}

/// Where a peer listens.
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
