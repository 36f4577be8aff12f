//! The sort of one rank.

use super::class::{Class, TESTS};
use super::shares::{KEY_BYTES, Room, ends_of, part, values};
use crate::WorkloadError;
use crate::randlc::Randlc;
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Reduction, Tag};
use idlewave_units::Rank;
use std::ops::Range;

const SEED: u64 = 314_159_265;
/// Random numbers per key.
const NUMBERS: u64 = 4;
/// Distance from the first modified key to the second.
const APART: u64 = 10;
const LARGEST: Tag = Tag(400);
/// Values of the verdict: checks passed and failed, keys, and ranks whose keys are out of order.
pub const VERDICT: usize = 4;

/// The keys of a part of the sequence.
pub fn keys_of(class: Class, part: Range<u64>) -> impl Iterator<Item = i32> {
    let mut random = Randlc::new(SEED).skip(NUMBERS * part.start);
    // A key is a quarter of the key limit times the sum of four numbers, each with 46 bits after
    // the binary point.
    let point = 46 - (class.key_bits() - 2);
    part.map(move |_| ((0..NUMBERS).map(|_| random.next_raw()).sum::<u64>() >> point) as i32)
}

/// Results of the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Test keys whose rank is the published one.
    pub passed: u64,
    /// Test keys whose rank is not.
    pub failed: u64,
    /// Keys after the sort.
    pub keys: u64,
    /// Ranks whose keys are out of order, or not above those of the previous rank.
    pub unordered: u64,
}

impl Checks {
    /// As numbers that ranks can sum.
    pub fn values(&self) -> [f64; VERDICT] {
        [self.passed, self.failed, self.keys, self.unordered].map(|n| n as f64)
    }

    pub fn of_values(values: [f64; VERDICT]) -> Self {
        let [passed, failed, keys, unordered] = values.map(|value| value as u64);
        Self {
            passed,
            failed,
            keys,
            unordered,
        }
    }
}

/// Keys and buffers of one rank.
#[derive(Debug)]
pub struct Sort {
    class: Class,
    rank: u32,
    ranks: u32,
    part: Range<u64>,
    room: Room,
    pub(super) keys: Vec<i32>,
    /// Own keys by bucket; later the sorted keys.
    by_bucket: Vec<i32>,
    /// Keys of this rank's buckets, from all ranks.
    incoming: Vec<i32>,
    /// For each value from `least` on: keys in this rank's buckets up to that value.
    counts: Vec<u32>,
    /// The smallest value of this rank's buckets.
    least: usize,
    /// Keys in the buckets of earlier ranks.
    before: u64,
    places: Vec<usize>,
    sums: Vec<f64>,
    pub(super) checks: Checks,
}

impl Sort {
    pub fn new(class: Class, rank: u32, ranks: u32) -> Self {
        let part = part(class, rank, ranks);
        let room = Room::of(class, ranks);
        let mut keys = Vec::with_capacity(room.part);
        keys.extend(keys_of(class, part.clone()));
        Self {
            class,
            rank,
            ranks,
            part,
            room,
            keys,
            by_bucket: vec![0; room.sorted],
            incoming: Vec::with_capacity(room.sorted),
            counts: Vec::with_capacity(room.values),
            least: 0,
            before: 0,
            places: vec![0; class.buckets() as usize],
            sums: vec![0.0; values(class) as usize],
            checks: Checks::default(),
        }
    }

    pub fn class(&self) -> Class {
        self.class
    }

    /// The key at a position in the sequence, if this rank generated it.
    fn key_at(&mut self, index: u64) -> Option<&mut i32> {
        let place = index.checked_sub(self.part.start)?;
        self.keys.get_mut(place as usize)
    }

    /// Ranks all keys once. Returns whether any rank wants to stop.
    pub fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        iteration: u32,
        stop: bool,
    ) -> Result<bool, WorkloadError> {
        watch.region("buckets");
        let index = u64::from(iteration);
        if let Some(key) = self.key_at(index) {
            *key = iteration as i32;
        }
        let largest = 1 << self.class.key_bits();
        if let Some(key) = self.key_at(index + APART) {
            *key = largest - iteration as i32;
        }
        self.divide();
        let buckets = self.class.buckets() as usize;
        for (i, test) in self.class.tests().iter().enumerate() {
            let key = self.key_at(test.index).map_or(0, |key| *key);
            self.sums[buckets + i] = f64::from(key);
        }
        self.sums[buckets + TESTS] = f64::from(u8::from(stop));
        // A rank's own bucket sizes determine what it sends to whom; keep them, since the sums
        // overwrite them.
        let own: Vec<u32> = self.sums[..buckets].iter().map(|&n| n as u32).collect();
        let sums = &mut self.sums;
        watch.allreduce(sums, Reduction::Sum)?;
        let ends = ends_of(&self.sums[..buckets], self.ranks);
        watch.region("exchange");
        self.exchange(watch, &own, &ends)?;
        watch.region("ranks");
        self.rank_keys(&ends);
        self.check_ranks(iteration);
        Ok(self.sums[buckets + TESTS] > 0.0)
    }

    /// Counts this rank's keys by bucket and orders them by bucket.
    fn divide(&mut self) {
        let shift = self.class.shift();
        self.places.fill(0);
        for key in &self.keys {
            self.places[(*key >> shift) as usize] += 1;
        }
        let mut begin = 0;
        for (place, sum) in self.places.iter_mut().zip(&mut self.sums) {
            *sum = *place as f64;
            begin += std::mem::replace(place, begin);
        }
        for key in &self.keys {
            let place = &mut self.places[(*key >> shift) as usize];
            self.by_bucket[*place] = *key;
            *place += 1;
        }
    }

    /// Sends every key to the rank that owns its bucket.
    fn exchange<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        own: &[u32],
        ends: &[usize],
    ) -> Result<(), WorkloadError> {
        let mut begin = 0;
        let mut send: Vec<u32> = Vec::with_capacity(ends.len());
        for &end in ends {
            send.push(own[begin..end].iter().sum());
            begin = end;
        }
        let mut receive = vec![0_u32; ends.len()];
        let from = bytemuck::cast_slice(&send);
        let to = bytemuck::cast_slice_mut(&mut receive);
        watch.alltoall(from, to)?;
        let bytes = |counts: &[u32]| -> Vec<usize> {
            let of_keys = counts
                .iter()
                .map(|&keys| keys as usize * KEY_BYTES as usize);
            of_keys.collect()
        };
        let (send, receive) = (bytes(&send), bytes(&receive));
        let keys = receive.iter().sum::<usize>() / KEY_BYTES as usize;
        self.incoming.resize(keys, 0);
        let from = bytemuck::cast_slice(&self.by_bucket[..self.keys.len()]);
        let to = bytemuck::cast_slice_mut(&mut self.incoming);
        watch.alltoallv(from, &send, to, &receive)?;
        Ok(())
    }

    /// Counts the received keys by value and forms running sums: a key's rank is the number of keys
    /// below it.
    fn rank_keys(&mut self, ends: &[usize]) {
        let own = self.rank as usize;
        let begin = own.checked_sub(1).map_or(0, |before| ends[before]);
        let shift = self.class.shift();
        self.least = begin << shift;
        self.before = self.sums[..begin].iter().sum::<f64>() as u64;
        self.counts.clear();
        self.counts.resize((ends[own] - begin) << shift, 0);
        for key in &self.incoming {
            self.counts[*key as usize - self.least] += 1;
        }
        let mut sum = 0;
        for count in &mut self.counts {
            sum += *count;
            *count = sum;
        }
    }

    /// Compares the ranks of those test keys that lie in this rank's buckets with the published
    /// ones.
    fn check_ranks(&mut self, iteration: u32) {
        let buckets = self.class.buckets() as usize;
        for (test, key) in self.class.tests().iter().zip(&self.sums[buckets..]) {
            let Some(place) = (*key as usize).checked_sub(self.least) else {
                continue;
            };
            if place >= self.counts.len() {
                continue;
            }
            let below = place.checked_sub(1).map_or(0, |last| self.counts[last]);
            let rank = self.before + u64::from(below);
            match rank as i64 == test.rank_in(iteration) {
                true => self.checks.passed += 1,
                false => self.checks.failed += 1,
            }
        }
    }

    /// Sorts the keys by rank and compares each with the one before it, the first with the largest
    /// key of the previous rank.
    pub fn check_order<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<(), WorkloadError> {
        // Already large enough, unless the exchange went wrong; that is detected below.
        self.by_bucket
            .resize(self.room.sorted.max(self.incoming.len()), 0);
        for key in &self.incoming {
            let place = &mut self.counts[*key as usize - self.least];
            *place -= 1;
            self.by_bucket[*place as usize] = *key;
        }
        let sorted = &self.by_bucket[..self.incoming.len()];
        let mut unordered = sorted.windows(2).any(|pair| pair[0] > pair[1]);
        // A rank without keys passes on what it receives, so it must wait for it.
        let mut largest = sorted.last().copied();
        let next = (self.rank + 1 < self.ranks).then(|| Rank::new(self.rank + 1));
        let previous = self.rank.checked_sub(1).map(Rank::new);
        let mut sending = None;
        let start = |watch: &mut Stopwatch<'_, F>, largest: Option<i32>| match (next, largest) {
            (Some(next), Some(key)) => {
                let data = key.to_le_bytes().to_vec();
                let sending = watch.start_send(next, LARGEST, data)?;
                Ok::<_, WorkloadError>(Some(sending))
            }
            _ => Ok(None),
        };
        if largest.is_some() {
            sending = start(watch, largest)?;
        }
        if let Some(previous) = previous {
            let room = KEY_BYTES as usize;
            let receiving = watch.start_receive(previous, LARGEST, room, Vec::new())?;
            let data = watch.finish_receive(receiving)?;
            let below = <[u8; 4]>::try_from(data.as_slice())
                .map(i32::from_le_bytes)
                .ok();
            match sorted.first() {
                Some(first) => unordered |= below.is_none_or(|below| below > *first),
                None => {
                    largest = below;
                    sending = start(watch, largest)?;
                }
            }
        }
        if let Some(sending) = sending {
            watch.finish_send(sending)?;
        }
        self.checks.keys = sorted.len() as u64;
        self.checks.unordered = u64::from(unordered);
        Ok(())
    }

    /// Adds to the received keys.
    #[cfg(test)]
    pub fn raise(&mut self, by: i32) {
        self.least = self.least.saturating_add_signed(by as isize);
        let least = self.least as i32;
        let old = self.incoming.iter().min().copied().unwrap_or(least);
        let by = by.max(least - old);
        self.incoming.iter_mut().for_each(|key| *key += by);
    }

    /// Drops the received keys.
    #[cfg(test)]
    pub fn forget(&mut self) {
        self.incoming.clear();
    }

    /// Memory in use now, without what an exchange copies.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        4 * (self.keys.capacity()
            + self.by_bucket.capacity()
            + self.incoming.capacity()
            + self.counts.capacity())
            + 8 * (self.places.capacity() + self.sums.capacity())
    }
}
