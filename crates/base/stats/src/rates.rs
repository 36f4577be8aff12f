//! Rate of rare events with the exact Poisson interval.
//!
//! Definition: count over time; the interval is that of Garwood, from the chi-squared quantiles
//! chi2(2.5 %, 2n) / 2 and chi2(97.5 %, 2n + 2) / 2 over time. Without any event the interval is
//! one-sided: with 95 % confidence the rate is below -ln(0.05) / T = 2.996 / T ("none seen in 10 s"
//! only says "fewer than 0.3 per second").
//!
//! Assumptions: independent events at a constant rate. Bias: none in the rate; the interval covers
//! at least 95 %, but it is too narrow for events in bursts and too wide for periodic ones.
//!
//! Reference: Garwood, Biometrika 28 (1936) 437.

use crate::distributions::chi2_quantile;
use crate::estimate::Estimate;

/// Events per second from `count` events in `seconds` of watching, with 95 % interval.
///
/// If no time was watched, all numbers are zero and `method` says so.
pub fn poisson(count: u64, seconds: f64) -> Estimate {
    let estimate = |value, low, high, method: &str| Estimate {
        value,
        low,
        high,
        n: count,
        method: method.to_owned(),
    };
    if !(seconds > 0.0 && seconds.is_finite()) {
        return estimate(0.0, 0.0, 0.0, "no time watched");
    }
    let n = count as f64;
    if count == 0 {
        let high = 0.5 * chi2_quantile(0.95, 2.0) / seconds;
        return estimate(
            0.0,
            0.0,
            high,
            "no event seen, exact Poisson bound, 95 % one-sided",
        );
    }
    let low = 0.5 * chi2_quantile(0.025, 2.0 * n) / seconds;
    let high = 0.5 * chi2_quantile(0.975, 2.0 * n + 2.0) / seconds;
    estimate(
        n / seconds,
        low,
        high,
        "count over time, exact Poisson, 95 %",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ten_events_have_the_published_interval() {
        let got = poisson(10, 2.0);
        assert_eq!((got.value, got.n), (5.0, 10));
        assert!((got.low - 4.795 / 2.0).abs() < 3e-4, "{got:?}");
        assert!((got.high - 18.390 / 2.0).abs() < 3e-4, "{got:?}");
    }

    #[test]
    fn no_event_still_bounds_the_rate() {
        let got = poisson(0, 10.0);
        assert_eq!((got.value, got.low), (0.0, 0.0));
        assert!((got.high - 0.29957).abs() < 1e-5, "{got:?}");
    }

    #[test]
    fn no_time_gives_no_rate() {
        assert_eq!(poisson(3, 0.0).method, "no time watched");
    }

    #[test]
    fn a_million_events_are_within_the_normal_approximation() {
        let got = poisson(1_000_000, 1.0);
        assert!((got.low - (1e6 - 1959.5)).abs() < 5.0, "{got:?}");
        assert!((got.high - (1e6 + 1960.5)).abs() < 5.0, "{got:?}");
    }

    proptest! {
        #[test]
        fn interval_holds_the_rate_and_scales_with_time(count in 1_u64..3000, seconds in 0.01_f64..1e4) {
            let got = poisson(count, seconds);
            prop_assert!(got.low < got.value && got.value < got.high);
            let unit = poisson(count, 1.0);
            prop_assert!((got.high * seconds - unit.high).abs() < 1e-9 * unit.high);
        }
    }
}
