//! Transport of messages between controller and agents.

use crate::parcel::Place;
use idlewave_gang::protocol::Peer;
use idlewave_link::{Address, Link, LinkError};
use idlewave_units::Nanos;
use std::os::fd::{AsFd, BorrowedFd};

/// Sends messages to named peers and receives theirs. Messages may be lost, duplicated or late. The
/// implementation guarantees that a received message comes from the named peer.
pub trait Courier {
    /// Tries to send: the caller repeats a message until it is answered.
    fn send(&mut self, now: Nanos, to: Peer, payload: &[u8]);
    /// The next received message; `None` if there is none now. It never blocks.
    fn receive(&mut self, now: Nanos) -> Option<(Peer, Vec<u8>)>;
    /// When to poll it even if nothing has arrived.
    fn due(&self) -> Option<Nanos>;
    /// Sets the address of a peer.
    fn know(&mut self, peer: Peer, place: &Place);
    /// The address of a peer, if known.
    fn place(&self, peer: Peer) -> Option<Place>;
    /// Becomes readable when a message arrives.
    fn socket(&self) -> BorrowedFd<'_>;
    /// Errors since the last call, each once.
    fn trouble(&mut self) -> Option<String>;
}

/// Messages over an authenticated link.
#[derive(Debug)]
pub struct Post {
    link: Link,
    trouble: Option<String>,
    told: Option<String>,
}

impl Post {
    /// Sends and receives over this link.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            trouble: None,
            told: None,
        }
    }

    /// The link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    fn note(&mut self, error: &LinkError) {
        // Reported once, not with every message.
        let text = error.to_string();
        if self.told.as_ref() != Some(&text) {
            self.told = Some(text.clone());
            self.trouble = Some(text);
        }
    }
}

impl Courier for Post {
    fn send(&mut self, now: Nanos, to: Peer, payload: &[u8]) {
        if let Err(error) = self.link.send(now, link_peer(to), payload) {
            self.note(&error);
        }
    }

    fn receive(&mut self, now: Nanos) -> Option<(Peer, Vec<u8>)> {
        match self.link.receive(now) {
            Ok(received) => received.map(|(from, bytes)| (peer(from), bytes)),
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    fn due(&self) -> Option<Nanos> {
        self.link.due()
    }

    fn know(&mut self, peer: Peer, place: &Place) {
        let address = match place {
            Place::Unix(path) => Address::Unix(path.clone()),
            Place::Udp(address) => Address::Udp(*address),
        };
        self.link.know(link_peer(peer), address);
    }

    fn place(&self, peer: Peer) -> Option<Place> {
        self.link
            .address_of(link_peer(peer))
            .map(|address| match address {
                Address::Unix(path) => Place::Unix(path.clone()),
                Address::Udp(address) => Place::Udp(*address),
            })
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }
}

/// The link's name for a peer.
pub fn link_peer(peer: Peer) -> idlewave_link::Peer {
    match peer {
        Peer::Controller => idlewave_link::Peer::Controller,
        Peer::Agent(node) => idlewave_link::Peer::Agent(node),
    }
}

fn peer(peer: idlewave_link::Peer) -> Peer {
    match peer {
        idlewave_link::Peer::Controller => Peer::Controller,
        idlewave_link::Peer::Agent(node) => Peer::Agent(node),
    }
}
