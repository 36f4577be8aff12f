//! The entire network state of one rank of one gang, in one region of memory without pointers.
//!
//! A region holds a head, then for each peer the state of both ends, then for each peer the slots
//! of its send ring and of its receive ring. The [`Layout`] determines every offset, so a region
//! means the same wherever it lies: it can be copied, and its rings can lie in memory that several
//! processes map. A message that arrives before its receive is posted waits in the receive ring and
//! so is part of the context; what the library has taken out is in the memory of the process.

use super::channel::{ReceiveState, Receiver, Ring, SendState, Sender};
use super::frame::{Link, MAX_PAYLOAD};
use super::words::Words;
use super::{ChannelError, Phase};
use bytemuck::{Pod, Zeroable};

/// The smallest region that can be laid out, bytes.
pub const MIN_BYTES: usize = 16 << 10;
/// The largest one, bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// The first frame of each channel.
const FIRST: u32 = 0;

/// Why a context cannot be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// Frames would carry nothing or not fit into a datagram.
    #[error("lay out a context with frames of {0} bytes: give 1 to {MAX_PAYLOAD}")]
    Payload(usize),
    /// The region is too small or too large.
    #[error("lay out a context of {0} bytes: give {MIN_BYTES} to {MAX_BYTES}")]
    Size(usize),
    /// The region has no room for even one slot per ring.
    #[error(
        "lay out a context of {bytes} bytes for {peers} peers and frames of {payload} bytes: it needs {needed} bytes"
    )]
    TooSmall {
        /// Bytes given.
        bytes: usize,
        /// Number of peers.
        peers: u32,
        /// Bytes of a frame's payload.
        payload: usize,
        /// Bytes that one slot per ring takes.
        needed: usize,
    },
}

/// The start of each region.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub(super) struct Head {
    pub(super) epoch: u64,
    gang: u32,
    rank: u32,
    peers: u32,
    spare: u32,
}

/// Both channel ends that this rank has for one peer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub(super) struct Pair {
    pub(super) send: SendState,
    pub(super) receive: ReceiveState,
}

/// Where everything lies in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    peers: u32,
    slots: u32,
    payload: usize,
    bytes: usize,
}

impl Layout {
    /// Lays out a region of at most `bytes` for a rank with `peers` peers (including itself if it
    /// sends to itself) and frames of `payload` bytes. The number of slots per ring is the largest
    /// power of two that fits, at most 2^15.
    ///
    /// # Errors
    /// The region or the frames are too small or too large.
    pub fn fit(bytes: usize, peers: u32, payload: usize) -> Result<Self, ContextError> {
        if payload == 0 || payload > MAX_PAYLOAD {
            return Err(ContextError::Payload(payload));
        }
        if !(MIN_BYTES..=MAX_BYTES).contains(&bytes) {
            return Err(ContextError::Size(bytes));
        }
        let of = |slots: u32| Self {
            peers,
            slots,
            payload,
            bytes,
        };
        let fits = (0..16).rev().map(|power| of(1 << power));
        let layout = fits.into_iter().find(|layout| layout.used() <= bytes);
        layout.ok_or_else(|| ContextError::TooSmall {
            bytes,
            peers,
            payload,
            needed: of(1).used(),
        })
    }

    /// Number of peers.
    pub fn peers(&self) -> u32 {
        self.peers
    }

    /// Slots of each ring: the sender's window and the receiver's credits, in frames.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The most bytes that a frame carries.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Bytes of the whole region: what was requested, rounded down to words.
    pub fn bytes(&self) -> usize {
        self.bytes & !7
    }

    /// Bytes of the region that are in use.
    pub fn used(&self) -> usize {
        let rings = self.ring_bytes().saturating_mul(2 * self.peers as usize);
        self.rings().saturating_add(rings)
    }

    pub(super) fn ring_bytes(&self) -> usize {
        self.slots as usize * Ring::stride(self.payload)
    }

    /// Where a peer's send ring (`which` is 0) or receive ring (1) begins.
    pub(super) fn ring(&self, peer: u32, which: usize) -> usize {
        self.rings() + (2 * peer as usize + which) * self.ring_bytes()
    }

    /// Where the rings begin.
    pub(super) fn rings(&self) -> usize {
        size_of::<Head>() + self.peers as usize * size_of::<Pair>()
    }
}

/// The head and the channel ends, which precede the rings.
pub(super) fn ends(layout: Layout, front: &[u64]) -> (&Head, &[Pair]) {
    let (head, pairs) = front[..layout.rings() / 8].split_at(size_of::<Head>() / 8);
    (
        bytemuck::from_bytes(bytemuck::cast_slice(head)),
        bytemuck::cast_slice(pairs),
    )
}

/// Frames that have passed through a context, retransmissions not counted. Summed over all ranks of
/// a gang, the two counts are equal exactly when nothing is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Put on the network.
    pub sent: u64,
    /// Received from the network.
    pub received: u64,
}

impl Counts {
    pub(super) fn of(pairs: &[Pair]) -> Self {
        let add = |sum: Self, pair: &Pair| Self {
            sent: sum.sent.wrapping_add(pair.send.count()),
            received: sum.received.wrapping_add(pair.receive.count()),
        };
        pairs.iter().fold(Self::default(), add)
    }
}

impl Pair {
    /// Whether all that was sent to the peer, and all that it sent, has been received.
    pub(super) fn is_drained(&self) -> bool {
        self.send.phase() == Phase::Drained && self.receive.phase() == Phase::Drained
    }
}

/// A context in its region.
#[derive(Debug)]
pub struct Context<'a> {
    layout: Layout,
    head: &'a mut Head,
    pairs: &'a mut [Pair],
    rings: Words<'a>,
}

impl<'a> Context<'a> {
    /// The context that lies in `region`.
    ///
    /// # Panics
    /// If the region is shorter than its layout.
    pub fn of(layout: Layout, region: &'a mut [u64]) -> Self {
        assert!(region.len() * 8 >= layout.used(), "a region of its layout");
        let (front, rings) = region.split_at_mut(layout.rings() / 8);
        Self::at(layout, front, Words::of(rings))
    }

    /// The same, in two parts: what precedes the rings, and the rings, which may be in memory
    /// shared with others.
    ///
    /// # Panics
    /// If one of them is shorter than its layout.
    pub(super) fn at(layout: Layout, front: &'a mut [u64], rings: Words<'a>) -> Self {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut front[..layout.rings() / 8]);
        let (head, pairs) = bytes.split_at_mut(size_of::<Head>());
        Self {
            layout,
            head: bytemuck::from_bytes_mut(head),
            pairs: bytemuck::cast_slice_mut(pairs),
            rings: rings.part(0, (layout.used() - layout.rings()) / 8),
        }
    }

    /// Creates a new context of `rank` in `gang` in `region`; [`resume`](Self::resume) starts its
    /// first epoch.
    ///
    /// # Panics
    /// If the region is shorter than its layout.
    pub fn begin(layout: Layout, region: &'a mut [u64], gang: u32, rank: u32) -> Self {
        let context = Self::of(layout, region);
        *context.head = Head {
            gang,
            epoch: 0,
            rank,
            peers: layout.peers,
            spare: 0,
        };
        for (peer, pair) in (0..layout.peers).zip(context.pairs.iter_mut()) {
            let link = |source, destination| Link {
                gang,
                epoch: 0,
                source,
                destination,
            };
            *pair = Pair {
                send: SendState::new(link(rank, peer), FIRST, layout.slots),
                receive: ReceiveState::new(link(peer, rank), FIRST, layout.slots),
            };
        }
        context
    }

    /// The gang.
    pub fn gang(&self) -> u32 {
        self.head.gang
    }

    /// The epoch that it was last resumed in; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.head.epoch
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.head.rank
    }

    /// Number of peers.
    pub fn peers(&self) -> u32 {
        self.layout.peers
    }

    /// Both ends for a peer, and the peer's send ring (`which` is 0) or receive ring (1).
    fn end(&mut self, peer: u32, which: usize) -> Option<(&mut Pair, Ring<'_>)> {
        let pair = self.pairs.get_mut(peer as usize)?;
        let first = self.layout.ring(peer, which) - self.layout.rings();
        let words = self.rings.part(first / 8, self.layout.ring_bytes() / 8);
        Some((pair, Ring::at(words, self.layout.payload)?))
    }

    /// The end that sends to a peer; `None` if there is no such peer.
    pub fn sender(&mut self, peer: u32) -> Option<Sender<'_>> {
        let (pair, ring) = self.end(peer, 0)?;
        Some(Sender::new(&mut pair.send, ring))
    }

    /// The end that receives from a peer; `None` if there is no such peer.
    pub fn receiver(&mut self, peer: u32) -> Option<Receiver<'_>> {
        let (pair, ring) = self.end(peer, 1)?;
        Some(Receiver::new(&mut pair.receive, ring))
    }

    /// Stops injecting messages to these peers.
    pub fn stop(&mut self, peers: impl IntoIterator<Item = u32>) {
        for peer in peers {
            if let Some(mut sender) = self.sender(peer) {
                sender.stop();
            }
        }
    }

    /// Whether everything that was sent to these peers, and everything that they sent here, has
    /// been received.
    pub fn is_drained(&self, peers: impl IntoIterator<Item = u32>) -> bool {
        let pair = |peer: u32| self.pairs.get(peer as usize);
        let mut peers = peers.into_iter();
        peers.all(|peer| pair(peer).is_some_and(Pair::is_drained))
    }

    /// Starts or resumes, in a later epoch.
    ///
    /// # Errors
    /// The epoch is not later than its own; nothing is changed.
    pub fn resume(&mut self, epoch: u64) -> Result<(), ChannelError> {
        for peer in 0..self.peers() {
            if let Some(mut sender) = self.sender(peer) {
                sender.resume(epoch)?;
            }
            if let Some(mut receiver) = self.receiver(peer) {
                receiver.resume(epoch)?;
            }
        }
        self.head.epoch = epoch;
        Ok(())
    }

    /// Frames so far.
    pub fn counts(&self) -> Counts {
        Counts::of(self.pairs)
    }
}
