//! Messages of one endpoint: sends under way, posted receives, unexpected messages. It sees the
//! network only as pieces of messages ([`Wire`]).
//!
//! A message is matched when its first piece is taken, with the oldest receive that it fits: so
//! messages from one source are matched in the order in which they were sent (FI_ORDER_SAS).

use crate::abi::{CqEntry, code, flag};
use crate::room::{Content, Room};
use idlewave_fabric::netctx::{Piece, PieceHeader, Pieces, device::Rings};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;

/// Bytes in front of a message: its tag and its data for the completion queue.
const FRONT: usize = 16;
/// Bits of a piece's tag.
const TAGGED: u32 = 1;
const WITH_DATA: u32 = 2;

/// The longest message that is sent at once or not at all: with its front it fits into a frame
/// between nodes.
pub const LONGEST_INJECT: usize = 1_024;
/// The shortest piece with which this works.
pub const SHORTEST_PIECE: usize = FRONT + LONGEST_INJECT;
/// Unexpected messages up to this many bytes are taken in at once; more stay in the rings, where
/// their senders wait, until a receive or a peek asks for their source.
const EAGER_BYTES: usize = 64 << 20;
/// Pieces of one message, or from one source, that are moved at a time: in between, this rank is
/// outside of its device, so that its gang can be switched.
const AT_ONCE: usize = 256;
/// The most memory reserved for an announced message before its bytes arrive.
const AHEAD: usize = 1 << 20;
/// Approximate overhead of an unexpected message beyond its content, bytes.
const BESIDE: usize = 96;
/// Where messages begin in a buffer for several: at multiples of this.
const ALIGNED: usize = 8;

/// What carries pieces of messages.
pub trait Wire: Pieces {
    /// Puts a piece as [`Rings::put_behind`] does.
    fn put_behind(&mut self, to: u32, head: (u32, u64), front: &[u8], rest: &[u8])
    -> Option<usize>;
}

impl Wire for Rings {
    fn put_behind(
        &mut self,
        to: u32,
        head: (u32, u64),
        front: &[u8],
        rest: &[u8],
    ) -> Option<usize> {
        Rings::put_behind(self, to, head, front, rest)
    }
}

/// What a program passes with an operation, to find it again in its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub *mut c_void);

// SAFETY: never followed.
unsafe impl Send for Context {}

/// What a message carries besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The tag; `None` for messages without.
    pub tag: Option<u64>,
    /// Data for the receiver's completion queue.
    pub data: Option<u64>,
    /// Bytes.
    pub length: usize,
}

impl Envelope {
    fn head(&self) -> (u32, u64) {
        let tagged = self.tag.map_or(0, |_| TAGGED);
        let data = self.data.map_or(0, |_| WITH_DATA);
        (tagged | data, self.length as u64)
    }

    fn front(&self) -> [u8; FRONT] {
        let mut front = [0; FRONT];
        front[..8].copy_from_slice(&self.tag.unwrap_or(0).to_le_bytes());
        front[8..].copy_from_slice(&self.data.unwrap_or(0).to_le_bytes());
        front
    }

    /// From the first piece of a message; `None` if that is too short.
    fn read(header: PieceHeader, piece: &dyn Piece) -> Option<Self> {
        let mut front = Vec::with_capacity(FRONT);
        piece.append_to(0, FRONT, &mut front);
        if front.len() < FRONT {
            return None;
        }
        let word = |at: usize| {
            let bytes = front[at..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        Some(Self {
            tag: (header.tag & TAGGED != 0).then(|| word(0)),
            data: (header.tag & WITH_DATA != 0).then(|| word(8)),
            length: usize::try_from(header.message).ok()?,
        })
    }

    fn flags(&self) -> u64 {
        let kind = self.tag.map_or(flag::MSG, |_| flag::TAGGED);
        kind | self.data.map_or(0, |_| flag::REMOTE_CQ_DATA)
    }
}

/// Which messages a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The source; `None` for any.
    pub from: Option<u32>,
    /// Tag, and the bits of it that do not matter; `None` for messages without tags.
    pub tag: Option<(u64, u64)>,
}

impl Want {
    fn fits(&self, source: u32, envelope: &Envelope) -> bool {
        let tag = match (self.tag, envelope.tag) {
            (Some((tag, ignore)), Some(theirs)) => (tag ^ theirs) & !ignore == 0,
            (None, None) => true,
            _ => false,
        };
        tag && self.from.is_none_or(|from| from == source)
    }
}

/// A receive, or a peek.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// Which messages.
    pub want: Want,
    /// Where they go.
    pub room: Room,
    /// Names it.
    pub context: Context,
    /// Whether its completion is to be reported.
    pub reports: bool,
}

/// The completion of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// What is reported of it.
    pub entry: CqEntry,
    /// The source of a message; `None` for sends, and if there is no message.
    pub source: Option<u32>,
    /// What went wrong, and the bytes that had no room.
    pub error: Option<(isize, usize)>,
    /// Whether a success is to be reported.
    pub reports: bool,
}

// SAFETY: its addresses are never followed.
unsafe impl Send for Done {}

impl Done {
    /// Whether it is that of a send.
    pub fn is_send(&self) -> bool {
        self.entry.flags & flag::SEND != 0
    }
}

/// A send under way.
struct Sending {
    envelope: Envelope,
    content: Content,
    sent: usize,
    begun: bool,
    context: Context,
    reports: bool,
}

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
    /// What the next peek looks for.
    peeked: Option<Want>,
    forged: bool,
    done: VecDeque<Done>,
}

fn entry(context: Context, flags: u64, len: usize) -> CqEntry {
    CqEntry {
        context: context.0,
        flags,
        len,
        buf: std::ptr::null_mut(),
        data: 0,
        tag: 0,
    }
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
    /// [`LONGEST_INJECT`] bytes.
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
        let mut sending = Sending {
            envelope,
            content,
            sent: 0,
            begun: false,
            context,
            reports,
        };
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

    /// Announces a peek: until then, progress takes in what it may find.
    pub fn look_for(&mut self, want: Want) {
        self.peeked = Some(want);
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
        let bytes = match early.whole {
            Some(bytes) => bytes.len(),
            None => match self.incoming[early.source as usize].as_mut() {
                Some(incoming) => match std::mem::replace(&mut incoming.target, Target::Nowhere) {
                    Target::Early(bytes) => bytes.len(),
                    _ => 0,
                },
                None => 0,
            },
        };
        self.early_bytes -= bytes + BESIDE;
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

impl Sending {
    /// Puts what there is room for, [`AT_ONCE`] at most; returns whether that was all.
    fn push(&mut self, wire: &mut impl Wire, to: u32) -> bool {
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

fn sent(
    envelope: &Envelope,
    context: Context,
    reports: bool,
    error: Option<(isize, usize)>,
) -> Done {
    let kind = envelope.tag.map_or(flag::MSG, |_| flag::TAGGED);
    Done {
        entry: entry(context, flag::SEND | kind, 0),
        source: None,
        error,
        reports,
    }
}

fn arrived(
    (source, envelope): (u32, Envelope),
    context: Context,
    more: u64,
    reports: bool,
) -> Done {
    let flags = flag::RECV | envelope.flags() | more;
    Done {
        entry: CqEntry {
            data: envelope.data.unwrap_or(0),
            tag: envelope.tag.unwrap_or(0),
            ..entry(context, flags, envelope.length)
        },
        source: Some(source),
        error: None,
        reports,
    }
}

/// A receive that is not to be matched.
fn failed(receive: &Receive) -> Done {
    let kind = receive.want.tag.map_or(flag::MSG, |_| flag::TAGGED);
    Done {
        entry: CqEntry {
            tag: receive.want.tag.map_or(0, |(tag, _)| tag),
            ..entry(receive.context, flag::RECV | kind, 0)
        },
        source: None,
        error: None,
        reports: true,
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
