//! A send under way.

use crate::done::Context;
use crate::envelope::{Envelope, Wire};
use crate::room::Content;

/// Pieces of one message, or from one source, that are moved at a time: in between, this rank is
/// outside of its device, so that its gang can be switched.
pub const AT_ONCE: usize = 256;

/// A send under way.
pub struct Sending {
    pub envelope: Envelope,
    content: Content,
    sent: usize,
    /// Whether a part of it has been sent.
    pub begun: bool,
    pub context: Context,
    pub reports: bool,
}

impl Sending {
    /// One of which nothing has been sent.
    pub fn new(envelope: Envelope, content: Content, context: Context, reports: bool) -> Self {
        Self {
            envelope,
            content,
            sent: 0,
            begun: false,
            context,
            reports,
        }
    }

    /// Puts what there is room for, [`AT_ONCE`] at most; returns whether that was all.
    pub fn push(&mut self, wire: &mut impl Wire, to: u32) -> bool {
        let (head, front) = (self.envelope.head(), self.envelope.front());
        let all = self.content.bytes();
        for _ in 0..AT_ONCE {
            if self.begun && self.sent == all.len() {
                return true;
            }
            let front: &[u8] = if self.begun { &[] } else { &front };
            let Some(taken) = wire.put_behind(to, head, front, &all[self.sent..]) else {
                return false;
            };
            self.begun = true;
            self.sent += taken;
        }
        self.sent == all.len()
    }
}
