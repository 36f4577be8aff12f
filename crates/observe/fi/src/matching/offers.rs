//! Offers of long messages (see [`direct`](crate::direct)): those of this rank that wait for an
//! answer, and those of others that are being copied.

use super::place::Place;
use crate::direct::{AT_ONCE, Offer};
use crate::envelope::{Envelope, REFUSED, TAKEN, Wire};
use crate::sending::Sending;
use std::collections::{BTreeSet, VecDeque};

/// The source of a message, and what it carries.
type Of = (u32, Envelope);

/// A message of another rank that has its place.
struct Copying {
    of: Of,
    offer: Offer,
    place: Place,
    at: usize,
}

/// See the module.
#[derive(Default)]
pub struct Offers {
    /// The number of the last offer.
    last: u64,
    /// By destination: what was offered and not answered.
    sent: Vec<(u32, Sending)>,
    /// Ranks that cannot read this process's memory.
    refusing: BTreeSet<u32>,
    /// Oldest first.
    copying: VecDeque<Copying>,
    /// What could not be copied, and is sent again.
    awaited: Vec<Copying>,
    /// Answers for which there was no room: to whom, which, and to which offer.
    answers: VecDeque<(u32, u32, u64)>,
}

impl Offers {
    /// Makes a send an offer, unless its receiver has refused one.
    pub fn make(&mut self, to: u32, sending: &mut Sending) {
        if !self.refusing.contains(&to) {
            self.last += 1;
            sending.offer(self.last);
        }
    }

    /// An offer was sent.
    pub fn sent(&mut self, to: u32, sending: Sending) {
        self.sent.push((to, sending));
    }

    /// The send that a rank has answered, with an offer of this number; `None` if there is none.
    pub fn take(&mut self, from: u32, number: u64) -> Option<Sending> {
        let of = |(to, one): &(u32, Sending)| *to == from && one.offered() == Some(number);
        let place = self.sent.iter().position(of)?;
        Some(self.sent.remove(place).1)
    }

    /// A receiver refused an offer: it gets no more.
    pub fn is_refused_by(&mut self, rank: u32) {
        self.refusing.insert(rank);
    }

    /// Copies an offered message to its place, from now on.
    pub fn copy(&mut self, of: Of, offer: Offer, place: Place) {
        self.copying.push_back(Copying {
            of,
            offer,
            place,
            at: 0,
        });
    }

    /// Copies a part of the oldest message; returns it if that was the last part.
    pub fn progress(&mut self) -> Option<(Of, Place)> {
        let first = self.copying.front_mut()?;
        let all = first.of.1.length;
        let part = (all - first.at).min(AT_ONCE);
        let read = first.offer.copy(first.at, part, &mut first.place.room);
        first.at += part;
        if read && first.at < all {
            return None;
        }
        let one = self.copying.pop_front()?;
        let kind = if read { TAKEN } else { REFUSED };
        self.answer(one.of.0, kind, one.offer.number);
        if !read {
            self.awaited.push(one);
            return None;
        }
        Some((one.of, one.place))
    }

    /// The message that was refused and now arrives in pieces, with its place; `None` if there is
    /// none with this number.
    pub fn refused(&mut self, source: u32, number: u64) -> Option<(Envelope, Place)> {
        let of = |one: &Copying| one.of.0 == source && one.offer.number == number;
        let place = self.awaited.iter().position(of)?;
        let one = self.awaited.swap_remove(place);
        Some((one.of.1, one.place))
    }

    /// Answers an offer as soon as there is room.
    pub fn answer(&mut self, to: u32, kind: u32, number: u64) {
        self.answers.push_back((to, kind, number));
    }

    /// Sends answers; returns whether that was all of them. What is sent later must not overtake
    /// them: it may be the last that this rank sends.
    pub fn push_answers(&mut self, wire: &mut impl Wire) -> bool {
        while let Some((to, kind, number)) = self.answers.front().copied() {
            if wire.put_behind(to, (kind, number), &[], &[]).is_none() {
                return false;
            }
            self.answers.pop_front();
        }
        true
    }

    /// Whether an answer, or a message in pieces, is to come from a rank.
    pub fn wait_for(&self, source: u32) -> bool {
        self.sent.iter().any(|(to, _)| *to == source)
            || self.awaited.iter().any(|one| one.of.0 == source)
    }

    /// Whether another rank waits for an offered message, or for an answer.
    pub fn are_missed(&self) -> bool {
        !self.sent.is_empty() || !self.answers.is_empty()
    }

    /// For the next endpoint. What this one was copying, the sender need not keep.
    pub fn renewed(mut self) -> Self {
        for one in std::mem::take(&mut self.copying) {
            self.answer(one.of.0, TAKEN, one.offer.number);
        }
        Self {
            last: self.last,
            refusing: self.refusing,
            answers: self.answers,
            ..Self::default()
        }
    }

    /// Gives all up: the sends, and the messages that had a place.
    pub fn fail(&mut self) -> (impl Iterator<Item = Sending> + use<>, Vec<(Of, Place)>) {
        self.answers.clear();
        let sent = std::mem::take(&mut self.sent).into_iter();
        let copying = std::mem::take(&mut self.copying).into_iter();
        let places = copying.chain(std::mem::take(&mut self.awaited));
        let places = places.map(|one| (one.of, one.place)).collect();
        (sent.map(|(_, sending)| sending), places)
    }
}
