//! What carries frames between nodes. Any transport may lose, duplicate, reorder or damage a frame;
//! channels recover from that.

use super::frame::{HEADER_BYTES, MAX_PAYLOAD};
use crate::mailbox::{Ends, Mailboxes, SLOT_BYTES};
use crate::piece::Pieces;
use idlewave_stats::random::SplitMix;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One node's connection to all others and to itself.
pub trait Transport: Send {
    /// The longest frame that it carries, bytes.
    fn longest(&self) -> usize;

    /// Sends a frame to a node; false if there is no room now and it must be offered again. True
    /// does not promise that the frame arrives.
    fn send(&mut self, to: u32, frame: &[u8]) -> bool;

    /// Replaces the content of `frame` with the next frame that has arrived; false if none has.
    fn receive(&mut self, frame: &mut Vec<u8>) -> bool;

    /// A descriptor that is readable once a frame has arrived; `None` if the transport must be
    /// polled.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    /// Whether a frame can ever arrive.
    fn brings(&self) -> bool {
        true
    }
}

/// A transport that may be absent. `None` is for a node whose gangs have no ranks elsewhere; it
/// carries nothing.
impl<T: Transport> Transport for Option<T> {
    fn longest(&self) -> usize {
        self.as_ref().map_or(0, T::longest)
    }

    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        self.as_mut().is_none_or(|way| way.send(to, frame))
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.as_mut().is_some_and(|way| way.receive(frame))
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.as_ref().and_then(T::descriptor)
    }

    fn brings(&self) -> bool {
        self.as_ref().is_some_and(T::brings)
    }
}

/// Between threads of one process, through rings in the memory that they share.
pub struct Memory {
    ends: Ends,
    /// The node to poll first; it rotates.
    next: u32,
}

impl Memory {
    /// The transports of all `size` nodes.
    pub fn all(size: u32) -> Vec<Self> {
        let mailboxes = Arc::new(Mailboxes::new(size));
        let of = |node| Self {
            ends: Ends::new(node, &mailboxes),
            next: 0,
        };
        (0..size).map(of).collect()
    }
}

impl Transport for Memory {
    fn longest(&self) -> usize {
        SLOT_BYTES
    }

    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        self.ends.put(to, 0, frame.len() as u64, frame).is_some()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        let size = self.ends.size();
        for i in 0..size {
            let from = (self.next + i) % size;
            let taken = self.ends.take(from, |_, bytes| {
                frame.clear();
                bytes.append_to(0, usize::MAX, frame);
            });
            if taken.is_some() {
                self.next = (from + 1) % size;
                return true;
            }
        }
        false
    }
}

/// Addresses of nodes. More may become known while frames are carried.
#[derive(Clone, Debug, Default)]
pub struct Addresses(Arc<Mutex<BTreeMap<u32, SocketAddr>>>);

impl Addresses {
    /// Sets a node's address from now on.
    pub fn know(&self, node: u32, address: SocketAddr) {
        self.all().insert(node, address);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, node: u32) -> Option<SocketAddr> {
        self.all().get(&node).copied()
    }

    fn has(&self, address: &SocketAddr) -> bool {
        self.all().values().any(|known| known == address)
    }
}

/// Over UDP. Frames from unknown addresses are dropped. Senders are not authenticated otherwise: on
/// a network where others can send, wrap this in a transport that authenticates.
pub struct Udp {
    socket: UdpSocket,
    nodes: Addresses,
    buffer: Vec<u8>,
}

impl Udp {
    /// From this node's socket and the addresses of all nodes.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(socket: UdpSocket, nodes: Vec<SocketAddr>) -> Result<Self> {
        let addresses = Addresses::default();
        for (node, address) in (0..).zip(nodes) {
            addresses.know(node, address);
        }
        Self::with_addresses(socket, addresses)
    }

    /// From this node's socket and addresses, which may become known later. Frames to a node
    /// without an address are lost.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn with_addresses(socket: UdpSocket, nodes: Addresses) -> Result<Self> {
        socket.set_nonblocking(true)?;
        make_room(&socket);
        Ok(Self {
            socket,
            nodes,
            buffer: vec![0; HEADER_BYTES + MAX_PAYLOAD],
        })
    }

    /// The transports of `size` nodes in this network namespace, on the loopback device, each on a
    /// free port.
    ///
    /// # Errors
    /// There are no sockets left.
    pub fn loopback(size: u32) -> Result<Vec<Self>> {
        let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let sockets: Vec<UdpSocket> = (0..size).map(bind).collect::<Result<_>>()?;
        let address = |socket: &UdpSocket| socket.local_addr();
        let nodes: Vec<SocketAddr> = sockets.iter().map(address).collect::<Result<_>>()?;
        let of = |socket| Self::new(socket, nodes.clone());
        sockets.into_iter().map(of).collect()
    }
}

/// Bytes that may wait in a socket while its reader is not scheduled. Anything beyond that is lost
/// and retransmitted after a time-out.
const ROOM: libc::c_int = 4 << 20;

/// Asks for [`ROOM`]; the system grants more than its limit only with CAP_NET_ADMIN (socket(7)).
fn make_room(socket: &UdpSocket) {
    let room = ROOM;
    let length = size_of_val(&room) as libc::socklen_t;
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        let room = (&raw const room).cast();
        let fd = socket.as_raw_fd();
        // SAFETY: an open socket, and a number that lives through the call. A refusal changes
        // nothing.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, room, length) };
    }
}

impl Transport for Udp {
    /// What Ethernet carries unfragmented: 1,500 bytes without the headers of IPv4 and UDP.
    fn longest(&self) -> usize {
        1_472
    }

    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        let Some(address) = self.nodes.of(to) else {
            return true;
        };
        match self.socket.send_to(frame, address) {
            // Any other failure counts as a loss in transit.
            Err(error) => error.kind() != ErrorKind::WouldBlock,
            Ok(_) => true,
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        // Errors belong to earlier sends. The loop is bounded: the next call follows soon.
        for _ in 0..16 {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, from)) if self.nodes.has(&from) => {
                    frame.clear();
                    frame.extend_from_slice(&self.buffer[..length]);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                _ => {}
            }
        }
        false
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }
}

/// How often a [`Lossy`] transport misbehaves, per 1,000 frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misdeeds {
    /// Loses a frame.
    pub lose: u32,
    /// Sends it twice.
    pub double: u32,
    /// Holds it back until later ones have been sent.
    pub delay: u32,
    /// Changes one bit of it.
    pub damage: u32,
}

/// Another transport, with misdeeds that depend only on the seed and on what is sent.
pub struct Lossy<T> {
    inner: T,
    misdeeds: Misdeeds,
    random: SplitMix,
    held: Vec<(u32, Vec<u8>)>,
}

/// Frames that may be held back at a time.
const HELD: usize = 4;

impl<T> Lossy<T> {
    /// Applies `misdeeds` to what goes out through `inner`.
    pub fn new(inner: T, misdeeds: Misdeeds, seed: u64) -> Self {
        Self {
            inner,
            misdeeds,
            random: SplitMix::new(seed),
            held: Vec::new(),
        }
    }

    fn does(&mut self, of_1000: u32) -> bool {
        of_1000 > 0 && self.random.below(1_000) < u64::from(of_1000)
    }
}

impl<T: Transport> Transport for Lossy<T> {
    fn longest(&self) -> usize {
        self.inner.longest()
    }

    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        if self.does(self.misdeeds.lose) {
            return true;
        }
        if self.does(self.misdeeds.delay) && self.held.len() < HELD {
            self.held.push((to, frame.to_vec()));
            return true;
        }
        let sent = if self.does(self.misdeeds.damage) && !frame.is_empty() {
            let mut frame = frame.to_vec();
            let bit = self.random.below(frame.len() as u64 * 8) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
            self.inner.send(to, &frame)
        } else {
            self.inner.send(to, frame)
        };
        if sent && self.does(self.misdeeds.double) {
            self.inner.send(to, frame);
        }
        // A held frame follows this one, whatever its destination. If there is no room it is lost.
        if !self.held.is_empty() && self.random.below(2) == 0 {
            let any = self.random.below(self.held.len() as u64) as usize;
            let (to, late) = self.held.swap_remove(any);
            self.inner.send(to, &late);
        }
        sent
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.inner.receive(frame)
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.inner.descriptor()
    }
}
