//! A straight line through times, fitted by relative errors.

use idlewave_stats::distributions::student_quantile;

/// A weighted straight line, y = base + slope x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    pub base: f64,
    /// Always positive; `None` if the points give no such slope.
    pub slope: Option<f64>,
    /// Half-widths of the 95 % intervals; unknown for two points, which a line always fits.
    pub base_half: Option<f64>,
    pub slope_half: Option<f64>,
}

impl Line {
    /// A line without a slope, whose scatter is unknown.
    pub fn flat(base: f64) -> Line {
        Line {
            base,
            slope: None,
            base_half: None,
            slope_half: None,
        }
    }

    /// Weights are 1 / y^2. `None` without points; no slope if all abscissas are equal, or if slope
    /// or base would not be positive.
    pub fn through(points: &[(f64, f64)]) -> Option<Line> {
        let least = points.iter().map(|p| p.1).min_by(f64::total_cmp)?;
        let flat = Line::flat(least);
        let weighted = |f: &dyn Fn(&(f64, f64)) -> f64| -> f64 {
            points.iter().map(|p| f(p) / (p.1 * p.1)).sum()
        };
        let w = weighted(&|_| 1.0);
        let (x, y) = (weighted(&|p| p.0) / w, weighted(&|p| p.1) / w);
        let xx = weighted(&|p| (p.0 - x).powi(2));
        if points.len() < 2 || xx <= 0.0 {
            return Some(flat);
        }
        let slope = weighted(&|p| (p.0 - x) * (p.1 - y)) / xx;
        let base = y - slope * x;
        if slope <= 0.0 || base <= 0.0 {
            return Some(flat);
        }
        let free = points.len() as f64 - 2.0;
        let t = (points.len() > 2).then(|| {
            let off = weighted(&|p| (p.1 - base - slope * p.0).powi(2));
            (off / free).sqrt() * student_quantile(0.975, free)
        });
        Some(Line {
            base,
            slope: Some(slope),
            base_half: t.map(|t| t * (1.0 / w + x * x / xx).sqrt()),
            slope_half: t.map(|t| t / xx.sqrt()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_on_a_line_give_it_back_and_leave_no_doubt() {
        let points: Vec<(f64, f64)> = [0.0, 7.0, 1_023.0, 65_535.0]
            .map(|x| (x, 1_000.0 + 0.25 * x))
            .to_vec();
        let line = Line::through(&points).unwrap();
        assert!((line.base - 1_000.0).abs() < 1e-6);
        assert!((line.slope.unwrap() - 0.25).abs() < 1e-9);
        assert!(line.base_half.unwrap() < 1e-6 && line.slope_half.unwrap() < 1e-9);
        // A line fits any two points: their scatter is unknown.
        let line = Line::through(&points[..2]).unwrap();
        assert_eq!((line.base_half, line.slope_half), (None, None));
    }

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // Near-equal times have equal weights. Above 1e6, (0,10), (1,12), (2,11) have slope 0.5,
        // base 10.5 and squared residuals that add up to 1.5.
        let points = [(0.0, 1e6 + 10.0), (1.0, 1e6 + 12.0), (2.0, 1e6 + 11.0)];
        let line = Line::through(&points).unwrap();
        assert!((line.slope.unwrap() - 0.5).abs() < 1e-3);
        let t = student_quantile(0.975, 1.0);
        assert!((line.slope_half.unwrap() / (t * (1.5_f64 / 2.0).sqrt()) - 1.0).abs() < 1e-3);
        let base = t * (1.5_f64 * (1.0 / 3.0 + 1.0 / 2.0)).sqrt();
        assert!((line.base_half.unwrap() / base - 1.0).abs() < 1e-3);
    }

    #[test]
    fn all_lengths_count_alike_relatively() {
        let points = [
            (0.0, 1_000.0),
            (1_000.0, 2_100.0),
            (1e6, 9.5e5),
            (2e6, 2.2e6),
        ];
        let line = Line::through(&points).unwrap();
        let slope = line.slope.unwrap();
        // The normal equations of the relative residuals.
        let sum = |f: &dyn Fn(f64) -> f64| -> f64 {
            points
                .iter()
                .map(|&(x, y)| f(x) * (y - line.base - slope * x) / (y * y))
                .sum()
        };
        assert!(
            sum(&|_| 1.0).abs() < 1e-9 && sum(&|x| x).abs() < 1e-6,
            "{line:?}"
        );
    }

    #[test]
    fn one_length_or_longer_messages_that_are_faster_give_no_slope() {
        assert_eq!(Line::through(&[]), None);
        for points in [&[(4.0, 50.0)][..], &[(0.0, 90.0), (9.0, 50.0)]] {
            let line = Line::through(points).unwrap();
            assert_eq!((line.base, line.slope), (50.0, None));
        }
    }
}
