//! Addresses of the ends of links.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The address of one end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A UDP port. Port 0 asks the kernel for a free one.
    Udp(SocketAddr),
    /// A Unix socket in the file system, for peers on one node.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Udp(address) => write!(f, "udp {address}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
