//! The queue of events: earliest time first; of equal times the event created first.
//!
//! An event is one number of 128 bits: time, stamp, payload, from the highest bits down. Simulated
//! time does not run backwards: nothing is pushed below the last event popped. That allows a radix
//! queue (R. K. Ahuja, K. Mehlhorn, J. Orlin, R. E. Tarjan, "Faster algorithms for the shortest
//! path problem", J. ACM 37, 1990): an event waits, unsorted, in the bucket given by the highest
//! digit of 3 bits in which it differs from a reference, and by the value of that digit. When the
//! nearest bucket is opened, its events are spread over the buckets below it or, if they are few,
//! sorted as a whole. So events are moved and sorted in long runs of memory; a binary heap of
//! 100,000 events would visit 17 places all over it instead. Buckets share blocks of memory, so
//! that together they take hardly more than the 16 bytes of each event.

use super::blocks::{BLOCK, Blocks, Bucket};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A bucket of at most this many events is sorted. Usually there are some hundred, 8 KiB; much
/// shorter runs would end before the prefetched data arrives.
const FEW: usize = 4_096;

/// Bits of a digit.
const BITS: u32 = 3;
/// Values of a digit.
const VALUES: usize = 1 << BITS;
/// Digits of an event.
const DIGITS: usize = 128_usize.div_ceil(BITS as usize);

/// Combines a time in nanoseconds and two 32-bit numbers.
#[inline]
pub(super) fn event(time: u64, stamp: u32, payload: u32) -> u128 {
    u128::from(time) << 64 | u128::from(stamp) << 32 | u128::from(payload)
}

/// Time of an event, in nanoseconds.
#[inline]
pub(super) fn time(event: u128) -> u64 {
    (event >> 64) as u64
}

/// Stamp of an event.
#[inline]
pub(super) fn stamp(event: u128) -> u32 {
    (event >> 32) as u32
}

/// Payload of an event.
#[inline]
pub(super) fn payload(event: u128) -> u32 {
    event as u32
}

/// The same event at a later time, with the same stamp.
#[inline]
pub(super) fn at(event: u128, time: u64) -> u128 {
    u128::from(time) << 64 | u128::from(event as u64)
}

/// Scratch memory for sorting.
#[derive(Default)]
struct Sorter {
    events: Vec<u128>,
    /// Where the events of each class start; after sorting, where they end.
    places: Vec<u32>,
}

/// Sorts events, the largest first, by distributing them over as many classes as there are events,
/// so that a class hardly holds more than one.
fn sort(events: &mut Vec<u128>, memory: &mut Sorter) {
    let (Some(&least), Some(&most)) = (events.iter().min(), events.iter().max()) else {
        return;
    };
    let classes = events.len().next_power_of_two();
    let shift = (128 - (most - least).leading_zeros()).saturating_sub(classes.trailing_zeros());
    // Below the number of classes, because the largest difference is.
    let class = |event: u128| ((most - event) >> shift) as usize;
    let places = &mut memory.places;
    places.clear();
    places.resize(classes, 0);
    for &event in &*events {
        places[class(event)] += 1;
    }
    let mut begin = 0;
    for place in &mut *places {
        begin += std::mem::replace(place, begin);
    }
    memory.events.clear();
    memory.events.resize(events.len(), 0);
    for &event in &*events {
        let place = &mut places[class(event)];
        memory.events[*place as usize] = event;
        *place += 1;
    }
    let mut begin = 0;
    for &end in &*places {
        let alike = &mut memory.events[begin..end as usize];
        if alike.len() > 1 {
            alike.sort_unstable_by(|a, b| b.cmp(a));
        }
        begin = end as usize;
    }
    std::mem::swap(events, &mut memory.events);
}

pub(super) struct EventQueue {
    /// The nearest events, the next one last.
    run: Vec<u128>,
    sorter: Sorter,
    /// The run was made when the last event was taken.
    fresh: bool,
    /// Events pushed since the run was made and nearer than its end. They are few, because a run is
    /// short.
    near: BinaryHeap<Reverse<u128>>,
    /// End of the run. Everything in the buckets is above it.
    reference: u128,
    /// Buckets by the highest digit in which an event differs from the reference, and by its value.
    buckets: [[Bucket; VALUES]; DIGITS],
    blocks: Blocks,
    /// Bit d is set if a bucket of digit d is not empty.
    filled: u64,
    /// For each digit, bit v is set if the bucket of value v is not empty.
    values: [u8; DIGITS],
}

impl EventQueue {
    pub fn new() -> Self {
        EventQueue {
            run: Vec::new(),
            sorter: Sorter::default(),
            fresh: false,
            near: BinaryHeap::new(),
            reference: 0,
            buckets: [[Bucket::EMPTY; VALUES]; DIGITS],
            blocks: Blocks::default(),
            filled: 0,
            values: [0; DIGITS],
        }
    }

    /// Adds an event. No two are equal, none is 0, and none is below an event already popped.
    #[inline]
    pub fn push(&mut self, event: u128) {
        if event <= self.reference {
            self.near.push(Reverse(event));
        } else {
            let digit = (127 - (event ^ self.reference).leading_zeros()) / BITS;
            let value = (event >> (digit * BITS)) as usize % VALUES;
            self.filled |= 1 << digit;
            self.values[digit as usize] |= 1 << value;
            self.blocks
                .push(&mut self.buckets[digit as usize][value], event);
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<u128> {
        self.fresh = self.run.is_empty() && self.near.is_empty();
        if self.fresh && !self.refill() {
            return None;
        }
        match (self.run.last(), self.near.peek()) {
            (Some(&next), Some(&Reverse(near))) if near < next => self.near.pop().map(|e| e.0),
            (Some(_), _) => self.run.pop(),
            (None, _) => self.near.pop().map(|e| e.0),
        }
    }

    /// Renumbers the stamps from 1 in their order, regardless of time: an event that is moved to a
    /// later time keeps its place among those created before and after it. Returns the last stamp.
    #[cold]
    pub fn stamp_again(&mut self) -> u32 {
        let mut all: Vec<u128> = std::iter::from_fn(|| self.pop()).collect();
        *self = EventQueue::new();
        all.sort_unstable_by_key(|&event| stamp(event));
        // Fewer than 2^32 events exist at a time.
        for (stamp, old) in (1..).zip(all) {
            self.push(event(time(old), stamp, payload(old)));
        }
        self.len() as u32
    }

    /// Number of events in the queue.
    pub fn len(&self) -> usize {
        let buckets: usize = self.buckets.iter().flatten().map(|b| b.count).sum();
        self.run.len() + self.near.len() + buckets
    }

    /// Whether the run was made only when the last event was taken, so that nothing ahead of it was
    /// known before.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The event this many events after the next one, provided that nothing nearer is pushed and
    /// the run is long enough.
    #[inline]
    pub fn ahead(&self, distance: usize) -> Option<u128> {
        let last = self.run.len().checked_sub(1 + distance)?;
        self.run.get(last).copied()
    }

    /// Makes the next run; false if nothing is left.
    fn refill(&mut self) -> bool {
        if self.filled == 0 {
            return false;
        }
        let digit = self.filled.trailing_zeros() as usize;
        let value = self.values[digit].trailing_zeros() as usize;
        self.values[digit] &= !(1 << value);
        if self.values[digit] == 0 {
            self.filled &= !(1 << digit);
        }
        let bucket = &mut self.buckets[digit][value];
        let mut opened = std::mem::replace(bucket, Bucket::EMPTY);
        if opened.count <= FEW {
            while let Some(events) = self.blocks.last_of(&opened) {
                self.run.extend_from_slice(events);
                self.blocks.drop_last_of(&mut opened);
            }
            sort(&mut self.run, &mut self.sorter);
            self.reference = self.run[0];
            return true;
        }
        let least = self.blocks.least_of(&opened);
        self.reference = least;
        // One block at a time: its memory is free for the buckets filled meanwhile.
        let mut block = [0; BLOCK];
        while let Some(events) = self.blocks.last_of(&opened) {
            let count = events.len();
            block[..count].copy_from_slice(events);
            self.blocks.drop_last_of(&mut opened);
            for &event in &block[..count] {
                if event == least {
                    self.run.push(event);
                } else {
                    // Goes to a lower digit than the bucket being opened.
                    self.push(event);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pushes and pops as a simulation does, compared with a sorted list.
    fn compare(pushes: &[(u64, u8)]) {
        let mut queue = EventQueue::new();
        let mut sorted = std::collections::BTreeSet::new();
        let mut now = 0;
        for (stamp, &(ahead, pops)) in pushes.iter().enumerate() {
            let event = event(now + ahead, stamp as u32 + 1, 7);
            queue.push(event);
            sorted.insert(event);
            for _ in 0..pops {
                let next = queue.pop();
                assert_eq!(next, sorted.pop_first());
                now = next.map_or(now, time);
            }
        }
        while let Some(next) = queue.pop() {
            assert_eq!(Some(next), sorted.pop_first());
        }
        assert!(sorted.is_empty());
    }

    proptest! {
        #[test]
        fn events_come_in_order_whatever_is_pushed(
            pushes in prop::collection::vec((prop_oneof![Just(0), 0_u64..5, 0_u64..10_000], 0_u8..3), 0..3_000)
        ) {
            compare(&pushes);
        }
    }

    #[test]
    fn a_bucket_of_many_events_is_spread_and_sorted() {
        let mut pushes: Vec<(u64, u8)> = (0..20_000).map(|i| (i * 7_919 % 10_007, 0)).collect();
        pushes.extend((0..20_000).map(|i| (i * 104_729 % 5_003, 1)));
        compare(&pushes);
    }

    proptest! {
        #[test]
        fn runs_are_sorted_however_their_events_lie(
            near in prop::collection::vec(0_u64..50, 0..200), far in prop::collection::vec(any::<u64>(), 0..5), stamps: bool,
        ) {
            let mut events: Vec<u128> = (1..).zip(near.iter().chain(&far)).map(|(n, &time)| match stamps {
                true => event(7, time as u32, n),
                false => event(time, n, 0),
            }).collect();
            let mut expected = events.clone();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            let mut memory = Sorter::default();
            sort(&mut events, &mut memory);
            prop_assert_eq!(&events, &expected);
            // Leftovers of another run in the memory do not matter.
            sort(&mut events, &mut memory);
            prop_assert_eq!(events, expected);
        }
    }

    #[test]
    fn events_that_are_stamped_again_keep_their_order() {
        let mut queue = EventQueue::new();
        for i in 0..3_000_u32 {
            queue.push(event(u64::from(i * 7_919 % 101), u32::MAX - i, i));
        }
        for _ in 0..100 {
            queue.pop();
        }
        assert_eq!(queue.stamp_again(), 2_900);
        assert_eq!(queue.len(), 2_900);
        let left: Vec<u128> = std::iter::from_fn(|| queue.pop()).collect();
        assert!(left.is_sorted());
        // The later an event was created, the larger the complement of its payload.
        let mut made: Vec<(u32, u32)> = left.iter().map(|&e| (stamp(e), payload(e))).collect();
        made.sort_unstable();
        assert!(made.is_sorted_by(|a, b| a.1 > b.1));
        assert!((1..).zip(&made).all(|(wanted, made)| made.0 == wanted));
        assert_eq!(queue.stamp_again(), 0);
    }

    #[test]
    fn the_parts_of_an_event_come_out_as_they_went_in() {
        let made = event(5 << 40, u32::MAX, 3);
        assert_eq!((time(made), payload(made)), (5 << 40, 3));
        assert_eq!(at(made, 9), event(9, u32::MAX, 3));
    }
}
