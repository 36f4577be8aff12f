//! The receiving end of a channel.

use super::{DRAINED, End, FLUSHING, Phase, RUNNING, Ring, before};
use crate::netctx::ChannelError;
use crate::netctx::frame::{Header, Kind, Link};
use bytemuck::{Pod, Zeroable};

/// The receiving end's state, except the frames in its ring: plain words, laid out as in a context.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct ReceiveState {
    /// Frames received so far, retransmissions not counted.
    count: u64,
    end: End,
    /// The next frame expected. Those from `taken` up to it are in the ring.
    expected: u32,
    /// The next frame that the application takes.
    taken: u32,
    /// The limit last sent to the sender.
    granted: u32,
    /// Where the sender's epoch ends; valid while the phase is not `RUNNING`.
    last: u32,
    answer_due: u32,
    spare: u32,
}

impl ReceiveState {
    /// An empty channel whose first frame is number `first`. The sender already has `credits`
    /// credits, one per slot of the ring.
    pub fn new(link: Link, first: u32, credits: u32) -> Self {
        Self {
            end: End::new(link),
            expected: first,
            taken: first,
            granted: first.wrapping_add(credits),
            ..Self::default()
        }
    }

    /// The frames in the ring: the first, and how many.
    pub fn stored(&self) -> (u32, u32) {
        (self.taken, self.expected.wrapping_sub(self.taken))
    }

    /// The next frame expected.
    pub(in crate::netctx) fn expected(&self) -> u32 {
        self.expected
    }

    /// This end's phase.
    pub(in crate::netctx) fn phase(&self) -> Phase {
        self.end.phase()
    }

    /// Frames received so far, retransmissions not counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The link that this end belongs to.
    pub fn link(&self) -> Link {
        self.end.link()
    }
}

/// The receiving end of a channel: its state and its ring, both borrowed from a context.
#[derive(Debug)]
pub struct Receiver<'a> {
    state: &'a mut ReceiveState,
    ring: Ring<'a>,
}

impl<'a> Receiver<'a> {
    /// The end with this state and these frames.
    pub fn new(state: &'a mut ReceiveState, ring: Ring<'a>) -> Self {
        Self { state, ring }
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        self.state.end.phase()
    }

    /// Its state.
    pub fn state(&self) -> &ReceiveState {
        self.state
    }

    /// Frames that the application may take.
    pub fn waiting(&self) -> u32 {
        self.state.stored().1
    }

    /// The first frame without a credit.
    fn limit(&self) -> u32 {
        self.state.taken.wrapping_add(self.ring.slots())
    }

    /// Accepts a frame from the network. False, with nothing changed, if it does not belong to this
    /// channel and epoch, or there is no space for it (the sender had no credit).
    pub fn hear(&mut self, header: &Header, payload: &[u8]) -> bool {
        if header.kind.is_answer() || header.kind == Kind::Fail || header.link != self.state.link()
        {
            return false;
        }
        match header.kind {
            Kind::Data | Kind::End if header.sequence == self.state.expected => {
                let end = header.kind == Kind::End;
                if self.waiting() >= self.ring.slots()
                    || !self.ring.put(header.sequence, end, payload)
                {
                    return false;
                }
                self.state.expected = header.sequence.wrapping_add(1);
                self.state.count = self.state.count.wrapping_add(1);
            }
            Kind::Flush if self.state.end.phase == RUNNING => {
                self.state.end.phase = FLUSHING;
                self.state.last = header.sequence;
            }
            // A probe, or repeated, or too early: the answer says what this end expects.
            _ => {}
        }
        if self.state.end.phase == FLUSHING && self.state.expected == self.state.last {
            self.state.end.phase = DRAINED;
        }
        self.state.answer_due = 1;
        true
    }

    /// The next answer to send; `None` if there is none now.
    pub fn poll(&mut self) -> Option<Header> {
        if std::mem::take(&mut self.state.answer_due) == 0 {
            return None;
        }
        let limit = self.limit();
        self.state.granted = limit;
        let kind = match self.state.end.phase {
            DRAINED => Kind::FlushAck,
            _ => Kind::Ack,
        };
        Some(Header {
            kind,
            link: self.state.link(),
            sequence: self.state.expected,
            limit,
        })
    }

    /// The oldest frame and whether it ends its message; `None` if none is there.
    pub fn front(&mut self) -> Option<(&[u8], bool)> {
        (self.waiting() > 0).then(|| self.ring.get(self.state.taken))
    }

    /// Frees the slot of the oldest frame, if there is one.
    pub fn release(&mut self) {
        if self.waiting() == 0 {
            return;
        }
        self.state.taken = self.state.taken.wrapping_add(1);
        self.tell_of_space();
    }

    /// Notes that another process took frames from the ring, up to `taken`. False, with nothing
    /// changed, if that is impossible.
    pub(in crate::netctx) fn release_to(&mut self, taken: u32) -> bool {
        let possible = !before(taken, self.state.taken) && !before(self.state.expected, taken);
        if possible {
            self.state.taken = taken;
            self.tell_of_space();
        }
        possible
    }

    /// The next frame expected.
    pub(in crate::netctx) fn expected(&self) -> u32 {
        self.state.expected
    }

    /// Notes that a rank of the same node put frames into the ring, up to `expected`.
    pub(in crate::netctx) fn expect(&mut self, expected: u32) {
        self.state.expected = expected;
    }

    fn tell_of_space(&mut self) {
        // Grants half of the ring at a time: the sender can go on before it has used all its
        // credits, and not every frame is answered twice.
        let news = self.limit().wrapping_sub(self.state.granted);
        if news >= (self.ring.slots() / 2).max(1) {
            self.state.answer_due = 1;
        }
    }

    /// Resumes in a later epoch: after a switch, or when a switch was abandoned before everything
    /// was drained.
    ///
    /// # Errors
    /// The epoch is not later than its own.
    pub fn resume(&mut self, epoch: u64) -> Result<(), ChannelError> {
        self.state.end.resume(epoch)?;
        self.state.last = 0;
        // The sender may have missed the last answer of the old epoch, and knows nothing of space
        // freed since.
        self.state.answer_due = 1;
        Ok(())
    }
}
