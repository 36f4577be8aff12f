//! Stretches of time in order and without overlaps, each with a number: 12 bytes instead of 24.
//!
//! The timelines of a long trace are made of these, so their size decides how long a trace may be.
//! Times are offsets of 32 bits in blocks that each begin at a time of 64 bits; the few stretches
//! longer than 4.3 seconds are listed apart.

use std::collections::BTreeMap;

/// Spans in a block: so few that a search within it touches little memory. Tests make several.
const IN_BLOCK: usize = if cfg!(test) { 4 } else { 512 };

/// A stretch of time with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start, nanoseconds.
    pub begin: u64,
    /// End, nanoseconds; above `begin`.
    pub end: u64,
    /// What had this time.
    pub value: u32,
}

/// Stretches in order of time, without overlaps.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    blocks: Vec<Block>,
    spans: Vec<Short>,
    /// Lengths beyond 32 bits, by place.
    long: BTreeMap<usize, u64>,
}

/// Spans from `first` on, whose offsets count from `time`.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: usize,
    time: u64,
}

#[derive(Clone, Copy, Debug)]
struct Short {
    offset: u32,
    /// The largest of them stands for one that is listed in `long`.
    length: u32,
    value: u32,
}

/// A place among spans, from which one goes on in order.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    of: &'a Spans,
    /// The block in which `place` lies.
    block: usize,
    place: usize,
}

impl Spans {
    /// Adds a span behind all others. What overlaps those is cut off; nothing is added if nothing is
    /// left.
    pub fn push(&mut self, begin: u64, end: u64, value: u32) {
        let last = self.blocks.len().checked_sub(1);
        let last = last.map(|block| self.in_block(block, self.spans.len() - 1));
        let begin = last.map_or(begin, |last| last.end.max(begin));
        if end <= begin {
            return;
        }
        let place = self.spans.len();
        let block = self.blocks.last().filter(|b| place - b.first < IN_BLOCK);
        let offset = block.and_then(|block| u32::try_from(begin - block.time).ok());
        let offset = offset.unwrap_or_else(|| {
            self.blocks.push(Block {
                first: place,
                time: begin,
            });
            0
        });
        let length = u32::try_from(end - begin).unwrap_or(u32::MAX);
        if length == u32::MAX {
            self.long.insert(place, end - begin);
        }
        self.spans.push(Short {
            offset,
            length,
            value,
        });
    }

    /// The first span that ends after `time`.
    pub fn ending_after(&self, time: u64) -> Cursor<'_> {
        let next = self.beginning_after(time);
        let last = next.back().filter(|last| last.is_after(time));
        last.unwrap_or(next)
    }

    /// The last span that begins before `time`.
    pub fn before(&self, time: u64) -> Option<Span> {
        self.beginning_after(time.checked_sub(1)?).back()?.span()
    }

    /// The span in which `time` lies.
    pub fn around(&self, time: u64) -> Option<Span> {
        let found = self.ending_after(time).span()?;
        (found.begin <= time).then_some(found)
    }

    fn beginning_after(&self, time: u64) -> Cursor<'_> {
        let next = self.blocks.partition_point(|block| block.time <= time);
        let Some(block) = next.checked_sub(1) else {
            return Cursor {
                of: self,
                block: 0,
                place: 0,
            };
        };
        let Block { first, time: base } = self.blocks[block];
        let end = self.blocks.get(next).map_or(self.spans.len(), |b| b.first);
        let within = &self.spans[first..end];
        let place = first + within.partition_point(|s| base + u64::from(s.offset) <= time);
        Cursor {
            of: self,
            block: if place == end { next } else { block },
            place,
        }
    }

    fn in_block(&self, block: usize, place: usize) -> Span {
        let short = self.spans[place];
        let begin = self.blocks[block].time + u64::from(short.offset);
        let length = match short.length {
            u32::MAX => self.long[&place],
            length => u64::from(length),
        };
        Span {
            begin,
            end: begin + length,
            value: short.value,
        }
    }
}

impl Cursor<'_> {
    /// The span here; `None` behind the last.
    pub fn span(&self) -> Option<Span> {
        (self.place < self.of.spans.len()).then(|| self.of.in_block(self.block, self.place))
    }

    /// The place before this one.
    fn back(self) -> Option<Self> {
        let place = self.place.checked_sub(1)?;
        let here = self.of.blocks.get(self.block);
        let begins_here = here.is_none_or(|block| block.first > place);
        Some(Self {
            block: self.block - usize::from(begins_here),
            place,
            ..self
        })
    }

    /// Whether the span here ends after `time`.
    fn is_after(&self, time: u64) -> bool {
        self.span().is_some_and(|span| span.end > time)
    }

    /// Goes on to the next span that ends after `time`.
    pub fn skip_to(&mut self, time: u64) {
        while self.span().is_some_and(|span| span.end <= time) {
            self.place += 1;
            let next = self.of.blocks.get(self.block + 1);
            self.block += usize::from(next.is_some_and(|block| block.first <= self.place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_span_takes_twelve_bytes() {
        assert_eq!(size_of::<Short>(), 12);
    }

    proptest! {
        // Seconds apart and seconds long, so that blocks begin and lengths exceed 32 bits.
        #[test]
        fn spans_are_found_as_in_a_plain_list(
            steps in prop::collection::vec((0_u64..3, 0_u64..3, any::<bool>(), any::<u32>()), 0..30),
            time in 0_u64..40,
        ) {
            let unit = |coarse: bool| if coarse { 2_200_000_000 } else { 1 };
            let (mut spans, mut plain, mut now) = (Spans::default(), Vec::<Span>::new(), 0);
            for (gap, length, coarse, value) in steps {
                let begin = now + gap * unit(coarse);
                // Not in front of the span before it, but perhaps inside it.
                let asked = begin.saturating_sub(1).max(plain.last().map_or(0, |s| s.begin));
                let end = begin + length * unit(!coarse);
                spans.push(asked, end, value);
                let begin = plain.last().map_or(asked, |last| last.end.max(asked));
                if begin < end {
                    plain.push(Span { begin, end, value });
                }
                now = end;
            }
            for time in [time, time * 1_100_000_000, now.saturating_sub(time)] {
                let mut found = spans.ending_after(time);
                for expected in plain.iter().filter(|s| s.end > time) {
                    prop_assert_eq!(found.span(), Some(*expected));
                    found.skip_to(expected.end);
                }
                prop_assert_eq!(found.span(), None);
                let before = plain.iter().rfind(|s| s.begin < time).copied();
                prop_assert_eq!(spans.before(time), before);
                let around = plain.iter().find(|s| s.begin <= time && time < s.end).copied();
                prop_assert_eq!(spans.around(time), around);
            }
        }
    }
}
