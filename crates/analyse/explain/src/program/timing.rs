//! Usual durations: the computation between two calls, and a call beyond its wait.

use super::lanes::{Lane, Program, mix};
use super::waits::Waits;
use crate::edges::Edge;
use crate::reference::Reference;
use crate::watch::{Charge, overlap};
use rayon::prelude::*;
use std::collections::HashMap;
use std::num::NonZeroU32;

/// Fewer samples do not determine what is usual.
const SAMPLES: usize = 8;
/// Fewer repetitions do not determine what a rank repeats.
const REPEATS: u32 = 5;
/// Share of programs with equal work on all ranks in which some pair may differ by chance.
const BY_CHANCE: f64 = 0.025;
/// Number of values that form the interval of repeated work: single values, or medians of this many
/// stretches of the run, so that a disturbance lasting many repetitions counts as one value.
const STRETCHES: usize = 16;
/// Values left out at either end of the interval if there are 16. The interval from the third to
/// the third last then contains the median in 99.6 % (order statistics: 1 - 2 (1 + 16 + 120) /
/// 2^16); for 5 to 15 values, the smallest and largest contain it in 93.8 % and more.
const LEFT_OUT: usize = 2;

/// What a rank repeats: the computation between the same two calls.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Repeat {
    /// Its usual length, and the interval of that.
    usual: u64,
    low: u64,
    high: u64,
}

impl Repeat {
    /// From lengths in order of time; `fast` is the usual length if the speed level is known.
    fn of(lengths: &[u64], fast: Option<u64>) -> Self {
        let count = lengths.len().min(STRETCHES);
        let edge = |i: usize| i * lengths.len() / count;
        let median = |part: &[u64]| {
            let mut part = part.to_vec();
            let middle = part.len() / 2;
            *part.select_nth_unstable(middle).1
        };
        let mut medians: Vec<u64> = (0..count)
            .map(|i| median(&lengths[edge(i)..edge(i + 1)]))
            .collect();
        medians.sort_unstable();
        let cut = if count < STRETCHES { 0 } else { LEFT_OUT };
        Self {
            usual: fast.unwrap_or(medians[count / 2]),
            low: medians[cut],
            high: medians[count - 1 - cut],
        }
    }
}

/// Usual durations on one lane.
#[derive(Debug, Default)]
pub struct Timing {
    /// Per call, the reference of the computation before it, plus 1.
    before: Vec<Option<NonZeroU32>>,
    references: Vec<Reference>,
    /// Per call, the repeated computation before it, plus 1.
    again: Vec<Option<NonZeroU32>>,
    repeats: Vec<Repeat>,
    /// Per call, its usual duration beyond its wait, plus 1.
    usual: Vec<Option<NonZeroU32>>,
    edges: Vec<Edge>,
}

/// The computation before a call, or a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Segment {
    pub begin: u64,
    pub end: u64,
    /// Length without what was taken.
    pub net: u64,
    /// The undisturbed part of `net`: all of it if the usual length is unknown.
    pub work: u64,
    /// The part of `net` that a slow speed level added.
    pub slow: u64,
    /// Scatter of such computations.
    pub spread: f64,
    /// The part of `net` that the rank repeats; `None` if no repetition was observed.
    pub repeated: Option<Repeated>,
}

/// Repetitions needed to tell which of `ranks` ranks has more of a computation. If two ranks have
/// the same work, all n times of one exceed all n of the other in one of C(2n, n) cases, and there
/// are ranks (ranks - 1) ordered pairs.
fn repeats_needed(ranks: usize) -> usize {
    let pairs = (ranks * ranks.saturating_sub(1)) as f64;
    let cases = |n: u32| (1..=n).fold(1.0, |c, i| c * f64::from(n + i) / f64::from(i));
    let enough = (REPEATS..STRETCHES as u32).find(|&n| pairs <= BY_CHANCE * cases(n));
    enough.map_or(STRETCHES, |n| n as usize)
}

/// Work that a rank repeats, with an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Repeated {
    pub usual: u64,
    pub low: u64,
    pub high: u64,
}

impl Timing {
    /// Learns from a lane, its waits and what was taken from it. A computation repeated fewer than
    /// `needed` times tells nothing about the work of its rank.
    pub fn of(lane: &Lane, index: u32, waits: &Waits, charges: &[Charge], needed: usize) -> Self {
        let mut timing = Timing::default();
        let own = &waits.all[waits.of_lane(index)];
        let mut net = Vec::with_capacity(lane.calls.len());
        let mut beyond = Vec::with_capacity(lane.calls.len());
        let (mut from, mut next) = (0, 0);
        for (i, call) in lane.calls.iter().enumerate() {
            let before = match i {
                0 => call.begin,
                _ => lane.calls[i - 1].end,
            };
            let mut wait_end = call.begin;
            let mut waited = 0;
            if let Some(wait) = own.get(next).filter(|w| w.call as usize == i) {
                (wait_end, waited) = (wait.end, wait.length());
                next += 1;
            }
            // Charges are in order, so the search continues where the last call ended.
            while charges.get(from).is_some_and(|c| c.end <= before) {
                from += 1;
            }
            let taken = overlap(&charges[from..], before, call.begin);
            net.push((call.begin - before).saturating_sub(taken));
            let taken = overlap(&charges[from..], wait_end, call.end);
            beyond.push((call.end - call.begin - waited).saturating_sub(taken));
        }
        // Nothing comes before the first call.
        let between = lane.calls.windows(2).map(|c| mix(c[0].site, c[1].site));
        timing.before = vec![None; lane.calls.len()];
        timing.again = vec![None; lane.calls.len()];
        groups(between.zip(1..), needed.min(SAMPLES), |group| {
            let durations: Vec<u64> = group.iter().map(|&i| net[i as usize]).collect();
            let mut fast = None;
            if group.len() >= SAMPLES {
                let ends: Vec<u64> = group
                    .iter()
                    .map(|&i| lane.calls[i as usize].begin)
                    .collect();
                let reference = Reference::of(&ends, &durations);
                fast = Some(reference.fast);
                timing.references.push(reference);
                let number = NonZeroU32::new(timing.references.len() as u32);
                for &i in group {
                    timing.before[i as usize] = number;
                }
            }
            if group.len() < needed {
                return;
            }
            timing.repeats.push(Repeat::of(&durations, fast));
            let number = NonZeroU32::new(timing.repeats.len() as u32);
            for &i in group {
                timing.again[i as usize] = number;
            }
        });
        let sites = lane.calls.iter().map(|c| c.site);
        timing.usual = vec![None; lane.calls.len()];
        groups(sites.zip(0..), SAMPLES, |group| {
            let mut lengths: Vec<u64> = group.iter().map(|&i| beyond[i as usize]).collect();
            timing.edges.push(Edge::of(&mut lengths));
            let number = NonZeroU32::new(timing.edges.len() as u32);
            for &i in group {
                timing.usual[i as usize] = number;
            }
        });
        timing
    }

    /// The computation before call `i`, cut to `begin..end`; `None` if none of it lies there.
    pub fn segment(
        &self,
        lane: &Lane,
        i: usize,
        charges: &[Charge],
        begin: u64,
        end: u64,
    ) -> Option<Segment> {
        let from = lane.calls[i.checked_sub(1)?].end.max(begin);
        let to = lane.calls[i].begin.min(end);
        if from >= to {
            return None;
        }
        let net = (to - from).saturating_sub(overlap(charges, from, to));
        let mut segment = Segment {
            begin: from,
            end: to,
            net,
            work: net,
            slow: 0,
            spread: 0.0,
            repeated: None,
        };
        if let Some(n) = self.again[i] {
            let repeat = self.repeats[n.get() as usize - 1];
            // Of a computation that lies partly outside, at most the part inside counts.
            let whole = from == lane.calls[i - 1].end && to == lane.calls[i].begin;
            segment.repeated = Some(Repeated {
                usual: net.min(repeat.usual),
                low: net.min(repeat.low),
                high: if whole {
                    repeat.high
                } else {
                    net.min(repeat.high)
                },
            });
        }
        if let Some(n) = self.before[i] {
            let reference = &self.references[n.get() as usize - 1];
            segment.work = net.min(reference.fast);
            segment.slow = (net - segment.work).min(reference.slow_by(to));
            segment.spread = reference.spread;
        }
        Some(segment)
    }

    /// How much longer than usual call `i` took, if it took `ns` beyond its wait.
    pub fn excess(&self, i: usize, ns: u64) -> u64 {
        self.usual[i].map_or(0, |n| self.edges[n.get() as usize - 1].excess(ns))
    }
}

/// Calls `f` with every large enough group of items with equal keys. Items are keys and indices; a
/// group is the indices, in order.
fn groups(items: impl Iterator<Item = (u32, u32)>, least: usize, mut f: impl FnMut(&[u32])) {
    // There are far fewer different keys than keys, so counting them is quicker than sorting.
    let mut numbers: HashMap<u32, usize> = HashMap::new();
    let mut sizes: Vec<u32> = Vec::new();
    let mut numbered = Vec::with_capacity(items.size_hint().0);
    for (key, index) in items {
        let number = *numbers.entry(key).or_insert(sizes.len());
        if number == sizes.len() {
            sizes.push(0);
        }
        sizes[number] += 1;
        numbered.push((number, index));
    }
    let mut next: Vec<u32> = Vec::with_capacity(sizes.len());
    let mut begin = 0;
    for size in &sizes {
        next.push(begin);
        begin += size;
    }
    let mut members = vec![0; numbered.len()];
    for (number, index) in numbered {
        members[next[number] as usize] = index;
        next[number] += 1;
    }
    // Each group now ends where the next member would have come.
    for (size, end) in sizes.into_iter().zip(next) {
        if size as usize >= least {
            f(&members[(end - size) as usize..end as usize]);
        }
    }
}

impl Program {
    /// Usual durations on every lane.
    pub fn timings(&self, waits: &Waits, charges: &[Vec<Charge>]) -> Vec<Timing> {
        let needed = repeats_needed(self.lanes.len());
        self.lanes
            .par_iter()
            .zip(charges)
            .enumerate()
            .map(|(i, (lane, charges))| Timing::of(lane, i as u32, waits, charges, needed))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_ranks_there_are_the_more_often_work_has_to_be_seen() {
        // C(10, 5) = 252, C(12, 6) = 924, C(14, 7) = 3432, C(16, 8) = 12870.
        assert_eq!([1, 2, 4, 8, 16].map(repeats_needed), [5, 5, 6, 7, 8]);
        assert_eq!(repeats_needed(1_000_000), STRETCHES);
    }

    #[test]
    fn groups_are_the_indices_of_equal_keys_in_order() {
        let keys = [7, 5, 9, 5, 7, 5, 5];
        let grouped = |keys: &[u32], least| {
            let mut found = Vec::new();
            groups(keys.iter().copied().zip(1..), least, |group| {
                found.push(group.to_vec())
            });
            found
        };
        assert_eq!(grouped(&keys, 2), [vec![1, 5], vec![2, 4, 6, 7]]);
        assert_eq!(grouped(&keys, 1), [vec![1, 5], vec![2, 4, 6, 7], vec![3]]);
        assert!(grouped(&[], 1).is_empty());
    }

    #[test]
    fn what_is_repeated_has_the_interval_of_its_stretches() {
        let few = Repeat::of(&[10, 12, 11, 30, 10], None);
        assert_eq!((few.low, few.usual, few.high), (10, 11, 30));
        // Two hundred in 16 stretches; one long disturbance is two values, which are left out.
        let long: Vec<u64> = (0..200)
            .map(|i| if (50..75).contains(&i) { 90 } else { 10 })
            .collect();
        let many = Repeat::of(&long, Some(9));
        assert_eq!((many.low, many.usual, many.high), (10, 9, 10));
    }
}
