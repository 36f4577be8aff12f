//! The latest of a rank and its neighbours, and whether its next computation is left in peace: for the ranks of a row.
//!
//! Three arrays of 8 bytes per rank stream through (ends read, ends written, quiet times read). Whoever is disturbed is noted
//! and left for later, so that the loop has no branch that depends on a rank.

use super::stencil::Line;
use std::ops::Range;

/// Ranks that are looked at together; some vectors of any machine.
const GROUP: usize = 16;

/// The widest instructions to use. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// What the compiler makes for any machine of its kind.
    Portable,
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Width {
    /// Of this machine.
    pub fn widest() -> Width {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Width::Avx2;
        }
        Width::Portable
    }
}

/// What follows a wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum After<'a> {
    /// The same time for all ranks: communication and work in nanoseconds.
    Same(i64),
    /// Communication, and the work of the ranks of the row.
    Each(i64, &'a [i64]),
}

/// Ranks of a row within an array of ranks, and the rows that they wait for besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// Where it begins in the array.
    pub begin: usize,
    /// Its ranks.
    pub ranks: usize,
    /// The neighbours within it.
    pub line: Line,
    /// Where rows begin whose rank at the same place is waited for.
    pub others: &'a [usize],
}

/// The arrays that one sweep writes and compares with, all as long as the swept range.
pub(super) struct Swept<'a> {
    /// Ends of the next computations, if nothing disturbs them.
    pub ends: &'a mut [i64],
    /// Until when each rank is left in peace.
    pub quiet: &'a [i64],
    /// Added to a place in the range to get the number that is noted.
    pub first: u32,
    /// Those that are not, in rising order.
    pub disturbed: &'a mut Vec<u32>,
}

/// Sweeps over the places `range` of a row: ends of the last computations in, those of the next out.
pub(super) fn sweep(
    width: Width,
    ends: &[i64],
    row: Row<'_>,
    range: Range<usize>,
    after: After<'_>,
    out: Swept<'_>,
) {
    // Where no neighbour is beyond an edge.
    let inner = row.line.below.clamp(range.start, range.end)
        ..row.ranks.saturating_sub(row.line.above).min(range.end);
    let inner = inner.start..inner.end.max(inner.start);
    let (before, rest) = (range.start..inner.start, inner.end..range.end);
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
    if !inner.is_empty() {
        let places = inner.start - range.start..inner.end - range.start;
        let begin = row.begin + inner.start;
        let near = begin - row.line.below..=begin + row.line.above;
        let mut begins = Begins::default();
        let far = row.others.iter().map(|other| other + inner.start);
        begins.fill(near.chain(far));
        let part = Swept {
            ends: &mut out.ends[places.clone()],
            quiet: &out.quiet[places.clone()],
            first: out.first + places.start as u32,
            disturbed: out.disturbed,
        };
        match after {
            After::Same(ns) => dispatch(width, ends, begins.as_slice(), |_| ns, part),
            After::Each(ns, work) => {
                let work = &work[places];
                dispatch(
                    width,
                    ends,
                    begins.as_slice(),
                    |place| ns + work[place],
                    part,
                );
            }
        }
    }
    for at in rest {
        edge(at, &mut out);
    }
}

/// A short list, on the stack where it fits.
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

#[inline(always)]
fn dispatch(
    width: Width,
    ends: &[i64],
    begins: &[usize],
    after: impl Fn(usize) -> i64,
    out: Swept<'_>,
) {
    match width {
        Width::Portable => inner(ends, begins, after, out),
        // SAFETY: this width was chosen because the machine has AVX2, the only requirement of the function.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { inner_avx2(ends, begins, after, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn inner_avx2(ends: &[i64], begins: &[usize], after: impl Fn(usize) -> i64, out: Swept<'_>) {
    inner(ends, begins, after, out);
}

/// The latest of the ranks at the same place of several stretches, each as long as the output, from `begins` on.
#[inline(always)]
fn inner(ends: &[i64], begins: &[usize], after: impl Fn(usize) -> i64, out: Swept<'_>) {
    let Some((&own, others)) = begins.split_first() else {
        return;
    };
    let count = out.ends.len();
    let groups = out
        .ends
        .chunks_exact_mut(GROUP)
        .zip(out.quiet.chunks_exact(GROUP));
    for (group, (ends_out, quiet)) in groups.enumerate() {
        let place = group * GROUP;
        let mut latest = [0; GROUP];
        latest.copy_from_slice(&ends[own + place..own + place + GROUP]);
        for &other in others {
            let stretch = &ends[other + place..other + place + GROUP];
            for (a, &b) in latest.iter_mut().zip(stretch) {
                *a = (*a).max(b);
            }
        }
        let mut any = 0;
        for (lane, (a, &until)) in latest.iter_mut().zip(quiet).enumerate() {
            *a += after(place + lane);
            any |= i64::from(*a > until);
        }
        ends_out.copy_from_slice(&latest);
        if any != 0 {
            for (lane, (&a, &until)) in latest.iter().zip(quiet).enumerate() {
                if a > until {
                    out.disturbed.push(out.first + (place + lane) as u32);
                }
            }
        }
    }
    for place in count / GROUP * GROUP..count {
        let latest = others.iter().fold(ends[own + place], |latest, &other| {
            latest.max(ends[other + place])
        });
        let end = latest + after(place);
        out.ends[place] = end;
        if end > out.quiet[place] {
            out.disturbed.push(out.first + place as u32);
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
            cut in (0usize..90, 0usize..90), values in proptest::collection::vec(0i64..1_000, 300),
            each: bool, many in 0usize..25,
        ) {
            let line = Line { below, above: if two_sided { below } else { 0 }, joined };
            let (a, b) = (cut.0 % (ranks + 1), cut.1 % (ranks + 1));
            let range = a.min(b)..a.max(b);
            let others: Vec<usize> = (0..many).map(|i| i * 7 % (300 - ranks)).collect();
            let row = Row { begin: 100, ranks, line, others: &others };
            let work: Vec<i64> = (range.clone()).map(|i| (i % 13) as i64).collect();
            let after = if each { After::Each(40, &work) } else { After::Same(45) };
            let quiet: Vec<i64> = range.clone().map(|i| 500 + (i * 31 % 700) as i64).collect();
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
