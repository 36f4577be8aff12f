//! The keys and counters of a session that has begun.

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
    /// Of what this end says.
    outgoing: Sealer,
    /// Of what the other end says.
    incoming: Sealer,
    /// The counter of the next frame of this end.
    next: u64,
    window: Window,
    /// The other end was heard in it.
    pub(super) proven: bool,
    /// What this end added, to be told again where the other end says HELLO with the nonce that it
    /// added.
    pub(super) local: Local,
    /// The credential that tells it again: the one of HELLO may have been decoded by an earlier
    /// life of the other end.
    pub(super) answer: Option<Credential>,
    /// The nonce that the other end added.
    pub(super) theirs: Nonce,
    /// For telling it again.
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

    /// Whether a frame says that it is of this session.
    pub(super) fn is_of(&self, speech: &Speech<'_>) -> bool {
        self.id == speech.id
    }

    /// A frame; `None`: a note.
    pub(super) fn seal(&mut self, payload: Option<&[u8]>) -> Vec<u8> {
        let speech = Speech {
            id: self.id,
            counter: self.next,
            opening: (!self.proven).then_some(self.local.nonce),
            payload,
        };
        // 2^64 frames take longer than any machine runs, so that no counter comes twice under one
        // key.
        self.next += 1;
        frame::speech(&self.outgoing, self.me, self.peer, &speech)
    }

    /// Takes a frame once; gives its payload, unless it is a note.
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
