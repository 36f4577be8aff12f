//! The expected maximum of one draw from each of several measured distributions: the length of a
//! step whose ranks wait for the slowest.
//!
//! Definition: with the empirical distribution functions F_1 to F_N of the ranks, the maximum of
//! one independent draw from each has the distribution function F_1 * ... * F_N, and its mean is
//! the sum over all measured values x of x times the product's increase at x. With N equal samples
//! of n values this is the sum over the sorted values t_i of t_i [(i/n)^N - ((i-1)/n)^N].
//!
//! Assumptions: the ranks' values are independent of each other. Disturbances that strike all ranks
//! in the same step make the true mean smaller. Bias: none, however many ranks and few values each
//! has, since the samples are independent: the mean of F_1 * ... * F_N over all samples is the true
//! product. One sample that stands for N ranks is another matter: its power F^N is too large, and
//! beyond a tenth of its values [`crate::extremes`] takes over.

/// The expected maximum of one independent draw from each of `samples`, in their unit. `None`
/// without samples, or if one is empty. The samples need not be sorted.
pub fn expected(samples: &[Vec<u64>]) -> Option<f64> {
    if samples.is_empty() || samples.iter().any(Vec::is_empty) {
        return None;
    }
    let mut all: Vec<(u64, u32)> = Vec::with_capacity(samples.iter().map(Vec::len).sum());
    for (rank, sample) in samples.iter().enumerate() {
        all.extend(sample.iter().map(|&value| (value, rank as u32)));
    }
    all.sort_unstable();
    let mut seen = vec![0_u64; samples.len()];
    let mut unseen = samples.len();
    // The product is kept as a logarithm: for many ranks it is tiny at first.
    let (mut log, mut before, mut mean) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut at = 0;
    while at < all.len() {
        let value = all[at].0;
        while at < all.len() && all[at].0 == value {
            let rank = all[at].1 as usize;
            let count = seen[rank];
            if count == 0 {
                unseen -= 1;
                log -= (samples[rank].len() as f64).ln();
            } else {
                log += (1.0 / count as f64).ln_1p();
            }
            seen[rank] = count + 1;
            at += 1;
        }
        if unseen == 0 {
            let product = log.exp().min(1.0);
            mean += value as f64 * (product - before);
            before = product;
        }
    }
    // What rounding left of the product's last increase.
    let largest = all.last().map_or(0, |last| last.0);
    Some(mean + largest as f64 * (1.0 - before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::normal_quantile;
    use crate::testing::Random;
    use proptest::prelude::*;

    fn grid(n: u32, quantile: impl Fn(f64) -> f64) -> Vec<u64> {
        let at = |i: u32| quantile((f64::from(i) + 0.5) / f64::from(n)).round() as u64;
        (0..n).map(at).collect()
    }

    #[test]
    fn of_coins_it_is_hand_arithmetic() {
        // Two fair coins of 10 and 20: three times in four one shows 20.
        assert_eq!(expected(&[vec![10, 20], vec![20, 10]]), Some(17.5));
        // A rank that is always later than the other determines the step.
        assert_eq!(expected(&[vec![1, 2, 3], vec![30, 40]]), Some(35.0));
        assert_eq!(expected(&[vec![5]]), Some(5.0));
        assert_eq!(expected(&[]), None);
        assert_eq!(expected(&[vec![1], vec![]]), None);
    }

    #[test]
    fn of_gaussians_it_is_the_published_expected_maximum() {
        let one = grid(20_000, |q| 1e6 + 1e5 * normal_quantile(q));
        for (ranks, deviations) in [(2, 0.5642), (16, 1.7660), (64, 2.3438)] {
            let mean = expected(&vec![one.clone(); ranks]).expect("samples");
            let got = (mean - 1e6) / 1e5;
            assert!((got - deviations).abs() < 0.003, "{ranks}: {got}");
        }
    }

    #[test]
    fn many_ranks_with_few_values_each_have_no_bias() {
        let harmonic: f64 = (1..=64).map(|i| 1.0 / f64::from(i)).sum();
        let mut random = Random::new(9);
        let runs = 500;
        let mut mean = |values: usize| {
            let one = |random: &mut Random| (1e6 * random.exponential(1.0)) as u64;
            let sum: f64 = (0..runs)
                .map(|_| {
                    let mut sample = || (0..values).map(|_| one(&mut random)).collect();
                    let samples: Vec<Vec<u64>> = (0..64).map(|_| sample()).collect();
                    expected(&samples).unwrap()
                })
                .sum();
            sum / f64::from(runs) / 1e6
        };
        // The standard deviation of the largest of 64 is 1.27, so the mean's is at most 0.057.
        for values in [1, 8] {
            let got = mean(values);
            assert!((got - harmonic).abs() < 0.17, "{values}: {got}");
        }
    }

    #[test]
    fn of_exponentials_it_is_the_harmonic_number() {
        let one = grid(200_000, |q| -1e6 * (1.0 - q).ln());
        let mean = expected(&vec![one; 4]).expect("samples");
        assert!((mean / 1e6 - (1.0 + 0.5 + 1.0 / 3.0 + 0.25)).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn of_equal_samples_it_is_the_closed_sum(
            mut values in prop::collection::vec(0_u64..1_000_000, 1..60), ranks in 1_usize..20,
        ) {
            values.sort_unstable();
            let n = values.len() as f64;
            let power = |i: usize| (i as f64 / n).powi(ranks as i32);
            let closed: f64 = values
                .iter()
                .enumerate()
                .map(|(i, &t)| t as f64 * (power(i + 1) - power(i)))
                .sum();
            let got = expected(&vec![values.clone(); ranks]).unwrap();
            prop_assert!((got - closed).abs() <= 1e-6 * closed.max(1.0), "{} {}", got, closed);
        }

        #[test]
        fn it_is_no_less_than_any_mean_and_no_more_than_the_largest_value(
            samples in prop::collection::vec(prop::collection::vec(0_u64..1_000_000, 1..30), 1..8),
        ) {
            let got = expected(&samples).unwrap();
            for sample in &samples {
                let mean = sample.iter().sum::<u64>() as f64 / sample.len() as f64;
                prop_assert!(got >= mean - 1e-6 * mean.max(1.0));
            }
            let largest = samples.iter().flatten().max().copied().unwrap() as f64;
            prop_assert!(got <= largest + 1e-6);
        }
    }
}
