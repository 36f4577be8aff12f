//! Words of memory that other processes, trusted or not, may change at any moment: loaded and
//! stored one by one, never borrowed.
//!
//! A `&[u8]` promises the compiler that nobody writes there, so the compiler may load a length
//! again after the check. Here a word is loaded once, into the caller's own memory, and checked
//! there. Loads and stores are relaxed atomics, plain moves on every processor; the marks and the
//! gate provide the ordering.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = 8;

/// Consecutive words.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    begin: NonNull<u64>,
    count: usize,
    lent: PhantomData<&'a AtomicU64>,
}

impl<'a> Words<'a> {
    /// The words of a slice.
    pub fn of(words: &'a mut [u64]) -> Self {
        Self {
            begin: NonNull::from(&mut *words).cast(),
            count: words.len(),
            lent: PhantomData,
        }
    }

    /// Words in memory shared with others.
    ///
    /// # Safety
    /// `count` words from `begin` on stay mapped for `'a`, and this process refers to them only as
    /// atomics.
    pub(super) unsafe fn at(begin: NonNull<u64>, count: usize) -> Self {
        Self {
            begin,
            count,
            lent: PhantomData,
        }
    }

    /// How many there are.
    pub(super) fn count(self) -> usize {
        self.count
    }

    /// `count` words from `first` on.
    ///
    /// # Panics
    /// If there are not that many.
    pub(super) fn part(self, first: usize, count: usize) -> Self {
        let end = first.checked_add(count);
        assert!(end.is_some_and(|end| end <= self.count), "words of these");
        Self {
            // SAFETY: within the words, as was just checked.
            begin: unsafe { self.begin.add(first) },
            count,
            lent: PhantomData,
        }
    }

    fn all(self) -> &'a [AtomicU64] {
        // SAFETY: `count` aligned words stay mapped for 'a, and everyone accesses them as atomics.
        unsafe { std::slice::from_raw_parts(self.begin.cast().as_ptr(), self.count) }
    }

    /// One word.
    pub(super) fn load(self, at: usize) -> u64 {
        self.all()[at].load(Ordering::Relaxed)
    }

    /// Changes one word.
    pub(super) fn store(self, at: usize, word: u64) {
        self.all()[at].store(word, Ordering::Relaxed);
    }

    /// Appends all words to `to`.
    pub(super) fn append_to(self, to: &mut Vec<u64>) {
        to.extend(self.all().iter().map(|word| word.load(Ordering::Relaxed)));
    }

    /// Copies `from` over the first words, up to the length of the shorter.
    pub(super) fn fill(self, from: &[u64]) {
        for (word, value) in self.all().iter().zip(from) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Appends `length` bytes from `skip` on to `to`, or as many as there are.
    pub(super) fn append_bytes(self, skip: usize, length: usize, to: &mut Vec<u8>) {
        let length = length.min((self.count * WORD).saturating_sub(skip));
        let begin = to.len();
        to.reserve(length);
        let written = self.copy_bytes(skip, &mut to.spare_capacity_mut()[..length]);
        // SAFETY: room for these was reserved, and each of them was just written.
        unsafe { to.set_len(begin + written) };
    }

    /// Writes the bytes from `skip` on to the start of `to`, as many as there are and fit; returns
    /// how many.
    pub(super) fn copy_bytes(self, skip: usize, to: &mut [MaybeUninit<u8>]) -> usize {
        let length = to.len().min((self.count * WORD).saturating_sub(skip));
        if length == 0 {
            return 0;
        }
        let write = |to: &mut [MaybeUninit<u8>], from: &[u8]| {
            for (place, byte) in to.iter_mut().zip(from) {
                place.write(*byte);
            }
        };
        let (first, within) = (skip / WORD, skip % WORD);
        let words = self.all();
        // The rest of the first word, then whole ones.
        let head = words[first].load(Ordering::Relaxed).to_ne_bytes();
        let front = length.min(WORD - within);
        let (begin, behind) = to[..length].split_at_mut(front);
        write(begin, &head[within..]);
        let whole = behind.len() / WORD;
        let mut places = behind.chunks_exact_mut(WORD);
        for (word, place) in words[first + 1..].iter().zip(&mut places) {
            let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            place.copy_from_slice(&bytes.map(MaybeUninit::new));
        }
        let rest = places.into_remainder();
        if !rest.is_empty() {
            let last = words[first + 1 + whole].load(Ordering::Relaxed);
            write(rest, &last.to_ne_bytes());
        }
        length
    }

    /// Stores the parts one after the other from the first word on; zeros fill the rest of the last
    /// word.
    ///
    /// # Panics
    /// If there is no room for them.
    pub(super) fn store_bytes<const N: usize>(self, parts: [&[u8]; N]) {
        let mut at = 0;
        let mut open = [0; WORD];
        let mut filled = 0;
        for part in parts {
            let mut part = part;
            if filled > 0 {
                let (more, rest) = part.split_at(part.len().min(WORD - filled));
                open[filled..filled + more.len()].copy_from_slice(more);
                filled += more.len();
                if filled < WORD {
                    continue;
                }
                self.store(at, u64::from_ne_bytes(open));
                (at, part) = (at + 1, rest);
            }
            let whole = part.chunks_exact(WORD);
            let (count, rest) = (whole.len(), whole.remainder());
            for (word, bytes) in self.all()[at..][..count].iter().zip(whole) {
                let bytes = bytes.first_chunk().copied().unwrap_or_default();
                word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
            }
            at += count;
            open[..rest.len()].copy_from_slice(rest);
            filled = rest.len();
        }
        if filled > 0 {
            open[filled..].fill(0);
            self.store(at, u64::from_ne_bytes(open));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(
            first in proptest::collection::vec(any::<u8>(), 0..20),
            second in proptest::collection::vec(any::<u8>(), 0..40),
            skip in 0_usize..70,
            length in 0_usize..70,
        ) {
            let all = [&first[..], &second].concat();
            let mut memory = vec![u64::MAX; all.len().div_ceil(WORD) + 1];
            let words = Words::of(&mut memory);
            let (front, back) = first.split_at(first.len() / 3);
            words.store_bytes([front, back, &second]);
            let mut padded = all.clone();
            padded.resize(all.len().next_multiple_of(WORD), 0);
            padded.extend([0xFF; WORD]);
            let mut out = vec![9];
            words.append_bytes(skip, length, &mut out);
            let skip = skip.min(padded.len());
            let end = (skip + length).min(padded.len());
            prop_assert_eq!(&out[1..], &padded[skip..end]);
        }
    }
}
