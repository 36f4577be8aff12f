//! Display of estimates: three significant digits and a suitable unit.
//!
//! Summaries, tables, advice and page use these functions; `assets/page.js` of the report repeats
//! them for the page's plots. A number that is not finite is a dash.

use crate::grouped;

/// A slow-down above this is shown as a factor: 1000 %, that is, eleven times as long.
const MOST_PERCENT: f64 = 10.0;

/// Three significant digits: `0.0123`, `1.23`, `21.3`, `1234`. Powers of ten replace leading zeros
/// and are used from a million on.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if !v.is_finite() => return "-".to_owned(),
        0.0 => 0,
        v if !(0.000_999_5..999_500.0).contains(&v) => return format!("{value:.2e}"),
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.099_95 => 3,
        v if v >= 0.009_995 => 4,
        _ => 5,
    };
    format!("{value:.decimals$}")
}

/// Nanoseconds in a suitable unit: `2.50 ns`, `21.3 us`, `1.40 ms`, `61.0 s`. Whole numbers below 1
/// us have no decimals, like [`crate::Nanos`].
pub fn time(ns: f64) -> String {
    match ns.abs() {
        a if !a.is_finite() => "-".to_owned(),
        a if a < 999.5 && ns.fract() == 0.0 => format!("{ns:.0} ns"),
        a if a < 999.5 => format!("{} ns", digits(ns)),
        _ => scaled(ns / 1e3, ["us", "ms", "s"]),
    }
}

/// Seconds, like [`time`].
pub fn seconds(s: f64) -> String {
    time(s * 1e9)
}

/// Three significant digits in the first unit in which it is less than 1000; each unit is 1000
/// times the one before.
pub(crate) fn scaled<const N: usize>(mut value: f64, units: [&str; N]) -> String {
    let mut unit = units.first().copied().unwrap_or_default();
    // 999.5 rounds to four digits, so the next unit is used.
    for next in units.into_iter().skip(1) {
        if value.abs() < 999.5 {
            break;
        }
        value /= 1e3;
        unit = next;
    }
    format!("{} {unit}", digits(value))
}

/// A share in percent: 0.0123 is `1.23 %`. A value other than zero never reads as zero; there are
/// at most three decimals.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent.abs() {
        p if !p.is_finite() => return "-".to_owned(),
        0.0 => 0,
        p if p < 0.001 && percent < 0.0 => return ">-0.001 %".to_owned(),
        p if p < 0.001 => return "<0.001 %".to_owned(),
        p if p < 0.0995 => 3,
        p if p < 9.995 => 2,
        p if p < 99.95 => 1,
        p if p < 999_500.0 => 0,
        _ => return format!("{percent:.2e} %"),
    };
    format!("{percent:.decimals$} %")
}

/// A share close to 1, with the digits that distinguish it from 1: `99.87 %`.
pub fn efficiency(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Two shares with one sign of percent: `3.06..5.58 %`.
pub fn percent_range(low: f64, high: f64) -> String {
    format!("{}..{}", percent(low).trim_end_matches(" %"), percent(high))
}

/// A factor: `x1.82`.
pub fn factor(times: f64) -> String {
    match times.is_finite() {
        true => format!("x{}", digits(times)),
        false => "-".to_owned(),
    }
}

/// A slow-down s: in percent up to 1000 %, above as the factor 1 + s: 147.33 is `x148`.
pub fn slowdown(s: f64) -> String {
    slowdown_beside(s, s)
}

/// An end of the interval of the slow-down `value`: a factor if `value` is shown as one.
pub fn slowdown_beside(value: f64, end: f64) -> String {
    match value > MOST_PERCENT {
        true => factor(1.0 + end),
        false => percent(end),
    }
}

/// The interval of the slow-down `value`: `3.06..5.58 %` or `x141..x155`.
pub fn slowdown_range(value: f64, low: f64, high: f64) -> String {
    match value > MOST_PERCENT {
        true => format!("{}..{}", factor(1.0 + low), factor(1.0 + high)),
        false => percent_range(low, high),
    }
}

/// A part of the slow-down `whole`: in multiples of the undisturbed time if `whole` is shown as a
/// factor, so that the two subtract.
pub fn slowdown_part(whole: f64, part: f64) -> String {
    match whole > MOST_PERCENT {
        true => factor(part),
        false => percent(part),
    }
}

/// The interval of a part of the slow-down `whole`.
pub fn slowdown_part_range(whole: f64, low: f64, high: f64) -> String {
    match whole > MOST_PERCENT {
        true => format!("{}..{}", factor(low), factor(high)),
        false => percent_range(low, high),
    }
}

/// Relative difference of a value from another one, to a hundredth of a percent at most: `+1.23 %`,
/// `-4.00 %`; above 1000 % as a factor.
pub fn change(share: f64) -> String {
    match share.abs() {
        a if a < 0.000_05 => "0 %".to_owned(),
        a if a < 0.000_995 => format!("{:+.2} %", share * 100.0),
        _ if share > 0.0 && share <= MOST_PERCENT => format!("+{}", percent(share)),
        _ => slowdown(share),
    }
}

/// A count for display, in sentences and in tables: `950`, `72,330`, `123 k`, `1.05 M`.
pub fn count(count: u64) -> String {
    match count {
        0..100_000 => grouped(count),
        _ => count_f64(count as f64),
    }
}

/// The same for a number that may be a rate.
pub fn count_f64(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() || v < 999.5 && value.fract() != 0.0 => digits(value),
        v if v < 9_999.5 && value < 0.0 => format!("-{}", grouped(v.round() as u64)),
        v if v < 9_999.5 => grouped(v.round() as u64),
        _ => scaled(value / 1e3, ["k", "M", "G"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;
    use proptest::prelude::*;

    #[test]
    fn times_move_to_the_next_unit_where_they_round_to_it() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (2.5, "2.50 ns"),
            (999.0, "999 ns"),
            (999.4, "999 ns"),
            (999.5, "1.00 us"),
            (9_994.0, "9.99 us"),
            (9_995.0, "10.0 us"),
            (99_950.0, "100 us"),
            (999_499.0, "999 us"),
            (999_500.0, "1.00 ms"),
            (-1_500.0, "-1.50 us"),
            (-0.25, "-0.250 ns"),
            (61e9, "61.0 s"),
            (5e12, "5000 s"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
        }
        assert_eq!(seconds(0.000_999_5), "1.00 ms");
    }

    #[test]
    fn digits_are_three() {
        for (value, text) in [
            (0.0, "0"),
            (9.994, "9.99"),
            (9.995_1, "10.0"),
            (99.96, "100"),
            (1_234.0, "1234"),
            (0.851_2, "0.851"),
            (0.012_34, "0.0123"),
            (0.001_234, "0.00123"),
            (0.000_012, "1.20e-5"),
            (-21.34, "-21.3"),
            (1_234_567.0, "1.23e6"),
            (f64::NEG_INFINITY, "-"),
        ] {
            assert_eq!(digits(value), text, "{value}");
        }
    }

    #[test]
    fn a_share_that_is_not_zero_never_reads_as_zero() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.000_001, "<0.001 %"),
            (-0.000_001, ">-0.001 %"),
            (0.000_5, "0.050 %"),
            (0.0123, "1.23 %"),
            (0.099_9, "9.99 %"),
            (0.099_96, "10.0 %"),
            (0.5, "50.0 %"),
            (1.0, "100 %"),
            (-0.04, "-4.00 %"),
            (123.4, "12340 %"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(percent(share), text, "{share}");
        }
        assert_eq!(percent_range(-0.01, 0.0558), "-1.00..5.58 %");
    }

    #[test]
    fn a_slow_down_above_1000_percent_is_a_factor() {
        for (s, text) in [
            (0.0432, "4.32 %"),
            (-0.01, "-1.00 %"),
            (0.0, "0 %"),
            (10.0, "1000 %"),
            (10.01, "x11.0"),
            (44.41, "x45.4"),
            (89.49, "x90.5"),
            (147.33, "x148"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(slowdown(s), text, "{s}");
        }
    }

    #[test]
    fn an_interval_has_the_form_of_its_value() {
        assert_eq!(slowdown_range(147.33, 9.0, 200.0), "x10.0..x201");
        assert_eq!(slowdown_range(9.0, 3.0, 20.0), "300..2000 %");
        assert_eq!(slowdown_beside(147.33, 140.0), "x141");
        assert_eq!(slowdown_beside(0.02, 0.03), "3.00 %");
        assert_eq!(slowdown_part(89.49, 40.2), "x40.2");
        assert_eq!(slowdown_part(0.5, 0.1), "10.0 %");
        assert_eq!(slowdown_part_range(89.49, 38.0, 42.0), "x38.0..x42.0");
        assert_eq!(slowdown_part_range(0.5, 0.1, 0.2), "10.0..20.0 %");
    }

    #[test]
    fn a_change_has_a_sign_or_is_a_factor() {
        for (share, text) in [
            (0.05, "+5.00 %"),
            (-0.05, "-5.00 %"),
            (0.0, "0 %"),
            (-0.000_02, "0 %"),
            (0.000_28, "+0.03 %"),
            (10.0, "+1000 %"),
            (111.23, "x112"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(change(share), text, "{share}");
        }
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(count(42), "42");
        assert_eq!(count(99_999), "99,999");
        assert_eq!(count(1_234_567), "1.23 M");
        assert_eq!(count_f64(274.0), "274");
        assert_eq!(count_f64(0.5), "0.500");
        assert_eq!(count_f64(1_234.4), "1,234");
        assert_eq!(count_f64(-9_999.0), "-9,999");
        assert_eq!(count_f64(9_999.5), "10.0 k");
    }

    proptest! {
        #[test]
        fn whole_nanoseconds_read_as_durations_do(ns in 0u64..4_000_000_000_000) {
            prop_assert_eq!(time(ns as f64), Nanos::from_nanos(ns).to_string());
        }
    }
}
