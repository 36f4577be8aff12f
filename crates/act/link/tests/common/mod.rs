//! What the tests of links share.

#![allow(dead_code, clippy::unwrap_used)]

pub mod vault;
pub mod world;

use idlewave_link::{Address, Auth, Key, Link, Peer};
use idlewave_units::{Nanos, NodeId};
use std::path::{Path, PathBuf};

pub fn agent(node: u32) -> Peer {
    Peer::Agent(NodeId::new(node))
}

/// A new key.
pub fn key_file(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("key");
    Key::create(&path).unwrap();
    path
}

/// A link at a free port.
pub fn udp(me: Peer, key: &Path) -> Link {
    let address = Address::Udp("127.0.0.1:0".parse().unwrap());
    Link::bind(me, Auth::Key(Key::load(key).unwrap()), &address).unwrap()
}

/// Messages that one end received.
pub type Given = Vec<(Peer, Vec<u8>)>;

/// Lets both ends read until neither sends or receives anything. Loopback delivers within the call
/// that sends.
pub fn exchange(now: Nanos, a: &mut Link, b: &mut Link) -> (Given, Given) {
    let mut given = (Vec::new(), Vec::new());
    loop {
        let before = (a.counters(), b.counters());
        while let Some(message) = a.receive(now).unwrap() {
            given.0.push(message);
        }
        while let Some(message) = b.receive(now).unwrap() {
            given.1.push(message);
        }
        if (a.counters(), b.counters()) == before {
            return given;
        }
    }
}
