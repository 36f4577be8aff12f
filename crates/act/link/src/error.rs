//! What can go wrong with a link, a key or the daemon that makes credentials.

use crate::Peer;
use crate::address::Address;
use crate::frame::LONGEST;
use std::path::PathBuf;

/// Why a link cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A key file could not be read or created.
    #[error("{doing} the key {path}: {source}{advice}")]
    KeyFile {
        /// `read` or `create`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
        /// The next step, after a semicolon, or nothing.
        advice: &'static str,
    },
    /// A key file cannot be trusted.
    #[error("use the key {path}: {why}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and the next step.
        why: String,
    },
    /// The munge library or daemon is missing or refuses to work.
    #[error("use munge: {0}")]
    Munge(String),
    /// The kernel gave no random numbers.
    #[error("get random numbers from the kernel: {0}")]
    Random(String),
    /// No socket could be bound to this address.
    #[error("listen at {address}: {why}")]
    Bind {
        /// The address.
        address: Address,
        /// What the kernel said, or what is already there.
        why: String,
    },
    /// The socket failed.
    #[error("{doing} at {address}: {source}")]
    Socket {
        /// `send` or `receive`.
        doing: &'static str,
        /// This end's address, or the destination.
        address: Address,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Nobody set the peer's address, and nothing has been heard from the peer.
    #[error("send to {0}: its address is unknown")]
    NoAddress(Peer),
    /// A link does not speak to itself.
    #[error("send to {0}: this is the local end")]
    Myself(Peer),
    /// The payload is too long.
    #[error("send {0} bytes in one message: the limit is {LONGEST}")]
    TooLong(usize),
}
