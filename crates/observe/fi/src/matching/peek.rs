//! Peeks at unexpected messages, and messages that a peek has claimed.

use super::{BESIDE, Early, Held, Matching, Target};
use crate::abi::{code, flag};
use crate::done::{Context, Done, Receive, arrived, failed};
use crate::envelope::{TAKEN, Want};
use crate::room::Room;

/// What to do with a message that a peek finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: it stays.
    Keep,
    /// No other receive is to match it: one with this context gets it.
    Claim,
    /// Drop it.
    Discard,
}

impl Matching {
    /// Announces a peek: if nothing for it is here, progress takes in what may be, until it is.
    pub fn look_for(&mut self, want: Want) {
        let fits = |early: &Early| want.fits(early.source, &early.envelope);
        self.peeked = (!self.early.iter().any(fits)).then_some(want);
    }

    /// Looks for an unexpected message, and reports it, or that there is none.
    pub fn peek(&mut self, want: &Want, context: Context, found: Found) {
        self.peeked = None;
        let fits = |early: &Early| want.fits(early.source, &early.envelope);
        let Some(place) = self.early.iter().position(fits) else {
            let receive = Receive {
                want: *want,
                room: Room::default(),
                context,
                reports: true,
            };
            self.done.push_back(Done {
                error: Some((code::ENOMSG, 0)),
                ..failed(&receive)
            });
            return;
        };
        let (source, envelope) = (self.early[place].source, self.early[place].envelope);
        let of = (source, envelope);
        self.done.push_back(arrived(of, context, flag::PEEK, true));
        if found != Found::Keep {
            if let Some(early) = self.early.remove(place) {
                match found {
                    Found::Claim => self.claimed.push((context, early)),
                    _ => self.drop_early(early),
                }
            }
        }
    }

    fn claimed_by(&mut self, context: Context) -> Option<Early> {
        let place = self.claimed.iter().position(|(by, _)| *by == context)?;
        Some(self.claimed.swap_remove(place).1)
    }

    /// Receives the message that was claimed with this context; false if there is none.
    pub fn receive_claimed(&mut self, receive: Receive) -> bool {
        let found = self.claimed_by(receive.context);
        let there = found.is_some();
        if let Some(found) = found {
            self.match_early(found, receive);
        }
        there
    }

    /// Drops the message that was claimed with this context, and reports that; false if there is
    /// none.
    pub fn discard_claimed(&mut self, context: Context, reports: bool) -> bool {
        let Some(early) = self.claimed_by(context) else {
            return false;
        };
        let of = (early.source, early.envelope);
        self.done.push_back(arrived(of, context, 0, reports));
        self.drop_early(early);
        true
    }

    fn drop_early(&mut self, early: Early) {
        let bytes = match early.held {
            Held::Whole(bytes) => bytes.len(),
            Held::Offered(offer) => {
                self.offers.answer(early.source, TAKEN, offer.number);
                0
            }
            Held::Arriving => match self.incoming[early.source as usize].as_mut() {
                Some(incoming) => match std::mem::replace(&mut incoming.target, Target::Nowhere) {
                    Target::Early(bytes) => bytes.len(),
                    _ => 0,
                },
                None => 0,
            },
        };
        self.early_bytes -= bytes + BESIDE;
    }
}
