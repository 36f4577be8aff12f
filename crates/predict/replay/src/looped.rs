//! The loop of a rank: the block of phases that it repeats.
//!
//! The search for the period starts in the middle, where an iterating program is in its loop. It
//! tries the distances from the middle phase to the next phases equal to it, and takes the first
//! distance that makes the longest stretch repeat. The prologue, the epilogue and an incomplete
//! iteration are not part of the loop.

use crate::phases::{Phase, What};
use std::collections::BTreeMap;

/// At most this many phases after the middle are tried as the start of the next iteration.
const TRIED: usize = 64;
/// The loop must hold at least 1 / this of the phases.
const MOST_OUTSIDE: usize = 2;
/// Exchanges count as one if less computation than this separates them, or less than a twentieth of
/// the longest computation.
const TOGETHER_NS: u64 = 1_000;
const TOGETHER_PART: u64 = 20;

/// A loop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Looped {
    /// The phases of one iteration.
    pub phases: Vec<LoopPhase>,
    /// Number of iterations.
    pub steps: u64,
    /// From the start of its first call to the end of its last, nanoseconds.
    pub span_ns: u64,
}

/// A phase of a loop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoopPhase {
    pub what: What,
    /// Number of exchanges merged into it.
    pub parts: u32,
    pub work: Times,
    pub meanwhile: Times,
    /// Row of its first call in its first iteration.
    pub row: u32,
}

/// Mean and standard deviation over the iterations, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub spread: f64,
}

impl Times {
    fn of(all: impl Iterator<Item = u64> + Clone) -> Times {
        let n = all.clone().count().max(1) as f64;
        let mean = all.clone().map(|ns| ns as f64).sum::<f64>() / n;
        let squares: f64 = all.map(|ns| (ns as f64 - mean).powi(2)).sum();
        Times {
            mean,
            spread: (squares / (n - 1.0).max(1.0)).sqrt(),
        }
    }

    pub(crate) fn plus(self, other: Times) -> Times {
        Times {
            mean: self.mean + other.mean,
            spread: self.spread.hypot(other.spread),
        }
    }
}

/// The loop of a rank; `None` if no loop covers most of its phases.
pub(crate) fn looped(phases: &[Phase]) -> Option<Looped> {
    let mut numbers: BTreeMap<&What, u32> = BTreeMap::new();
    let all: Vec<u32> = phases
        .iter()
        .map(|phase| {
            let next = numbers.len() as u32;
            *numbers.entry(&phase.what).or_insert(next)
        })
        .collect();
    let (period, begin, length) = period(&all)?;
    let steps = length / period;
    let at = |place: usize| (0..steps).map(move |step| &phases[begin + step * period + place]);
    let body: Vec<LoopPhase> = (0..period)
        .map(|place| LoopPhase {
            what: phases[begin + place].what.clone(),
            parts: 1,
            // Skips the first work of the first iteration, which may include the prologue.
            work: Times::of(
                at(place)
                    .skip(usize::from(place == 0 && steps > 1))
                    .map(|p| p.work),
            ),
            meanwhile: Times::of(at(place).map(|p| p.meanwhile)),
            row: phases[begin + place].row,
        })
        .collect();
    let last = begin + steps * period - 1;
    Some(Looped {
        phases: rotated(body),
        steps: steps as u64,
        span_ns: phases[last].span.1 - phases[begin].span.0,
    })
}

/// Period, start and length of the part that repeats.
fn period(all: &[u32]) -> Option<(usize, usize, usize)> {
    let middle = all.len() / 2;
    let own = *all.get(middle)?;
    let again = (middle + 1..all.len()).filter(|&i| all[i] == own);
    let mut best: Option<(usize, usize, usize)> = None;
    for period in again.take(TRIED).map(|i| i - middle) {
        let same = |i: usize| all[i] == all[i + period];
        let begin = (0..middle)
            .rev()
            .take_while(|&i| same(i))
            .last()
            .unwrap_or(middle);
        let end = (middle..all.len() - period).take_while(|&i| same(i)).last();
        let length = end.map_or(middle, |e| e + 1) + period - begin;
        if best.is_none_or(|(_, _, most)| length > most + period) {
            best = Some((period, begin, length));
        }
    }
    best.filter(|&(period, _, length)| length >= 2 * period && length * MOST_OUTSIDE >= all.len())
}

/// Rotates a loop to start with its longest computation (the first on a tie), so that the loops of
/// all ranks start alike.
fn rotated(mut body: Vec<LoopPhase>) -> Vec<LoopPhase> {
    let longest = body.iter().map(|p| p.work.mean).fold(0.0, f64::max);
    let first = body
        .iter()
        .position(|p| p.work.mean >= longest)
        .unwrap_or(0);
    body.rotate_left(first);
    body
}

/// Computation below this, in nanoseconds, does not separate exchanges of a loop.
pub(crate) fn brief(body: &[LoopPhase]) -> f64 {
    let longest = body.iter().map(|p| p.work.mean).fold(0.0, f64::max);
    (TOGETHER_NS as f64).max(longest / TOGETHER_PART as f64)
}

/// Merges consecutive exchanges; `parts` is not empty.
pub(crate) fn merged(parts: &[LoopPhase]) -> LoopPhase {
    let mut all = parts[0].clone();
    for part in &parts[1..] {
        let What::Exchange { sends, receives } = &part.what else {
            continue;
        };
        if let What::Exchange {
            sends: s,
            receives: r,
        } = &mut all.what
        {
            s.extend(sends);
            r.extend(receives);
            all.parts += part.parts;
            all.meanwhile = all.meanwhile.plus(part.work).plus(part.meanwhile);
        }
    }
    all
}

/// Merges exchanges that only brief computation separates.
pub(crate) fn together(body: Vec<LoopPhase>) -> Vec<LoopPhase> {
    let limit = brief(&body);
    let exchanges = |p: &LoopPhase| matches!(p.what, What::Exchange { .. });
    let groups = body.chunk_by(|a, b| exchanges(a) && exchanges(b) && b.work.mean < limit);
    groups.map(merged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_period_is_that_of_the_picture() {
        // Prologue 9, iterations 1 2 2 3, epilogue 7.
        let mut all = vec![9, 9];
        for _ in 0..5 {
            all.extend([1, 2, 2, 3]);
        }
        all.push(7);
        assert_eq!(period(&all), Some((4, 2, 20)));
        assert_eq!(period(&[1, 2, 3, 4]), None);
        assert_eq!(period(&[]), None);
        assert_eq!(period(&[5; 8]), Some((1, 0, 8)));
        // Most phases must be in the loop.
        assert_eq!(period(&[1, 2, 3, 4, 4, 5, 6, 7, 8]), None);
    }

    #[test]
    fn a_loop_begins_with_its_longest_computation_and_brief_ones_join_exchanges() {
        let phase = |work: f64, row| LoopPhase {
            what: What::Exchange {
                sends: vec![(row, 8)],
                receives: Vec::new(),
            },
            parts: 1,
            work: Times {
                mean: work,
                spread: 0.0,
            },
            meanwhile: Times::default(),
            row,
        };
        let body = [(200.0, 0), (9_000.0, 1), (999.0, 2), (1_000.0, 3)].map(|(w, r)| phase(w, r));
        let found = together(rotated(body.to_vec()));
        let rows: Vec<(u32, u32)> = found.iter().map(|p| (p.row, p.parts)).collect();
        assert_eq!(rows, [(1, 2), (3, 2)]);
        assert_eq!(found[1].meanwhile.mean, 200.0);
    }

    proptest! {
        #[test]
        fn a_loop_is_found_whatever_is_around_it(
            body in proptest::collection::vec(0u32..4, 1..9),
            times in 3usize..20, before in 0usize..4, after in 0usize..4,
        ) {
            let mut all: Vec<u32> = (100..).take(before).collect();
            for _ in 0..times {
                all.extend(&body);
            }
            all.extend((200..).take(after));
            let inside = body.len() * times;
            prop_assume!(all.len() / 2 + body.len() < before + inside && all.len() / 2 >= before);
            prop_assume!(2 * inside >= all.len());
            let (period, begin, length) = period(&all).unwrap();
            prop_assert!(body.len() % period == 0, "{period} of {body:?}");
            prop_assert_eq!((begin, length), (before, inside));
        }
    }
}
