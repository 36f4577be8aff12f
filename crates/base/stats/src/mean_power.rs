//! Exponent of a power law of means: of costs that scatter widely, and may be negative.
//!
//! Definition: the expected cost of a window is a s x^b, where x is its rate and s a scale that is
//! known. a and b are those of a Poisson pseudo-likelihood with logarithmic link: costs need not be
//! counts, and their scatter need not be that of Poisson's law. The 95 % interval of b is that of
//! Student's t with n - 2 degrees of freedom; its standard error follows from what is left over in
//! each window, corrected for the window's leverage (HC3), so the scatter may depend on the rate.
//! Logarithms of costs are never taken: their mean would depend on the scatter, and windows that cost
//! nothing would have none.
//!
//! Assumptions: windows are independent, and the law holds over the whole range of rates. Bias: a
//! cost that does not depend on the rate makes b smaller; curvature gives a mean slope.
//!
//! References: Santos Silva and Tenreyro, Rev. Econ. Stat. 88 (2006) 641; MacKinnon and White,
//! J. Econometrics 29 (1985) 305.

use crate::distributions::student_quantile;
use crate::estimate::Estimate;
use std::fmt;

/// Fewer windows show no exponent.
pub const LEAST: usize = 40;
/// The 95th percentile of the rates must be at least so many times the 5th.
const RANGE: f64 = 2.0;
/// Exponents that are looked for.
const LARGEST: f64 = 8.0;
/// Halvings of the range of exponents: far below any interval.
const HALVINGS: u32 = 60;

/// A stretch of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its rate, not negative; windows of rate 0 are left out.
    pub rate: f64,
    /// What its cost is proportional to besides; above 0, and 1 if nothing is known.
    pub scale: f64,
    /// What it cost.
    pub cost: f64,
}

/// Why there is no exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Too few windows.
    Few,
    /// All rates are nearly equal.
    Narrow,
    /// Costs do not grow and fall with the rate in a way that any exponent describes.
    Unrelated,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Few => write!(f, "there are fewer than {LEAST} windows with noise"),
            Unknown::Narrow => {
                write!(
                    f,
                    "the rates of the windows differ by less than a factor of {RANGE}"
                )
            }
            Unknown::Unrelated => write!(f, "the cost does not grow with the rate"),
        }
    }
}

/// Exponent of the law.
///
/// # Errors
/// Fewer than 40 windows with noise, rates within a factor of two, or no solution.
pub fn exponent(windows: &[Window]) -> Result<Estimate, Unknown> {
    let windows: Vec<&Window> = windows.iter().filter(|w| w.rate > 0.0).collect();
    if windows.len() < LEAST {
        return Err(Unknown::Few);
    }
    let mut rates: Vec<f64> = windows.iter().map(|w| w.rate).collect();
    rates.sort_by(f64::total_cmp);
    let n = rates.len();
    if rates[n - 1 - n / 20] < RANGE * rates[n / 20] {
        return Err(Unknown::Narrow);
    }
    let middle = rates.iter().map(|r| r.ln()).sum::<f64>() / n as f64;
    // Logarithms of the rates, around their mean.
    let u: Vec<f64> = windows.iter().map(|w| w.rate.ln() - middle).collect();
    let cost: f64 = windows.iter().map(|w| w.cost).sum();
    let centre = windows.iter().zip(&u).map(|(w, u)| w.cost * u).sum::<f64>() / cost;
    let weight = |b: f64, i: usize| windows[i].scale * (b * u[i]).exp();
    // Mean of u under the law with exponent b: it rises with b.
    let mean = |b: f64| {
        let all = (0..n).map(|i| weight(b, i));
        let with = (0..n).map(|i| weight(b, i) * u[i]);
        with.sum::<f64>() / all.sum::<f64>()
    };
    if !(cost > 0.0 && mean(-LARGEST) < centre && centre < mean(LARGEST)) {
        return Err(Unknown::Unrelated);
    }
    let (mut low, mut high) = (-LARGEST, LARGEST);
    for _ in 0..HALVINGS {
        let b = 0.5 * (low + high);
        match mean(b) < centre {
            true => low = b,
            false => high = b,
        }
    }
    let b = 0.5 * (low + high);
    let all: f64 = (0..n).map(|i| weight(b, i)).sum();
    let expected: Vec<f64> = (0..n).map(|i| cost / all * weight(b, i)).collect();
    // Around the mean of u under the law, the two parameters are independent.
    let spread: f64 = expected
        .iter()
        .zip(&u)
        .map(|(e, u)| e * (u - centre).powi(2))
        .sum();
    let left = (0..n).map(|i| {
        let away = u[i] - centre;
        let leverage = expected[i] * (1.0 / cost + away * away / spread);
        let off = windows[i].cost - expected[i];
        (off * away / (1.0 - leverage).max(f64::MIN_POSITIVE)).powi(2)
    });
    let error = left.sum::<f64>().sqrt() / spread;
    let half = student_quantile(0.975, n as f64 - 2.0) * error;
    Ok(Estimate {
        value: b,
        low: b - half,
        high: b + half,
        n: n as u64,
        method: "Poisson pseudo-likelihood of the means, robust standard error, Student's t, 95 %"
            .to_owned(),
    })
}

#[cfg(test)]
mod cases {
    use super::*;
    use crate::testing::Random;

    fn windows(n: u32, mut cost: impl FnMut(f64) -> f64) -> Vec<Window> {
        (0..n)
            .map(|i| f64::from(1 + i * 7 % 16))
            .map(|rate| Window {
                rate,
                scale: 1.0,
                cost: cost(rate),
            })
            .collect()
    }

    #[test]
    fn an_exact_law_has_its_exponent_and_no_uncertainty() {
        for b in [-0.5, 0.5, 1.0, 2.0] {
            let found = exponent(&windows(200, |rate| 3.0 * rate.powf(b))).unwrap();
            assert!((found.value - b).abs() < 1e-9, "{found:?}");
            assert!(found.high - found.low < 1e-6 && found.n == 200);
        }
    }

    #[test]
    fn a_known_scale_that_rises_with_the_rate_is_no_part_of_the_exponent() {
        // Windows with more strikes have longer ones.
        let mut all = windows(200, |rate| rate.sqrt() * rate);
        assert!((exponent(&all).unwrap().value - 1.5).abs() < 1e-9);
        all.iter_mut().for_each(|w| w.scale = w.rate);
        assert!((exponent(&all).unwrap().value - 0.5).abs() < 1e-9);
    }

    #[test]
    fn widely_scattered_costs_of_either_sign_have_the_exponent_of_their_means() {
        let mut random = Random::new(5);
        let found = exponent(&windows(4_000, |rate| {
            rate.sqrt() * (1.0 + 2.0 * random.normal())
        }));
        let found = found.unwrap();
        assert!(found.low < 0.5 && 0.5 < found.high, "{found:?}");
        assert!((0.05..0.4).contains(&(found.high - found.low)), "{found:?}");
    }

    #[test]
    fn two_rates_give_the_ratio_of_their_means() {
        // Means 10 at rate 1 and 30 at rate 4: the exponent is ln 3 / ln 4.
        let window = |i: u32| {
            let (rate, mean) = if i % 2 == 0 { (1.0, 10.0) } else { (4.0, 30.0) };
            let cost = if i % 4 < 2 { 0.5 * mean } else { 1.5 * mean };
            Window {
                rate,
                scale: 1.0,
                cost,
            }
        };
        let found = exponent(&(0..80).map(window).collect::<Vec<_>>()).unwrap();
        assert!((found.value - 3_f64.ln() / 4_f64.ln()).abs() < 1e-9);
        // The slope of the logarithms of two means of 40 windows, with relative errors of 0.5 / sqrt(39)
        // each; HC3 makes them wider by the square root of 40 / 39.
        let error = (2.0_f64).sqrt() * 0.5 / 39_f64.sqrt() * (40.0_f64 / 39.0).sqrt() / 4_f64.ln();
        let half = student_quantile(0.975, 78.0) * error;
        assert!((found.high - found.value - half).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_shows_no_exponent_says_why() {
        assert_eq!(exponent(&windows(39, f64::sqrt)), Err(Unknown::Few));
        let mut none = windows(60, f64::sqrt);
        none.iter_mut().for_each(|w| w.rate = 0.0);
        assert_eq!(exponent(&none), Err(Unknown::Few));
        let mut narrow = windows(60, f64::sqrt);
        narrow.iter_mut().for_each(|w| w.rate = 10.0 + w.rate / 2.0);
        assert_eq!(exponent(&narrow), Err(Unknown::Narrow));
        assert_eq!(exponent(&windows(60, |_| 0.0)), Err(Unknown::Unrelated));
        assert_eq!(
            exponent(&windows(60, |rate| 8.0 - rate)),
            Err(Unknown::Unrelated)
        );
    }
}
