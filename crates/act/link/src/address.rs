//! Where the ends of links are.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where one end of a link is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A port of UDP. Port 0 asks the kernel for a free one.
    Udp(SocketAddr),
    /// A socket in the file system, for peers of one node.
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
