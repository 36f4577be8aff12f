//! For each rank of a row: the latest end among the rank and its neighbours, and whether noise
//! strikes the next computation.
//!
//! Three arrays of 8 bytes per rank stream through (ends read, ends written, quiet times read).
//! Disturbed ranks are noted and left for later, so that only vector operations run here.

use super::layout::Line;
use super::portable::{self, After, Swept};
#[cfg(target_arch = "x86_64")]
use super::wide;
use std::ops::Range;

/// The widest instructions to use. The results do not depend on the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// Whatever the compiler generates for the architecture.
    Portable,
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Width {
    /// The widest on this machine.
    pub fn widest() -> Width {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Width::Avx2;
        }
        Width::Portable
    }
}

/// Time 0 in the columns: so large that column values are ordered like the floating-point numbers
/// with the same bits.
pub(super) const ORIGIN: i64 = 1 << 60;
/// Latest time of a rank, in nanoseconds: a rank that reaches it stays there, and the run ends with
/// an error.
pub(super) const LATEST: u64 = 1 << 61;
/// Later than every time, and still the bits of a normal floating-point number.
pub(super) const NEVER: i64 = 0x7FE0_0000_0000_0000;

/// A row within an array of ranks, and the other rows that it waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// Where the row starts in the array.
    pub begin: usize,
    /// Number of its ranks.
    pub ranks: usize,
    /// The neighbours within the row.
    pub line: Line,
    /// Where the other rows start; each rank waits for the rank at its own position in them.
    pub others: &'a [usize],
}

/// Sweeps over the positions `range` of a row: reads the ends of the last computations and writes
/// those of the next.
pub(super) fn sweep(
    width: Width,
    ends: &[i64],
    row: Row<'_>,
    range: Range<usize>,
    after: After<'_>,
    out: Swept<'_>,
) {
    // The positions that have all their neighbours.
    let interior = row.line.below.clamp(range.start, range.end)
        ..row.ranks.saturating_sub(row.line.above).min(range.end);
    let interior = interior.start..interior.end.max(interior.start);
    let (before, rest) = (range.start..interior.start, interior.end..range.end);
    let edge = |at: usize, out: &mut Swept<'_>| {
        let place = at - range.start;
        let mut latest = ends[row.begin + at];
        row.line.each(at, row.ranks, |other| {
            latest = latest.max(ends[row.begin + other]);
        });
        for other in row.others {
            latest = latest.max(ends[other + at]);
        }
        let end = latest
            + match after {
                After::Same(ns) => ns,
                After::Each(ns, work) => ns + work[place],
            };
        out.ends[place] = end;
        if end > out.quiet[place] {
            out.disturbed.push(out.first + place as u32);
        }
    };
    let mut out = out;
    for at in before {
        edge(at, &mut out);
    }
    if !interior.is_empty() {
        let places = interior.start - range.start..interior.end - range.start;
        let begin = row.begin + interior.start;
        let near = begin - row.line.below..=begin + row.line.above;
        let mut begins = Begins::default();
        let far = row.others.iter().map(|other| other + interior.start);
        begins.fill(near.chain(far));
        let part = Swept {
            ends: &mut out.ends[places.clone()],
            quiet: &out.quiet[places.clone()],
            first: out.first + places.start as u32,
            disturbed: out.disturbed,
        };
        let after = match after {
            After::Same(ns) => After::Same(ns),
            After::Each(ns, work) => After::Each(ns, &work[places]),
        };
        match width {
            Width::Portable => portable::inner(ends, begins.as_slice(), after, part),
            // SAFETY: this width is chosen only on a machine that has AVX2, the only requirement of
            // the function.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { wide::inner(ends, begins.as_slice(), after, part) },
        }
    }
    for at in rest {
        edge(at, &mut out);
    }
}

/// A short list, kept on the stack if it fits.
#[derive(Default)]
struct Begins {
    few: [usize; 16],
    count: usize,
    many: Vec<usize>,
}

impl Begins {
    fn fill(&mut self, all: impl Iterator<Item = usize>) {
        for begin in all {
            match self.few.get_mut(self.count) {
                Some(slot) if self.many.is_empty() => {
                    *slot = begin;
                    self.count += 1;
                }
                _ => {
                    if self.many.is_empty() {
                        self.many.extend_from_slice(&self.few);
                    }
                    self.many.push(begin);
                }
            }
        }
    }

    fn as_slice(&self) -> &[usize] {
        match self.many.is_empty() {
            true => &self.few[..self.count],
            false => &self.many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_widths_give_the_latest_neighbour_and_the_disturbed_ranks(
            ranks in 1usize..90, below in 1usize..5, two_sided: bool, joined: bool,
            cut in (0usize..90, 0usize..90), values in proptest::collection::vec(ORIGIN..ORIGIN + 1_000, 300),
            each: bool, many in 0usize..25,
        ) {
            let line = Line { below, above: if two_sided { below } else { 0 }, joined };
            let (a, b) = (cut.0 % (ranks + 1), cut.1 % (ranks + 1));
            let range = a.min(b)..a.max(b);
            let others: Vec<usize> = (0..many).map(|i| i * 7 % (300 - ranks)).collect();
            let row = Row { begin: 100, ranks, line, others: &others };
            let work: Vec<i64> = (range.clone()).map(|i| (i % 13) as i64).collect();
            let after = if each { After::Each(40, &work) } else { After::Same(45) };
            let quiet: Vec<i64> = range.clone().map(|i| ORIGIN + 500 + (i * 31 % 700) as i64).collect();
            let mut expected = Vec::new();
            let mut noted = Vec::new();
            for at in range.clone() {
                let mut latest = values[100 + at];
                line.each(at, ranks, |other| latest = latest.max(values[100 + other]));
                for other in &others {
                    latest = latest.max(values[other + at]);
                }
                let end = latest + if each { 40 + (at % 13) as i64 } else { 45 };
                if end > quiet[at - range.start] {
                    noted.push((7 + at - range.start) as u32);
                }
                expected.push(end);
            }
            for width in [Width::Portable, Width::widest()] {
                let mut ends = vec![0; range.len()];
                let mut disturbed = Vec::new();
                let out = Swept { ends: &mut ends, quiet: &quiet, first: 7, disturbed: &mut disturbed };
                sweep(width, &values, row, range.clone(), after, out);
                prop_assert_eq!(&ends, &expected);
                prop_assert_eq!(&disturbed, &noted);
            }
        }
    }
}
