//! Messages of one endpoint: sends under way, posted receives, unexpected messages. It sees the
//! network only as pieces of messages ([`Wire`]).
//!
//! A message is matched when its first piece is taken, with the oldest receive that it fits: so
//! messages from one source are matched in the order in which they were sent (FI_ORDER_SAS).

mod peek;

pub use peek::Found;

use crate::abi::{code, flag};
use crate::done::{Context, Done, Receive, arrived, entry, failed, sent};
use crate::envelope::{Envelope, FRONT, Want, Wire};
use crate::room::{Content, Room};
use crate::sending::{AT_ONCE, Sending};
use idlewave_fabric::netctx::{Piece, PieceHeader};
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
    Room {
        room: Room,
        context: Context,
        reports: bool,
        pool: Option<usize>,
    },
    /// Its receive has not been posted yet.
    Early(Vec<u8>),
    Nowhere,
}

struct Incoming {
    envelope: Envelope,
    at: usize,
    target: Target,
}

/// An unexpected message; `None` instead of its bytes while it is arriving: they are in
/// [`Incoming`].
struct Early {
    source: u32,
    envelope: Envelope,
    whole: Option<Vec<u8>>,
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
    pub fn renewed(self) -> Self {
        let rest = |incoming: Incoming| Incoming {
            target: Target::Nowhere,
            ..incoming
        };
        let arriving = self.incoming.into_iter();
        Self {
            incoming: arriving.map(|incoming| incoming.map(rest)).collect(),
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

    /// Whether part of a message has been sent, and the rest not yet.
    pub fn is_within_a_send(&self) -> bool {
        let first = |queue: &VecDeque<Sending>| queue.front().is_some_and(|first| first.begun);
        self.sends.values().any(first)
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
        if !self.sends.contains_key(&to) && sending.push(wire, to) {
            self.done.push_back(sent(&envelope, context, reports, None));
            return;
        }
        self.sends.entry(to).or_default().push_back(sending);
    }

    /// Completes a message that was sent at once.
    pub fn injected(&mut self, envelope: &Envelope, context: Context, reports: bool) {
        self.done.push_back(sent(envelope, context, reports, None));
    }

    fn push(&mut self, wire: &mut impl Wire, to: u32) {
        let Some(queue) = self.sends.get_mut(&to) else {
            return;
        };
        while let Some(first) = queue.front_mut() {
            if !first.push(wire, to) {
                return;
            }
            let done = sent(&first.envelope, first.context, first.reports, None);
            self.done.push_back(done);
            queue.pop_front();
        }
        self.sends.remove(&to);
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
        self.deliver(found, receive.room, receive.context, receive.reports, None);
    }

    /// Puts an unexpected message into the room that was found for it.
    fn deliver(
        &mut self,
        found: Early,
        mut room: Room,
        context: Context,
        reports: bool,
        pool: Option<usize>,
    ) {
        match found.whole {
            Some(bytes) => {
                self.early_bytes -= bytes.len() + BESIDE;
                room.write(0, &&bytes[..], 0);
                let of = (found.source, found.envelope);
                self.received(of, room, context, reports, pool);
            }
            None => {
                let incoming = self.incoming[found.source as usize].as_mut();
                let Some(incoming) = incoming else { return };
                if let Target::Early(bytes) = &incoming.target {
                    self.early_bytes -= bytes.len() + BESIDE;
                    room.write(0, &&bytes[..], 0);
                }
                incoming.target = Target::Room {
                    room,
                    context,
                    reports,
                    pool,
                };
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
                    self.deliver(found, room, receive.context, receive.reports, Some(index));
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
    }

    /// Whether a receive or a peek may be waiting for something from a source.
    fn is_asked_for(&self, source: u32) -> bool {
        let arriving = self.incoming.get(source as usize).and_then(Option::as_ref);
        let posted = self.tagged.iter().chain(&self.plain);
        let mut wants = posted.map(Posted::want).chain(&self.peeked);
        arriving.is_some_and(|incoming| matches!(incoming.target, Target::Room { .. }))
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
        let s = source as usize;
        let mut skip = 0;
        if self.incoming.get(s).is_none_or(Option::is_none) {
            let envelope = Envelope::read(header, piece);
            let (Some(envelope), true) = (envelope, s < self.incoming.len()) else {
                self.forged = true;
                return;
            };
            self.begin(source, envelope);
            skip = FRONT;
        }
        let Some(incoming) = &mut self.incoming[s] else {
            return;
        };
        let new = piece.len().saturating_sub(skip);
        match &mut incoming.target {
            Target::Room { room, .. } => room.write(incoming.at, piece, skip),
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

    /// Finds the receive for a message whose first piece has arrived.
    fn begin(&mut self, source: u32, envelope: Envelope) {
        let mut target = None;
        loop {
            let posted = match envelope.tag {
                Some(_) => &mut self.tagged,
                None => &mut self.plain,
            };
            let fits = |posted: &Posted| posted.want().fits(source, &envelope);
            let Some(place) = posted.iter().position(fits) else {
                break;
            };
            let (pool, want) = match &posted[place] {
                Posted::Once(receive) => {
                    target = Some(Target::Room {
                        room: receive.room,
                        context: receive.context,
                        reports: receive.reports,
                        pool: None,
                    });
                    posted.remove(place);
                    break;
                }
                Posted::Pool(want, index) => (*index, *want),
            };
            let room = self.take_from(pool, envelope.length);
            if !self.is_open(pool) {
                self.posted(&want).remove(place);
            }
            // A message that does not fit goes into the next buffer.
            let Some(room) = room else { continue };
            if let Some(Pool { receive, .. }) = &self.pools[pool] {
                target = Some(Target::Room {
                    room,
                    context: receive.context,
                    reports: receive.reports,
                    pool: Some(pool),
                });
            }
            break;
        }
        let target = target.unwrap_or_else(|| {
            self.early_bytes += BESIDE;
            if self.peeked.is_some_and(|want| want.fits(source, &envelope)) {
                self.peeked = None;
            }
            self.early.push_back(Early {
                source,
                envelope,
                whole: None,
            });
            Target::Early(Vec::with_capacity(envelope.length.min(AHEAD)))
        });
        self.incoming[source as usize] = Some(Incoming {
            envelope,
            at: 0,
            target,
        });
    }

    fn complete(&mut self, source: u32) {
        let Some(incoming) = self.incoming[source as usize].take() else {
            return;
        };
        match incoming.target {
            Target::Room {
                room,
                context,
                reports,
                pool,
            } => {
                let of = (source, incoming.envelope);
                self.received(of, room, context, reports, pool);
            }
            Target::Early(bytes) => {
                let claimed = self.claimed.iter_mut().map(|(_, early)| early);
                let mut all = self.early.iter_mut().rev().chain(claimed);
                let arriving = |early: &&mut Early| early.source == source && early.whole.is_none();
                if let Some(early) = all.find(arriving) {
                    early.whole = Some(bytes);
                }
            }
            Target::Nowhere => {}
        }
    }

    fn received(
        &mut self,
        (source, envelope): (u32, Envelope),
        room: Room,
        context: Context,
        reports: bool,
        pool: Option<usize>,
    ) {
        let mut done = arrived((source, envelope), context, 0, reports);
        done.entry.buf = room.begin().cast();
        if envelope.length > room.bytes() {
            done.entry.len = room.bytes();
            done.error = Some((code::ETRUNC, envelope.length - room.bytes()));
        }
        if let Some(index) = pool {
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
        for queue in std::mem::take(&mut self.sends).into_values() {
            for one in queue {
                let done = sent(&one.envelope, one.context, true, error);
                self.done.push_back(done);
            }
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
        for (source, incoming) in (0..).zip(&mut self.incoming) {
            let Some(incoming) = incoming else { continue };
            let target = std::mem::replace(&mut incoming.target, Target::Nowhere);
            if let Target::Room {
                context,
                pool: None,
                ..
            } = target
            {
                self.done.push_back(Done {
                    error,
                    ..arrived((source, incoming.envelope), context, 0, true)
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
