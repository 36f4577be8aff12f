//! The chain of last arrivals of a lockstep run.
//!
//! A rank can start iteration k + 1 when it and all ranks it waits for have arrived in iteration k
//! (ended their computation of k). The one that arrived last is its *predecessor*. Following
//! predecessors back from the last arrival of the run gives one chain of steps that covers the run
//! from start to end without gap or overlap: what exceeds the undisturbed step in a link of the
//! chain delayed the whole program, and nothing else did. With a barrier, the links are the last
//! ranks of the iterations; with neighbours, waits are followed back through messages, so an idle
//! wave is charged to the rank where it began.

use idlewave_run::WaitsFor;
use idlewave_units::Rank;

/// The times of one rank: start and arrival (end of computation) of every iteration, nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct RankSeries {
    /// Start of the computation.
    pub begin: Vec<u64>,
    /// End of the computation: the rank arrives at the exchange.
    pub arrival: Vec<u64>,
}

/// One link of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Iteration that ends with this step.
    pub iteration: u64,
    /// The rank that determined its length.
    pub rank: Rank,
    /// The rank whose arrival released it; itself if it waited for no other.
    pub released_by: Rank,
    /// That arrival, nanoseconds.
    pub begin: u64,
    /// Its own arrival.
    pub end: u64,
}

/// The chain, in order of time. All series must have the same length; empty ones give an empty
/// chain. Of equal arrivals the lowest rank counts as last.
pub fn chain(series: &[RankSeries], waits: &WaitsFor) -> Vec<Step> {
    let ranks = series.len();
    let iterations = series
        .iter()
        .map(|s| s.arrival.len().min(s.begin.len()))
        .min()
        .unwrap_or(0);
    if iterations == 0 {
        return Vec::new();
    }
    let last_of = |k: usize, candidates: &mut dyn Iterator<Item = usize>| {
        candidates
            .max_by_key(|&r| (series[r].arrival[k], std::cmp::Reverse(r)))
            .unwrap_or(0)
    };
    let mut rank = last_of(iterations - 1, &mut (0..ranks));
    let mut steps = Vec::with_capacity(iterations);
    for k in (0..iterations).rev() {
        let end = series[rank].arrival[k];
        let (from, begin) = if k == 0 {
            (rank, series[rank].begin[0].min(end))
        } else {
            let from = last_of(k - 1, &mut waits.of(rank));
            (from, series[from].arrival[k - 1].min(end))
        };
        steps.push(Step {
            iteration: k as u64,
            rank: Rank::new(rank as u32),
            released_by: Rank::new(from as u32),
            begin,
            end,
        });
        rank = from;
    }
    steps.reverse();
    steps
}

/// The rank that arrived last in every iteration, whether or not it is on the chain.
pub fn last_ranks(series: &[RankSeries]) -> Vec<u32> {
    let iterations = series.iter().map(|s| s.arrival.len()).min().unwrap_or(0);
    (0..iterations)
        .map(|k| {
            (0..series.len())
                .max_by_key(|&r| (series[r].arrival[k], std::cmp::Reverse(r)))
                .unwrap_or(0) as u32
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::needless_range_loop)] // Iteration and rank are indices of the recurrence.
mod tests {
    use super::*;
    use idlewave_run::Coupling;
    use proptest::prelude::*;

    /// Evaluates the recurrence t(r, k) = max over predecessors t(., k-1) + work(r, k).
    fn simulate(work: &[Vec<u64>], coupling: Coupling) -> (Vec<RankSeries>, WaitsFor) {
        let ranks = work.len();
        let waits = WaitsFor::new(coupling, &[], ranks);
        let mut series = vec![RankSeries::default(); ranks];
        for k in 0..work[0].len() {
            for r in 0..ranks {
                let ready = match k {
                    0 => 1000,
                    _ => waits.of(r).map(|j| series[j].arrival[k - 1]).max().unwrap(),
                };
                series[r].begin.push(ready);
                series[r].arrival.push(ready + work[r][k]);
            }
        }
        (series, waits)
    }

    #[test]
    fn with_a_barrier_the_chain_is_the_last_rank_of_every_iteration() {
        let (series, waits) = simulate(&[vec![10, 10, 30], vec![12, 9, 10]], Coupling::Barrier);
        let chain = chain(&series, &waits);
        let ranks: Vec<u32> = chain.iter().map(|s| s.rank.get()).collect();
        assert_eq!(ranks, [1, 0, 0]);
        assert_eq!(last_ranks(&series), [1, 0, 0]);
    }

    #[test]
    fn an_idle_wave_is_followed_back_to_its_origin() {
        // Rank 0 of 8 is late by 100 in iteration 1; the wave reaches rank 4 at iteration 5.
        let mut work = vec![vec![10; 6]; 8];
        work[0][1] += 100;
        let (series, waits) = simulate(&work, Coupling::Neighbours);
        assert_eq!(series[4].arrival[5], 1000 + 60 + 100);
        let chain = chain(&series, &waits);
        let late: Vec<(u64, u32)> = chain
            .iter()
            .filter(|s| s.end - s.begin > 10)
            .map(|s| (s.iteration, s.rank.get()))
            .collect();
        assert_eq!(late, [(1, 0)]);
    }

    #[test]
    fn one_rank_waits_for_nobody() {
        let (series, waits) = simulate(&[vec![5, 7]], Coupling::Neighbours);
        let chain = chain(&series, &waits);
        assert_eq!(chain.len(), 2);
        assert_eq!((chain[1].begin, chain[1].end), (1005, 1012));
    }

    proptest! {
        #[test]
        fn the_chain_covers_the_run_without_gap_or_overlap(
            work in proptest::collection::vec(proptest::collection::vec(1u64..1000, 12), 1..7),
            barrier in any::<bool>(),
        ) {
            let coupling = if barrier { Coupling::Barrier } else { Coupling::Neighbours };
            let (series, waits) = simulate(&work, coupling);
            let chain = chain(&series, &waits);
            let end = series.iter().map(|s| *s.arrival.last().unwrap()).max().unwrap();
            prop_assert_eq!(chain[0].begin, 1000);
            prop_assert_eq!(chain.last().unwrap().end, end);
            for pair in chain.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].begin);
                prop_assert_eq!(pair[0].rank, pair[1].released_by);
            }
            // In the model every link is exactly the work of its rank.
            for step in &chain {
                let own = work[step.rank.index()][step.iteration as usize];
                prop_assert_eq!(step.end - step.begin, own);
            }
        }
    }
}
