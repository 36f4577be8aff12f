//! The attributes of the recorded events: where a record has its time, CPU and payload.
//!
//! Source: `perf_event_open(2)` and `include/uapi/linux/perf_event.h`.

use idlewave_ftrace::page::{read_u32, read_u64};
use std::collections::HashMap;

/// Bits of `sample_type`.
mod holds {
    pub(super) const IP: u64 = 1;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`.
mod counts {
    pub(super) const ENABLED: u64 = 1;
    pub(super) const RUNNING: u64 = 1 << 1;
    pub(super) const ID: u64 = 1 << 2;
    pub(super) const GROUP: u64 = 1 << 3;
    pub(super) const LOST: u64 = 1 << 4;
}

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// Flags of an attribute, by bit number.
const SAMPLE_ID_ALL: u32 = 18;
const USE_CLOCKID: u32 = 25;
/// Shortest attribute: `PERF_ATTR_SIZE_VER0`.
pub(crate) const SHORTEST: u64 = 64;
/// Longest attribute; that of Linux 6.18 has 136 bytes.
pub(crate) const LONGEST: u64 = 4096;
/// Limit on the attributes: kernels have some thousand tracepoints.
const MOST: usize = 1 << 16;
/// Limit on the IDs of events: one for each event and CPU.
const MOST_IDS: usize = 1 << 22;

/// Where each value is in the records of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Whether the payload is the record of a tracepoint.
    pub(crate) tracepoint: bool,
    /// The number of the clock that was asked for; `None` is the kernel's own.
    pub(crate) clock: Option<u32>,
    /// Bytes before the ID of the event in a sample, if it has one; likewise below.
    id: Option<u8>,
    thread: Option<u8>,
    time: Option<u8>,
    cpu: Option<u8>,
    /// Bytes before the parts of variable length.
    fixed: u8,
    read: Option<Counts>,
    callchain: bool,
    raw: bool,
    /// Bytes from the ID of the event to the end of a record that is no sample; likewise for the
    /// CPU.
    id_to_end: Option<u8>,
    cpu_to_end: Option<u8>,
}

/// The layout of the counts in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    group: bool,
    /// Numbers that occur once, besides the count of a group.
    once: u8,
    /// Numbers for each event.
    each: u8,
}

impl Counts {
    fn new(format: u64) -> Self {
        let have = |bits: u64| (format & bits).count_ones() as u8;
        Self {
            group: format & counts::GROUP != 0,
            once: have(counts::ENABLED | counts::RUNNING),
            each: 1 + have(counts::ID | counts::LOST),
        }
    }

    /// Bytes of the counts that begin at `at`.
    fn bytes<const LE: bool>(self, body: &[u8], at: usize) -> Option<usize> {
        let numbers = match self.group {
            false => u64::from(self.once) + u64::from(self.each),
            true => read_u64::<LE>(body, at)?
                .checked_mul(u64::from(self.each))?
                .checked_add(1 + u64::from(self.once))?,
        };
        usize::try_from(numbers.checked_mul(8)?).ok()
    }
}

impl Layout {
    /// Reads a `perf_event_attr`; `None` if it is too short.
    pub(crate) fn of<const LE: bool>(attr: &[u8]) -> Option<Self> {
        let number = |at| read_u64::<LE>(attr, at);
        let (sample, format, flags) = (number(24)?, number(32)?, number(40)?);
        // The flags are a bit field, which begins at the other end on big-endian machines.
        let flag = |bit: u32| flags >> (if LE { bit } else { 63 - bit }) & 1 == 1;
        let before = |bit: u64, bits: u64| {
            let place = (sample & bits).count_ones() as u8 * 8;
            (sample & bit != 0).then_some(place)
        };
        let (thread, time) = (holds::IDENTIFIER | holds::IP, holds::TID);
        let id = thread | time | holds::TIME | holds::ADDR;
        let cpu = id | holds::ID | holds::STREAM_ID;
        let behind = |bit: u64, bits: u64| before(bit, bits).filter(|_| flag(SAMPLE_ID_ALL));
        let last = holds::CPU | holds::IDENTIFIER;
        Some(Self {
            tracepoint: read_u32::<LE>(attr, 0)? == TRACEPOINT,
            clock: read_u32::<LE>(attr, 92).filter(|_| flag(USE_CLOCKID)),
            id: before(holds::IDENTIFIER, 0).or(before(holds::ID, id)),
            thread: before(holds::TID, thread),
            time: before(holds::TIME, thread | time),
            cpu: before(holds::CPU, cpu),
            fixed: (sample & (cpu | holds::CPU | holds::PERIOD)).count_ones() as u8 * 8,
            read: (sample & holds::READ != 0).then(|| Counts::new(format)),
            callchain: sample & holds::CALLCHAIN != 0,
            raw: sample & holds::RAW != 0,
            id_to_end: behind(holds::IDENTIFIER, holds::IDENTIFIER)
                .or(behind(holds::ID, last | holds::STREAM_ID | holds::ID)),
            cpu_to_end: behind(holds::CPU, last),
        })
    }

    /// Whether samples have a time and a CPU.
    pub(crate) fn is_placed(&self) -> bool {
        self.time.is_some() && self.cpu.is_some()
    }

    /// When a sample was taken, and on which CPU.
    #[inline]
    pub(crate) fn place<const LE: bool>(&self, body: &[u8]) -> Option<(u64, u32)> {
        let time = read_u64::<LE>(body, self.time?.into())?;
        Some((time, read_u32::<LE>(body, self.cpu?.into())?))
    }

    /// Process and thread of a sample; `None` where perf did not know them.
    #[inline]
    pub(crate) fn thread<const LE: bool>(&self, body: &[u8]) -> Option<(u32, u32)> {
        let at = usize::from(self.thread?);
        let process = read_u32::<LE>(body, at)?;
        let thread = read_u32::<LE>(body, at + 4)?;
        (process as i32 >= 0 && thread as i32 >= 0).then_some((process, thread))
    }

    /// Payload of a sample, with the bytes that pad it.
    #[inline]
    pub(crate) fn payload<'a, const LE: bool>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let mut at = usize::from(self.fixed);
        if let Some(counts) = self.read {
            at = at.checked_add(counts.bytes::<LE>(body, at)?)?;
        }
        if self.callchain {
            let calls = usize::try_from(read_u64::<LE>(body, at)?).ok()?;
            at = at.checked_add(calls.checked_mul(8)?.checked_add(8)?)?;
        }
        let size = read_u32::<LE>(body, at).filter(|_| self.raw)? as usize;
        body.get(at + 4..)?.get(..size)
    }

    /// The CPU of a record that is no sample.
    pub(crate) fn other_cpu<const LE: bool>(&self, body: &[u8]) -> Option<u32> {
        read_u32::<LE>(body, body.len().checked_sub(self.cpu_to_end?.into())?)
    }
}

/// All attributes, and the IDs under which the kernel recorded their events.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    layouts: Vec<Layout>,
    by_id: HashMap<u64, u32>,
    /// IDs taken, repeated ones included.
    ids: usize,
    /// Whether all have the same layout, so that IDs do not matter.
    same: bool,
    /// Where the ID of the event is in a sample, if all agree on it; likewise at the end of other
    /// records.
    id: Option<u8>,
    id_to_end: Option<u8>,
}

impl Attributes {
    /// Reads an attribute, and the IDs of its events; `false` if it is too short or there are too
    /// many.
    #[must_use]
    pub(crate) fn read<const LE: bool>(&mut self, attr: &[u8], ids: &[u8]) -> bool {
        let Some(layout) = Layout::of::<LE>(attr) else {
            return false;
        };
        self.ids += ids.len() / 8;
        if self.layouts.len() == MOST || self.ids > MOST_IDS {
            return false;
        }
        let ids = ids.chunks_exact(8).filter_map(|id| read_u64::<LE>(id, 0));
        self.add(layout, ids);
        true
    }

    fn add(&mut self, layout: Layout, ids: impl Iterator<Item = u64>) {
        let first = *self.layouts.first().unwrap_or(&layout);
        self.same = layout == first && (self.same || self.layouts.is_empty());
        self.id = layout
            .id
            .filter(|_| layout.id == first.id && self.agreed(self.id));
        self.id_to_end = layout
            .id_to_end
            .filter(|_| layout.id_to_end == first.id_to_end && self.agreed(self.id_to_end));
        let number = self.layouts.len() as u32;
        self.layouts.push(layout);
        self.by_id.extend(ids.map(|id| (id, number)));
    }

    fn agreed(&self, place: Option<u8>) -> bool {
        self.layouts.is_empty() || place.is_some()
    }

    /// Layout of a sample; `None` if it belongs to no known event.
    #[inline]
    pub(crate) fn of_sample<const LE: bool>(&self, body: &[u8]) -> Option<&Layout> {
        if self.same {
            return self.layouts.first();
        }
        self.of_id(read_u64::<LE>(body, self.id?.into())?)
    }

    /// ID of the event of a record that is no sample.
    pub(crate) fn other_id<const LE: bool>(&self, body: &[u8]) -> Option<u64> {
        read_u64::<LE>(body, body.len().checked_sub(self.id_to_end?.into())?)
    }

    /// Layout of the records of an event.
    #[inline]
    pub(crate) fn of_id(&self, id: u64) -> Option<&Layout> {
        if self.same {
            return self.layouts.first();
        }
        self.layouts.get(*self.by_id.get(&id)? as usize)
    }

    /// The attributes of tracepoints.
    pub(crate) fn tracepoints(&self) -> impl Iterator<Item = &Layout> {
        self.layouts.iter().filter(|layout| layout.tracepoint)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// An attribute of a tracepoint with the clock 1, of either byte order.
    fn attr(little: bool, sample: u64, flags: u64) -> Vec<u8> {
        let number = |value: u64, size: usize| match little {
            true => value.to_le_bytes()[..size].to_vec(),
            false => value.to_be_bytes()[8 - size..].to_vec(),
        };
        let flags = if little { flags } else { flags.reverse_bits() };
        let mut out = [number(2, 4), number(96, 4)].concat();
        for word in [0, 0, sample, 0, flags, 0, 0, 0, 0, 0] {
            out.extend(number(word, 8));
        }
        out.extend([number(0, 4), number(1, 4)].concat());
        out
    }

    #[test]
    fn an_attribute_says_the_same_in_either_byte_order() {
        let sample = holds::TID | holds::TIME | holds::CPU | holds::RAW | holds::IDENTIFIER;
        for flags in [0, 1 << SAMPLE_ID_ALL, 1 << USE_CLOCKID, u64::MAX] {
            let found = Layout::of::<true>(&attr(true, sample, flags)).unwrap();
            let swapped = Layout::of::<false>(&attr(false, sample, flags)).unwrap();
            assert_eq!(found, swapped);
            assert_eq!(found.clock, (flags >> USE_CLOCKID & 1 == 1).then_some(1));
            let there = flags >> SAMPLE_ID_ALL & 1 == 1;
            assert_eq!(found.id_to_end, there.then_some(8));
            assert_eq!(found.cpu_to_end, there.then_some(16));
        }
        assert_eq!(Layout::of::<true>(&[0; 47]), None);
    }

    #[test]
    fn the_number_of_an_event_tells_its_layout_only_if_all_have_it_at_one_place() {
        let with = |sample| attr(true, sample | holds::TIME | holds::CPU, 0);
        let id = |n: u64| n.to_le_bytes();
        let mut same = Attributes::default();
        assert!(same.read::<true>(&with(0), &[]) && same.read::<true>(&with(0), &[]));
        assert!(same.of_sample::<true>(&[]).is_some());
        let mut told = Attributes::default();
        assert!(told.read::<true>(&with(holds::IDENTIFIER), &id(3)));
        assert!(told.read::<true>(&with(holds::IDENTIFIER | holds::RAW), &id(4)));
        let raw = |a: &Attributes, n| a.of_sample::<true>(&id(n)).map(|layout| layout.raw);
        assert_eq!(
            [3, 4, 5].map(|n| raw(&told, n)),
            [Some(false), Some(true), None]
        );
        // With an ID at another position, none is found.
        assert!(told.read::<true>(&with(holds::ID), &id(5)));
        assert!(told.read::<true>(&with(holds::IDENTIFIER), &id(6)));
        assert_eq!([3, 4, 5, 6].map(|n| raw(&told, n)), [None; 4]);
    }

    #[test]
    fn attributes_and_their_numbers_are_bounded() {
        let attr = attr(true, 0, 0);
        let mut attributes = Attributes::default();
        assert!(!attributes.read::<true>(&attr, &vec![0; 8 * (MOST_IDS + 1)]));
        let mut attributes = Attributes::default();
        assert!((0..MOST).all(|_| attributes.read::<true>(&attr, &[])));
        assert!(!attributes.read::<true>(&attr, &[]));
    }
}
