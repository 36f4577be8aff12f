//! Who carries messages between controller and agents.

use crate::parcel::Place;
use idlewave_gang::protocol::Peer;
use idlewave_units::Nanos;
use std::os::fd::BorrowedFd;

/// Carries messages to named peers and brings theirs. Messages may be lost, doubled and late; what is brought was said by
/// the peer that is named, which is for the implementation to prove.
pub trait Courier {
    /// Sends, or tries to: whoever speaks says it again until it is answered.
    fn send(&mut self, now: Nanos, to: Peer, payload: &[u8]);
    /// The next message that has come; `None` if there is none now. It never waits.
    fn receive(&mut self, now: Nanos) -> Option<(Peer, Vec<u8>)>;
    /// Where a peer is to be found from now on.
    fn know(&mut self, peer: Peer, place: &Place);
    /// Where a peer is, if that is known.
    fn place(&self, peer: Peer) -> Option<Place>;
    /// What becomes readable when something comes.
    fn socket(&self) -> BorrowedFd<'_>;
}
