//! Hypothesis tests: which ranks are last more often than chance allows; several tests at once.
//!
//! Definition: if all ranks are alike, the number of steps in which a given one of N ranks arrives
//! last is binomial with probability 1/N. Each rank's count is tested against the exact upper tail;
//! the false discovery rate over all ranks is held at 5 % by the procedure of Benjamini and
//! Hochberg.
//!
//! Assumptions: independent steps. A noise event that spans several steps, or a rank that stays
//! last because it was late once, breaks this: look at the run length of the same last rank too.
//! Bias: with dependent steps, too many ranks are flagged.
//!
//! Reference: Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995) 289.

use crate::distributions::binomial_upper_tail;

/// False discovery rate.
const RATE: f64 = 0.05;

/// Ranks that were last significantly more often than chance allows, in rising order;
/// `last_counts[r]` is how often rank `r` was last.
pub fn slow_ranks(last_counts: &[u64]) -> Vec<u32> {
    let ranks = last_counts.len();
    if ranks < 2 {
        return Vec::new();
    }
    let steps: u64 = last_counts.iter().sum();
    let chance = 1.0 / ranks as f64;
    let p: Vec<f64> = last_counts
        .iter()
        .map(|&count| binomial_upper_tail(count, steps, chance))
        .collect();
    let mut found: Vec<u32> = discoveries(&p, RATE)
        .into_iter()
        .map(|i| i as u32)
        .collect();
    found.sort_unstable();
    found
}

/// Indices of the hypotheses to reject so that the expected share of false rejections is at most
/// `rate`, smallest probability first (Benjamini and Hochberg).
pub fn discoveries(probabilities: &[f64], rate: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| {
        probabilities[a]
            .total_cmp(&probabilities[b])
            .then(a.cmp(&b))
    });
    let all = order.len() as f64;
    let rejected = order
        .iter()
        .enumerate()
        .rev()
        .find(|&(i, &h)| probabilities[h] <= rate * (i + 1) as f64 / all)
        .map_or(0, |(i, _)| i + 1);
    order.truncate(rejected);
    order
}

/// Probabilities of several tests, adjusted so that those below `x` hold at least one wrong
/// rejection with a probability of at most `x`, whatever the tests have to do with each other (Holm,
/// Scand. J. Stat. 6 (1979) 65).
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut largest = 0.0_f64;
    for (place, &test) in order.iter().enumerate() {
        let left = (probabilities.len() - place) as f64;
        largest = largest.max(left * probabilities[test]).min(1.0);
        adjusted[test] = largest;
    }
    adjusted
}

#[cfg(test)]
mod cases {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn the_example_of_benjamini_and_hochberg_rejects_four() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        assert_eq!(discoveries(&p, 0.05), [0, 1, 2, 3]);
    }

    #[test]
    fn the_example_of_holm_is_adjusted_step_by_step() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let got = holm(&[0.01, 0.04, 0.03, 0.005]);
        let want = [0.03, 0.06, 0.06, 0.02];
        assert!(
            got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12),
            "{got:?}"
        );
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_rank_that_is_last_twice_as_often_is_slow() {
        assert_eq!(slow_ranks(&[100, 95, 210, 105]), [2]);
        assert_eq!(slow_ranks(&[400, 100, 100, 380, 100, 90, 110, 101]), [0, 3]);
    }

    #[test]
    fn equal_counts_one_rank_and_no_step_flag_nobody() {
        assert!(slow_ranks(&[50, 50, 50, 50]).is_empty());
        assert!(slow_ranks(&[1000]).is_empty());
        assert!(slow_ranks(&[0, 0, 0]).is_empty());
        assert!(slow_ranks(&[]).is_empty());
    }

    #[test]
    fn like_ranks_are_flagged_in_one_run_of_twenty() {
        let mut random = Random::new(11);
        let flagged = (0..400)
            .filter(|_| {
                let mut counts = [0_u64; 16];
                for _ in 0..500 {
                    counts[(random.bits() % 16) as usize] += 1;
                }
                !slow_ranks(&counts).is_empty()
            })
            .count();
        assert!(flagged <= 34, "{flagged} of 400");
    }
}
