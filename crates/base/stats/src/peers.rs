//! Which of many alike differ from their peers: nodes of a cluster, CPUs of nodes.
//!
//! Definition: `distance` is that of a value from the median of all, in robust standard deviations:
//! 1.4826 times the median absolute deviation (MAD), or the median standard error of the values if
//! that is larger. A value is an outlier if the lower end of its own 95 % interval is farther above
//! the median than the quantile of Student's t for the level of one comparison. The degrees of
//! freedom are 0.37 (n - 1): the MAD tells as much as a standard deviation of that many values.
//!
//! Assumptions: values of equal peers are about normal (transform them first: counts by their square
//! root, times by their logarithm), and fewer than half differ. Bias: since the interval and the
//! spread both contain the error of a measurement, false alarms are rarer than the level says.
//!
//! Reference: Rousseeuw and Croux, *Alternatives to the median absolute deviation*, JASA 88, 1993
//! (efficiency of 37 %); Davies and Gather, *The identification of multiple outliers*, JASA 88, 1993
//! (outliers by median and MAD, level shared among all comparisons).

use crate::distributions::{normal_quantile, student_quantile};
use crate::quantiles::median_of;

/// The fewest peers among which one can be an outlier.
pub const LEAST: usize = 5;
/// From MAD to standard deviation, for normal values.
const NORMAL: f64 = 1.4826;
/// Efficiency of the MAD for normal values.
const EFFICIENCY: f64 = 0.37;

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The value; larger is worse.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A value among its peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Distance from the median of all, in robust standard deviations; infinite if all others are
    /// equal and known exactly.
    pub distance: f64,
    /// Whether it is worse than its peers.
    pub is_outlier: bool,
}

/// Median of all values, and each of them compared with it; `None` of fewer than [`LEAST`].
/// `level`: probability of a false alarm of one comparison, above 0.
pub fn compare(all: &[Measured], level: f64) -> Option<(f64, Vec<Compared>)> {
    if all.len() < LEAST {
        return None;
    }
    let median = median_of(&all.iter().map(|m| m.value).collect::<Vec<_>>())?;
    let off: Vec<f64> = all.iter().map(|m| (m.value - median).abs()).collect();
    // Half of a 95 % interval is so many standard errors.
    let wide = 2.0 * normal_quantile(0.975);
    let errors: Vec<f64> = all.iter().map(|m| (m.high - m.low) / wide).collect();
    let spread = (NORMAL * median_of(&off)?).max(median_of(&errors)?);
    let most = student_quantile(1.0 - level, EFFICIENCY * (all.len() - 1) as f64);
    let distance = |value: f64| match value - median {
        0.0 => 0.0,
        off => off / spread,
    };
    let compared = all.iter().map(|m| Compared {
        distance: distance(m.value),
        is_outlier: distance(m.low) > most,
    });
    Some((median, compared.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn exact(value: f64) -> Measured {
        Measured {
            value,
            low: value,
            high: value,
        }
    }

    #[test]
    fn the_distance_is_that_of_median_and_mad() {
        let all = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 103.0].map(exact);
        let (median, compared) = compare(&all, 0.05).unwrap();
        assert_eq!(median, 4.0);
        // Deviations 3, 2, 1, 0, 1, 2, 99: their median is 2.
        assert!((compared[6].distance - 99.0 / (1.4826 * 2.0)).abs() < 1e-9);
        assert_eq!(compared[3].distance, 0.0);
        let outliers: Vec<bool> = compared.iter().map(|c| c.is_outlier).collect();
        assert_eq!(outliers, [false, false, false, false, false, false, true]);
        // The same value, known badly, is none.
        let mut all = all;
        all[6].low = 5.0;
        assert!(!compare(&all, 0.05).unwrap().1[6].is_outlier);
        assert_eq!(compare(&all[..4], 0.05), None);
    }

    #[test]
    fn equal_peers_have_no_outlier_whatever_their_number() {
        let (_, compared) = compare(&[exact(2.0); 9], 0.01).unwrap();
        assert!(compared.iter().all(|c| !c.is_outlier && c.distance == 0.0));
    }

    /// Random peers, each known to its own standard error: at most one run in twenty has an alarm.
    #[test]
    fn one_run_in_twenty_at_most_has_a_false_alarm() {
        let mut random = Random::new(7);
        for (nodes, runs) in [(5, 400), (16, 400), (1_000, 200)] {
            let mut alarms = 0;
            for _ in 0..runs {
                // Half of the spread is between nodes, half is the error of the measurement.
                let all: Vec<Measured> = (0..nodes)
                    .map(|_| {
                        let value = random.normal() + random.normal();
                        Measured {
                            value,
                            low: value - 1.96,
                            high: value + 1.96,
                        }
                    })
                    .collect();
                let (_, compared) = compare(&all, 0.05 / f64::from(nodes)).unwrap();
                alarms += u32::from(compared.iter().any(|c| c.is_outlier));
            }
            assert!(alarms <= runs / 20, "{alarms} of {runs} with {nodes} nodes");
        }
    }
}
