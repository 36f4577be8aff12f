//! What can go wrong with a link, a key or the daemon that makes credentials.

use crate::Peer;
use crate::address::Address;
use crate::frame::LONGEST;
use std::path::PathBuf;

/// Why a link cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A file of a key could not be read or made.
    #[error("{doing} the key {path}: {source}{advice}")]
    KeyFile {
        /// `read` or `create`.
        doing: &'static str,
        /// Which one.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
        /// The next step, after a semicolon, or nothing.
        advice: &'static str,
    },
    /// A file is no key that can be trusted.
    #[error("use the key {path}: {why}")]
    Key {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it, and the next step.
        why: String,
    },
    /// The library or the daemon of munge is missing, or refuses to work.
    #[error("use munge: {0}")]
    Munge(String),
    /// The kernel gave no random numbers.
    #[error("get random numbers from the kernel: {0}")]
    Random(String),
    /// No socket at this address.
    #[error("listen at {address}: {why}")]
    Bind {
        /// Where.
        address: Address,
        /// What the kernel said, or what is there.
        why: String,
    },
    /// The socket failed.
    #[error("{doing} at {address}: {source}")]
    Socket {
        /// `send` or `receive`.
        doing: &'static str,
        /// Whose, or where to.
        address: Address,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Nobody said where the peer is, and it did not say anything itself.
    #[error("send to {0}: its address is unknown")]
    NoAddress(Peer),
    /// A link does not speak to itself.
    #[error("send to {0}: this is the local end")]
    Myself(Peer),
    /// More than fits.
    #[error("send {0} bytes in one message: the limit is {LONGEST}")]
    TooLong(usize),
}
