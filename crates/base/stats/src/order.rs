//! Does the slowest rank go round the ranks?
//!
//! Definition: for every lag up to a quarter of the steps, at most 64, and every shift, the pairs of
//! steps that lie a lag apart and whose slowest ranks differ by the shift, modulo the number of
//! ranks, are counted: an autocorrelation along rank and step. A count c is compared with the
//! number e expected of independent steps, by (c - e) / sqrt(e + 1). The largest value over all lags
//! and shifts is compared with those of random orders of the steps, so the error of all comparisons
//! together is held (Westfall and Young).
//!
//! 1. *Returns*, shift 0: the steps are put in any order.
//! 2. *Moves*, other shifts: stretches of steps with the same slowest rank are put in any order in
//!    which no two neighbours have the same rank. A rank that merely stays the slowest for a while
//!    is then no move. Orders are drawn by exchanging two stretches at a time.
//!
//! Of the patterns that are significant and weaker than the strongest by at most two standard
//! deviations, the one with the smallest lag is reported.
//!
//! Assumptions: under the null hypothesis steps, or stretches, could have come in any order; a
//! source that starts in the middle of the run breaks this. Only the middle 4,096 steps are looked
//! at. Bias: the share is that of the strongest of many patterns and too large where it is barely
//! significant; its interval is that of a pattern that was known before.
//!
//! Reference: Westfall and Young, *Resampling-Based Multiple Testing*, 1993; Besag and Clifford,
//! Biometrika 78 (1991) 301 (draws end once the probability is clearly large).

use crate::blocks;
use crate::estimate::Estimate;
use crate::random::SplitMix;

/// Fewer steps show no order.
const LEAST: usize = 64;
/// Most steps looked at.
const STEPS: usize = 4_096;
/// Most steps between those compared.
const LAGS: usize = 64;
/// Random orders at most.
const DRAWS: usize = 999;
/// Draws end when so many are as strong as what was found.
const EXCEEDED: usize = 20;
/// Exchanges of two stretches per stretch, from one random order to the next.
const EXCHANGES: usize = 4;
/// Share of random orders whose strongest pattern is weaker than a significant one.
const CRITICAL: f64 = 0.975;
/// Patterns weaker than the strongest by at most so many of its standard deviations count as equally
/// strong.
const AS_STRONG: f64 = 2.0;

/// In which order ranks are the slowest.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Steps looked at.
    pub steps: usize,
    /// Largest lag looked at.
    pub lags: usize,
    /// Another rank, by a fixed distance; `None` with fewer than three ranks.
    pub moves: Option<Pattern>,
    /// The same rank again.
    pub returns: Pattern,
}

/// Strongest pattern of its kind, significant or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Steps from one to the next.
    pub lag: usize,
    /// Ranks from one to the next, modulo the number of ranks: the smaller way round, negative if
    /// towards smaller ranks.
    pub shift: i64,
    /// Share of the steps after which the slowest rank is found there, 0..=1.
    pub share: Estimate,
    /// The same, if steps were independent.
    pub by_chance: f64,
    /// Probability of a pattern as strong, of any lag and shift, if there is no order.
    pub p: f64,
}

/// A pattern while it is looked for.
#[derive(Clone, Copy, Debug)]
struct Cell {
    lag: usize,
    shift: usize,
    count: u32,
    strength: f64,
}

/// The order of `slowest`, the slowest rank of every step, of `ranks` ranks. `None` with fewer than
/// 64 steps or two ranks, or if a rank is not below `ranks`.
pub fn order(slowest: &[u32], ranks: usize, seed: u64) -> Option<Order> {
    if slowest.len() < LEAST || ranks < 2 || slowest.iter().any(|&r| r as usize >= ranks) {
        return None;
    }
    let steps = slowest.len().min(STEPS);
    let from = (slowest.len() - steps) / 2;
    let slowest = &slowest[from..from + steps];
    let mut table = Table::new(slowest, ranks);
    let mut random = SplitMix::new(seed);
    let mut shuffled = slowest.to_vec();
    let returns = table.pattern(slowest, Kind::Returns, || {
        for i in (1..shuffled.len()).rev() {
            shuffled.swap(i, random.below(i as u64 + 1) as usize);
        }
        shuffled.clone()
    })?;
    let mut stretches = Stretches::of(slowest);
    let moves = match ranks {
        2 => None,
        _ => table.pattern(slowest, Kind::Moves, || {
            stretches.mix(&mut random);
            stretches.steps()
        }),
    };
    Some(Order {
        steps,
        lags: table.lags,
        moves,
        returns,
    })
}

/// Which shifts are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Returns,
    Moves,
}

/// What is expected of independent steps, and room for counting.
struct Table {
    ranks: usize,
    lags: usize,
    /// Probability of each shift between two steps.
    chance: Vec<f64>,
    counts: Vec<u32>,
    /// The steps as bytes, if ranks fit into those: sixteen are compared at a time.
    bytes: Vec<u8>,
}

/// At how many places two sequences are equal, up to the end of the shorter.
fn equal(a: &[u8], b: &[u8]) -> u32 {
    // A byte counts to 255.
    let parts = a.chunks(255).zip(b.chunks(255)).map(|(a, b)| {
        let same = a.iter().zip(b).map(|(a, b)| u8::from(a == b));
        u32::from(same.fold(0, u8::wrapping_add))
    });
    parts.sum()
}

impl Table {
    fn new(slowest: &[u32], ranks: usize) -> Self {
        let mut of_rank = vec![0_u32; ranks];
        for &rank in slowest {
            of_rank[rank as usize] += 1;
        }
        let struck: Vec<usize> = (0..ranks).filter(|&r| of_rank[r] > 0).collect();
        let mut chance = vec![0.0; ranks];
        for &a in &struck {
            for &b in &struck {
                let same = f64::from(u8::from(a == b));
                let pairs = f64::from(of_rank[a]) * (f64::from(of_rank[b]) - same);
                chance[(b + ranks - a) % ranks] += pairs;
            }
        }
        let n = slowest.len() as f64;
        chance.iter_mut().for_each(|c| *c /= n * (n - 1.0));
        Self {
            ranks,
            lags: LAGS.min(slowest.len() / 4),
            chance,
            counts: vec![0; ranks],
            bytes: Vec::new(),
        }
    }

    /// All patterns of a kind that occur in `slowest`, lag by lag.
    fn each(&mut self, slowest: &[u32], kind: Kind, mut found: impl FnMut(Cell)) {
        self.bytes.clear();
        if self.ranks <= 256 {
            self.bytes.extend(slowest.iter().map(|&rank| rank as u8));
        }
        for lag in 1..=self.lags {
            let pairs = (slowest.len() - lag) as f64;
            let cell = |shift: usize, count: u32, chance: f64| {
                let expected = pairs * chance;
                Cell {
                    lag,
                    shift,
                    count,
                    strength: (f64::from(count) - expected) / (expected + 1.0).sqrt(),
                }
            };
            let later = slowest.iter().zip(&slowest[lag..]);
            if kind == Kind::Returns {
                let same = match self.bytes.get(lag..) {
                    Some(later) => equal(&self.bytes, later),
                    None => later.filter(|(a, b)| a == b).count() as u32,
                };
                found(cell(0, same, self.chance[0]));
                continue;
            }
            let shift = |a: u32, b: u32| {
                let up = b as usize + if b < a { self.ranks } else { 0 };
                up - a as usize
            };
            for (&a, &b) in later.clone() {
                self.counts[shift(a, b)] += 1;
            }
            for (&a, &b) in later {
                let shift = shift(a, b);
                let count = std::mem::take(&mut self.counts[shift]);
                if shift > 0 && count > 0 {
                    found(cell(shift, count, self.chance[shift]));
                }
            }
        }
    }

    /// Strength of the strongest pattern.
    fn strongest(&mut self, slowest: &[u32], kind: Kind) -> f64 {
        let mut most = f64::NEG_INFINITY;
        self.each(slowest, kind, |cell| most = most.max(cell.strength));
        most
    }

    /// The pattern to report, tested against other orders of the steps; `None` if none occurs.
    fn pattern(
        &mut self,
        slowest: &[u32],
        kind: Kind,
        mut other_order: impl FnMut() -> Vec<u32>,
    ) -> Option<Pattern> {
        let mut cells = Vec::new();
        self.each(slowest, kind, |cell| cells.push(cell));
        let strongest = cells
            .iter()
            .copied()
            .reduce(|a, b| if b.strength > a.strength { b } else { a })?;
        let mut drawn = Vec::new();
        let mut as_strong = 0;
        while drawn.len() < DRAWS && as_strong < EXCEEDED {
            let strength = self.strongest(&other_order(), kind);
            as_strong += usize::from(strength >= strongest.strength);
            drawn.push(strength);
        }
        let p = match as_strong < EXCEEDED {
            true => (as_strong + 1) as f64 / (DRAWS + 1) as f64,
            false => as_strong as f64 / drawn.len() as f64,
        };
        drawn.sort_by(f64::total_cmp);
        let critical = drawn[(CRITICAL * drawn.len() as f64) as usize];
        let significant: Vec<Cell> = cells
            .into_iter()
            .filter(|c| c.strength > critical)
            .collect();
        let cell = self
            .plainest(&significant, slowest.len())
            .unwrap_or(strongest);
        let shift = match 2 * cell.shift > self.ranks {
            true => cell.shift as i64 - self.ranks as i64,
            false => cell.shift as i64,
        };
        Some(Pattern {
            lag: cell.lag,
            shift,
            share: share(slowest, self.ranks, cell.lag, shift),
            by_chance: self.chance[cell.shift],
            p,
        })
    }

    /// Of patterns in the order of their lags, the one that says the same as the strongest with the
    /// smallest lag: what moves on by 1 rank every 4 steps moves on by 2 ranks every 8.
    fn plainest(&self, patterns: &[Cell], steps: usize) -> Option<Cell> {
        let share = |c: &Cell| f64::from(c.count) / (steps - c.lag) as f64;
        let beyond_chance = |c: &Cell| share(c) - self.chance[c.shift];
        let stronger = |a: Cell, b: Cell| {
            if beyond_chance(&b) > beyond_chance(&a) {
                b
            } else {
                a
            }
        };
        let best = patterns.iter().copied().reduce(stronger)?;
        let of_best = share(&best);
        let uncertainty = (of_best * (1.0 - of_best) / (steps - best.lag) as f64).sqrt();
        let as_strong = beyond_chance(&best) - AS_STRONG * uncertainty;
        let first = patterns.iter().find(|&c| beyond_chance(c) >= as_strong)?;
        let near = patterns
            .iter()
            .filter(|c| c.shift == first.shift && (first.lag..2 * first.lag).contains(&c.lag));
        near.copied().reduce(stronger)
    }
}

/// Share of the steps after which the slowest rank is found `lag` >= 1 steps later and `shift` ranks
/// farther, modulo `ranks` >= 1. The interval is that of block means.
pub fn share(slowest: &[u32], ranks: usize, lag: usize, shift: i64) -> Estimate {
    let ranks = ranks.max(1) as i64;
    let later = slowest.iter().zip(slowest.iter().skip(lag));
    let is_there: Vec<f64> = later
        .map(|(&a, &b)| (i64::from(b) - i64::from(a) - shift).rem_euclid(ranks))
        .map(|off| f64::from(u8::from(off == 0)))
        .collect();
    let found = blocks::mean(&is_there, blocks::BLOCKS);
    Estimate {
        value: found.mean,
        low: (found.mean - found.half_width).max(0.0),
        high: (found.mean + found.half_width).min(1.0),
        n: is_there.len() as u64,
        method: format!("share of steps, means of {} blocks, 95 %", blocks::BLOCKS),
    }
}

/// Stretches of steps with the same slowest rank: rank and number of steps.
struct Stretches(Vec<(u32, usize)>);

impl Stretches {
    fn of(slowest: &[u32]) -> Self {
        let stretches = slowest.chunk_by(|a, b| a == b);
        Self(stretches.map(|s| (s[0], s.len())).collect())
    }

    fn steps(&self) -> Vec<u32> {
        let steps = self.0.iter();
        steps
            .flat_map(|&(r, n)| std::iter::repeat_n(r, n))
            .collect()
    }

    /// Exchanges stretches at random where no two neighbours get the same rank: all such orders
    /// become equally probable.
    fn mix(&mut self, random: &mut SplitMix) {
        let stretches = &mut self.0;
        let n = stretches.len();
        for _ in 0..EXCHANGES * n {
            let [i, j] = [(); 2].map(|()| random.below(n as u64) as usize);
            stretches.swap(i, j);
            let differs = |k: usize| {
                let own = stretches[k].0;
                (k == 0 || stretches[k - 1].0 != own)
                    && stretches.get(k + 1).is_none_or(|next| next.0 != own)
            };
            if !(differs(i) && differs(j)) {
                stretches.swap(i, j);
            }
        }
    }
}

#[cfg(test)]
mod cases {
    use super::*;
    use crate::testing::Random;

    /// Ranks at random, but for a share of the steps those of `planned`.
    fn planted(
        steps: usize,
        ranks: u64,
        share: f64,
        seed: u64,
        planned: impl Fn(u64) -> u64,
    ) -> Vec<u32> {
        let mut random = Random::new(seed);
        let rank = |step: u64| match random.uniform() < share {
            true => (planned(step) % ranks) as u32,
            false => (random.bits() % ranks) as u32,
        };
        (0..steps as u64).map(rank).collect()
    }

    fn moves_of(slowest: &[u32], ranks: usize, seed: u64) -> Pattern {
        let (mut stretches, mut random) = (Stretches::of(slowest), SplitMix::new(seed));
        let mut table = Table::new(slowest, ranks);
        let found = table.pattern(slowest, Kind::Moves, || {
            stretches.mix(&mut random);
            stretches.steps()
        });
        found.unwrap()
    }

    #[test]
    fn counts_and_expectations_are_those_made_by_hand() {
        // Shifts at lag 1: 1, 1, 1 (3 to 0 is 1 of 4), 0, 1; ranks 0 twice, 1, 2, 3 twice.
        let slowest = [1, 2, 3, 3, 0, 0];
        let mut table = Table::new(&slowest, 4);
        // Ordered pairs of steps whose ranks are equal: 3-3 and 0-0, each in two orders, of 30.
        assert_eq!(table.chance[0], 4.0 / 30.0);
        // From 0 to 1: 2, from 1 to 2: 1, from 2 to 3: 2, from 3 to 0: 4.
        assert_eq!(table.chance[1], 9.0 / 30.0);
        assert!((table.chance.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(table.lags, 1);
        let mut found = Vec::new();
        table.each(&slowest, Kind::Moves, |c| found.push(c));
        assert_eq!((found.len(), found[0].shift, found[0].count), (1, 1, 3));
        assert!((found[0].strength - 1.5 / 2.5_f64.sqrt()).abs() < 1e-12);
        found.clear();
        table.each(&slowest, Kind::Returns, |c| found.push(c));
        assert_eq!((found.len(), found[0].shift, found[0].count), (1, 0, 2));
    }

    #[test]
    fn returns_are_counted_alike_as_bytes_and_as_words() {
        for steps in [64, 300, 4_096] {
            // From 257 ranks on, words are compared.
            let slowest = planted(steps, 256, 0.5, 3, |step| step / 3);
            let [bytes, words] = [256, 257].map(|ranks| {
                let mut counts = Vec::new();
                let mut table = Table::new(&slowest, ranks);
                table.each(&slowest, Kind::Returns, |c| counts.push(c.count));
                counts
            });
            let first = slowest.windows(2).filter(|w| w[0] == w[1]).count();
            assert_eq!(bytes[0] as usize, first);
            assert_eq!(bytes, words);
        }
    }

    #[test]
    fn a_planted_drift_is_found_with_its_lag_and_shift() {
        for (ranks, share, lag, shift) in [
            (16_u64, 0.5, 1, 1_i64),
            (64, 0.3, 4, 1),
            (64, 0.4, 1, -3),
            (7, 0.9, 2, 3),
            (5_000, 0.3, 10, 17),
        ] {
            let slowest = planted(1_000, ranks, share, 4, |step| {
                let moved = step as i64 / lag * shift;
                moved.rem_euclid(ranks as i64) as u64
            });
            let moves = moves_of(&slowest, ranks as usize, 1);
            assert_eq!((moves.lag as i64, moves.shift), (lag, shift), "{moves:?}");
            assert!(moves.p <= 0.001, "{moves:?}");
            // Both steps follow the plan, or agree by chance.
            let truth = share * share + (1.0 - share * share) / ranks as f64;
            assert!((moves.share.value - truth).abs() < 0.04, "{moves:?}");
        }
    }

    #[test]
    fn strict_turns_of_two_ranks_return_after_two_steps() {
        let slowest: Vec<u32> = (0..200).map(|step| step % 2).collect();
        let found = order(&slowest, 2, 1).unwrap();
        assert_eq!((found.returns.lag, found.returns.shift), (2, 0));
        assert_eq!((found.returns.share.value, found.returns.p), (1.0, 0.001));
        assert_eq!(found.moves, None);
    }

    #[test]
    fn a_rank_that_stays_the_slowest_for_a_while_is_no_move() {
        let mut moves = 0;
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut rank = 0;
            let mut next = || {
                if random.uniform() < 0.1 {
                    rank = (random.bits() % 8) as u32;
                }
                rank
            };
            let slowest: Vec<u32> = (0..200).map(|_| next()).collect();
            moves += u32::from(moves_of(&slowest, 8, seed).p <= 0.05);
        }
        // Binomial with 100 draws of 5 %: at most 11 but for 1 case of 200.
        assert!(moves <= 11, "{moves}");
    }

    #[test]
    fn independent_steps_have_an_order_in_one_case_of_twenty() {
        // Ranks that are the slowest equally often, and ranks of which two are it most of the time.
        for uneven in [false, true] {
            let (mut moves, mut returns) = (0, 0);
            for seed in 0..200 {
                let mut random = Random::new(1_000 + seed);
                let slowest: Vec<u32> = (0..64)
                    .map(|_| match uneven && random.uniform() < 0.7 {
                        true => (random.bits() % 2) as u32,
                        false => (random.bits() % 6) as u32,
                    })
                    .collect();
                let found = order(&slowest, 6, seed).unwrap();
                moves += u32::from(found.moves.unwrap().p <= 0.05);
                returns += u32::from(found.returns.p <= 0.05);
            }
            // Binomial with 200 draws of 5 %: 3 to 19 but for 1 case of 200.
            assert!((3..=19).contains(&moves), "{moves} of 200, {uneven}");
            assert!((3..=19).contains(&returns), "{returns} of 200, {uneven}");
        }
    }

    #[test]
    fn orders_of_stretches_keep_them_and_are_equally_probable() {
        // Four stretches of ranks 0, 1, 0, 2: without equal neighbours there are 0102, 0201, 1020,
        // 2010, 0120, 0210; the two stretches of rank 0 differ, so each counts twice.
        let mut stretches = Stretches::of(&[0, 1, 0, 0, 2]);
        let mut random = SplitMix::new(5);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..12_000 {
            stretches.mix(&mut random);
            *seen.entry(stretches.steps()).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 12, "{seen:?}");
        // 1,000 each; the standard deviation is 30, and draws in a row are somewhat alike.
        assert!(seen.values().all(|&n| n.abs_diff(1_000) < 200), "{seen:?}");
    }

    #[test]
    fn many_steps_and_many_ranks_are_bounded() {
        let many = order(&planted(2_000_000, 2, 0.0, 3, |_| 0), 2, 1).unwrap();
        assert_eq!((many.steps, many.lags), (STEPS, LAGS));
        let wide = order(&planted(64, 60_000, 0.0, 3, |_| 0), 60_000, 1).unwrap();
        assert_eq!((wide.steps, wide.lags), (64, 16));
        assert_eq!(order(&[0; 63], 2, 1), None);
        assert_eq!(order(&[0; 64], 1, 1), None);
        assert_eq!(order(&[3; 64], 3, 1), None);
        // One rank throughout: nothing moves, and any order is the same.
        let one = order(&[1; 64], 3, 1).unwrap();
        assert_eq!((one.moves, one.returns.p), (None, 1.0));
    }
}
