//! The sending end of a channel.

use super::{DRAINED, End, FLUSHING, Phase, RUNNING, Ring, before};
use crate::netctx::ChannelError;
use crate::netctx::frame::{Header, Kind, Link};
use bytemuck::{Pod, Zeroable};

/// The sending end's state, except the frames in its ring: plain words, laid out as in a context.
///
/// `acked <= next <= sent <= filled` in the order of numbers that wrap around: frames before
/// `acked` were received, those up to `sent` were put on the network at least once, those up to
/// `filled` wait in the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct SendState {
    /// Frames put on the network so far, retransmissions not counted.
    count: u64,
    end: End,
    acked: u32,
    /// The next frame to send; before `sent` while frames are retransmitted.
    next: u32,
    sent: u32,
    filled: u32,
    /// The first frame without a credit.
    limit: u32,
    flush_due: u32,
    probe_due: u32,
    spare: u32,
}

impl SendState {
    /// An empty channel whose first frame is number `first`. The receiver has already granted space
    /// for `credits` frames.
    pub fn new(link: Link, first: u32, credits: u32) -> Self {
        Self {
            end: End::new(link),
            acked: first,
            next: first,
            sent: first,
            filled: first,
            limit: first.wrapping_add(credits),
            ..Self::default()
        }
    }

    /// The frames in the ring: the first, and how many.
    pub fn stored(&self) -> (u32, u32) {
        (self.acked, self.filled.wrapping_sub(self.acked))
    }

    /// The number of the next frame to be put into the ring.
    pub(in crate::netctx) fn stored_end(&self) -> u32 {
        self.filled
    }

    /// The oldest frame that the ring holds.
    pub(in crate::netctx) fn acked(&self) -> u32 {
        self.acked
    }

    /// This end's phase.
    pub(in crate::netctx) fn phase(&self) -> Phase {
        self.end.phase()
    }

    /// Whether a frame before the mark `filled` goes out as soon as this end runs: it has not been
    /// sent, and the receiver has room for it.
    pub(in crate::netctx) fn will_send(&self, filled: u32) -> bool {
        self.sent != filled && before(self.sent, self.limit)
    }

    /// Frames put on the network so far, retransmissions not counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The link that this end belongs to.
    pub fn link(&self) -> Link {
        self.end.link()
    }
}

/// The sending end of a channel: its state and its ring, both borrowed from a context.
#[derive(Debug)]
pub struct Sender<'a> {
    state: &'a mut SendState,
    ring: Ring<'a>,
}

impl<'a> Sender<'a> {
    /// The end with this state and these frames.
    pub fn new(state: &'a mut SendState, ring: Ring<'a>) -> Self {
        Self { state, ring }
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        self.state.end.phase()
    }

    /// Its state.
    pub fn state(&self) -> &SendState {
        self.state
    }

    /// Frames that may be on the network: sent, and not known to be received.
    pub fn in_flight(&self) -> u32 {
        self.state.sent.wrapping_sub(self.state.acked)
    }

    /// Frames in the ring that were never sent.
    pub fn waiting(&self) -> u32 {
        self.state.filled.wrapping_sub(self.state.sent)
    }

    /// Frames for which the ring has room.
    pub fn room(&self) -> u32 {
        self.ring.slots().saturating_sub(self.state.stored().1)
    }

    /// The most bytes that a frame carries.
    pub fn payload(&self) -> usize {
        self.ring.payload()
    }

    /// The oldest frame that the ring holds.
    pub(in crate::netctx) fn acked(&self) -> u32 {
        self.state.acked
    }

    /// Puts one frame into the ring; false if there is no room or it is too long. Works in any
    /// phase: what is in the ring is not on the network.
    pub fn push(&mut self, content: &[u8], end: bool) -> bool {
        self.push_parts([content, &[]], end)
    }

    /// The same for a frame in two parts.
    pub(in crate::netctx) fn push_parts(&mut self, parts: [&[u8]; 2], end: bool) -> bool {
        if self.room() == 0 || !self.ring.put_parts(self.state.filled, end, parts) {
            return false;
        }
        self.state.filled = self.state.filled.wrapping_add(1);
        true
    }

    /// Notes that another process put frames into the ring, up to `filled`. False, with nothing
    /// changed, if that is impossible.
    pub(in crate::netctx) fn fill_to(&mut self, filled: u32) -> bool {
        let state = &mut *self.state;
        let possible =
            !before(filled, state.filled) && filled.wrapping_sub(state.acked) <= self.ring.slots();
        if possible {
            state.filled = filled;
        }
        possible
    }

    /// Cuts the rest of a message, from `*offset` on, into frames while the ring has room. True
    /// once all of it is in the ring. An empty message is one frame.
    pub fn push_message(&mut self, message: &[u8], offset: &mut usize) -> bool {
        loop {
            let rest = message.get(*offset..).unwrap_or_default();
            let piece = &rest[..rest.len().min(self.payload())];
            let end = piece.len() == rest.len();
            if !self.push(piece, end) {
                return false;
            }
            *offset += piece.len();
            if end {
                return true;
            }
        }
    }

    fn header(&self, kind: Kind, sequence: u32) -> Header {
        Header {
            kind,
            link: self.state.link(),
            sequence,
            limit: 0,
        }
    }

    fn may_inject(&self) -> bool {
        let state = &*self.state;
        state.end.phase == RUNNING && state.sent != state.filled && before(state.sent, state.limit)
    }

    /// The next frame to send; `None` if there is none now.
    pub fn poll(&mut self) -> Option<(Header, &[u8])> {
        if std::mem::take(&mut self.state.flush_due) != 0 {
            return Some((self.header(Kind::Flush, self.state.sent), &[]));
        }
        if std::mem::take(&mut self.state.probe_due) != 0 {
            return Some((self.header(Kind::Probe, self.state.sent), &[]));
        }
        let sequence = self.state.next;
        if sequence == self.state.sent {
            if !self.may_inject() {
                return None;
            }
            self.state.sent = sequence.wrapping_add(1);
            self.state.count = self.state.count.wrapping_add(1);
        }
        self.state.next = sequence.wrapping_add(1);
        let mut header = self.header(Kind::Data, sequence);
        let (content, end) = self.ring.get(sequence);
        if end {
            header.kind = Kind::End;
        }
        Some((header, content))
    }

    /// Accepts an answer. False, with nothing changed, if it does not belong to this channel and
    /// epoch.
    pub fn hear(&mut self, header: &Header) -> bool {
        let state = &mut *self.state;
        let known = state.sent.wrapping_sub(state.acked);
        let ours = header.kind.is_answer()
            && header.link == state.link()
            && header.sequence.wrapping_sub(state.acked) <= known;
        if !ours {
            // An overtaken answer says nothing new.
            return false;
        }
        state.acked = header.sequence;
        if before(state.next, state.acked) {
            state.next = state.acked;
        }
        if before(state.limit, header.limit) {
            state.limit = header.limit;
        }
        let flushed = header.kind == Kind::FlushAck && header.sequence == state.sent;
        if flushed && state.end.phase == FLUSHING {
            state.end.phase = DRAINED;
            state.flush_due = 0;
        }
        true
    }

    /// What answers have said so far: the oldest unacknowledged frame, the first without a credit,
    /// and the phase. The timer restarts when any of these changes.
    pub fn heard(&self) -> (u32, u32, Phase) {
        (self.state.acked, self.state.limit, self.phase())
    }

    /// Whether something must be sent again if no answer comes.
    pub fn wants_timer(&self) -> bool {
        self.in_flight() > 0 || self.phase() == Phase::Flushing || self.is_starved()
    }

    /// Frames wait, all credits are used, and nothing is in flight whose answer could bring more.
    fn is_starved(&self) -> bool {
        self.phase() == Phase::Running
            && self.in_flight() == 0
            && self.waiting() > 0
            && !self.may_inject()
    }

    /// No answer came in time: retransmits everything unacknowledged (go-back-N).
    pub fn time_out(&mut self) {
        self.state.probe_due = u32::from(self.is_starved());
        self.state.flush_due = u32::from(self.phase() == Phase::Flushing);
        self.state.next = self.state.acked;
    }

    /// Stops injecting, even in the middle of a message, and flushes. Does nothing unless this end
    /// is running.
    pub fn stop(&mut self) {
        if self.state.end.phase == RUNNING {
            self.state.end.phase = FLUSHING;
            self.state.flush_due = 1;
        }
    }

    /// Resumes in a later epoch: after a switch, or when a switch was abandoned before everything
    /// was drained.
    ///
    /// # Errors
    /// The epoch is not later than its own.
    pub fn resume(&mut self, epoch: u64) -> Result<(), ChannelError> {
        let state = &mut *self.state;
        state.end.resume(epoch)?;
        // Frames and answers of the old epoch are refused from now on: whatever was in flight is
        // sent again.
        state.next = state.acked;
        (state.flush_due, state.probe_due) = (0, 0);
        Ok(())
    }
}
