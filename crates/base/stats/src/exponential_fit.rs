//! Are values exponentially distributed? The Kolmogorov-Smirnov distance with Lilliefors'
//! correction.
//!
//! Definition: D is the largest distance between the empirical distribution function and that of
//! the exponential law with the mean of the values. Since the mean is estimated, D is smaller than
//! Kolmogorov's law predicts. Stephens' modified statistic (D - 0.2 / n) (sqrt n + 0.26 + 0.5 /
//! sqrt n) has nearly the same law for all n; its table here comes from a simulation of 400,000
//! samples of 400 values, and beyond the table ln p is a parabola.
//!
//! Assumptions: independent values without ties. Bias: the relative error of p is below a tenth
//! from n = 20 on; values rounded to much more than a thousandth of the mean make p too small.
//!
//! Reference: Lilliefors, J. Am. Stat. Assoc. 64 (1969) 387; Stephens, J. Am. Stat. Assoc. 69
//! (1974) 730.

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// The statistic.
    pub statistic: f64,
    /// Probability of a statistic at least this large if the law holds, 0..=1.
    pub p: f64,
}

/// Modified statistic and its probability of being exceeded.
const TABLE: [(f64, f64); 18] = [
    (0.3363, 0.999),
    (0.3946, 0.99),
    (0.4590, 0.95),
    (0.5003, 0.9),
    (0.5588, 0.8),
    (0.6068, 0.7),
    (0.6520, 0.6),
    (0.6980, 0.5),
    (0.7482, 0.4),
    (0.8057, 0.3),
    (0.8789, 0.2),
    (0.9267, 0.15),
    (0.9902, 0.1),
    (1.0896, 0.05),
    (1.1814, 0.025),
    (1.2926, 0.01),
    (1.3734, 0.005),
    (1.5370, 0.001),
];

/// Tests `sorted` values, 0 or more, in rising order. `None` with fewer than 5 values, or if all
/// are 0.
pub fn exponential(sorted: &[f64]) -> Option<Tested> {
    const LEAST: usize = 5;
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    if sorted.len() < LEAST || mean <= 0.0 {
        return None;
    }
    let mut distance = 0.0_f64;
    for (i, &x) in sorted.iter().enumerate() {
        let law = -(-x / mean).exp_m1();
        let (before, after) = (i as f64 / n, (i + 1) as f64 / n);
        distance = distance.max(law - before).max(after - law);
    }
    let modified = (distance - 0.2 / n) * (n.sqrt() + 0.26 + 0.5 / n.sqrt());
    Some(Tested {
        statistic: distance,
        p: exceeded(modified),
    })
}

/// Probability that the modified statistic exceeds `x`.
fn exceeded(x: f64) -> f64 {
    let after = TABLE.partition_point(|&(edge, _)| edge < x);
    if after == 0 {
        return 1.0;
    }
    let (x0, p0) = TABLE[after - 1];
    match TABLE.get(after) {
        Some(&(x1, p1)) => {
            let share = (x - x0) / (x1 - x0);
            (p0.ln() + share * (p1 / p0).ln()).exp()
        }
        // Like 2 exp(-2 x^2) of Kolmogorov's law, with the slope at the end of the table.
        None => p0 * (-2.4 * (x * x - x0 * x0)).exp(),
    }
}

/// Tests whether `sorted` values, all within 0..=1 and in rising order, are uniformly distributed:
/// the Kolmogorov-Smirnov distance with Stephens' correction for few values. `None` without values.
pub fn uniform(sorted: &[f64]) -> Option<Tested> {
    if sorted.is_empty() {
        return None;
    }
    let n = sorted.len() as f64;
    let mut distance = 0.0_f64;
    for (i, &x) in sorted.iter().enumerate() {
        distance = distance.max(x - i as f64 / n).max((i + 1) as f64 / n - x);
    }
    let x = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    Some(Tested {
        statistic: distance,
        p: kolmogorov(x),
    })
}

/// Probability that Kolmogorov's limit law exceeds `x`.
fn kolmogorov(x: f64) -> f64 {
    // Below this the series converges slowly, and the sum is 1 to 9 digits.
    if x < 0.3 {
        return 1.0;
    }
    let sum: f64 = (1..=100)
        .map(|k: i32| {
            let term = (-2.0 * f64::from(k * k) * x * x).exp();
            if k % 2 == 1 { term } else { -term }
        })
        .sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn the_table_has_the_published_percentage_points() {
        // Stephens 1974, table 1, exponential with estimated mean.
        for (x, p) in [
            (0.926, 0.15),
            (0.990, 0.10),
            (1.094, 0.05),
            (1.190, 0.025),
            (1.308, 0.01),
        ] {
            assert!(
                (exceeded(x) / p - 1.0_f64).abs() < 0.13,
                "{x}: {}",
                exceeded(x)
            );
        }
        assert_eq!(exceeded(0.1), 1.0);
        let (a, b) = (exceeded(1.537), exceeded(1.6039));
        assert!(a > b && (b / 5e-4 - 1.0).abs() < 0.25, "{b}");
        // Kolmogorov's own: 1.358 at 5 %, 1.628 at 1 %.
        assert!((kolmogorov(1.358) - 0.05).abs() < 2e-4);
        assert!((kolmogorov(1.628) - 0.01).abs() < 1e-4);
    }

    #[test]
    fn a_distance_by_hand() {
        // Mean 3, F = 0.2835, 0.4866, 0.6321, 0.7364, 0.8111: the second is 0.2 + 0.2866.
        let tested = exponential(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let law: f64 = 1.0 - (-2.0_f64 / 3.0).exp();
        assert!((tested.statistic - (law - 0.2)).abs() < 1e-12, "{tested:?}");
        let tested = uniform(&[0.25, 0.5, 0.75]).unwrap();
        assert!((tested.statistic - 0.25).abs() < 1e-12);
        assert_eq!(exponential(&[1.0; 4]), None);
        assert_eq!(exponential(&[0.0; 9]), None);
        assert_eq!(uniform(&[]), None);
    }

    #[test]
    fn exact_quantiles_fit_and_equal_gaps_do_not() {
        let n = 1_000;
        let values: Vec<f64> = (0..n)
            .map(|i| -(1.0 - (f64::from(i) + 0.5) / f64::from(n)).ln())
            .collect();
        assert!(exponential(&values).unwrap().p > 0.999);
        assert!(exponential(&[5.0; 100]).unwrap().p < 1e-6);
    }

    #[test]
    fn one_exponential_sample_of_twenty_is_refused_at_five_per_cent() {
        let mut random = Random::new(5);
        let mut refused = [0, 0];
        for _ in 0..2_000 {
            let mut gaps: Vec<f64> = (0..30).map(|_| random.exponential(7.0)).collect();
            gaps.sort_by(f64::total_cmp);
            refused[0] += u32::from(exponential(&gaps).unwrap().p < 0.05);
            let mut even: Vec<f64> = (0..30).map(|_| random.uniform()).collect();
            even.sort_by(f64::total_cmp);
            refused[1] += u32::from(uniform(&even).unwrap().p < 0.05);
        }
        // 100 expected, standard deviation 9.7.
        assert!(
            refused.iter().all(|r| (60..=140).contains(r)),
            "{refused:?}"
        );
    }
}
