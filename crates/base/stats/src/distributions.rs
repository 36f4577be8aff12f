//! Normal, chi-squared, Student and binomial distributions, and the expected maximum of normals.
//!
//! Quantiles are found by bisection of the distribution function, which is slow (microseconds) but
//! always converges. Probabilities are in `0..=1`; a quantile of 0 or 1 is the end of the support,
//! possibly infinite.

use crate::special::{LN_SMALLEST, beta_inc, erfc, gamma_p, gamma_q, ln_gamma};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Standard normal distribution function.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x * FRAC_1_SQRT_2)
}

/// Quantile of the standard normal distribution.
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile_lower(1.0 - p);
    }
    normal_quantile_lower(p)
}

fn normal_quantile_lower(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    bisect(-40.0, 0.0, |x| normal_cdf(x) < p)
}

/// Quantile of the chi-squared distribution with `degrees` > 0 degrees of freedom.
pub fn chi2_quantile(p: f64, degrees: f64) -> f64 {
    if p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let half = 0.5 * degrees;
    let below = |x: f64| {
        if p < 0.5 {
            gamma_p(half, 0.5 * x) < p
        } else {
            gamma_q(half, 0.5 * x) > 1.0 - p
        }
    };
    let mut high = degrees + 10.0;
    while below(high) {
        high *= 2.0;
    }
    bisect(0.0, high, below)
}

/// Distribution function of Student's t with `degrees` > 0 degrees of freedom.
pub fn student_cdf(t: f64, degrees: f64) -> f64 {
    let square = t * t;
    // Near the middle the first ratio is 1 except for rounding; in the tails the integral of the
    // other one is.
    let tail = match square < 1.0 {
        true => 0.5 - 0.5 * beta_inc(0.5, 0.5 * degrees, square / (degrees + square)),
        false => 0.5 * beta_inc(0.5 * degrees, 0.5, degrees / (degrees + square)),
    };
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// Quantile of Student's t with `degrees` > 0 degrees of freedom.
pub fn student_quantile(p: f64, degrees: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 {
        return -student_quantile(1.0 - p, degrees);
    }
    let mut low = -10.0;
    while student_cdf(low, degrees) > p {
        low *= 2.0;
    }
    bisect(low, 0.0, |t| student_cdf(t, degrees) < p)
}

/// Probability of at most `k` successes in `n` trials that succeed with probability `p`.
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        1.0
    } else {
        beta_inc((n - k) as f64, k as f64 + 1.0, 1.0 - p)
    }
}

/// Probability of at least `k` successes in `n` trials that succeed with probability `p`.
pub fn binomial_upper_tail(k: u64, n: u64, p: f64) -> f64 {
    if k == 0 {
        1.0
    } else if k > n {
        0.0
    } else {
        beta_inc(k as f64, (n - k) as f64 + 1.0, p)
    }
}

/// Natural logarithm of [`binomial_upper_tail`], also where the tail itself underflows.
///
/// Far in the tail (k well above n p) the sum is bounded from above by its first term over 1 minus
/// the ratio of the first two, so the evidence is never overstated.
pub fn ln_binomial_upper_tail(k: u64, n: u64, p: f64) -> f64 {
    if k == 0 {
        return 0.0;
    }
    if k > n {
        return f64::NEG_INFINITY;
    }
    let (kf, nf) = (k as f64, n as f64);
    let first = ln_gamma(nf + 1.0) - ln_gamma(kf + 1.0) - ln_gamma(nf - kf + 1.0)
        + kf * p.ln()
        + (nf - kf) * (-p).ln_1p();
    if first > 0.9 * LN_SMALLEST {
        return binomial_upper_tail(k, n, p).ln();
    }
    let ratio = (nf - kf) / (kf + 1.0) * p / (1.0 - p);
    if ratio < 1.0 {
        first - (-ratio).ln_1p()
    } else {
        0.0
    }
}

/// Expected maximum of `n` >= 1 independent standard normals, by quadrature of n x phi(x)
/// Phi(x)^(n-1).
///
/// Simpson's rule around the mode, relative error below 1e-6 up to n = 1e12. The often quoted
/// sqrt(2 ln n) is 12 % too high at n = 8192.
pub fn expected_max_normal(n: u64) -> f64 {
    if n <= 1 {
        return 0.0;
    }
    let rest = n as f64 - 1.0;
    let ln_n = (n as f64).ln();
    let density = |x: f64| {
        let ln_phi = -0.5 * x * x - 0.5 * (2.0 * PI).ln();
        let ln_cdf = (-normal_cdf(-x)).ln_1p();
        (ln_n + ln_phi + rest * ln_cdf).exp()
    };
    let (low, high, steps) = (-9.0, 14.0, 4600);
    let h = (high - low) / f64::from(steps);
    let sum: f64 = (0..=steps)
        .map(|i| {
            let x = low + h * f64::from(i);
            let weight = if i == 0 || i == steps {
                1.0
            } else {
                f64::from(2 + 2 * (i % 2))
            };
            weight * x * density(x)
        })
        .sum();
    sum * h / 3.0
}

/// The point where `below` turns from true to false in `low..high`.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
        if high - low < 1e-14 * high.abs().max(low.abs()) {
            break;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(got: f64, want: f64, absolute: f64) {
        assert!((got - want).abs() <= absolute, "{got} is not {want}");
    }

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        close(normal_quantile(0.975), 1.959_963_984_540_054, 1e-12);
        close(normal_quantile(0.001), -3.090_232_306_167_813, 1e-12);
        close(student_quantile(0.975, 1.0), 12.706_204_736, 1e-8);
        close(student_quantile(0.975, 19.0), 2.093_024_054, 1e-8);
        close(student_quantile(0.025, 10.0), -2.228_138_852, 1e-8);
        close(chi2_quantile(0.95, 1.0), 3.841_458_821, 1e-8);
        close(chi2_quantile(0.025, 20.0), 9.590_777_392, 1e-8);
        close(chi2_quantile(0.975, 22.0), 36.780_712_084, 1e-8);
    }

    #[test]
    fn quantiles_far_in_the_tail_are_those_of_closed_forms() {
        let p = 1e-10;
        // With one degree of freedom it is the Cauchy distribution.
        let cauchy = -1.0 / (PI * p).tan();
        close(student_quantile(p, 1.0) / cauchy, 1.0, 1e-9);
        close(chi2_quantile(p, 2.0) / (-2.0 * (-p).ln_1p()), 1.0, 1e-9);
        // The first term of the series of P(1/4, x/2): what follows is smaller by the factor x / 10.
        let first = 2.0 * (p * ln_gamma(1.25).exp()).powi(4);
        close(chi2_quantile(p, 0.5) / first, 1.0, 1e-9);
    }

    #[test]
    fn expected_maximum_of_normals_matches_the_published_vectors() {
        for (n, want) in [
            (2, 0.5642),
            (16, 1.7660),
            (64, 2.3438),
            (256, 2.8269),
            (1024, 3.2483),
            (4096, 3.6261),
            (8192, 3.8023),
            (16_384, 3.9714),
            (65_536, 4.2912),
            (262_144, 4.5903),
            (1_000_000, 4.8629),
        ] {
            close(expected_max_normal(n), want, 1e-4);
        }
        close(expected_max_normal(2), 1.0 / PI.sqrt(), 1e-9);
        close(expected_max_normal(3), 1.5 / PI.sqrt(), 1e-9);
    }

    #[test]
    fn student_is_exact_near_its_middle() {
        // The density at 0 of many degrees of freedom, times 1e-8: 3.989e-9 for 2000, less 1/8000
        // of it.
        let density = (1.0 - 1.0 / 8000.0) / (2.0 * std::f64::consts::PI).sqrt();
        close(student_cdf(1e-8, 2000.0) - 0.5, density * 1e-8, 1e-15);
        let (p, degrees) = (0.49998980086094863, 1202.4298264219256);
        close(student_cdf(student_quantile(p, degrees), degrees), p, 1e-14);
    }

    #[test]
    fn binomial_tails_match_counting() {
        // 10 coin tosses: 1, 10, 45 of 1024 outcomes.
        close(binomial_cdf(2, 10, 0.5), 56.0 / 1024.0, 1e-14);
        close(binomial_upper_tail(9, 10, 0.5), 11.0 / 1024.0, 1e-14);
        close(
            ln_binomial_upper_tail(10, 10, 0.5),
            -10.0 * 2.0_f64.ln(),
            1e-12,
        );
        let all = ln_binomial_upper_tail(5000, 5000, 1.0 / 3.0);
        close(all, -5000.0 * 3.0_f64.ln(), 1e-6);
        assert_eq!(binomial_upper_tail(0, 10, 0.1), 1.0);
        assert_eq!(binomial_upper_tail(11, 10, 0.1), 0.0);
    }

    proptest! {
        #[test]
        fn quantile_and_distribution_function_are_inverse(p in 0.0001_f64..0.9999, degrees in 1.0_f64..2000.0) {
            prop_assert!((normal_cdf(normal_quantile(p)) - p).abs() < 1e-12);
            prop_assert!((student_cdf(student_quantile(p, degrees), degrees) - p).abs() < 1e-10);
            prop_assert!((gamma_p(0.5 * degrees, 0.5 * chi2_quantile(p, degrees)) - p).abs() < 1e-10);
        }

        #[test]
        fn both_binomial_tails_add_up_to_one(n in 1_u64..5000, k in 0_u64..5000, p in 0.001_f64..0.999) {
            prop_assume!(k < n);
            let sum = binomial_cdf(k, n, p) + binomial_upper_tail(k + 1, n, p);
            prop_assert!((sum - 1.0).abs() < 1e-9);
        }
    }
}
