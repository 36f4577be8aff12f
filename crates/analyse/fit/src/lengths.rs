//! Lengths of events: those observed, and a law for the longest if there are enough.

use crate::arrivals::test;
use idlewave_noise::{GoodnessOfFit, Lengths, Tail};
use idlewave_run::NoiseSource;
use idlewave_stats::pareto;

/// Up to this many lengths are kept exactly.
const KEPT: usize = 512;
/// A tail is at most one in this many lengths.
const PART: usize = 4;
/// A tail extends to the length that is exceeded once in this many times the events observed.
const BEYOND: f64 = 1_000.0;
/// It is never extended beyond this many times the longest event observed: a law without a mean
/// would turn measured microseconds into seconds.
const LONGEST_TIMES: u64 = 10;

/// Lengths with their evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedLengths {
    /// The law.
    pub lengths: Lengths,
    /// Test of the tail, if there is one.
    pub test: Option<GoodnessOfFit>,
    /// What bounds the lengths, as a sentence without the full stop.
    pub why: String,
    /// Shape of the tail with its 95 % interval, if there is one.
    pub shape: Option<[f64; 3]>,
}

/// Fits lengths (nanoseconds, in any order); `missing` more events have length 0. `longest` is the
/// longest possible event.
pub fn lengths(mut values: Vec<u64>, missing: u64, longest: u64, seed: u64) -> FittedLengths {
    values.sort_unstable();
    let found = pareto::tail(&values, PART, |_| 1.0, seed);
    let below = match &found {
        Some(tail) => values.len() - tail.exceedances,
        None => values.len(),
    };
    let mut bins: Vec<[u64; 2]> = NoiseSource::bin_lengths(&values[..below], KEPT)
        .into_iter()
        .map(|b| [b.length_ns, b.count])
        .collect();
    if missing > 0 {
        match bins.first_mut() {
            Some(first) if first[0] == 0 => first[1] += missing,
            _ => bins.insert(0, [0, missing]),
        }
    }
    let Some(tail) = found else {
        let need = PART * pareto::LEAST;
        let why = match values.len() < need {
            true => format!("no length beyond the longest seen: a tail needs {need} events"),
            false => "no length beyond the longest seen: no tail fits".to_owned(),
        };
        let same = values.first() == values.last() && missing == 0;
        let lengths = match values.first() {
            Some(&ns) if same => Lengths::Fixed { ns },
            _ => Lengths::Empirical { bins, tail: None },
        };
        return FittedLengths {
            lengths,
            test: None,
            why,
            shape: None,
        };
    };
    let limit = tail.level(BEYOND * values.len() as f64, values.len());
    let seen = values.last().copied().unwrap_or(0);
    let most = longest.min(seen.saturating_mul(LONGEST_TIMES));
    let limit_ns = (limit.ceil() as u64).min(most).max(tail.threshold);
    let shape = [tail.law.shape, tail.shape.0, tail.shape.1];
    let what = format!(
        "lengths above {} ns are generalised Pareto, shape {:.2} ({:.2} to {:.2}), scale {:.0} ns ({:.0} to {:.0})",
        tail.threshold, shape[0], shape[1], shape[2], tail.law.scale, tail.scale.0, tail.scale.1
    );
    FittedLengths {
        lengths: Lengths::Empirical {
            bins,
            tail: Some(Tail {
                count: tail.exceedances as u64,
                threshold_ns: tail.threshold,
                scale_ns: tail.law.scale,
                shape: tail.law.shape,
                limit_ns: Some(limit_ns),
            }),
        },
        test: Some(test(what, "Anderson-Darling, simulated", tail.goodness)),
        why: format!(
            "the longest {} follow a generalised Pareto law of shape {:.2}, carried on to {}",
            tail.exceedances,
            tail.law.shape,
            idlewave_units::Nanos::from_nanos(limit_ns)
        ),
        shape: Some(shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lengths_are_kept_and_missing_events_have_none() {
        let found = lengths(vec![9, 3, 3], 2, 1_000, 1);
        let bins = vec![[0, 2], [3, 2], [9, 1]];
        assert_eq!(found.lengths, Lengths::Empirical { bins, tail: None });
        assert!(found.why.contains("needs 200"), "{}", found.why);
        assert_eq!(
            lengths(vec![7; 5], 0, 100, 1).lengths,
            Lengths::Fixed { ns: 7 }
        );
        let both = lengths(vec![0, 5], 3, 100, 1).lengths;
        let bins = vec![[0, 4], [5, 1]];
        assert_eq!(both, Lengths::Empirical { bins, tail: None });
    }

    #[test]
    fn a_tail_without_a_mean_ends_at_ten_times_the_longest_seen() {
        let law = pareto::Pareto {
            shape: 1.4,
            scale: 10_000.0,
        };
        let n = 2_000;
        let values: Vec<u64> = (0..n)
            .map(|i| 5_000 + law.quantile(1.0 - (f64::from(i) + 0.5) / f64::from(n)) as u64)
            .collect();
        let longest = *values.last().unwrap();
        let Lengths::Empirical {
            tail: Some(tail), ..
        } = lengths(values, 0, u64::MAX, 1).lengths
        else {
            panic!("no tail");
        };
        assert!(tail.shape > 1.0, "{tail:?}");
        assert_eq!(tail.limit_ns, Some(10 * longest));
    }

    #[test]
    fn a_heavy_tail_is_carried_on_to_a_stated_limit() {
        let law = pareto::Pareto {
            shape: 0.3,
            scale: 10_000.0,
        };
        let n = 2_000;
        let values: Vec<u64> = (0..n)
            .map(|i| 5_000 + law.quantile(1.0 - (f64::from(i) + 0.5) / f64::from(n)) as u64)
            .collect();
        let longest = *values.last().unwrap();
        let found = lengths(values, 0, u64::MAX, 1);
        let Lengths::Empirical {
            bins,
            tail: Some(tail),
        } = found.lengths
        else {
            panic!("{found:?}");
        };
        let seen: u64 = bins.iter().map(|b| b[1]).sum();
        assert_eq!(seen + tail.count, 2_000);
        assert!((tail.shape - 0.3).abs() < 0.05, "{tail:?}");
        // Exceeded once in 1,000 times 2,000 events: (2e6)^0.3 of the scale.
        let expected = 5_000.0 + 10_000.0 / 0.3 * (2e6_f64.powf(0.3) - 1.0);
        let limit = tail.limit_ns.unwrap();
        assert!(
            limit > longest && (limit as f64 / expected - 1.0).abs() < 0.3,
            "{limit} {expected}"
        );
        assert!(found.test.unwrap().p >= 0.1);
    }
}
