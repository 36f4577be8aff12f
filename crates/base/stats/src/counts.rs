//! Counts of events in successive windows: do they vary like those of a Poisson process, and how
//! long are they correlated?
//!
//! Definition: the index of dispersion is the variance of the counts over their mean, 1 for a
//! Poisson process; the sum of squares over the mean is then chi-squared with one degree of freedom
//! less than the number of windows. The correlation time is the width of a window times 1 + 2 sum
//! of the autocorrelations up to the first that is not above 2 / sqrt(windows).
//!
//! Assumptions: windows with 5 events or more on average. Bias: a trend counts as dispersion and as
//! correlation.
//!
//! Reference: Cox and Lewis, *The Statistical Analysis of Series of Events*, 1966, sections 4.5 and
//! 6.3.

use crate::exponential_fit::Tested;
use crate::special::gamma_q;

/// Tests whether counts vary more than those of a Poisson process; the statistic is the index of
/// dispersion. `None` with fewer than 2 windows or without events.
pub fn dispersion(counts: &[u64]) -> Option<Tested> {
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / n;
    if counts.len() < 2 || mean <= 0.0 {
        return None;
    }
    let squares: f64 = counts.iter().map(|&c| (c as f64 - mean).powi(2)).sum();
    Some(Tested {
        statistic: squares / (n - 1.0) / mean,
        p: gamma_q(0.5 * (n - 1.0), 0.5 * squares / mean),
    })
}

/// Correlation time of counts, in windows; at least 1.
pub fn correlation_time(counts: &[u64]) -> f64 {
    let n = counts.len();
    let mean = counts.iter().sum::<u64>() as f64 / n.max(1) as f64;
    let off: Vec<f64> = counts.iter().map(|&c| c as f64 - mean).collect();
    let variance: f64 = off.iter().map(|o| o * o).sum();
    if variance <= 0.0 {
        return 1.0;
    }
    let band = 2.0 / (n as f64).sqrt();
    let sum: f64 = (1..n / 4)
        .map(|lag| off.iter().zip(&off[lag..]).map(|(a, b)| a * b).sum::<f64>() / variance)
        .take_while(|&r| r > band)
        .sum();
    1.0 + 2.0 * sum
}

/// Counts of `times` in `windows` equal parts of `0..span`; times at or beyond `span` count in the
/// last one. `windows` is above 0.
pub fn in_windows(times: impl IntoIterator<Item = u64>, span: u64, windows: usize) -> Vec<u64> {
    let mut counts = vec![0; windows];
    for t in times {
        let at = u128::from(t) * windows as u128 / u128::from(span.max(1));
        counts[(at as usize).min(windows - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod cases {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn dispersion_by_hand() {
        // Mean 2, squares 4 + 0 + 4: chi-squared 4 with 2 degrees, exp(-2).
        let seen = dispersion(&[0, 2, 4]).unwrap();
        assert!((seen.statistic - 2.0).abs() < 1e-12);
        assert!((seen.p - (-2.0_f64).exp()).abs() < 1e-9);
        assert_eq!(dispersion(&[3]), None);
        assert_eq!(dispersion(&[0, 0]), None);
    }

    #[test]
    fn a_poisson_process_has_index_one_and_no_memory_and_bursts_have_both() {
        let mut random = Random::new(2);
        let times = random.events(20_000, 1_000_000_000);
        let counts = in_windows(times, 1_000_000_000, 1_000);
        let seen = dispersion(&counts).unwrap();
        assert!(
            (seen.statistic - 1.0).abs() < 0.15 && seen.p > 0.01,
            "{seen:?}"
        );
        assert!(correlation_time(&counts) < 1.3);
        let bursts: Vec<u64> = (0..1_000)
            .map(|i| if i / 20 % 2 == 0 { 40 } else { 0 })
            .collect();
        assert!(dispersion(&bursts).unwrap().p < 1e-9);
        // The autocorrelation of this square wave falls linearly from 1 to 0 over 10 windows: 1 + 2
        // * 4.5.
        let time = correlation_time(&bursts);
        assert!((8.5..11.5).contains(&time), "{time}");
        assert_eq!(correlation_time(&[5, 5, 5]), 1.0);
    }

    #[test]
    fn times_fall_into_their_windows() {
        assert_eq!(in_windows([0, 24, 25, 99, 100, 500], 100, 4), [2, 1, 0, 3]);
    }
}
