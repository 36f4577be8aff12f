//! One socket and the sessions of many peers.

use crate::frame::{Content, Frame, LONGEST, LONGEST_FRAME};
use crate::key::random;
use crate::session::{Session, genuine_hello};
use crate::socket::Socket;
use crate::{Address, Auth, Counters, LinkError, Peer, Reason};
use idlewave_units::Nanos;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

/// The most datagrams without a message that one call of [`Link::receive`] reads.
const FRUITLESS: usize = 64;

/// One end of the links to many peers.
///
/// `now` must always come from the same monotonic clock, such as `CLOCK_MONOTONIC`. The two ends
/// need not share it.
#[derive(Debug)]
pub struct Link {
    me: Peer,
    auth: Auth,
    socket: Socket,
    address: Address,
    addresses: BTreeMap<Peer, Address>,
    sessions: BTreeMap<Peer, Session>,
    counters: Counters,
    /// When a session may next have to repeat HELLO; possibly out of date.
    due: Option<Nanos>,
    buffer: Vec<u8>,
}

impl Link {
    /// Listens at `address`, with no peers known. A Unix socket file has mode 0600, replaces one
    /// whose process has ended, and is removed with the link.
    ///
    /// # Errors
    /// The address is not available, or another process listens there.
    pub fn bind(me: Peer, auth: Auth, address: &Address) -> Result<Link, LinkError> {
        let (socket, address) = Socket::bind(address)?;
        Ok(Link {
            me,
            auth,
            socket,
            address,
            addresses: BTreeMap::new(),
            sessions: BTreeMap::new(),
            counters: Counters::default(),
            due: None,
            // One byte more than any frame, so that a truncated datagram still counts as too long.
            buffer: vec![0; LONGEST_FRAME + 1],
        })
    }

    /// The address of this end, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sets the address of a peer, valid until a session begins from another one.
    pub fn know(&mut self, peer: Peer, address: Address) {
        self.addresses.insert(peer, address);
    }

    /// The address of a peer: where its last session began, or what [`Link::know`] has set since.
    /// `None` if unknown.
    pub fn address_of(&self, peer: Peer) -> Option<&Address> {
        self.addresses.get(&peer)
    }

    /// Whether there is a session with a peer. The peer may have ended since.
    pub fn is_open(&self, peer: Peer) -> bool {
        self.sessions.get(&peer).is_some_and(Session::is_open)
    }

    /// Sends a message of up to [`LONGEST`] bytes, which may be lost. Without a session, the link
    /// asks for one, and the last [`WAITING`](crate::session::WAITING) payloads wait for it for up
    /// to [`KEPT`](crate::session::KEPT).
    ///
    /// # Errors
    /// The payload is too long, or addressed to this end itself; the address of the peer is
    /// unknown; no credential can be made; the kernel refuses the datagram for a reason other than
    /// a missing peer.
    pub fn send(&mut self, now: Nanos, to: Peer, payload: &[u8]) -> Result<(), LinkError> {
        if to == self.me {
            return Err(LinkError::Myself(to));
        }
        if payload.len() > LONGEST {
            return Err(LinkError::TooLong(payload.len()));
        }
        let address = self.addresses.get(&to).ok_or(LinkError::NoAddress(to))?;
        let session = match self.sessions.get_mut(&to) {
            Some(session) => session,
            None => {
                let session = Session::new(self.me, to, random()?);
                self.sessions.entry(to).or_insert(session)
            }
        };
        let mut out = Vec::new();
        let said = session.send(now, payload, &mut self.auth, &mut out);
        self.due = sooner(self.due, session.due());
        for datagram in &out {
            transmit(&self.socket, &mut self.counters, datagram, address)?;
        }
        said
    }

    /// The next message and its sender. `None` if none is waiting, or after many datagrams without
    /// a message, so that the caller can do other work.
    ///
    /// # Errors
    /// The socket fails, or HELLO must be repeated and no credential can be made.
    pub fn receive(&mut self, now: Nanos) -> Result<Option<(Peer, Vec<u8>)>, LinkError> {
        self.repeat(now)?;
        for _ in 0..FRUITLESS {
            // Taken out of the link, so that a frame can borrow from it.
            let mut buffer = std::mem::take(&mut self.buffer);
            let received = self.socket.receive(&mut buffer);
            let handled = match &received {
                Ok(Some((length, from))) => {
                    let datagram = buffer.get(..*length).unwrap_or_default();
                    self.handle(now, datagram, from.as_ref())
                }
                _ => Ok(None),
            };
            self.buffer = buffer;
            let received = received.map_err(|source| LinkError::Socket {
                doing: "receive",
                address: self.address.clone(),
                source,
            })?;
            match handled {
                Ok(Some(given)) => return Ok(Some(given)),
                Ok(None) => {}
                Err(reason) => self.counters.refuse(reason),
            }
            if received.is_none() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// When to call [`Link::receive`] even if nothing has arrived, since HELLO may have been lost;
    /// `None`: not before something arrives or is sent.
    pub fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Repeats HELLO where due.
    fn repeat(&mut self, now: Nanos) -> Result<(), LinkError> {
        if self.due.is_none_or(|due| due > now) {
            return Ok(());
        }
        let mut failed = Ok(());
        self.due = None;
        let mut out = Vec::new();
        for (peer, session) in &mut self.sessions {
            let said = session.repeat(now, &mut self.auth, &mut out);
            failed = failed.and(said);
            self.due = sooner(self.due, session.due());
            for datagram in out.drain(..) {
                if let Some(address) = self.addresses.get(peer) {
                    let sent = transmit(&self.socket, &mut self.counters, &datagram, address);
                    failed = failed.and(sent);
                }
            }
        }
        failed
    }

    /// Handles one datagram.
    fn handle(
        &mut self,
        now: Nanos,
        datagram: &[u8],
        from: Option<&Address>,
    ) -> Result<Option<(Peer, Vec<u8>)>, Reason> {
        let frame = Frame::parse(datagram)?;
        let peer = frame.from;
        if peer == self.me {
            return Err(Reason::Sender);
        }
        let session = match self.sessions.get_mut(&peer) {
            Some(session) => session,
            None => {
                // Nothing is stored for a sender that has not proven that it is a peer.
                let Content::Hello(hello) = &frame.content else {
                    return Err(Reason::Session);
                };
                if frame.to != self.me {
                    return Err(Reason::Receiver);
                }
                genuine_hello(now, &frame, hello, &mut self.auth)?;
                let seed = random().map_err(|_| Reason::Unable)?;
                let session = Session::new(self.me, peer, seed);
                self.sessions.entry(peer).or_insert(session)
            }
        };
        let handled = session.handle_frame(now, &frame, &mut self.auth)?;
        self.due = sooner(self.due, session.due());
        self.counters.sessions += u64::from(handled.begun);
        if let Some(from) = from.filter(|_| handled.begun) {
            self.addresses.insert(peer, from.clone());
        }
        if let Some(to) = from.or(self.addresses.get(&peer)) {
            for answer in &handled.answers {
                // An answer that cannot be sent is lost; there is no caller here to report it to.
                let _ = transmit(&self.socket, &mut self.counters, answer, to);
            }
        }
        self.counters.given += u64::from(handled.payload.is_some());
        Ok(handled.payload.map(|payload| (peer, payload)))
    }
}

/// Hands a datagram to the kernel.
fn transmit(
    socket: &Socket,
    counters: &mut Counters,
    datagram: &[u8],
    to: &Address,
) -> Result<(), LinkError> {
    let sent = socket.send(datagram, to);
    match sent {
        Ok(true) => counters.sent += 1,
        Ok(false) | Err(_) => counters.unsent += 1,
    }
    sent.map(drop).map_err(|source| LinkError::Socket {
        doing: "send",
        address: to.clone(),
        source,
    })
}

/// The earlier of two times, if any.
fn sooner(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
