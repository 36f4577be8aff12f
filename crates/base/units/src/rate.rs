//! The capacity of a link, as a number and as text.

use crate::amount::{prefix, split};
use crate::foreign::cut;
use crate::show::scaled;
use std::fmt;
use std::str::FromStr;

/// A data rate in bytes per second, finite and greater than zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BytesPerSecond(f64);

/// The highest accepted rate: no link carries an exabyte per second.
const MOST: f64 = 1e18;

impl BytesPerSecond {
    /// A rate in bytes per second; `None` if it is not finite, not positive or above 10^18.
    pub fn new(bytes_per_second: f64) -> Option<Self> {
        let possible = bytes_per_second > 0.0 && bytes_per_second <= MOST;
        possible.then_some(Self(bytes_per_second))
    }
    /// Three significant digits with a decimal unit: "12.5 MB/s". For estimates of at least 1 byte
    /// per second.
    pub fn scaled_text(bytes_per_second: f64) -> String {
        scaled(bytes_per_second, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
    }
    /// A rate in bits per second; `None` as in [`BytesPerSecond::new`].
    pub fn from_bits(bits_per_second: f64) -> Option<Self> {
        Self::new(bits_per_second / 8.0)
    }
    /// Bytes per second.
    pub fn get(self) -> f64 {
        self.0
    }
    /// Bits per second.
    pub fn bits(self) -> f64 {
        self.0 * 8.0
    }
    /// A multiple of the rate; `None` as in [`BytesPerSecond::new`].
    pub fn scaled(self, factor: f64) -> Option<Self> {
        Self::new(self.0 * factor)
    }
}

/// Decimal units of bytes with all digits needed to distinguish it from other rates: `125 MB/s`.
impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
        let unit = units.iter().find(|(least, _)| self.0 >= *least);
        let text = match unit {
            // If the quotient does not lead back, it is written in bytes.
            Some((size, name)) if (self.0 / size) * size == self.0 => {
                format!("{} {name}", self.0 / size)
            }
            _ => format!("{} B/s", self.0),
        };
        f.pad(&text)
    }
}

/// Text that is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "parse {0:?} as a capacity: write a number above 0 with a unit, like 125 MB/s, 10 Gbit/s or 100mbit"
)]
pub struct ParseRateError(String);

/// A number, a prefix and a unit with or without "per second". Bytes are `B`; bits are `bit`,
/// `bits`, or a small `b` (`Gb/s`, `Gbps`). Prefixes are decimal (`MB` is 10^6 bytes) unless they
/// have an `i` (`MiB`).
impl FromStr for BytesPerSecond {
    type Err = ParseRateError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (number, unit) = split(text)?;
            let stem = ["/s", "ps"].iter().find_map(|end| unit.strip_suffix(end));
            let stem = stem.unwrap_or(&unit);
            let lower = stem.to_ascii_lowercase();
            let bits = ["bits", "bit"].iter().find(|end| lower.ends_with(**end));
            let (scale, bits) = match bits {
                Some(end) => (stem.get(..stem.len() - end.len())?, true),
                None if stem.ends_with('b') => (stem.strip_suffix('b')?, true),
                None => (stem.strip_suffix('B')?, false),
            };
            let number: f64 = number.parse().ok()?;
            let rate = number * prefix(scale)? as f64 / if bits { 8.0 } else { 1.0 };
            BytesPerSecond::new(rate)
        };
        parse().ok_or_else(|| ParseRateError(cut(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> f64 {
        text.parse::<BytesPerSecond>().unwrap().get()
    }

    #[test]
    fn a_capacity_is_read_in_bits_and_bytes_with_decimal_and_binary_prefixes() {
        assert_eq!(rate("125 MB/s"), 125e6);
        assert_eq!(rate("10 Gbit/s"), 1.25e9);
        assert_eq!(rate("100mbit"), 12.5e6);
        assert_eq!(rate("200 Gb/s"), 25e9);
        assert_eq!(rate("100 Gbps"), 12.5e9);
        assert_eq!(rate("1.5MiB/s"), 1.5 * 1024.0 * 1024.0);
        assert_eq!(rate(" 8 bits/s "), 1.0);
        assert_eq!(rate("7 B/s"), 7.0);
    }

    #[test]
    fn what_is_no_capacity_is_refused_with_its_text() {
        for text in [
            "",
            "125",
            "MB/s",
            "-1 MB/s",
            "0 MB/s",
            "1e400 B/s",
            "12 MB/h",
            "1 XB/s",
            "2 s",
            "9 ü",
        ] {
            let error = text.parse::<BytesPerSecond>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn estimates_have_three_digits() {
        for (rate, text) in [
            (1.0, "1.00 B/s"),
            (999.4, "999 B/s"),
            (12.04e6, "12.0 MB/s"),
            (999.7e6, "1.00 GB/s"),
            (1.25e9, "1.25 GB/s"),
            (5e15, "5000 TB/s"),
        ] {
            assert_eq!(BytesPerSecond::scaled_text(rate), text);
        }
    }

    proptest! {
        #[test]
        fn a_capacity_is_read_back_as_it_was_written(bytes in 1e-3..1e18f64) {
            let capacity = BytesPerSecond::new(bytes).unwrap();
            prop_assert_eq!(capacity.to_string().parse(), Ok(capacity));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = text.parse::<BytesPerSecond>();
        }
    }
}
