//! The state of a session at one of its ends.

use super::channel::Channel;
use super::contribution::{Heard, Local};
use crate::Peer;
use crate::bucket::Bucket;
use crate::derive::{Nonce, Pair, Secret, Share};
use idlewave_units::Nanos;
use std::collections::VecDeque;

/// What one peer knows about its session with another.
#[derive(Debug)]
pub struct Session {
    pub(super) me: Peer,
    pub(super) peer: Peer,
    /// Nonces and secrets are derived from this.
    pub(super) seed: [u8; 32],
    /// How many have been derived.
    pub(super) derived: u64,
    /// This end's contribution to the next session; `None` if not made yet.
    pub(super) local: Option<Local>,
    /// Nonces of answered HELLOs. Empty if all ends share one secret.
    pub(super) heard: VecDeque<Heard>,
    pub(super) current: Option<Channel>,
    /// The previous session, until the other end is heard in the current one.
    pub(super) old: Option<Channel>,
    pub(super) attempt: Option<Attempt>,
    /// Payloads that wait for a session, each with the time since which it waits.
    pub(super) waiting: VecDeque<(Nanos, Vec<u8>)>,
    /// When this end began to send without an answer, and how many payloads it has sent since.
    pub(super) unanswered: Option<(Nanos, u32)>,
    /// When this end last sent something in a session.
    pub(super) said: Option<Nanos>,
    pub(super) answers: Bucket,
    /// Limits the credentials made for answers.
    pub(super) credentials: Bucket,
}

/// The result of an accepted datagram.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// The peer's payload; `None` if the datagram only concerned the session itself.
    pub payload: Option<Vec<u8>>,
    /// Datagrams to send back to where this one came from. The first is no longer than this one,
    /// unless the sender has proven who it is.
    pub answers: Vec<Vec<u8>>,
    /// A session has begun, so the datagram's source is the peer's address.
    pub begun: bool,
}

impl Session {
    /// A session of `me` with `peer` before any message. `seed` must be random, secret, and new for
    /// each `Session`.
    pub fn new(me: Peer, peer: Peer, seed: [u8; 32]) -> Self {
        Session {
            me,
            peer,
            seed,
            derived: 0,
            local: None,
            heard: VecDeque::new(),
            current: None,
            old: None,
            attempt: None,
            waiting: VecDeque::new(),
            unanswered: None,
            said: None,
            // An answer takes some 5 us (examples/link_cost.rs), so a flood of replayed HELLOs
            // takes 0.5 % of a core.
            answers: Bucket::new(100, Nanos::from_millis(1)),
            // Each takes some 0.03 ms in this process and as much in the daemon.
            credentials: Bucket::new(20, Nanos::from_millis(50)),
        }
    }

    /// Whether there is a session to speak in. The other end may have forgotten it.
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// When [`Session::repeat`] has something to do; `None`: not before this end sends again.
    pub fn due(&self) -> Option<Nanos> {
        self.attempt.as_ref().map(|attempt| attempt.next)
    }

    /// The keys of the session made from `local` and the peer's nonce and secret.
    pub(super) fn pair(&self, local: &Local, nonce: &Nonce, secret: &Secret) -> Pair {
        let mine = Share {
            peer: self.me,
            nonce: &local.nonce,
            secret: &local.secret,
        };
        let theirs = Share {
            peer: self.peer,
            nonce,
            secret,
        };
        Pair::new(mine, theirs)
    }

    /// Begins a session. What was prepared for the next session is now part of this one and is not
    /// used again.
    pub(super) fn begin(&mut self, channel: Channel, old: Option<Channel>) {
        self.current = Some(channel);
        self.old = old;
        self.local = None;
        self.heard.clear();
        self.attempt = None;
        self.unanswered = None;
    }
}

/// This end's request for a session.
#[derive(Debug)]
pub(super) struct Attempt {
    /// When this end last had something to send.
    pub(super) asked: Nanos,
    /// When to send HELLO again.
    pub(super) next: Nanos,
    /// Time from that HELLO to the next.
    pub(super) wait: Nanos,
}
