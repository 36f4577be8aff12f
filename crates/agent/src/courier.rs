//! Who carries messages between controller and agents.

use crate::parcel::Place;
use idlewave_gang::protocol::Peer;
use idlewave_link::{Address, Link, LinkError};
use idlewave_units::Nanos;
use std::os::fd::{AsFd, BorrowedFd};

/// Carries messages to named peers and brings theirs. Messages may be lost, doubled and late; what is brought was said by
/// the peer that is named, which is for the implementation to prove.
pub trait Courier {
    /// Sends, or tries to: whoever speaks says it again until it is answered.
    fn send(&mut self, now: Nanos, to: Peer, payload: &[u8]);
    /// The next message that has come; `None` if there is none now. It never waits.
    fn receive(&mut self, now: Nanos) -> Option<(Peer, Vec<u8>)>;
    /// When it is to be asked for messages even if nothing came.
    fn due(&self) -> Option<Nanos>;
    /// Where a peer is to be found from now on.
    fn know(&mut self, peer: Peer, place: &Place);
    /// Where a peer is, if that is known.
    fn place(&self, peer: Peer) -> Option<Place>;
    /// What becomes readable when something comes.
    fn socket(&self) -> BorrowedFd<'_>;
    /// What went wrong since this was asked last, once.
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
    /// Over this link.
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
        // Said once, not with every message.
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

/// The link's name of a peer.
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
