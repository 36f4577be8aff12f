//! How far apart the clocks of ranks, or of their nodes, are. A recorder that does not compare them
//! leaves that to the reader: EZTrace's clocks start with each process, and PyTorch's profiler
//! writes each host's time of day.
//!
//! Nobody leaves a barrier before all have entered it. Times that contradict this show that the
//! clocks differ, and every barrier bounds by how much: with `x` added to the times of one clock,
//! `x >= begin of the other - own end` and `x <= end of the other - own begin`. All barriers
//! together leave a range of some microseconds. The same holds for other collectives in which each
//! rank needs something from every other.
//!
//! If no `x` fits, the clocks drift, or calls are missing and the wrong ones are compared. A clock
//! is then moved only if that leaves a tenth of the contradiction or less.

use idlewave_run::Ledger;
use idlewave_units::{Nanos, NodeId, Rank};
use std::collections::{BTreeMap, HashMap};

/// Calls that are kept: some 40 MB. Beyond that, every other collective is dropped.
const MOST: usize = 1 << 20;

/// Contradictions smaller than this are rounding.
const ROUNDING_NS: i64 = 1_000;

/// Communicator, number and function of a collective: calls of different functions never match.
type Collective = (u32, u32, u32);
/// The clock of a call, its start and its end, ns.
type Stay = (Clock, u64, u64);
/// Number of a rank or of a node.
type Clock = u32;

/// What has a clock of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::import) enum Clocks {
    #[default]
    OfRanks,
    OfNodes,
}

/// Collectives that wait for all, of the whole run.
pub(in crate::import) struct Skew {
    clocks: Clocks,
    kept: BTreeMap<Collective, Vec<Stay>>,
    calls: usize,
    /// Collectives whose number is a multiple of this are kept.
    stride: u32,
    /// Calls that may be kept.
    room: usize,
}

/// What must be added to the times of each clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::import) struct Shifts {
    clocks: Clocks,
    of: HashMap<Clock, Nanos>,
    /// For clocks of which nothing is known: they keep their distance from the first one.
    others: Nanos,
    /// Clocks that collectives compare with the first one, itself included.
    pub compared: u64,
    /// Clocks that differ from the first one.
    pub moved: u64,
    /// The largest difference between two clocks.
    pub apart: Nanos,
    /// Bound of the error of a difference from the first clock.
    pub error: Nanos,
    /// Clocks that no shift aligns with another one, and the largest contradiction that is left.
    pub drifting: u64,
    pub drift: Nanos,
}

impl Clocks {
    fn clock(self, rank: Rank, node: NodeId) -> Clock {
        match self {
            Clocks::OfRanks => rank.get(),
            Clocks::OfNodes => node.get(),
        }
    }
}

impl Shifts {
    /// What must be added to the times of a rank on a node.
    pub(in crate::import) fn of(&self, rank: Option<Rank>, node: NodeId) -> Nanos {
        let shift = rank.and_then(|rank| self.of.get(&self.clocks.clock(rank, node)));
        shift.copied().unwrap_or(self.others)
    }

    /// Reports what was moved, and what no shift fixes.
    pub(in crate::import) fn enter(&self, losses: &mut Ledger) {
        let whose = match self.clocks {
            Clocks::OfRanks => "ranks",
            Clocks::OfNodes => "hosts",
        };
        losses.enter(
            format!("{whose} whose clocks differed from that of the first one"),
            self.moved,
            format!(
                "by up to {}: corrected to about {}, so that nobody leaves a barrier before all have entered it",
                self.apart, self.error
            ),
            "synchronise the clocks in the recorder; below, do not trust waits as short as the error",
        );
        losses.enter(
            format!("{whose} whose clocks drift, or whose collectives are not all in the trace"),
            self.drifting,
            format!(
                "some left a barrier up to {} before others entered it, and no offset mends that: do not trust waits as short",
                self.drift
            ),
            "let the recorder measure the clocks at its start and its end, and trace all ranks from the start of the program",
        );
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

    /// Half of the width.
    fn error(self) -> u64 {
        self.most.abs_diff(self.least).div_ceil(2)
    }

    /// By how much the best shift still contradicts a collective.
    fn left(self) -> u64 {
        match self.least > self.most {
            true => self.error(),
            false => 0,
        }
    }

    /// What to add to the clock.
    fn shift(self) -> i64 {
        let contradict = self.least > ROUNDING_NS || self.most < -ROUNDING_NS;
        match contradict && self.left() <= self.middle().unsigned_abs() / 10 {
            true => self.middle(),
            false => 0,
        }
    }
}

impl Skew {
    pub(in crate::import) fn of(clocks: Clocks) -> Self {
        Self::with_room(clocks, MOST)
    }

    fn with_room(clocks: Clocks, room: usize) -> Self {
        Self {
            clocks,
            kept: BTreeMap::new(),
            calls: 0,
            stride: 1,
            room,
        }
    }

    /// Adds a call, from its start to its end, of a collective that waits for all.
    pub(super) fn add(
        &mut self,
        collective: Collective,
        (rank, node): (Rank, NodeId),
        (begin, end): (u64, u64),
    ) {
        let stay = (self.clocks.clock(rank, node), begin, end);
        if collective.1 % self.stride != 0 {
            return;
        }
        self.kept.entry(collective).or_default().push(stay);
        self.calls += 1;
        while self.calls > self.room && self.stride < 1 << 31 {
            self.stride *= 2;
            let stride = self.stride;
            self.kept.retain(|&(_, number, _), _| number % stride == 0);
            self.calls = self.kept.values().map(Vec::len).sum();
        }
    }

    /// The shifts that make the clocks agree; none if they already do.
    pub(in crate::import) fn shifts(&self) -> Shifts {
        let bounds = self.bounds();
        let mut neighbours: BTreeMap<Clock, Vec<(Clock, Bounds)>> = BTreeMap::new();
        for (&(first, clock), &bounds) in &bounds {
            neighbours.entry(first).or_default().push((clock, bounds));
            let back = (first, bounds.reverse());
            neighbours.entry(clock).or_default().push(back);
        }
        let (found, compared) = outwards(&neighbours);
        let shifts = || found.values().map(|&(shift, _)| shift);
        let least = shifts().min().unwrap_or(0);
        let away = |shift: i64| Nanos::from_nanos(shift.abs_diff(least));
        let moved = found.values().filter(|&&(shift, _)| shift != 0);
        let left = |(at, bounds): (&(Clock, Clock), &Bounds)| {
            let left = bounds.left();
            (left > ROUNDING_NS as u64).then_some((at.1, left))
        };
        let drifting: BTreeMap<Clock, u64> = bounds.iter().filter_map(left).collect();
        Shifts {
            clocks: self.clocks,
            compared,
            moved: moved.clone().count() as u64,
            apart: shifts().map(away).max().unwrap_or(Nanos::ZERO),
            error: Nanos::from_nanos(moved.map(|&(_, error)| error).max().unwrap_or(0)),
            others: away(0),
            of: found
                .iter()
                .map(|(&clock, &(shift, _))| (clock, away(shift)))
                .collect(),
            drifting: drifting.len() as u64,
            drift: Nanos::from_nanos(drifting.into_values().max().unwrap_or(0)),
        }
    }

    /// Bounds of what must be added to the times of the second clock to get those of the first.
    fn bounds(&self) -> BTreeMap<(Clock, Clock), Bounds> {
        let mut bounds: BTreeMap<(Clock, Clock), Bounds> = BTreeMap::new();
        let mut stays: BTreeMap<Clock, (u64, u64)> = BTreeMap::new();
        for calls in self.kept.values() {
            stays.clear();
            // Of ranks that share a clock, the last to enter and the first to leave.
            for &(clock, begin, end) in calls {
                let stay = stays.entry(clock).or_insert((begin, end));
                *stay = (stay.0.max(begin), stay.1.min(end));
            }
            let Some((first, (begin, end))) = stays.pop_first() else {
                continue;
            };
            for (&clock, &(own_begin, own_end)) in &stays {
                bounds
                    .entry((first, clock))
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

/// Each clock's shift and the bound of its error, ns, along the path of least error from the first
/// clock connected to it. Also how many clocks are connected to the first one, itself included.
fn outwards(
    neighbours: &BTreeMap<Clock, Vec<(Clock, Bounds)>>,
) -> (BTreeMap<Clock, (i64, u64)>, u64) {
    let mut found = BTreeMap::new();
    let mut reached = 0;
    for &start in neighbours.keys() {
        let mut next = BTreeMap::from([((0_u64, start), 0_i64)]);
        while let Some(((error, clock), shift)) = next.pop_first() {
            if found.contains_key(&clock) {
                continue;
            }
            found.insert(clock, (shift, error));
            for &(other, bounds) in &neighbours[&clock] {
                let error = error.saturating_add(bounds.error());
                next.insert((error, other), shift.saturating_add(bounds.shift()));
            }
        }
        if reached == 0 {
            reached = found.len() as u64;
        }
    }
    (found, reached)
}

/// `a - b`; times of a trace are below 2^63.
fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId::new(0);

    fn of_ranks() -> Skew {
        Skew::of(Clocks::OfRanks)
    }

    /// What must be added to the times of each of these ranks, ns.
    fn shifts_of<const N: usize>(shifts: &Shifts, ranks: [u32; N]) -> [u64; N] {
        ranks.map(|rank| shifts.of(Some(Rank::new(rank)), NODE).get())
    }

    const fn rank(number: u32) -> (Rank, NodeId) {
        (Rank::new(number), NODE)
    }

    /// Barriers every millisecond, entered and left within 10 us, on clocks that are ahead by these
    /// ns.
    fn skew(ahead: &[i64], barriers: u32, most: usize) -> Skew {
        let mut skew = Skew::with_room(Clocks::OfRanks, most);
        for (rank, ahead) in (0..).map(Rank::new).zip(ahead) {
            for number in 0..barriers {
                let time = |at: u64| (1_000_000_000 + at).wrapping_add_signed(*ahead);
                // Each rank comes last in turn.
                let late = u64::from(number % 3 == rank.get() % 3) * 8_000;
                let at = u64::from(number) * 1_000_000;
                skew.add(
                    (0, number, 0),
                    (rank, NODE),
                    (time(at + late), time(at + 10_000)),
                );
            }
        }
        skew
    }

    #[test]
    fn clocks_that_agree_stay_and_others_are_moved_within_the_shortest_call() {
        assert_eq!(skew(&[0, 900, 0], 30, MOST).shifts().moved, 0);
        // The rank that comes last stays for only 2 us.
        let shifts = skew(&[0, -5_000_000, 70_000], 30, MOST).shifts();
        assert_eq!((shifts.moved, shifts.error), (2, Nanos::from_micros(2)));
        assert_eq!(shifts_of(&shifts, [0, 1, 2]), [70_000, 5_070_000, 0]);
        assert_eq!(shifts_of(&shifts, [7]), [70_000]);
        assert_eq!(shifts.of(None, NODE), Nanos::from_nanos(70_000));
        assert_eq!(shifts.compared, 3);
        assert_eq!(shifts.apart, Nanos::from_nanos(5_070_000));
    }

    #[test]
    fn a_rank_is_reached_through_the_communicators_that_it_has() {
        let mut skew = skew(&[0, 2_000_000], 3, MOST);
        // Rank 2 is 3 ms behind rank 1. It also meets rank 0, in a longer call that says less.
        for (comm, member, begin, length) in [
            (7, 1, 9_000_000, 1_000),
            (7, 2, 6_000_000, 1_000),
            (8, 0, 9_000_000, 900_000),
            (8, 2, 7_500_000, 1_000),
        ] {
            skew.add((comm, 0, 0), rank(member), (begin, begin + length));
        }
        let shifts = skew.shifts();
        assert_eq!(shifts_of(&shifts, [0, 1, 2]), [2_000_000, 0, 3_000_000]);
        assert_eq!(shifts.error, Nanos::from_micros(3));
    }

    #[test]
    fn a_rank_whose_clock_may_be_right_stays_and_one_is_reached_against_the_order_of_ranks() {
        let mut skew = of_ranks();
        for (comm, member, begin, length) in [
            // Rank 3 always comes last: its clock may be 9 us ahead, or right.
            (6, 0, 9_000_000, 10_000),
            (6, 3, 9_009_000, 1_000),
            // Rank 2 is 2 ms ahead of rank 0, and 5 ms ahead of rank 1, which never meets rank 0.
            (7, 0, 9_000_000, 1_000),
            (7, 2, 11_000_000, 1_000),
            (8, 1, 9_000_000, 1_000),
            (8, 2, 14_000_000, 1_000),
        ] {
            skew.add((comm, 0, 0), rank(member), (begin, begin + length));
        }
        let shifts = skew.shifts();
        let expected = [2_000_000, 5_000_000, 0, 2_000_000];
        assert_eq!(shifts_of(&shifts, [0, 1, 2, 3]), expected);
        assert_eq!((shifts.moved, shifts.error), (2, Nanos::from_micros(2)));
    }

    #[test]
    fn ranks_of_a_node_have_one_clock_and_tell_more_together() {
        let mut skew = Skew::of(Clocks::OfNodes);
        // Node 1 is 5 ms ahead. On each node, one rank is the last to enter, another the first to leave.
        for (rank, node, begin, end) in [
            (0, 0, 9_006_000, 9_010_000),
            (1, 0, 9_000_000, 9_008_000),
            (2, 1, 14_004_000, 14_009_000),
            (3, 1, 14_001_000, 14_007_000),
        ] {
            let at = (Rank::new(rank), NodeId::new(node));
            skew.add((0, 0, 0), at, (begin, end));
        }
        // Nodes 2 and 3 only meet each other.
        for node in [2, 3] {
            let at = (Rank::new(2 + node), NodeId::new(node));
            skew.add((1, 0, 0), at, (1_000_000, 1_001_000));
        }
        let shifts = skew.shifts();
        // -5.001 to -4.996 ms.
        let of = |rank, node| shifts.of(Some(Rank::new(rank)), NodeId::new(node)).get();
        let expected = [4_998_500, 0, 4_998_500, 4_998_500];
        assert_eq!([of(1, 0), of(2, 1), of(4, 2), of(6, 4)], expected);
        assert_eq!((shifts.moved, shifts.compared), (1, 2));
        assert_eq!(shifts.error, Nanos::from_nanos(2_500));
    }

    #[test]
    fn of_long_runs_fewer_collectives_are_kept_and_those_of_the_same_numbers_at_all_ranks() {
        let skew = skew(&[0, 4_000_000], 1_000, 100);
        assert!(skew.calls <= 100 && skew.stride == 32, "{}", skew.stride);
        assert!(skew.kept.values().all(|calls| calls.len() == 2));
        assert_eq!(skew.shifts().moved, 1);
    }

    /// Barriers every millisecond on two clocks. The second is `ahead` and gains 100 us in all.
    fn drifting(ahead: u64) -> Shifts {
        let mut skew = of_ranks();
        for number in 0..11_u32 {
            let at = 1_000_000_000 + u64::from(number) * 1_000_000;
            skew.add((0, number, 0), rank(0), (at, at + 1_000));
            let own = at + ahead + u64::from(number) * 10_000;
            skew.add((0, number, 0), rank(1), (own, own + 1_000));
        }
        skew.shifts()
    }

    #[test]
    fn clocks_that_drift_are_moved_only_where_that_helps_much_and_both_is_told() {
        let shifts = drifting(5_000_000);
        assert_eq!(shifts_of(&shifts, [0, 1]), [5_050_000, 0]);
        assert_eq!((shifts.moved, shifts.error), (1, Nanos::from_micros(49)));
        assert_eq!((shifts.drifting, shifts.drift), (1, Nanos::from_micros(49)));
        let shifts = drifting(0);
        assert_eq!((shifts.moved, shifts.apart), (0, Nanos::ZERO));
        assert_eq!((shifts.drifting, shifts.drift), (1, Nanos::from_micros(49)));
    }

    #[test]
    fn calls_of_different_functions_tell_nothing_of_each_other() {
        let mut skew = of_ranks();
        skew.add((0, 0, 1), rank(0), (1_000_000, 1_001_000));
        skew.add((0, 0, 2), rank(1), (9_000_000, 9_001_000));
        assert_eq!(skew.shifts(), Shifts::default());
    }

    #[test]
    fn times_at_the_ends_of_the_clock_do_not_overflow() {
        const LAST: u64 = i64::MAX as u64;
        let mut skew = of_ranks();
        for (number, (begin, end)) in (0..).zip([(0, LAST), (LAST, 0), (LAST, LAST), (0, 0)]) {
            skew.add((0, number, 0), rank(0), (begin, end));
            skew.add((0, number, 0), rank(1), (end, begin));
            skew.add((0, number, 0), rank(2), (0, 0));
        }
        // Rank 2 would have to move by the whole range or not at all.
        let shifts = skew.shifts();
        assert_eq!((shifts.moved, shifts.drifting), (0, 1));
        assert_eq!(shifts.drift.get(), LAST.div_ceil(2));
    }
}
