//! The state of a session at one of its ends.

use super::channel::Channel;
use super::contribution::{Heard, Local};
use crate::Peer;
use crate::bucket::Bucket;
use crate::derive::{Nonce, Pair, Secret, Share};
use idlewave_units::Nanos;
use std::collections::VecDeque;

/// The state of one pair of peers at one of them.
#[derive(Debug)]
pub struct Session {
    pub(super) me: Peer,
    pub(super) peer: Peer,
    /// Where nonces and secrets are derived from.
    pub(super) seed: [u8; 32],
    /// How many were derived.
    pub(super) derived: u64,
    /// What this end adds to the next session; `None`: not made yet.
    pub(super) local: Option<Local>,
    /// Nonces of HELLOs that were answered. Empty where all share one secret.
    pub(super) heard: VecDeque<Heard>,
    pub(super) current: Option<Channel>,
    /// The one before, until the other end is heard in the current one.
    pub(super) old: Option<Channel>,
    pub(super) attempt: Option<Attempt>,
    /// Payloads that wait for a session, and since when.
    pub(super) waiting: VecDeque<(Nanos, Vec<u8>)>,
    /// Since when this end has spoken and not been answered, and how many payloads it has sent.
    pub(super) unanswered: Option<(Nanos, u32)>,
    /// When this end last said something in a session.
    pub(super) said: Option<Nanos>,
    pub(super) answers: Bucket,
    /// Credentials that are made to answer somebody.
    pub(super) credentials: Bucket,
}

/// What came of a datagram that was not refused.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// What the peer said; `None`: nothing to anybody but the session.
    pub payload: Option<Vec<u8>>,
    /// Datagrams to send to where the datagram came from. The first of them is not longer than the
    /// datagram, unless its sender has proven who it is.
    pub answers: Vec<Vec<u8>>,
    /// A session has begun: where the datagram came from is where the peer is.
    pub begun: bool,
}

impl Session {
    /// A session of `me` with `peer` before any message. `seed` is random, new for each `Session`, and
    /// known to nobody.
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
            // An answer takes some 5 us (examples/link_cost.rs): 0.5 % of a core when somebody says
            // old HELLOs again and again.
            answers: Bucket::new(100, Nanos::from_millis(1)),
            // Each takes some 0.03 ms of this process and as much of the daemon.
            credentials: Bucket::new(20, Nanos::from_millis(50)),
        }
    }

    /// Whether there is a session to speak in. The other end may have forgotten it.
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// When [`Session::repeat`] has something to do; `None`: not before this end speaks again.
    pub fn due(&self) -> Option<Nanos> {
        self.attempt.as_ref().map(|attempt| attempt.next)
    }

    /// The keys of a session of `local` and the peer's nonce and secret.
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

/// A request of this end for a session.
#[derive(Debug)]
pub(super) struct Attempt {
    /// When somebody last had something to say.
    pub(super) asked: Nanos,
    /// When to send HELLO again.
    pub(super) next: Nanos,
    /// How long to wait after that before the next one.
    pub(super) wait: Nanos,
}
