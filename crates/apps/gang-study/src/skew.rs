//! How far apart the ranks of a program go on after a thaw.

use crate::bench::Trial;
use crate::case::{Case, Program};
use idlewave_measure::RankSteps;
use idlewave_run::findings::Estimate;
use idlewave_stats::quantiles;

/// Ends of gaps within this time belong to one thaw.
const ONE_THAW: u64 = 5_000_000;

/// The time between the first and the last rank of a program to resume after another program's
/// turn, over all thaws that all its ranks saw. `None`: no program had to wait for another's turn.
/// A program that is switched alone stands still for less time than a busy machine takes from it
/// anyway.
pub fn skew(case: &Case, trials: &[Trial]) -> Option<(Estimate, Estimate)> {
    let slice = case.treatment.slice().filter(|_| case.programs.len() > 1)?;
    // Turns of yielding gangs are shorter; other interruptions of ranks are shorter still.
    let least = slice.get() / 2;
    let mut all = Vec::new();
    let programs = trials
        .iter()
        .flat_map(|t| case.programs.iter().zip(&t.programs));
    for (program, seen) in programs {
        // The ends of steps of a millisecond cannot resolve shorter times.
        let (Some(steps), Program::Fine(_)) = (&seen.steps, program) else {
            continue;
        };
        all.extend(skews(&steps.ranks, least));
    }
    (!all.is_empty()).then(|| (quantiles::median(&all), quantiles::quantile(&all, 0.99)))
}

/// The skews of gaps of at least `least` nanoseconds.
fn skews(ranks: &[RankSteps], least: u64) -> Vec<u64> {
    if ranks.len() < 2 {
        return Vec::new();
    }
    let mut ends: Vec<(u64, usize)> = Vec::new();
    for (rank, steps) in ranks.iter().enumerate() {
        let waits = steps
            .gaps
            .iter()
            .filter(|(from, end)| end.saturating_sub(*from) >= least);
        ends.extend(waits.map(|(_, end)| (*end, rank)));
    }
    ends.sort_unstable();
    let mut skews = Vec::new();
    let mut from = 0;
    while let Some((first, _)) = ends.get(from) {
        let until = ends[from..]
            .iter()
            .position(|(end, _)| end - first > ONE_THAW);
        let group = &ends[from..until.map_or(ends.len(), |n| from + n)];
        let mut seen: Vec<usize> = group.iter().map(|(_, rank)| *rank).collect();
        seen.sort_unstable();
        seen.dedup();
        // A gap that not all ranks had was not a thaw; two gaps of one rank cannot be told apart.
        if seen.len() == ranks.len() && group.len() == ranks.len() {
            skews.push(group[group.len() - 1].0 - first);
        }
        from += group.len();
    }
    skews
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(gaps: &[(u64, u64)]) -> RankSteps {
        RankSteps {
            gaps: gaps.to_vec(),
            ..RankSteps::default()
        }
    }

    #[test]
    fn a_thaw_is_what_all_ranks_saw_within_a_short_time() {
        let ms = 1_000_000;
        let first = rank(&[(0, 100 * ms), (200 * ms, 300 * ms), (350 * ms, 400 * ms)]);
        let second = rank(&[(0, 100 * ms + 30_000), (200 * ms, 300 * ms - 70_000)]);
        let both = [first.clone(), second];
        assert_eq!(skews(&both, 10 * ms), [30_000, 70_000]);
        assert_eq!(skews(&both, 100 * ms - 50_000), [30_000]);
        assert!(skews(&[first], 0).is_empty());
        // Two gaps of one rank alone, one right after the other.
        let twice = rank(&[(0, 100 * ms), (100 * ms, 102 * ms)]);
        assert!(skews(&[twice, rank(&[])], 0).is_empty());
    }
}
