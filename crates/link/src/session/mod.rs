//! The session of one pair of peers, without sockets, clock or random numbers of its own.
//!
//! Each end has a nonce for the next session with the other. HELLO tells it, HELLO-BACK tells the other's and that the first was
//! understood; the keys of the session are made of both nonces, both names and the secrets of both ends. Whoever asks,
//! and if both do, the session is the same one. An end takes a new nonce whenever a session begins:
//!
//! - The end that asked begins it with HELLO-BACK, whose code needs its nonce. It says its nonce again in each frame until it
//!   hears one of the session.
//! - The other end begins it with such a frame, and not before: an old HELLO that somebody says again is answered, and
//!   changes nothing. As its code needs the nonce of this end, such a frame begins no second session.
//! - A session that ran before is over when the other end is heard in the new one.
//!
//! An end that hears nothing after it spoke asks for a new session ([`SILENCE`]), and goes on speaking in the one it has.
//! So that silence means something, an end that is only spoken to answers with a note now and then ([`ECHO`]).

mod channel;
mod handshake;
mod secrets;
mod speak;

pub use crate::derive::Secret;
pub(crate) use handshake::genuine_hello;
pub use secrets::Secrets;

use crate::Peer;
use crate::bucket::Bucket;
use crate::derive::{Nonce, Pair, Share};
use channel::Channel;
use handshake::{Attempt, Heard, Local};
use idlewave_units::Nanos;
use std::collections::VecDeque;

/// After how long without an answer a new session is asked for, if this end has spoken more than once.
pub const SILENCE: Nanos = Nanos::from_millis(200);

/// Of so many payloads one is answered, be it with a note: of the last ones before a pause maybe none was.
const SOON: u32 = 3;

/// An end that said nothing for this long answers with a note when it is spoken to.
pub const ECHO: Nanos = Nanos::from_millis(50);

/// How many payloads wait for a session; of more, the newest ones.
pub const WAITING: usize = 8;

/// For how long they wait.
pub const KEPT: Nanos = Nanos::from_secs(2);

/// How many nonces of the other end are remembered, where each has a secret of its own.
const HEARD: usize = 16;

/// The state of one pair of peers at one of them.
#[derive(Debug)]
pub struct Session {
    me: Peer,
    peer: Peer,
    /// Where nonces and secrets are derived from.
    seed: [u8; 32],
    /// How many were derived.
    derived: u64,
    /// What this end adds to the next session; `None`: not made yet.
    local: Option<Local>,
    /// Nonces of HELLOs that were answered. Empty where all share one secret.
    heard: VecDeque<Heard>,
    current: Option<Channel>,
    /// The one before, until the other end is heard in the current one.
    old: Option<Channel>,
    attempt: Option<Attempt>,
    /// Payloads that wait for a session, and since when.
    waiting: VecDeque<(Nanos, Vec<u8>)>,
    /// Since when this end has spoken and not been answered, and how many payloads it has sent.
    unanswered: Option<(Nanos, u32)>,
    /// When this end last said something in a session.
    said: Option<Nanos>,
    answers: Bucket,
    /// Credentials that are made to answer somebody.
    credentials: Bucket,
}

/// What came of a datagram that was not refused.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// What the peer said; `None`: nothing to anybody but the session.
    pub payload: Option<Vec<u8>>,
    /// Datagrams to send to where the datagram came from. The first of them is not longer than the datagram, unless its
    /// sender has proven who it is.
    pub answers: Vec<Vec<u8>>,
    /// A session has begun: where the datagram came from is where the peer is.
    pub begun: bool,
}

impl Session {
    /// Of `me` with `peer`; nothing is said yet. `seed` is random, new for each `Session`, and known to nobody.
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
            // An answer takes some 5 us (examples/link_cost.rs): 0.5 % of a core when somebody says old HELLOs again and again.
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
        self.attempt.as_ref().map(Attempt::next)
    }

    /// The keys of a session of `local` and the peer's nonce and secret.
    fn pair(&self, local: &Local, nonce: &Nonce, secret: &Secret) -> Pair {
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

    /// A session begins. What was made for the one after the last belongs to it, and is not used again.
    fn begin(&mut self, channel: Channel, old: Option<Channel>) {
        self.current = Some(channel);
        self.old = old;
        self.local = None;
        self.heard.clear();
        self.attempt = None;
        self.unanswered = None;
    }
}
