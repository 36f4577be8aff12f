//! Exponent of a power law, and where it holds.
//!
//! Definition: y = a x^b; b is the slope of ln y on ln x by least squares, its 95 % interval that of
//! Student's t with n - 2 degrees of freedom.
//!
//! Assumptions: the relative errors of all y are independent, normal and alike; those of x are
//! negligible. Bias: where the law does not hold over the whole range, b is a mean slope, and its
//! interval also contains the curvature.
//!
//! Reference: Draper and Smith, *Applied Regression Analysis*, 1998, chapter 1.

use crate::distributions::student_quantile;
use crate::estimate::Estimate;
use std::fmt;
use std::ops::Range;

/// Fewer points show no exponent.
const LEAST: usize = 4;
/// The largest x must be at least so many times the smallest.
const RANGE: f64 = 2.0;

/// Why there is no exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Too few points.
    Few,
    /// All x are nearly equal.
    Narrow,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Few => write!(f, "fewer than {LEAST} points are precise enough"),
            Unknown::Narrow => write!(f, "rates range over less than a factor of {RANGE}"),
        }
    }
}

/// Exponent of the law on which `points` lie, pairs of x and y in rising order of x, all above 0.
///
/// # Errors
/// Fewer than four points, or a range of x below a factor of two.
pub fn exponent(points: &[(f64, f64)]) -> Result<Estimate, Unknown> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(Unknown::Few);
    };
    if points.len() < LEAST {
        return Err(Unknown::Few);
    }
    if last.0 < RANGE * first.0 {
        return Err(Unknown::Narrow);
    }
    let n = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|p| (p.0.ln(), p.1.ln())).collect();
    let mean_x = logs.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = logs.iter().map(|p| p.1).sum::<f64>() / n;
    let spread: f64 = logs.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let joint: f64 = logs.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let slope = joint / spread;
    let off: f64 = logs
        .iter()
        .map(|p| (p.1 - mean_y - slope * (p.0 - mean_x)).powi(2))
        .sum();
    let degrees = n - 2.0;
    let half = student_quantile(0.975, degrees) * (off / degrees / spread).sqrt();
    Ok(Estimate {
        value: slope,
        low: slope - half,
        high: slope + half,
        n: points.len() as u64,
        method: "slope of logarithms, least squares, Student's t, 95 %".to_owned(),
    })
}

/// The most points in a row whose exponent certainly lies between `low` and `high`, the first such
/// if there are several.
pub fn holds(points: &[(f64, f64)], low: f64, high: f64) -> Option<Range<usize>> {
    for length in (LEAST..=points.len()).rev() {
        for from in 0..=points.len() - length {
            let found = exponent(&points[from..from + length]);
            if found.is_ok_and(|e| low <= e.low && e.high <= high) {
                return Some(from..from + length);
            }
        }
    }
    None
}

#[cfg(test)]
mod cases {
    use super::*;
    use crate::testing::Random;

    fn points(law: impl FnMut(f64) -> f64) -> Vec<(f64, f64)> {
        let xs = (0..9).map(|i| 1e-3 * f64::from(1 << i));
        let ys = xs.clone().map(law);
        xs.zip(ys).collect()
    }

    #[test]
    fn an_exact_law_has_its_exponent_and_no_uncertainty() {
        for b in [-1.0, 0.5, 1.0] {
            let found = exponent(&points(|x| 3.0 * x.powf(b))).unwrap();
            assert!((found.value - b).abs() < 1e-12, "{found:?}");
            assert!(found.high - found.low < 1e-9 && found.n == 9);
        }
    }

    #[test]
    fn the_interval_is_that_of_a_regression_by_hand() {
        // ln x = 0, 1, 2, 3; ln y = 0, 1, 1, 2: slope 0.6, squares of what is left 0.2, t = 4.303.
        let e = std::f64::consts::E;
        let data = [(1.0, 1.0), (e, e), (e * e, e), (e * e * e, e * e)];
        let found = exponent(&data).unwrap();
        assert!((found.value - 0.6).abs() < 1e-12);
        let half = 4.302_653 * (0.2_f64 / 2.0 / 5.0).sqrt();
        assert!((found.high - 0.6 - half).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn a_law_that_changes_holds_up_to_there() {
        let mut random = Random::new(3);
        let data = points(|x| {
            let root = x.sqrt() * (0.01 * random.normal()).exp();
            // From 0.03 on each strike costs as much as the one before.
            root.max(x / 0.03_f64.sqrt())
        });
        let found = holds(&data, 0.4, 0.6).unwrap();
        assert_eq!(found.start, 0);
        assert!((5..=7).contains(&found.end), "{found:?}");
        assert_eq!(holds(&data[5..], 0.4, 0.6), None);
        assert_eq!(holds(&points(|x| x), 0.4, 0.6), None);
    }

    #[test]
    fn few_points_and_a_narrow_range_have_none() {
        let data = points(f64::sqrt);
        assert_eq!(exponent(&data[..3]), Err(Unknown::Few));
        assert_eq!(exponent(&[]), Err(Unknown::Few));
        let narrow: Vec<(f64, f64)> = (0..9).map(|i| (1.0 + 0.1 * f64::from(i), 1.0)).collect();
        let why = exponent(&narrow).unwrap_err().to_string();
        assert_eq!(why, "rates range over less than a factor of 2");
    }
}
