//! Keys and counters of a session that has begun.

use super::contribution::{Credential, Local};
use crate::derive::{Nonce, Pair, SessionId};
use crate::frame::{self, Frame, Speech};
use crate::seal::Sealer;
use crate::window::{Verdict, Window};
use crate::{Peer, Reason};

/// A session that has begun at this end.
#[derive(Debug)]
pub(super) struct Channel {
    me: Peer,
    peer: Peer,
    id: SessionId,
    /// Seals what this end says.
    outgoing: Sealer,
    /// Opens what the other end says.
    incoming: Sealer,
    /// Counter of this end's next frame.
    next: u64,
    window: Window,
    /// Whether the other end was heard in this session.
    pub(super) proven: bool,
    /// This end's contribution, to repeat if the other end sends HELLO again with the nonce of this
    /// session.
    pub(super) local: Local,
    /// The credential for repeating it. The other end may have decoded the one in this end's HELLO
    /// before a restart, and cannot decode it twice.
    pub(super) answer: Option<Credential>,
    /// The nonce that the other end contributed.
    pub(super) theirs: Nonce,
    /// Authenticates a repeated HELLO-BACK.
    pub(super) pair: Pair,
}

impl Channel {
    pub(super) fn new(me: Peer, peer: Peer, pair: Pair, local: Local, theirs: Nonce) -> Self {
        Channel {
            me,
            peer,
            id: pair.id(),
            outgoing: pair.frames_of(me),
            incoming: pair.frames_of(peer),
            next: 0,
            window: Window::default(),
            proven: false,
            local,
            answer: None,
            theirs,
            pair,
        }
    }

    /// Whether a frame claims to belong to this session.
    pub(super) fn is_of(&self, speech: &Speech<'_>) -> bool {
        self.id == speech.id
    }

    /// The next frame, with this payload; a note if `None`.
    pub(super) fn seal(&mut self, payload: Option<&[u8]>) -> Vec<u8> {
        let speech = Speech {
            id: self.id,
            counter: self.next,
            opening: (!self.proven).then_some(self.local.nonce),
            payload,
        };
        // No machine runs long enough for 2^64 frames, so no counter repeats under one key.
        self.next += 1;
        frame::speech(&self.outgoing, self.me, self.peer, &speech)
    }

    /// Accepts a frame once. Returns its payload; `None` for a note.
    pub(super) fn open(
        &mut self,
        frame: &Frame<'_>,
        speech: &Speech<'_>,
    ) -> Result<Option<Vec<u8>>, Reason> {
        let payload = frame.open(speech, &self.incoming).ok_or(Reason::Forged)?;
        match self.window.note(speech.counter) {
            Verdict::New => {
                self.proven = true;
                Ok(speech.payload.map(|_| payload))
            }
            Verdict::Seen => Err(Reason::Replayed),
            Verdict::Unknown => Err(Reason::Late),
        }
    }
}
