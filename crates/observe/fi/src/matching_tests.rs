//! Messages over rings in memory, from two sources to one receiver. Source and receiver are one
//! process, which can read its own memory: so offered messages are really copied.

use super::*;
use crate::abi::Span;
use crate::direct::BYTES;
use crate::envelope::TAGGED;
use idlewave_fabric::netctx::Pieces;
use proptest::prelude::*;

#[path = "matching_offers_tests.rs"]
mod offers;

/// Bytes of a piece, and pieces that a ring holds.
const PIECE: usize = FRONT + 7;
const SLOTS: usize = 3;
/// The number of the receiver, after those of the sources.
const RECEIVER: usize = 2;

type Ring = VecDeque<(PieceHeader, Vec<u8>)>;

/// The rings of all ranks, as one of them sees them.
struct Rings {
    own: usize,
    slots: usize,
    piece: usize,
    /// By source and destination.
    rings: [[Ring; 3]; 3],
    offers_from: Option<usize>,
    /// Whether memory cannot be read: secrets in offers are false.
    lie: bool,
}

impl Rings {
    fn new(slots: usize) -> Self {
        Self {
            own: 0,
            slots,
            piece: PIECE,
            rings: Default::default(),
            offers_from: None,
            lie: false,
        }
    }
}

impl Pieces for Rings {
    fn size(&self) -> u32 {
        self.rings.len() as u32
    }
    fn put(&mut self, to: u32, tag: u32, message: u64, rest: &[u8]) -> Option<usize> {
        self.put_behind(to, (tag, message), &[], rest)
    }
    fn take<T>(&mut self, from: u32, read: impl FnOnce(PieceHeader, &dyn Piece) -> T) -> Option<T> {
        let (header, bytes) = self.rings[from as usize][self.own].pop_front()?;
        Some(read(header, &&bytes[..]))
    }
}

impl Wire for Rings {
    fn put_behind(
        &mut self,
        to: u32,
        (tag, message): (u32, u64),
        front: &[u8],
        rest: &[u8],
    ) -> Option<usize> {
        let ring = &mut self.rings[self.own][to as usize];
        if ring.len() == self.slots {
            return None;
        }
        let taken = rest.len().min(self.piece - front.len());
        let mut bytes = [front, &rest[..taken]].concat();
        if self.lie && tag & OFFER != 0 {
            bytes[FRONT + BYTES - 1] ^= 1;
        }
        let piece = bytes.len() as u32;
        let header = PieceHeader {
            tag,
            message,
            piece,
        };
        ring.push_back((header, bytes));
        Some(taken)
    }
    fn offers_from(&self, _: u32) -> Option<usize> {
        self.offers_from
    }
}

fn context(n: usize) -> Context {
    Context(std::ptr::without_provenance_mut(n))
}

fn room(bytes: &mut [u8]) -> Room {
    let span = Span {
        base: bytes.as_mut_ptr(),
        len: bytes.len(),
    };
    // SAFETY: the tests keep the bytes until the receive is complete.
    unsafe { Room::of(&span, 1) }.unwrap()
}

fn receive(bytes: &mut [u8], want: Want, n: usize) -> Receive {
    Receive {
        want,
        room: room(bytes),
        context: context(n),
        reports: true,
    }
}

fn want(from: Option<u32>, tag: u64, ignore: u64) -> Want {
    Want {
        from,
        tag: Some((tag, ignore)),
    }
}

const PLAIN: Want = Want {
    from: None,
    tag: None,
};

/// Two senders and a receiver.
struct World {
    rings: Rings,
    senders: [Matching; 2],
    receiver: Matching,
}

impl World {
    fn new(slots: usize) -> Self {
        Self {
            rings: Rings::new(slots),
            senders: [Matching::new(3), Matching::new(3)],
            receiver: Matching::new(3),
        }
    }

    /// One whose messages of so many bytes or more are offered, and refused if `lie`.
    fn offering(slots: usize, from: usize, lie: bool) -> Self {
        let mut world = Self::new(slots);
        let rings = &mut world.rings;
        (rings.piece, rings.offers_from, rings.lie) = (FRONT + BYTES, Some(from), lie);
        world
    }

    fn send(&mut self, source: usize, tag: Option<u64>, data: Option<u64>, bytes: &[u8]) {
        self.rings.own = source;
        let length = bytes.len();
        let envelope = Envelope { tag, data, length };
        let content = Content::Own(bytes.to_vec());
        let (to, of) = (RECEIVER as u32, (envelope, content));
        self.senders[source].send(&mut self.rings, to, of, context(0), true);
    }

    fn receive(&mut self) {
        self.rings.own = RECEIVER;
        self.receiver.progress(&mut self.rings);
    }

    fn progress(&mut self) {
        self.receive();
        for (source, sender) in self.senders.iter_mut().enumerate() {
            self.rings.own = source;
            sender.progress(&mut self.rings);
        }
    }

    /// What is on its way from a source.
    fn on_the_way(&self, source: usize) -> usize {
        self.rings.rings[source][RECEIVER].len()
    }

    fn finish(&mut self) {
        for _ in 0..1_000 {
            self.progress();
        }
    }

    fn done(&mut self) -> Vec<(usize, Done)> {
        let all = std::iter::from_fn(|| self.receiver.done());
        all.map(|done| (done.entry.context.addr(), done)).collect()
    }
}

#[test]
fn a_receive_gets_the_first_message_that_it_wants_whole_and_with_its_data() {
    let mut world = World::new(SLOTS);
    let (mut one, mut two) = ([0; 40], [0; 40]);
    // Bits under the mask do not matter.
    let first = receive(&mut one, want(Some(1), 0x50, 0x0F), 1);
    world.receiver.receive(first);
    let second = receive(&mut two, want(None, 0x77, 0), 2);
    world.receiver.receive(second);
    let long: Vec<u8> = (0..30).collect();
    world.send(0, Some(0x5A), None, &[1]);
    world.send(1, Some(0x5A), Some(9), &long);
    world.send(0, Some(0x77), None, &[]);
    world.finish();
    let done = world.done();
    let (n, empty) = done[0];
    assert_eq!((n, empty.entry.len, empty.source), (2, 0, Some(0)));
    assert_eq!(empty.entry.flags, flag::RECV | flag::TAGGED);
    let (n, whole) = done[1];
    assert_eq!((n, whole.source), (1, Some(1)));
    let entry = whole.entry;
    assert_eq!((entry.len, entry.tag, entry.data), (30, 0x5A, 9));
    let flags = flag::RECV | flag::TAGGED | flag::REMOTE_CQ_DATA;
    assert_eq!(entry.flags, flags);
    assert_eq!(one[..30], long);
    assert_eq!(done.len(), 2);
    // The message of rank 0 is still there.
    let late = receive(&mut two, want(None, 0, u64::MAX), 3);
    world.receiver.receive(late);
    assert_eq!((world.done()[0].0, two[0]), (3, 1));
    assert_eq!(world.receiver.early_bytes(), 0);
}

#[test]
fn a_message_longer_than_its_receive_is_an_error_that_says_how_much_longer() {
    let mut world = World::new(SLOTS);
    let mut short = [0; 8];
    let (front, behind) = short.split_at_mut(5);
    world.receiver.receive(receive(front, want(None, 1, 0), 1));
    world.send(0, Some(1), None, &[7; 20]);
    world.finish();
    let (_, done) = world.done()[0];
    assert_eq!(done.error, Some((code::ETRUNC, 15)));
    assert_eq!(
        (done.entry.len, &front[..], &behind[..]),
        (5, &[7; 5][..], &[0; 3][..])
    );
}

#[test]
fn a_receive_that_is_posted_while_its_message_arrives_gets_all_of_it() {
    let mut world = World::new(SLOTS);
    let long: Vec<u8> = (0..100).collect();
    world.send(0, Some(1), None, &long);
    world.progress();
    assert!(world.receiver.early_bytes() > BESIDE);
    let mut bytes = [0; 100];
    world
        .receiver
        .receive(receive(&mut bytes, want(None, 1, 0), 1));
    assert_eq!(world.receiver.early_bytes(), 0);
    assert!(world.done().is_empty());
    world.finish();
    assert_eq!((world.done().len(), &bytes[..]), (1, &long[..]));
}

#[test]
fn a_peek_finds_a_message_and_whoever_claims_it_gets_it() {
    let mut world = World::new(SLOTS);
    let any = want(None, 0, u64::MAX);
    world.receiver.peek(&any, context(1), Found::Keep);
    assert_eq!(world.done()[0].1.error, Some((code::ENOMSG, 0)));
    world.send(0, Some(1), None, &[1; 200]);
    world.send(0, Some(2), None, &[2; 50]);
    world.send(0, Some(3), None, &[3; 50]);
    // The first message is still arriving when it is claimed.
    world.progress();
    world.receiver.peek(&any, context(1), Found::Claim);
    assert_eq!(world.done()[0].1.entry.len, 200);
    world.finish();
    world
        .receiver
        .peek(&want(None, 2, 0), context(2), Found::Discard);
    assert_eq!(world.done()[0].1.entry.tag, 2);
    let (mut bytes, mut long, whole) = ([0; 50], [0; 200], [1; 200]);
    world.receiver.receive(receive(&mut bytes, any, 3));
    assert_eq!((world.done()[0].1.entry.tag, bytes), (3, [3; 50]));
    assert!(world.receiver.receive_claimed(receive(&mut long, any, 1)));
    assert_eq!((world.done()[0].1.entry.tag, long), (1, whole));
    assert!(!world.receiver.receive_claimed(receive(&mut long, any, 1)));
    assert!(!world.receiver.discard_claimed(context(1), true));
    assert_eq!(world.receiver.early_bytes(), 0);
}

#[test]
fn with_much_unexpected_only_sources_that_are_asked_for_are_heard() {
    let asked = |ask: &dyn Fn(&mut Matching)| {
        let mut world = World::new(SLOTS);
        world.receiver.early_bytes = EAGER_BYTES;
        for source in 0..2 {
            world.send(source, Some(1), None, &[1]);
        }
        ask(&mut world.receiver);
        world.receive();
        [0, 1].map(|source: usize| world.on_the_way(source) == 0)
    };
    assert_eq!(asked(&|_| {}), [false, false]);
    let of_one = want(Some(1), 2, 0);
    let mut room = [0];
    let receive = receive(&mut room, of_one, 1);
    assert_eq!(asked(&|m| m.receive(receive)), [false, true]);
    assert_eq!(asked(&|m| m.look_for(of_one)), [false, true]);
    assert_eq!(asked(&|m| m.look_for(PLAIN)), [true, true]);
    // The first message is what it looks for.
    assert_eq!(asked(&|m| m.look_for(want(None, 1, 0))), [true, false]);
    let over = |m: &mut Matching| {
        m.look_for(PLAIN);
        m.peek(&PLAIN, context(1), Found::Keep);
    };
    assert_eq!(asked(&over), [false, false]);
}

#[test]
fn a_buffer_for_several_messages_is_given_back_when_little_is_left_of_it() {
    let mut world = World::new(SLOTS);
    let (mut first, mut second) = ([0; 64], [0; 64]);
    let base = first.as_ptr().addr();
    world
        .receiver
        .receive_many(receive(&mut first, PLAIN, 1), 16);
    world
        .receiver
        .receive_many(receive(&mut second, PLAIN, 2), 16);
    for n in 1..=4 {
        world.send(0, None, None, &[n; 20]);
    }
    world.finish();
    let done = world.done();
    let at: Vec<_> = done
        .iter()
        .map(|(n, done)| (*n, done.entry.flags & flag::MULTI_RECV != 0, done.entry.len))
        .collect();
    // At 0 and 24; 16 bytes are left then, which do not hold the third message.
    let expected = [
        (1, false, 20),
        (1, false, 20),
        (1, true, 0),
        (2, false, 20),
        (2, false, 20),
    ];
    assert_eq!(at, expected);
    assert_eq!(done[1].1.entry.buf.addr(), base + 24);
    assert_eq!((first[19], first[20], first[43]), (1, 0, 2));
    assert!(world.receiver.cancel(context(2)));
    assert_eq!(world.done()[0].1.error, Some((code::ECANCELED, 0)));
}

#[test]
fn messages_that_came_before_the_buffer_go_into_it() {
    let mut world = World::new(SLOTS);
    world.send(0, None, None, &[1; 20]);
    world.send(1, None, None, &[2; 20]);
    world.finish();
    let mut bytes = [0; 48];
    world
        .receiver
        .receive_many(receive(&mut bytes, PLAIN, 1), 40);
    let done = world.done();
    // The first leaves less than 40 bytes.
    assert_eq!(done.len(), 1);
    assert_ne!(done[0].1.entry.flags & flag::MULTI_RECV, 0);
    let mut other = [0; 20];
    world.receiver.receive(receive(&mut other, PLAIN, 2));
    assert_eq!((world.done().len(), other), (1, [2; 20]));
}

#[test]
fn what_is_sent_at_once_never_overtakes() {
    let mut world = World::new(1);
    let envelope = Envelope {
        tag: Some(1),
        data: None,
        length: 3,
    };
    let inject = |world: &mut World| {
        let (sender, to) = (&mut world.senders[0], RECEIVER as u32);
        world.rings.own = 0;
        sender.inject(&mut world.rings, to, envelope, &[9; 3])
    };
    world.send(0, Some(1), None, &[1; 60]);
    assert!(!inject(&mut world));
    assert!(world.senders[0].is_within_a_send());
    world.receive();
    // There is room now, but the rest of the first message comes first.
    assert!(!inject(&mut world));
    world.send(0, Some(1), None, &[2; 1]);
    assert_eq!(world.on_the_way(0), 0);
    world.finish();
    assert!(inject(&mut world));
    assert!(!inject(&mut world));
}

#[test]
fn a_cancelled_receive_gets_nothing() {
    let mut world = World::new(SLOTS);
    let (mut one, mut two) = ([0; 1], [0; 1]);
    world
        .receiver
        .receive(receive(&mut one, want(None, 1, 0), 1));
    world
        .receiver
        .receive(receive(&mut two, want(None, 1, 0), 2));
    assert!(world.receiver.cancel(context(1)));
    assert!(!world.receiver.cancel(context(1)));
    world.send(0, Some(1), None, &[5]);
    world.finish();
    let done = world.done();
    assert_eq!(
        (done[0].0, done[0].1.error),
        (1, Some((code::ECANCELED, 0)))
    );
    assert_eq!((done[1].0, one, two), (2, [0], [5]));
}

#[test]
fn a_piece_that_no_rank_sends_is_noticed() {
    let mut world = World::new(SLOTS);
    let header = PieceHeader {
        tag: TAGGED,
        message: 5,
        piece: 3,
    };
    world.rings.rings[0][RECEIVER].push_back((header, vec![0; 3]));
    world.finish();
    assert!(world.receiver.is_forged());
}

#[test]
fn the_next_endpoint_gets_no_part_of_a_message_of_the_one_before() {
    let mut world = World::new(SLOTS);
    let (mut old, mut new) = ([0; 100], [0; 4]);
    let mut next = [0; 4];
    let any = want(None, 0, u64::MAX);
    // One message arrives in a receive, the other is unexpected.
    world
        .receiver
        .receive(receive(&mut old, want(Some(0), 0, u64::MAX), 1));
    world.send(0, Some(1), None, &[1; 100]);
    world.send(1, Some(1), None, &[1; 100]);
    world.progress();
    world.receiver = std::mem::take(&mut world.receiver).renewed();
    assert_eq!(world.receiver.early_bytes(), 0);
    let before = old;
    for source in 0..2 {
        world.send(source, Some(2), None, &[2; 4]);
    }
    world.receiver.receive(receive(&mut new, any, 2));
    world.receiver.receive(receive(&mut next, any, 3));
    world.finish();
    let done: Vec<_> = world
        .done()
        .iter()
        .map(|(n, done)| (*n, done.entry.tag))
        .collect();
    assert_eq!(done, [(2, 2), (3, 2)]);
    assert_eq!((old, new, next), (before, [2; 4], [2; 4]));
    assert_eq!(world.receiver.early_bytes(), 0);
    assert!(!world.receiver.is_forged());
}

#[test]
fn a_failure_ends_everything_that_is_under_way() {
    let mut world = World::new(1);
    let (mut one, mut two, mut three) = ([0; 50], [0; 50], [0; 50]);
    world
        .receiver
        .receive(receive(&mut one, want(None, 1, 0), 1));
    world
        .receiver
        .receive(receive(&mut two, want(None, 2, 0), 2));
    world
        .receiver
        .receive_many(receive(&mut three, PLAIN, 3), 8);
    world.send(0, Some(1), None, &[1; 50]);
    world.receive();
    world.receiver.fail(code::ENETDOWN);
    let mut ended: Vec<_> = world
        .done()
        .iter()
        .map(|(n, done)| (*n, done.source))
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, [(1, Some(0)), (2, None), (3, None)]);
    world.senders[0].fail(code::ENETDOWN);
    let done = world.senders[0].done().unwrap();
    assert!(done.is_send() && done.source.is_none() && done.error == Some((code::ENETDOWN, 0)));
}

/// A step of a program.
#[derive(Clone, Debug)]
enum Step {
    /// From a source, with a tag and a length.
    Send(usize, u64, usize),
    /// From a source or any, with a tag or any.
    Receive(Option<u32>, Option<u64>),
    Progress,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..2_usize, 0..3_u64, 0..60_usize).prop_map(|(s, t, l)| Step::Send(s, t, l)),
        (
            proptest::option::of(0..2_u32),
            proptest::option::of(0..3_u64)
        )
            .prop_map(|(s, t)| Step::Receive(s, t)),
        Just(Step::Progress),
    ]
}

proptest! {
    /// Whatever another process writes into a ring, nothing is written beyond a receive's room.
    #[test]
    fn foreign_pieces_are_survived(
        pieces in proptest::collection::vec(
            (0..128_u32, prop_oneof![0..200_u64, any::<u64>()], proptest::collection::vec(any::<u8>(), 0..80)),
            0..30,
        ),
        wants in proptest::collection::vec(proptest::option::of(0..3_u64), 0..4),
    ) {
        let mut world = World::new(SLOTS);
        let mut rooms = vec![[7; 100]; wants.len()];
        for ((n, room), tag) in (1..).zip(&mut rooms).zip(wants) {
            let want = Want { from: None, tag: tag.map(|tag| (tag, u64::MAX)) };
            world.receiver.receive(receive(&mut room[10..90], want, n));
        }
        for (tag, message, bytes) in pieces {
            let piece = bytes.len() as u32;
            let header = PieceHeader { tag, message, piece };
            world.rings.rings[0][RECEIVER].push_back((header, bytes));
            world.receive();
        }
        world.receiver.fail(code::ENETDOWN);
        for room in rooms {
            prop_assert!(room[..10] == [7; 10] && room[90..] == [7; 10]);
        }
    }

    /// Whatever the order of sends, receives and progress: every message arrives once and whole,
    /// and no receive gets a message if it also fits an earlier one of the same source that a
    /// later receive gets, or none.
    #[test]
    fn messages_of_a_source_never_overtake(
        steps in proptest::collection::vec(step(), 0..60),
        slots in 1..5_usize,
        offers in proptest::option::of((10..60_usize, any::<bool>())),
    ) {
        let mut world = match offers {
            Some((from, lie)) => World::offering(slots, from, lie),
            None => World::new(slots),
        };
        // By source: tag, and the receive that got it.
        let mut sent: [Vec<(u64, Option<usize>)>; 2] = Default::default();
        let mut wants: Vec<(Want, Vec<u8>)> = Vec::new();
        let mut got: Vec<Done> = Vec::new();
        let drain = steps.iter().filter(|step| matches!(step, Step::Send(..))).count();
        let rest = std::iter::repeat_n(Step::Receive(None, None), drain);
        for step in steps.iter().cloned().chain(rest) {
            match step {
                Step::Send(source, tag, length) => {
                    // Its first bytes say which it is.
                    let n = sent[source].len() as u8;
                    let mut bytes = vec![n, source as u8];
                    bytes.extend((0..length).map(|i| i as u8 ^ n));
                    sent[source].push((tag, None));
                    world.send(source, Some(tag), None, &bytes);
                }
                Step::Receive(from, tag) => {
                    let want = Want { from, tag: Some((tag.unwrap_or(0), tag.map_or(u64::MAX, |_| 0))) };
                    wants.push((want, vec![0; 62]));
                    let n = wants.len() - 1;
                    let receive = receive(&mut wants[n].1, want, n + 1);
                    world.receiver.receive(receive);
                }
                Step::Progress => world.progress(),
            }
            got.extend(world.done().into_iter().map(|(_, done)| done));
        }
        world.finish();
        got.extend(world.done().into_iter().map(|(_, done)| done));
        for (sender, sent) in world.senders.iter_mut().zip(&sent) {
            prop_assert_eq!(std::iter::from_fn(|| sender.done()).count(), sent.len());
            prop_assert!(!sender.is_within_a_send());
        }
        for done in &got {
            let n = done.entry.context.addr() - 1;
            let bytes = &wants[n].1[..done.entry.len];
            let (message, source) = (bytes[0], usize::from(bytes[1]));
            prop_assert_eq!(Some(source as u32), done.source);
            prop_assert!(bytes[2..].iter().enumerate().all(|(i, b)| *b == i as u8 ^ message));
            let (tag, by) = &mut sent[source][usize::from(message)];
            prop_assert!(by.is_none(), "twice");
            prop_assert_eq!(*tag, done.entry.tag);
            *by = Some(n);
            let envelope = Envelope { tag: Some(*tag), data: None, length: 0 };
            prop_assert!(wants[n].0.fits(source as u32, &envelope));
        }
        for (source, all) in sent.iter().enumerate() {
            for (place, (_, by)) in all.iter().enumerate() {
                let Some(by) = by else {
                    prop_assert!(false, "message {place} of {source} was not received");
                    continue;
                };
                for (tag, earlier) in &all[..place] {
                    let envelope = Envelope { tag: Some(*tag), data: None, length: 0 };
                    let overtaken = wants[*by].0.fits(source as u32, &envelope)
                        && earlier.is_none_or(|earlier| earlier > *by);
                    prop_assert!(!overtaken, "receive {by} got message {place}");
                }
            }
        }
    }
}
