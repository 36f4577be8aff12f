//! A send under way.

use crate::direct::Offer;
use crate::done::Context;
use crate::envelope::{AGAIN, Envelope, FRONT, OFFER, Wire};
use crate::room::Content;

/// Pieces of one message, or from one source, that are moved at a time: in between, this rank is
/// outside of its device, so that its gang can be switched.
pub const AT_ONCE: usize = 256;

/// How a message goes to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Pieces,
    Offer(Offer),
    /// In pieces, after its offer was refused.
    Again(u64),
}

/// A send under way.
pub struct Sending {
    pub envelope: Envelope,
    content: Content,
    way: Way,
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
            way: Way::Pieces,
            sent: 0,
            begun: false,
            context,
            reports,
        }
    }

    /// Makes it an offer, if that is possible.
    pub fn offer(&mut self, number: u64) {
        let offer = Offer::of(number, self.content.bytes());
        self.way = offer.map_or(Way::Pieces, Way::Offer);
    }

    /// The number of its offer, if it is one.
    pub fn offered(&self) -> Option<u64> {
        match self.way {
            Way::Offer(offer) => Some(offer.number),
            _ => None,
        }
    }

    /// Sends it in pieces: the offer with this number was refused.
    pub fn again(&mut self, number: u64) {
        (self.way, self.begun) = (Way::Again(number), false);
    }

    /// Puts what there is room for, [`AT_ONCE`] pieces at most; returns whether that was all.
    pub fn push(&mut self, wire: &mut impl Wire, to: u32) -> bool {
        let (kind, length) = self.envelope.head();
        let mut front = self.envelope.front();
        let kind = match self.way {
            Way::Pieces => kind,
            Way::Offer(offer) => {
                let head = (kind | OFFER, length);
                return wire.put_behind(to, head, &front, &offer.bytes()).is_some();
            }
            Way::Again(number) => {
                front = [0; FRONT];
                front[..8].copy_from_slice(&number.to_le_bytes());
                AGAIN
            }
        };
        let all = self.content.bytes();
        for _ in 0..AT_ONCE {
            if self.begun && self.sent == all.len() {
                return true;
            }
            let front: &[u8] = if self.begun { &[] } else { &front };
            let rest = &all[self.sent..];
            let Some(taken) = wire.put_behind(to, (kind, length), front, rest) else {
                return false;
            };
            self.begun = true;
            self.sent += taken;
        }
        self.sent == all.len()
    }
}
