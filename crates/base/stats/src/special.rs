//! Special functions: log-gamma and error function of `libm`, incomplete gamma and beta.
//!
//! The last two are written here. What `statrs` 0.18 has, the last for our compiler, is off by 2 % for the
//! incomplete beta function at a = b = 1e6, and its quantiles of Student's t and of chi-squared fail for
//! probabilities of 1e-10 (docs/design/0018-kept-libraries.md).
//!
//! Source: Abramowitz and Stegun, *Handbook of Mathematical Functions*, chapters 6 and 26; the
//! continued fractions are evaluated by the method of Lentz. Relative error: a few 1e-14 for small
//! arguments, growing to 1e-9 for parameters of 1e6, where the leading factor loses digits.

pub use libm::{erf, erfc, lgamma as ln_gamma};
use std::f64::consts::LN_2;

/// Relative size of the last term that is added; a smaller one might never be reached.
const PRECISION: f64 = 1e-15;
/// Replaces a zero denominator in Lentz's method.
const TINY: f64 = 1e-300;

/// The number of terms needed near the mode grows with the square root of the parameter.
fn terms(parameter: f64) -> usize {
    200 + (20.0 * parameter.max(0.0).sqrt()) as usize
}

/// Regularised lower incomplete gamma function P(a, x), `a > 0`, `x >= 0`.
pub fn gamma_p(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x < a + 1.0 {
        gamma_series(a, x)
    } else {
        1.0 - gamma_fraction(a, x)
    }
}

/// Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), without cancellation in the
/// tail.
pub fn gamma_q(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        1.0
    } else if x < a + 1.0 {
        1.0 - gamma_series(a, x)
    } else {
        gamma_fraction(a, x)
    }
}

/// x^a e^-x / Gamma(a).
fn gamma_factor(a: f64, x: f64) -> f64 {
    (a * x.ln() - x - ln_gamma(a)).exp()
}

/// A&S 6.5.29.
fn gamma_series(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    let mut n = a;
    for _ in 0..terms(a) {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term < sum * PRECISION {
            break;
        }
    }
    sum * gamma_factor(a, x)
}

/// A&S 6.5.31.
fn gamma_fraction(a: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..=terms(a) {
        let numerator = -(i as f64) * (i as f64 - a);
        b += 2.0;
        d = 1.0 / away_from_zero(numerator * d + b);
        c = away_from_zero(b + numerator / c);
        h *= d * c;
        if (d * c - 1.0).abs() < PRECISION {
            break;
        }
    }
    h * gamma_factor(a, x)
}

fn away_from_zero(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

/// Regularised incomplete beta function I_x(a, b), `a, b > 0`, `0 <= x <= 1` (A&S 26.5.8).
pub fn beta_inc(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let factor =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The fraction converges fast on this side only.
    if x < (a + 1.0) / (a + b + 2.0) {
        factor * beta_fraction(a, b, x) / a
    } else {
        1.0 - factor * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for i in 1..=terms(a.max(b)) {
        let m = i as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            step = d * c;
            h *= step;
        }
        if (step - 1.0).abs() < PRECISION {
            break;
        }
    }
    h
}

/// Largest argument of `exp` that still gives a normal number.
pub(crate) const LN_SMALLEST: f64 = -1022.0 * LN_2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    fn close(got: f64, want: f64, relative: f64) {
        assert!(
            (got - want).abs() <= relative * want.abs(),
            "{got} is not {want}"
        );
    }

    #[test]
    fn gamma_of_whole_and_half_numbers_is_known_in_closed_form() {
        let mut factorial = 1.0_f64;
        for n in 1..30 {
            close(ln_gamma(n as f64).exp(), factorial, 1e-13);
            factorial *= n as f64;
        }
        close(ln_gamma(0.5), PI.sqrt().ln(), 1e-14);
        close(ln_gamma(2.5), (0.75 * PI.sqrt()).ln(), 1e-13);
    }

    #[test]
    fn error_function_follows_the_table_of_abramowitz_and_stegun() {
        close(erf(0.5), 0.520_499_877_813_046_5, 1e-14);
        close(erf(1.0), 0.842_700_792_949_714_9, 1e-14);
        close(erf(-2.0), -0.995_322_265_018_952_7, 1e-14);
        close(erfc(5.0), 1.537_459_794_428_035e-12, 1e-14);
        close(erfc(26.0), 5.663_192_408_856_143e-296, 1e-13);
        assert_eq!(erf(0.0), 0.0);
    }

    #[test]
    fn incomplete_gamma_of_a_whole_parameter_is_a_poisson_sum() {
        for (n, x) in [
            (3_u32, 1.5_f64),
            (10, 4.795),
            (10, 18.39),
            (40, 39.0),
            (40, 60.0),
        ] {
            let mut term = (-x).exp();
            let mut below = 0.0;
            for k in 0..n {
                below += term;
                term *= x / f64::from(k + 1);
            }
            close(gamma_q(f64::from(n), x), below, 1e-12);
            close(gamma_p(f64::from(n), x), 1.0 - below, 1e-10);
        }
    }

    #[test]
    fn incomplete_beta_is_symmetric_and_known_for_small_parameters() {
        close(beta_inc(1.0, 3.0, 0.2), 1.0 - 0.8_f64.powi(3), 1e-14);
        close(beta_inc(2.0, 2.0, 0.3), 3.0 * 0.09 - 2.0 * 0.027, 1e-14);
        close(beta_inc(1e6, 1e6, 0.5), 0.5, 1e-9);
        for (a, b, x) in [(2.5, 7.0, 0.4), (30.0, 4.0, 0.8), (500.0, 501.0, 0.49)] {
            close(beta_inc(a, b, x), 1.0 - beta_inc(b, a, 1.0 - x), 1e-11);
        }
    }
}
