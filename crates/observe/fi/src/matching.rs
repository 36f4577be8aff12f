//! Messages of one endpoint: sends under way, posted receives, unexpected messages. It sees the
//! network only as pieces of messages ([`Wire`]).
//!
//! A message is matched when its first piece is taken, with the oldest receive that it fits: so
//! messages from one source are matched in the order in which they were sent (FI_ORDER_SAS).

mod offers;
mod peek;
mod place;

pub use peek::Found;

use crate::abi::{code, flag};
use crate::direct::Offer;
use crate::done::{Context, Done, Receive, arrived, entry, failed, sent};
use crate::envelope::{AGAIN, Envelope, FRONT, OFFER, REFUSED, TAKEN, Want, Wire, words_in_front};
use crate::room::{Content, Room};
use crate::sending::{AT_ONCE, Sending};
use idlewave_fabric::netctx::{Piece, PieceHeader};
use offers::Offers;
use place::Place;
use std::collections::{BTreeMap, VecDeque};

/// Unexpected messages up to this many bytes are taken in at once; more stay in the rings, where
/// their senders wait, until a receive or a peek asks for their source.
const EAGER_BYTES: usize = 64 << 20;
/// The most memory reserved for an announced message before its bytes arrive.
const AHEAD: usize = 1 << 20;
/// Approximate overhead of an unexpected message beyond its content, bytes.
const BESIDE: usize = 96;
/// Where messages begin in a buffer for several: at multiples of this.
const ALIGNED: usize = 8;

/// A posted receive.
enum Posted {
    Once(Receive),
    /// A buffer for several messages, by its index.
    Pool(Want, usize),
}

impl Posted {
    fn want(&self) -> &Want {
        match self {
            Self::Once(receive) => &receive.want,
            Self::Pool(want, _) => want,
        }
    }
}

/// A buffer for several messages (FI_MULTI_RECV).
struct Pool {
    receive: Receive,
    used: usize,
    least: usize,
    /// Messages that are arriving in it.
    pending: usize,
    open: bool,
}

/// Where an arriving message goes.
enum Target {
    Place(Place),
    /// Its receive has not been posted yet.
    Early(Vec<u8>),
    Nowhere,
}

struct Incoming {
    envelope: Envelope,
    at: usize,
    target: Target,
}

/// The bytes of an unexpected message.
enum Held {
    /// In [`Incoming`].
    Arriving,
    Whole(Vec<u8>),
    /// Still in the sender's memory.
    Offered(Offer),
}

/// An unexpected message.
struct Early {
    source: u32,
    envelope: Envelope,
    held: Held,
}

/// The messages of one endpoint.
#[derive(Default)]
pub struct Matching {
    sends: BTreeMap<u32, VecDeque<Sending>>,
    tagged: VecDeque<Posted>,
    plain: VecDeque<Posted>,
    pools: Vec<Option<Pool>>,
    early: VecDeque<Early>,
    claimed: Vec<(Context, Early)>,
    early_bytes: usize,
    /// By source.
    incoming: Vec<Option<Incoming>>,
    /// What the next peek looks for, and is not here yet.
    peeked: Option<Want>,
    offers: Offers,
    forged: bool,
    done: VecDeque<Done>,
}

impl Matching {
    /// For one of `size` ranks.
    pub fn new(size: u32) -> Self {
        Self {
            incoming: (0..size).map(|_| None).collect(),
            ..Self::default()
        }
    }

    /// For the next endpoint at the same rings: without operations and unexpected messages. The
    /// rests of messages that are arriving go nowhere.
    pub fn renewed(mut self) -> Self {
        let claimed = self.claimed.drain(..).map(|(_, early)| early);
        for early in self.early.drain(..).chain(claimed) {
            if let Held::Offered(offer) = early.held {
                self.offers.answer(early.source, TAKEN, offer.number);
            }
        }
        let rest = |incoming: Incoming| Incoming {
            target: Target::Nowhere,
            ..incoming
        };
        let arriving = self.incoming.into_iter();
        Self {
            incoming: arriving.map(|incoming| incoming.map(rest)).collect(),
            offers: self.offers.renewed(),
            forged: self.forged,
            ..Self::default()
        }
    }

    /// The next completion.
    pub fn done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Bytes of unexpected messages, approximately.
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Whether a piece arrived that no rank of this gang sends.
    pub fn is_forged(&self) -> bool {
        self.forged
    }

    /// Whether another rank waits for something that only this one can send: the rest of a message,
    /// one that it may still copy, or an answer.
    pub fn is_within_a_send(&self) -> bool {
        let first = |queue: &VecDeque<Sending>| queue.front().is_some_and(|first| first.begun);
        self.sends.values().any(first) || self.offers.are_missed()
    }

    /// Sends a message at once; false if it must be tried again later. `content` is at most
    /// [`LONGEST_INJECT`](crate::envelope::LONGEST_INJECT) bytes.
    pub fn inject(
        &mut self,
        wire: &mut impl Wire,
        to: u32,
        envelope: Envelope,
        content: &[u8],
    ) -> bool {
        let waits = self.sends.contains_key(&to);
        !waits
            && self.offers.push_answers(wire)
            && wire
                .put_behind(to, envelope.head(), &envelope.front(), content)
                .is_some()
    }

    /// Starts a send.
    pub fn send(
        &mut self,
        wire: &mut impl Wire,
        to: u32,
        (envelope, content): (Envelope, Content),
        context: Context,
        reports: bool,
    ) {
        let mut sending = Sending::new(envelope, content, context, reports);
        let offers_from = wire.offers_from(to);
        if offers_from.is_some_and(|from| envelope.length >= from) {
            self.offers.make(to, &mut sending);
        }
        let free = !self.sends.contains_key(&to) && self.offers.push_answers(wire);
        if free && sending.push(wire, to) {
            self.put(to, sending);
            return;
        }
        self.sends.entry(to).or_default().push_back(sending);
    }

    /// All of a send is in the ring: it is complete if it was no offer.
    fn put(&mut self, to: u32, sending: Sending) {
        if sending.offered().is_some() {
            self.offers.sent(to, sending);
        } else {
            self.sent(&sending);
        }
    }

    fn sent(&mut self, sending: &Sending) {
        let (envelope, context) = (&sending.envelope, sending.context);
        let done = sent(envelope, context, sending.reports, None);
        self.done.push_back(done);
    }

    /// Completes a message that was sent at once.
    pub fn injected(&mut self, envelope: &Envelope, context: Context, reports: bool) {
        self.done.push_back(sent(envelope, context, reports, None));
    }

    fn push(&mut self, wire: &mut impl Wire, to: u32) {
        while let Some(queue) = self.sends.get_mut(&to) {
            let Some(mut first) = queue.pop_front() else {
                self.sends.remove(&to);
                return;
            };
            if !first.push(wire, to) {
                queue.push_front(first);
                return;
            }
            self.put(to, first);
        }
    }

    fn posted(&mut self, want: &Want) -> &mut VecDeque<Posted> {
        match want.tag {
            Some(_) => &mut self.tagged,
            None => &mut self.plain,
        }
    }

    /// Posts a receive for one message.
    pub fn receive(&mut self, receive: Receive) {
        match self.find_early(&receive.want) {
            Some(found) => self.match_early(found, receive),
            None => self.posted(&receive.want).push_back(Posted::Once(receive)),
        }
    }

    fn find_early(&mut self, want: &Want) -> Option<Early> {
        let fits = |early: &Early| want.fits(early.source, &early.envelope);
        let place = self.early.iter().position(fits)?;
        self.early.remove(place)
    }

    fn match_early(&mut self, found: Early, receive: Receive) {
        self.deliver(found, Place::of(&receive, receive.room, None));
    }

    /// Puts an unexpected message into the place that was found for it.
    fn deliver(&mut self, found: Early, mut place: Place) {
        let of = (found.source, found.envelope);
        match found.held {
            Held::Whole(bytes) => {
                self.early_bytes -= bytes.len() + BESIDE;
                place.room.write(0, &&bytes[..], 0);
                self.received(of, place);
            }
            Held::Offered(offer) => {
                self.early_bytes -= BESIDE;
                self.offers.copy(of, offer, place);
            }
            Held::Arriving => {
                let incoming = self.incoming[found.source as usize].as_mut();
                let Some(incoming) = incoming else { return };
                if let Target::Early(bytes) = &incoming.target {
                    self.early_bytes -= bytes.len() + BESIDE;
                    place.room.write(0, &&bytes[..], 0);
                }
                incoming.target = Target::Place(place);
            }
        }
    }

    /// Posts a buffer for messages until fewer than `least` bytes are left in it.
    pub fn receive_many(&mut self, receive: Receive, least: usize) {
        let pool = Pool {
            receive,
            used: 0,
            least: least.max(1),
            pending: 0,
            open: true,
        };
        let free = self.pools.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.pools.push(None);
            self.pools.len() - 1
        });
        self.pools[index] = Some(pool);
        while let Some(found) = self.find_early(&receive.want) {
            match self.take_from(index, found.envelope.length) {
                Some(room) => {
                    self.deliver(found, Place::of(&receive, room, Some(index)));
                    if !self.is_open(index) {
                        return;
                    }
                }
                None => {
                    self.early.push_front(found);
                    return;
                }
            }
        }
        self.posted(&receive.want)
            .push_back(Posted::Pool(receive.want, index));
    }

    fn is_open(&self, pool: usize) -> bool {
        self.pools[pool].as_ref().is_some_and(|pool| pool.open)
    }

    /// Takes room for a message from a pool, and closes the pool if it is used up. `None` if the
    /// message does not fit; the pool is closed then, too.
    fn take_from(&mut self, index: usize, length: usize) -> Option<Room> {
        let pool = self.pools[index].as_mut()?;
        let all = pool.receive.room.bytes();
        let left = all - pool.used;
        if length > left && pool.used > 0 {
            pool.open = false;
            self.release(index);
            return None;
        }
        let room = pool.receive.room.part(pool.used, length);
        let end = pool.used + room.bytes();
        pool.used = end.next_multiple_of(ALIGNED).min(all);
        pool.pending += 1;
        pool.open = all - pool.used >= pool.least;
        Some(room)
    }

    /// Gives a closed pool back if nothing is arriving in it.
    fn release(&mut self, index: usize) {
        let over = |pool: &Pool| !pool.open && pool.pending == 0;
        if let Some(pool) = self.pools[index].take_if(|pool| over(pool)) {
            let flags = flag::MULTI_RECV | flag::RECV | flag::MSG;
            self.done.push_back(Done {
                entry: entry(pool.receive.context, flags, 0),
                source: None,
                error: None,
                reports: true,
            });
        }
    }

    /// Takes back a posted receive; false if there is none with this context.
    pub fn cancel(&mut self, context: Context) -> bool {
        let pools = &self.pools;
        let of = |posted: &Posted| match posted {
            Posted::Once(receive) => receive.context == context,
            Posted::Pool(_, index) => pools[*index]
                .as_ref()
                .is_some_and(|pool| pool.receive.context == context),
        };
        let place = self.tagged.iter().position(&of);
        let posted = match place {
            Some(place) => self.tagged.remove(place),
            None => {
                let place = self.plain.iter().position(&of);
                place.and_then(|place| self.plain.remove(place))
            }
        };
        let Some(posted) = posted else { return false };
        match posted {
            Posted::Once(receive) => self.done.push_back(Done {
                error: Some((code::ECANCELED, 0)),
                ..failed(&receive)
            }),
            Posted::Pool(_, index) => {
                let idle = self.pools[index].take_if(|pool| pool.pending == 0);
                match idle {
                    Some(pool) => self.done.push_back(Done {
                        error: Some((code::ECANCELED, 0)),
                        ..failed(&pool.receive)
                    }),
                    // The last message in it gives it back.
                    None => {
                        if let Some(pool) = self.pools[index].as_mut() {
                            pool.open = false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Moves every message as far as possible without waiting.
    pub fn progress(&mut self, wire: &mut impl Wire) {
        self.offers.push_answers(wire);
        if !self.sends.is_empty() {
            let busy: Vec<u32> = self.sends.keys().copied().collect();
            for to in busy {
                self.push(wire, to);
            }
        }
        let eager = self.early_bytes < EAGER_BYTES;
        for source in 0..wire.size() {
            if eager || self.is_asked_for(source) {
                self.pull(wire, source);
            }
        }
        if let Some((of, place)) = self.offers.progress() {
            self.received(of, place);
        }
        self.offers.push_answers(wire);
    }

    /// Whether a receive or a peek may be waiting for something from a source.
    fn is_asked_for(&self, source: u32) -> bool {
        let arriving = self.incoming.get(source as usize).and_then(Option::as_ref);
        let posted = self.tagged.iter().chain(&self.plain);
        let mut wants = posted.map(Posted::want).chain(&self.peeked);
        arriving.is_some_and(|incoming| matches!(incoming.target, Target::Place(_)))
            || self.offers.wait_for(source)
            || wants.any(|want| want.from.is_none_or(|from| from == source))
    }

    fn pull(&mut self, wire: &mut impl Wire, source: u32) {
        for _ in 0..AT_ONCE {
            let taken = wire.take(source, |header, piece| self.arrive(source, header, piece));
            if taken.is_none() {
                return;
            }
            if self.early_bytes >= EAGER_BYTES && !self.is_asked_for(source) {
                return;
            }
        }
    }

    fn arrive(&mut self, source: u32, header: PieceHeader, piece: &dyn Piece) {
        if matches!(header.tag, TAKEN | REFUSED) {
            self.answered(source, header);
            return;
        }
        let s = source as usize;
        let mut skip = 0;
        if self.incoming.get(s).is_none_or(Option::is_none) {
            let begun = s < self.incoming.len() && self.begin(source, header, piece).is_some();
            self.forged |= !begun;
            skip = FRONT;
        }
        let Some(Some(incoming)) = self.incoming.get_mut(s) else {
            return;
        };
        let new = piece.len().saturating_sub(skip);
        match &mut incoming.target {
            Target::Place(place) => place.room.write(incoming.at, piece, skip),
            Target::Early(bytes) => {
                let most = incoming.envelope.length.saturating_sub(incoming.at);
                let before = bytes.len();
                piece.append_to(skip, most, bytes);
                self.early_bytes += bytes.len() - before;
            }
            Target::Nowhere => {}
        }
        incoming.at = incoming.at.saturating_add(new);
        if incoming.at >= incoming.envelope.length {
            self.complete(source);
        }
    }

    /// An answer to an offer of this rank's.
    fn answered(&mut self, source: u32, header: PieceHeader) {
        // What an endpoint offered that was closed since, nobody misses.
        let Some(mut sending) = self.offers.take(source, header.message) else {
            return;
        };
        if header.tag == REFUSED {
            self.offers.is_refused_by(source);
            sending.again(header.message);
            self.sends.entry(source).or_default().push_back(sending);
        } else {
            self.sent(&sending);
        }
    }

    /// Takes the first piece of a message: finds its receive. `None` if it is no such piece.
    fn begin(&mut self, source: u32, header: PieceHeader, piece: &dyn Piece) -> Option<()> {
        let mut envelope = Envelope::read(header, piece)?;
        if header.tag & OFFER != 0 {
            let offer = Offer::read(piece, FRONT)?;
            match self.find_place(source, &envelope) {
                Some(place) => self.offers.copy((source, envelope), offer, place),
                None => self.add_early(source, envelope, Held::Offered(offer)),
            }
            return Some(());
        }
        let target = if header.tag & AGAIN != 0 {
            let [number, _] = words_in_front(piece)?;
            match self.offers.refused(source, number) {
                Some((own, place)) => {
                    envelope = own;
                    Target::Place(place)
                }
                None => Target::Nowhere,
            }
        } else if let Some(place) = self.find_place(source, &envelope) {
            Target::Place(place)
        } else {
            self.add_early(source, envelope, Held::Arriving);
            Target::Early(Vec::with_capacity(envelope.length.min(AHEAD)))
        };
        self.incoming[source as usize] = Some(Incoming {
            envelope,
            at: 0,
            target,
        });
        Some(())
    }

    fn add_early(&mut self, source: u32, envelope: Envelope, held: Held) {
        self.early_bytes += BESIDE;
        if self.peeked.is_some_and(|want| want.fits(source, &envelope)) {
            self.peeked = None;
        }
        self.early.push_back(Early {
            source,
            envelope,
            held,
        });
    }

    /// Finds the receive for a message, and takes room in it.
    fn find_place(&mut self, source: u32, envelope: &Envelope) -> Option<Place> {
        loop {
            let posted = match envelope.tag {
                Some(_) => &mut self.tagged,
                None => &mut self.plain,
            };
            let fits = |posted: &Posted| posted.want().fits(source, envelope);
            let at = posted.iter().position(fits)?;
            let (pool, want) = match &posted[at] {
                Posted::Once(receive) => {
                    let place = Place::of(receive, receive.room, None);
                    posted.remove(at);
                    return Some(place);
                }
                Posted::Pool(want, index) => (*index, *want),
            };
            let room = self.take_from(pool, envelope.length);
            if !self.is_open(pool) {
                self.posted(&want).remove(at);
            }
            // A message that does not fit goes into the next buffer.
            let Some(room) = room else { continue };
            let of = self.pools[pool].as_ref()?;
            return Some(Place::of(&of.receive, room, Some(pool)));
        }
    }

    fn complete(&mut self, source: u32) {
        let Some(incoming) = self.incoming[source as usize].take() else {
            return;
        };
        match incoming.target {
            Target::Place(place) => self.received((source, incoming.envelope), place),
            Target::Early(bytes) => {
                let claimed = self.claimed.iter_mut().map(|(_, early)| early);
                let mut all = self.early.iter_mut().rev().chain(claimed);
                let arriving = |early: &&mut Early| {
                    early.source == source && matches!(early.held, Held::Arriving)
                };
                if let Some(early) = all.find(arriving) {
                    early.held = Held::Whole(bytes);
                }
            }
            Target::Nowhere => {}
        }
    }

    fn received(&mut self, (source, envelope): (u32, Envelope), place: Place) {
        let room = place.room;
        let mut done = arrived((source, envelope), place.context, 0, place.reports);
        done.entry.buf = room.begin().cast();
        if envelope.length > room.bytes() {
            done.entry.len = room.bytes();
            done.error = Some((code::ETRUNC, envelope.length - room.bytes()));
        }
        if let Some(index) = place.pool {
            if let Some(pool) = self.pools[index].as_mut() {
                pool.pending -= 1;
            }
            let over = |pool: &Pool| !pool.open && pool.pending == 0;
            if self.pools[index].take_if(|pool| over(pool)).is_some() {
                done.entry.flags |= flag::MULTI_RECV;
            }
        }
        self.done.push_back(done);
    }

    /// Ends all operations with an error.
    pub fn fail(&mut self, error: isize) {
        let error = Some((error, 0));
        let (offered, places) = self.offers.fail();
        let queues = std::mem::take(&mut self.sends).into_values();
        for one in queues.flatten().chain(offered) {
            let done = sent(&one.envelope, one.context, true, error);
            self.done.push_back(done);
        }
        let posted = std::mem::take(&mut self.tagged).into_iter();
        for posted in posted.chain(std::mem::take(&mut self.plain)) {
            if let Posted::Once(receive) = posted {
                self.done.push_back(Done {
                    error,
                    ..failed(&receive)
                });
            }
        }
        for pool in std::mem::take(&mut self.pools).into_iter().flatten() {
            self.done.push_back(Done {
                error,
                ..failed(&pool.receive)
            });
        }
        let arriving = (0..)
            .zip(&mut self.incoming)
            .filter_map(|(source, incoming)| {
                let incoming = incoming.as_mut()?;
                match std::mem::replace(&mut incoming.target, Target::Nowhere) {
                    Target::Place(place) => Some(((source, incoming.envelope), place)),
                    _ => None,
                }
            });
        // A buffer for several messages has ended as one.
        let single = arriving.chain(places).filter(|(_, p)| p.pool.is_none());
        let done = single.map(|(of, place)| Done {
            error,
            ..arrived(of, place.context, 0, true)
        });
        self.done.extend(done);
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
