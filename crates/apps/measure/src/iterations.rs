//! The iterations of a benchmark on one rank: how long each took, and how much of it in calls.

use idlewave_run::IterationTimes;
use idlewave_run::tables::{Region, RegionKind};
use idlewave_session::align::Correction;
use idlewave_stats::quantiles;
use idlewave_units::{Nanos, Rank};
use idlewave_workloads::Record;

/// The most stretches in calls of all ranks together that are kept: 64 MiB.
const MOST_STRETCHES: usize = 4 << 20;

/// Iterations of a rank, in nanoseconds of its node's CLOCK_MONOTONIC; on rank 0, after correction,
/// on the first node's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iterations {
    begin: u64,
    ends: Vec<u64>,
    /// Time in calls.
    in_calls: Vec<u64>,
    /// Iterations whose stretches in calls are all kept.
    whole: usize,
    /// Begin and end of every stretch in calls.
    stretches: Vec<[u64; 2]>,
}

impl Iterations {
    /// Of a record, at most `most`; with stretches in calls, for a share of `ranks` ranks, if they
    /// are `kept`.
    pub fn of(record: &Record, most: usize, ranks: u32, kept: bool) -> Self {
        let in_calls: Vec<u64> = record.in_calls().take(most).map(Nanos::get).collect();
        let ends = record.iterations[..in_calls.len()].to_vec();
        let room = MOST_STRETCHES / ranks.max(1) as usize;
        let stretches = match kept {
            true => record.stretches[..record.stretches.len().min(room)].to_vec(),
            false => Vec::new(),
        };
        let whole = match stretches.last() {
            Some(last) if stretches.len() < record.stretches.len() => {
                ends.partition_point(|end| *end <= last[0])
            }
            _ => ends.len(),
        };
        Self {
            begin: record.begin,
            ends,
            in_calls,
            whole,
            stretches,
        }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// How many have all their stretches.
    pub fn whole(&self) -> usize {
        self.whole
    }

    /// The start of the first one.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// The end of the last one.
    pub fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.begin)
    }

    fn bounds(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let begins = std::iter::once(self.begin).chain(self.ends.iter().copied());
        begins.zip(self.ends.iter().copied())
    }

    /// The time of each.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.bounds().map(|(begin, end)| end.saturating_sub(begin))
    }

    /// The time of each, without its calls.
    pub fn computations(&self) -> impl Iterator<Item = u64> + '_ {
        let calls = self.in_calls.iter();
        self.times()
            .zip(calls)
            .map(|(time, calls)| time.saturating_sub(*calls))
    }

    /// Converts the times to the first node's clock.
    pub fn correct(&mut self, by: &Correction) {
        self.begin = by.apply(self.begin);
        let stretches = self.stretches.as_flattened_mut();
        for time in self.ends.iter_mut().chain(stretches) {
            *time = by.apply(*time);
        }
    }

    /// Converts to words for sending.
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = vec![self.begin, self.ends.len() as u64, self.whole as u64];
        words.extend(&self.ends);
        words.extend(&self.in_calls);
        words.extend_from_slice(self.stretches.as_flattened());
        words
    }

    /// Reads words; no iterations if they are invalid.
    pub fn of_words(words: &[u64]) -> Self {
        let read = || {
            let (&[begin, count, whole], rest) = words.split_first_chunk::<3>()?;
            let (ends, rest) = rest.split_at_checked(count as usize)?;
            let (in_calls, rest) = rest.split_at_checked(count as usize)?;
            Some(Self {
                begin,
                ends: ends.to_vec(),
                in_calls: in_calls.to_vec(),
                whole: whole.min(count) as usize,
                stretches: rest.chunks_exact(2).map(|c| [c[0], c[1]]).collect(),
            })
        };
        read().unwrap_or_default()
    }

    /// Computation and calls in turn, of the first `most` iterations.
    pub fn regions(&self, rank: Rank, phase: u32, most: usize) -> Vec<Region> {
        let mut rows = Vec::new();
        let mut next = 0;
        for (iteration, (mut from, end)) in self.bounds().take(most.min(self.whole)).enumerate() {
            let mut row = |kind, begin_ns, end_ns| {
                rows.push(Region {
                    rank,
                    phase,
                    iteration: iteration as u64,
                    kind,
                    begin_ns,
                    end_ns,
                    bytes: None,
                });
            };
            let mut first = true;
            while let Some(&[begin, stop]) = self.stretches.get(next).filter(|s| s[0] < end) {
                let (begin, stop_here) = (begin.max(from), stop.min(end));
                // The first one even if it is empty: every iteration has a computation.
                if begin > from || first {
                    row(RegionKind::Compute, from, begin);
                }
                row(RegionKind::Communication, begin, stop_here);
                (from, first) = (stop_here, false);
                if stop > end {
                    break;
                }
                next += 1;
            }
            if end > from || first {
                row(RegionKind::Compute, from, end);
            }
        }
        rows
    }
}

/// How often each rank computed longest, in the iterations that all have.
fn slowest(all: &[Iterations]) -> Vec<u64> {
    let mut counts = vec![0; all.len()];
    let steps = all.iter().map(Iterations::count).min().unwrap_or(0);
    let computations: Vec<Vec<u64>> = all.iter().map(|i| i.computations().collect()).collect();
    (0..steps).for_each(|step| {
        let longest = (0..all.len()).max_by_key(|&r| (computations[r][step], std::cmp::Reverse(r)));
        if let Some(rank) = longest {
            counts[rank] += 1;
        }
    });
    counts
}

/// The times of all ranks, in order.
pub fn times(all: &[Iterations]) -> Vec<Option<IterationTimes>> {
    let whole = |value: f64| Nanos::from_nanos(value.round() as u64);
    let of = |(iterations, slowest): (&Iterations, u64)| {
        (iterations.count() > 0).then(|| {
            let mut times: Vec<u64> = iterations.times().collect();
            times.sort_unstable();
            let at = |share| whole(quantiles::quantile_of_sorted(&times, share).value);
            let computations: Vec<u64> = iterations.computations().collect();
            IterationTimes {
                count: iterations.count() as u64,
                median: at(0.5),
                tenth: at(0.1),
                ninetieth: at(0.9),
                computation: whole(quantiles::median(&computations).value),
                slowest,
            }
        })
    };
    all.iter().zip(slowest(all)).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            begin: 100,
            iterations: vec![200, 300, 400],
            // The second one spans two iterations, the third begins with one.
            stretches: vec![[110, 120], [190, 220], [300, 310]],
            ..Record::default()
        }
    }

    #[test]
    fn computation_and_calls_take_turns_and_fill_the_iterations() {
        let iterations = Iterations::of(&record(), 10, 1, true);
        let rows = iterations.regions(Rank::new(0), 7, 10);
        let seen: Vec<_> = rows
            .iter()
            .map(|r| (r.iteration, r.kind, r.begin_ns, r.end_ns))
            .collect();
        use RegionKind::{Communication, Compute};
        assert_eq!(
            seen,
            [
                (0, Compute, 100, 110),
                (0, Communication, 110, 120),
                (0, Compute, 120, 190),
                (0, Communication, 190, 200),
                (1, Compute, 200, 200),
                (1, Communication, 200, 220),
                (1, Compute, 220, 300),
                (2, Compute, 300, 300),
                (2, Communication, 300, 310),
                (2, Compute, 310, 400),
            ]
        );
        let computations: Vec<u64> = iterations.computations().collect();
        assert_eq!(computations, [80, 80, 90]);
        for (k, computation) in computations.iter().enumerate() {
            let of_rows = rows
                .iter()
                .filter(|r| r.iteration == k as u64 && r.kind == Compute);
            assert_eq!(
                of_rows.map(|r| r.end_ns - r.begin_ns).sum::<u64>(),
                *computation
            );
        }
    }

    #[test]
    fn iterations_survive_being_sent_and_only_whole_ones_become_rows() {
        let iterations = Iterations::of(&record(), 10, 1, true);
        assert_eq!(Iterations::of_words(&iterations.to_words()), iterations);
        assert_eq!(Iterations::of_words(&[1, 9]).count(), 0);
        // Room for two stretches: the second iteration may have more.
        let few = Iterations::of(&record(), 10, MOST_STRETCHES as u32 / 2, true);
        assert_eq!((few.count(), few.whole()), (3, 0));
        assert_eq!(few.regions(Rank::new(0), 0, 10), []);
        let two = Iterations::of(&record(), 2, 1, true);
        assert_eq!((two.count(), two.whole()), (2, 2));
        let without = Iterations::of(&record(), 10, 1, false);
        assert_eq!(without.computations().collect::<Vec<_>>(), [80, 80, 90]);
    }

    #[test]
    fn times_are_medians_and_the_slowest_computed_longest() {
        let rank = |in_calls: [u64; 3]| Iterations {
            begin: 0,
            ends: vec![10, 30, 60],
            in_calls: in_calls.to_vec(),
            whole: 3,
            stretches: Vec::new(),
        };
        let all = times(&[rank([1, 5, 0]), rank([0, 5, 6]), Iterations::default()]);
        // The third rank has no iteration, so none has a slowest rank.
        assert_eq!(all[2], None);
        assert_eq!(all[0].as_ref().map(|t| t.slowest), Some(0));
        let two = times(&[rank([1, 5, 0]), rank([0, 5, 6])]);
        let first = two[0].clone().expect("iterations");
        let ns = Nanos::from_nanos;
        assert_eq!((first.median, first.computation), (ns(20), ns(15)));
        // Between 10, 20 and 30: a fifth and nine fifths of the way.
        assert_eq!((first.tenth, first.ninetieth), (ns(12), ns(28)));
        // Equal in the second iteration: the lower rank.
        let slowest: Vec<u64> = two.iter().flatten().map(|t| t.slowest).collect();
        assert_eq!(slowest, [2, 1]);
    }
}
