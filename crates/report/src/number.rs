//! How numbers and foreign names are written: three significant digits, always with a unit, ASCII only.

use idlewave_units::Nanos;

/// A duration estimated in nanoseconds, which may carry a fraction: "2.5 ns", "21.3 us". Written as
/// [`idlewave_units::Nanos`] writes itself, but rounded once only.
pub(crate) fn time_f64(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    let magnitude = ns.abs();
    if magnitude < 999.5 {
        return format!("{sign}{} ns", three_digits(magnitude));
    }
    format!("{sign}{}", Nanos::scaled_text(magnitude))
}

/// Three significant digits without needless zeros: 0.05, 1.23, 21.3, 850, 12345.
pub(crate) fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        m if m >= 99.95 || m == 0.0 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        m if m >= 0.1 => 3,
        m if m >= 0.01 => 4,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A share of 1 as a percentage: 0.0123 is "1.23 %"; what is not zero never reads as zero.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 0.001 {
        return "<0.001 %".to_owned();
    }
    if percent.abs() >= 9999.5 {
        return format!("{} %", count_f64(percent));
    }
    let decimals = match percent.abs() {
        p if p >= 99.95 || p == 0.0 => 0,
        p if p >= 9.995 => 1,
        p if p >= 0.0995 => 2,
        _ => 3,
    };
    format!("{percent:.decimals$} %")
}

/// A count as a person reads it: 950, 12.3 k, 1.05 M.
pub(crate) fn count(count: u64) -> String {
    if count < 100_000 {
        count.to_string()
    } else {
        count_f64(count as f64)
    }
}

/// The same for a number that may be a rate.
pub(crate) fn count_f64(value: f64) -> String {
    match value.abs() {
        v if v < 9_999.5 => three_digits(value),
        v if v < 999.5e3 => format!("{} k", three_digits(value / 1e3)),
        v if v < 999.5e6 => format!("{} M", three_digits(value / 1e6)),
        _ => format!("{} G", three_digits(value / 1e9)),
    }
}

/// Ranks: 64, 1k, 65k, 1M. Powers of two are named by their nearest thousand.
pub(crate) fn ranks(ranks: u64) -> String {
    match ranks {
        0..=999 => ranks.to_string(),
        1_000..=999_999 => format!("{}k", ranks / 1_000),
        _ if ranks % 1_000_000 < 100_000 => format!("{}M", ranks / 1_000_000),
        _ => format!("{}M", three_digits(ranks as f64 / 1e6)),
    }
}

/// Foreign bytes for a terminal: printable ASCII stays, everything else becomes an escape, so that
/// a task's name can neither move the cursor nor forge a line.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            match c {
                ' '..='~' => out.push(c),
                _ => out.extend(c.escape_default()),
            }
            out
        })
}

/// Units that stay on the line of their number.
const UNITS: [&str; 10] = ["ns", "us", "ms", "s", "%", "k", "M", "G", "CPUs", "ranks"];

/// The text with `blank` in place of the blanks between a number and its unit, so that no line ends there.
pub(crate) fn kept(text: &str, blank: char) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            let unit = word.trim_end_matches(|c: char| ".,;:)".contains(c));
            let after_number = out.ends_with(|c: char| c.is_ascii_digit());
            out.push(if after_number && UNITS.contains(&unit) {
                blank
            } else {
                ' '
            });
        }
        out.push_str(word);
    }
    out
}

/// At most `width` characters of ASCII text; what was cut shows as "..".
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    let dots = &".."[..width.min(2)];
    format!("{kept}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_carry_the_unit_that_suits_them() {
        let table = [
            (0.0, "0 ns"),
            (2.5, "2.5 ns"),
            (850.4, "850 ns"),
            (3_074.6, "3.07 us"),
            (21_340.0, "21.3 us"),
            (-1_500.0, "-1.50 us"),
            (12_345_678.0, "12.3 ms"),
        ];
        for (ns, text) in table {
            assert_eq!(time_f64(ns), text);
        }
    }

    #[test]
    fn a_share_that_is_not_zero_never_reads_as_zero() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_001), "<0.001 %");
        assert_eq!(percent(0.000_5), "0.050 %");
        assert_eq!(percent(0.0123), "1.23 %");
        assert_eq!(percent(0.5), "50.0 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(123.4), "12.3 k %");
    }

    #[test]
    fn counts_and_ranks_are_short() {
        assert_eq!(count(42), "42");
        assert_eq!(count(1_234_567), "1.23 M");
        assert_eq!(ranks(64), "64");
        assert_eq!(ranks(1_024), "1k");
        assert_eq!(ranks(65_536), "65k");
        assert_eq!(ranks(1_000_000), "1M");
        assert_eq!(ranks(1_048_576), "1M");
    }

    proptest! {
        #[test]
        fn whole_nanoseconds_read_the_same_in_both_forms(ns in 1_000u64..4_000_000_000_000) {
            prop_assert_eq!(time_f64(ns as f64), Nanos::from_nanos(ns).to_string());
        }

        #[test]
        fn no_name_can_leave_its_line_or_its_alphabet(name in ".*", width in 0usize..40) {
            let shown = fit(&plain(&name), width);
            prop_assert!(shown.len() <= width);
            prop_assert!(shown.bytes().all(|b| (b' '..=b'~').contains(&b)));
        }
    }
}
