//! Slots for the frames of one direction, in borrowed memory: plain words without pointers.

use crate::netctx::words::Words;
use std::mem::MaybeUninit;

/// Bytes before each slot's content, one word: its length, and whether it ends a message.
const HEAD: usize = 8;

/// Frames by their sequence numbers. The caller knows which of them are there. Other processes may
/// change the memory at any moment, so the content of a slot is copied out before anyone examines
/// it.
#[derive(Debug)]
pub struct Ring<'a> {
    words: Words<'a>,
    slots: u32,
    payload: usize,
    /// What [`get`](Self::get) returned last.
    copy: Vec<u8>,
}

impl<'a> Ring<'a> {
    /// Bytes of a slot for frames that carry `payload` bytes: whole words.
    pub const fn stride(payload: usize) -> usize {
        HEAD + payload.next_multiple_of(8)
    }

    /// Slots in `words`, each for `payload` bytes; `None` unless their count is a power of two from
    /// 1 to 2^30: only then do consecutive numbers have consecutive slots when they wrap around.
    pub fn new(words: &'a mut [u64], payload: usize) -> Option<Self> {
        Self::at(Words::of(words), payload)
    }

    /// The same, in memory shared with others.
    pub(in crate::netctx) fn at(words: Words<'a>, payload: usize) -> Option<Self> {
        let slots = u32::try_from(words.count() * 8 / Self::stride(payload)).ok()?;
        let fits = slots.is_power_of_two() && slots <= 1 << 30;
        fits.then_some(Self {
            words,
            slots,
            payload,
            copy: Vec::new(),
        })
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The most bytes that a slot holds.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// The words of the slot for a sequence number; every number has one.
    fn slot(&self, sequence: u32) -> Words<'a> {
        let stride = Self::stride(self.payload) / 8;
        let place = (sequence & (self.slots - 1)) as usize * stride;
        self.words.part(place, stride)
    }

    /// The length of the content, and whether it ends a message, from a slot's first word as
    /// loaded.
    fn head(&self, word: u64) -> (usize, bool) {
        let [a, b, c, d, end, ..] = word.to_le_bytes();
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        (length.min(self.payload), end != 0)
    }

    /// Appends the words of a slot that hold its frame.
    pub(in crate::netctx) fn save(&self, sequence: u32, to: &mut Vec<u64>) {
        let slot = self.slot(sequence);
        let head = slot.load(0);
        // The head must not be loaded again: it says how many words follow.
        to.push(head);
        slot.part(1, self.head(head).0.div_ceil(8)).append_to(to);
    }

    /// Puts back the first frame that [`save`](Self::save) appended to `saved`; returns the rest.
    pub(in crate::netctx) fn refill<'b>(&mut self, sequence: u32, saved: &'b [u64]) -> &'b [u64] {
        let length = saved
            .first()
            .map_or(0, |head| self.head(*head).0.div_ceil(8) + 1);
        let (frame, rest) = saved.split_at(length.min(saved.len()));
        self.slot(sequence).fill(frame);
        rest
    }

    /// Puts a frame into its slot; false if it is too long.
    pub fn put(&mut self, sequence: u32, end: bool, content: &[u8]) -> bool {
        self.put_parts(sequence, end, [content, &[]])
    }

    /// The same for a frame in several parts.
    pub(in crate::netctx) fn put_parts<const N: usize>(
        &mut self,
        sequence: u32,
        end: bool,
        parts: [&[u8]; N],
    ) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.payload {
            return false;
        }
        let [a, b, c, d] = (length as u32).to_le_bytes();
        let slot = self.slot(sequence);
        slot.store(0, u64::from_le_bytes([a, b, c, d, u8::from(end), 0, 0, 0]));
        slot.part(1, slot.count() - 1).store_bytes(parts);
        true
    }

    /// A copy of the content of a slot, and whether it ends a message.
    pub fn get(&mut self, sequence: u32) -> (&[u8], bool) {
        let content = self.content(sequence);
        self.copy.clear();
        content.append_to(0, usize::MAX, &mut self.copy);
        (&self.copy, content.end)
    }

    /// The content of a slot, to be copied out.
    pub(in crate::netctx) fn content(&self, sequence: u32) -> Content<'a> {
        let slot = self.slot(sequence);
        let (length, end) = self.head(slot.load(0));
        Content {
            words: slot.part(1, slot.count() - 1),
            length,
            end,
        }
    }
}

/// The content of a slot, its length checked.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    words: Words<'a>,
    length: usize,
    /// Whether it ends a message.
    pub(in crate::netctx) end: bool,
}

impl Content<'_> {
    /// Its bytes.
    pub(in crate::netctx) fn len(&self) -> usize {
        self.length
    }

    /// The first bytes, if there are that many.
    pub(in crate::netctx) fn first<const N: usize>(&self) -> Option<[u8; N]> {
        if N > self.length {
            return None;
        }
        let mut first = [0; N];
        for (at, bytes) in first.chunks_mut(8).enumerate() {
            let word = self.words.load(at).to_ne_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
        Some(first)
    }

    /// Appends the bytes from `skip` on, `most` at most.
    pub(in crate::netctx) fn append_to(&self, skip: usize, most: usize, to: &mut Vec<u8>) {
        let length = self.length.saturating_sub(skip).min(most);
        self.words.append_bytes(skip, length, to);
    }

    /// Writes the bytes from `skip` on to the start of `to`, as many as there are and fit; returns
    /// how many.
    pub(in crate::netctx) fn copy_to(&self, skip: usize, to: &mut [MaybeUninit<u8>]) -> usize {
        let length = self.length.saturating_sub(skip).min(to.len());
        self.words.copy_bytes(skip, &mut to[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    #[test]
    fn a_slot_takes_as_many_bytes_as_asked_for_and_not_its_padding() {
        let mut words = vec![0; 2 * Ring::stride(13) / 8];
        let mut ring = Ring::new(&mut words, 13).expect("two slots");
        assert_eq!((ring.slots(), ring.payload()), (2, 13));
        assert!(ring.put(1, true, &[7; 13]) && !ring.put(0, true, &[7; 14]));
        assert_eq!(ring.get(1), (&[7; 13][..], true));
        let mut part = Vec::new();
        assert!(ring.put(0, true, b"0123456789abc"));
        ring.content(0).append_to(9, 3, &mut part);
        ring.content(0).append_to(11, 3, &mut part);
        assert_eq!(part, b"9abbc");
    }

    #[test]
    fn what_another_writes_meanwhile_changes_no_length_that_was_checked() {
        let memory: Vec<AtomicU64> = (0..Ring::stride(13) / 8)
            .map(|_| AtomicU64::new(0))
            .collect();
        let begin = std::ptr::NonNull::from(&memory[..]).cast();
        // SAFETY: the vector outlives the words and consists of atomics.
        let words = unsafe { Words::at(begin, memory.len()) };
        let mut ring = Ring::at(words, 13).expect("a slot");
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    for head in [0, 5, 13, u64::from(u32::MAX)] {
                        memory[0].store(head, Ordering::Relaxed);
                    }
                }
            });
            let mut saved = Vec::new();
            let whole = (0..20_000).all(|_| {
                saved.clear();
                ring.save(0, &mut saved);
                let rest = ring.refill(0, &saved).len();
                let fits = matches!(ring.get(0).0.len(), 0 | 5 | 13);
                fits && rest == 0
            });
            end.store(true, Ordering::Relaxed);
            assert!(whole);
        });
    }
}
