//! How far the clocks of ranks are apart. A recorder that does not compare them leaves it to the
//! reader: EZTrace's clocks begin when each process does.
//!
//! Nobody leaves a barrier before all have entered it. Times that contradict this show that the clocks
//! differ, and every barrier bounds by how much: with `x` added to the times of one rank,
//! `x >= begin of the other - own end` and `x <= end of the other - own begin`. The least of all
//! barriers is some microseconds wide. The same holds for other collectives in which each rank
//! needs something of every other one.

use idlewave_units::{Nanos, Rank};
use std::collections::{BTreeMap, HashMap};

/// Calls that are kept: some 40 MB. Beyond that, every other collective is dropped.
const MOST: usize = 1 << 20;

/// What contradicts itself by less is rounding.
const ROUNDING_NS: i64 = 1_000;

/// The rank of a call, its start and its end, ns.
type Stay = (Rank, u64, u64);

/// Collectives that wait for all, of the whole run.
pub(in crate::import) struct Skew {
    /// By communicator and number.
    kept: BTreeMap<(u32, u32), Vec<Stay>>,
    calls: usize,
    /// Collectives whose number is a multiple of this are kept.
    stride: u32,
    most: usize,
}

/// What must be added to the times of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::import) struct Shifts {
    /// By rank; none for ranks of which nothing is known.
    of: HashMap<Rank, Nanos>,
    /// Ranks whose clock differs from that of the first one.
    pub moved: u64,
    /// The largest difference between two clocks.
    pub most: Nanos,
    /// Bound of the error of a difference from the clock of the first rank.
    pub error: Nanos,
}

impl Shifts {
    /// What must be added to the times of a rank.
    pub(in crate::import) fn of(&self, rank: Option<Rank>) -> Nanos {
        let shift = rank.and_then(|rank| self.of.get(&rank));
        shift.copied().unwrap_or(Nanos::ZERO)
    }
}

/// Bounds of what must be added to a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    least: i64,
    most: i64,
}

impl Bounds {
    const NONE: Self = Self {
        least: i64::MIN,
        most: i64::MAX,
    };

    fn narrow(&mut self, by: Self) {
        self.least = self.least.max(by.least);
        self.most = self.most.min(by.most);
    }

    fn reverse(self) -> Self {
        Self {
            least: -self.most,
            most: -self.least,
        }
    }

    fn middle(self) -> i64 {
        self.least / 2 + self.most / 2
    }

    /// Half of the width. Clocks that drift contradict every shift: then by how much they do.
    fn error(self) -> u64 {
        self.most.abs_diff(self.least).div_ceil(2)
    }

    fn contradict(self) -> bool {
        self.least > ROUNDING_NS || self.most < -ROUNDING_NS
    }
}

impl Default for Skew {
    fn default() -> Self {
        Self::with_room(MOST)
    }
}

impl Skew {
    fn with_room(most: usize) -> Self {
        Self {
            kept: BTreeMap::new(),
            calls: 0,
            stride: 1,
            most,
        }
    }

    /// A call of a collective that waits for all, with its number in its communicator.
    pub(super) fn add(&mut self, comm: u32, number: u32, rank: Rank, begin: u64, end: u64) {
        if number % self.stride != 0 {
            return;
        }
        let calls = self.kept.entry((comm, number)).or_default();
        calls.push((rank, begin, end));
        self.calls += 1;
        while self.calls > self.most && self.stride < 1 << 31 {
            self.stride *= 2;
            let stride = self.stride;
            self.kept.retain(|&(_, number), _| number % stride == 0);
            self.calls = self.kept.values().map(Vec::len).sum();
        }
    }

    /// What makes the clocks agree; `None` if nothing contradicts them as they are.
    pub(in crate::import) fn shifts(&self) -> Option<Shifts> {
        let bounds = self.bounds();
        if !bounds.values().any(|bounds| bounds.contradict()) {
            return None;
        }
        let mut neighbours: BTreeMap<Rank, Vec<(Rank, Bounds)>> = BTreeMap::new();
        for (&(first, rank), &bounds) in &bounds {
            neighbours.entry(first).or_default().push((rank, bounds));
            let back = (first, bounds.reverse());
            neighbours.entry(rank).or_default().push(back);
        }
        // From the first rank outwards, each by the narrowest way that is known then.
        let mut found: BTreeMap<Rank, (i64, u64)> = BTreeMap::new();
        for &start in neighbours.keys() {
            if found.contains_key(&start) {
                continue;
            }
            let mut next = BTreeMap::from([((0, start), 0)]);
            while let Some(((error, rank), shift)) = next.pop_first() {
                if found.contains_key(&rank) {
                    continue;
                }
                found.insert(rank, (shift, error));
                for &(other, bounds) in &neighbours[&rank] {
                    let by = match bounds.contradict() {
                        true => bounds.middle(),
                        false => 0,
                    };
                    let error = error.saturating_add(bounds.error());
                    next.insert((error, other), shift.saturating_add(by));
                }
            }
        }
        let shifts = || found.values().map(|&(shift, _)| shift);
        let least = shifts().min().unwrap_or(0);
        let away = |shift: i64| Nanos::from_nanos(shift.abs_diff(least));
        let moved = found.values().filter(|&&(shift, _)| shift != 0);
        Some(Shifts {
            moved: moved.clone().count() as u64,
            most: shifts().map(away).max().unwrap_or(Nanos::ZERO),
            error: Nanos::from_nanos(moved.map(|&(_, error)| error).max().unwrap_or(0)),
            of: found
                .iter()
                .map(|(&r, &(shift, _))| (r, away(shift)))
                .collect(),
        })
    }

    /// Bounds of what must be added to the times of the second rank for those of the first.
    fn bounds(&self) -> BTreeMap<(Rank, Rank), Bounds> {
        let mut bounds: BTreeMap<(Rank, Rank), Bounds> = BTreeMap::new();
        for calls in self.kept.values() {
            let Some(&(first, begin, end)) = calls.iter().min_by_key(|call| call.0) else {
                continue;
            };
            for &(rank, own_begin, own_end) in calls.iter().filter(|call| call.0 != first) {
                bounds
                    .entry((first, rank))
                    .or_insert(Bounds::NONE)
                    .narrow(Bounds {
                        least: difference(begin, own_end),
                        most: difference(end, own_begin),
                    });
            }
        }
        bounds
    }
}

/// `a - b`; times of a trace are below 2^63.
fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rank(number: u32) -> Rank {
        Rank::new(number)
    }

    /// Barriers every millisecond, entered and left within 10 us, on clocks that are so far ahead.
    fn skew(ahead: &[i64], barriers: u32, most: usize) -> Skew {
        let mut skew = Skew::with_room(most);
        for (rank, ahead) in (0..).map(Rank::new).zip(ahead) {
            for number in 0..barriers {
                let time = |at: u64| (1_000_000_000 + at).wrapping_add_signed(*ahead);
                // Each rank is the last one in its turn.
                let late = u64::from(number % 3 == rank.get() % 3) * 8_000;
                let at = u64::from(number) * 1_000_000;
                skew.add(0, number, rank, time(at + late), time(at + 10_000));
            }
        }
        skew
    }

    #[test]
    fn clocks_that_agree_stay_and_others_are_moved_within_the_shortest_call() {
        assert_eq!(skew(&[0, 900, 0], 30, MOST).shifts(), None);
        // The rank that comes last has 2 us left.
        let shifts = skew(&[0, -5_000_000, 70_000], 30, MOST).shifts().unwrap();
        assert_eq!((shifts.moved, shifts.error), (2, Nanos::from_micros(2)));
        let of = |number| shifts.of(Some(rank(number))).get() as i64;
        assert_eq!([of(0) - of(2), of(1) - of(2)], [70_000, 5_070_000]);
        assert_eq!((of(2), shifts.of(None)), (0, Nanos::ZERO));
        assert_eq!(shifts.most, Nanos::from_nanos(5_070_000));
    }

    #[test]
    fn a_rank_is_reached_through_the_communicators_that_it_has() {
        let mut skew = skew(&[0, 2_000_000], 3, MOST);
        // Rank 2 meets rank 1, 3 ms behind it, and rank 0 in a longer call that tells less.
        for (comm, member, begin, length) in [
            (7, 1, 9_000_000, 1_000),
            (7, 2, 6_000_000, 1_000),
            (8, 0, 9_000_000, 900_000),
            (8, 2, 7_500_000, 1_000),
        ] {
            skew.add(comm, 0, rank(member), begin, begin + length);
        }
        let shifts = skew.shifts().unwrap();
        let of = [0, 1, 2].map(|number| shifts.of(Some(rank(number))).get());
        assert_eq!(of, [2_000_000, 0, 3_000_000]);
        assert_eq!(shifts.error, Nanos::from_micros(3));
    }

    #[test]
    fn a_rank_whose_clock_may_be_right_stays_and_one_is_reached_against_the_order_of_ranks() {
        let mut skew = Skew::default();
        for (comm, member, begin, length) in [
            // Rank 3 is the last one always: its clock may be 9 us ahead, or right.
            (6, 0, 9_000_000, 10_000),
            (6, 3, 9_009_000, 1_000),
            // Rank 2 is 2 ms ahead of rank 0, and 5 ms ahead of rank 1, which never meets rank 0.
            (7, 0, 9_000_000, 1_000),
            (7, 2, 11_000_000, 1_000),
            (8, 1, 9_000_000, 1_000),
            (8, 2, 14_000_000, 1_000),
        ] {
            skew.add(comm, 0, rank(member), begin, begin + length);
        }
        let shifts = skew.shifts().unwrap();
        let of = [0, 1, 2, 3].map(|number| shifts.of(Some(rank(number))).get());
        assert_eq!(of, [2_000_000, 5_000_000, 0, 2_000_000]);
        assert_eq!((shifts.moved, shifts.error), (2, Nanos::from_micros(2)));
    }

    #[test]
    fn of_long_runs_fewer_collectives_are_kept_and_those_of_the_same_numbers_at_all_ranks() {
        let skew = skew(&[0, 4_000_000], 1_000, 100);
        assert!(skew.calls <= 100 && skew.stride == 32, "{}", skew.stride);
        assert!(skew.kept.values().all(|calls| calls.len() == 2));
        assert_eq!(skew.shifts().unwrap().moved, 1);
    }

    #[test]
    fn clocks_that_drift_are_moved_to_the_middle_and_the_error_says_how_far_they_do() {
        let mut skew = Skew::default();
        for number in 0..11_u32 {
            let at = 1_000_000_000 + u64::from(number) * 1_000_000;
            skew.add(0, number, rank(0), at, at + 1_000);
            // 100 us in all.
            let own = at + u64::from(number) * 10_000;
            skew.add(0, number, rank(1), own, own + 1_000);
        }
        let shifts = skew.shifts().unwrap();
        assert_eq!(shifts.of(Some(rank(0))), Nanos::from_micros(50));
        assert_eq!(shifts.error, Nanos::from_nanos(49_000));
    }

    #[test]
    fn times_at_the_ends_of_the_clock_do_not_overflow() {
        const LAST: u64 = i64::MAX as u64;
        let mut skew = Skew::default();
        for (number, (begin, end)) in (0..).zip([(0, LAST), (LAST, 0), (LAST, LAST), (0, 0)]) {
            skew.add(0, number, rank(0), begin, end);
            skew.add(0, number, rank(1), end, begin);
            skew.add(0, number, rank(2), 0, 0);
        }
        // No shift fits: rank 1 would have to move by all in both directions, and rank 2 by all or
        // nothing.
        let shifts = skew.shifts().unwrap();
        let of = [0, 1, 2].map(|number| shifts.of(Some(rank(number))).get());
        assert_eq!((of, shifts.moved), ([0, 0, LAST / 2], 1));
        assert_eq!(shifts.error.get(), LAST.div_ceil(2));
    }
}
