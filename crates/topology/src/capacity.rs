//! Capacities of links and amounts of memory, as numbers and as people write them.

use idlewave_units::Bytes;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A data rate in bytes per second, finite and greater than zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BytesPerSecond(f64);

/// The greatest rate that is taken for one: no link carries an exabyte a second.
const MOST: f64 = 1e18;

impl BytesPerSecond {
    /// A rate in bytes per second; `None` where it is not finite, not positive or beyond 10^18.
    pub fn new(bytes_per_second: f64) -> Option<Self> {
        let possible = bytes_per_second > 0.0 && bytes_per_second <= MOST;
        possible.then_some(Self(bytes_per_second))
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
    /// So many times the rate; `None` as in [`BytesPerSecond::new`].
    pub fn scaled(self, factor: f64) -> Option<Self> {
        Self::new(self.0 * factor)
    }
}

/// Decimal units of bytes with all digits that tell it from other rates: `125 MB/s`.
impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
        let unit = units.iter().find(|(least, _)| self.0 >= *least);
        let text = match unit {
            // A quotient that does not lead back is written in bytes.
            Some((size, name)) if (self.0 / size) * size == self.0 => {
                format!("{} {name}", self.0 / size)
            }
            _ => format!("{} B/s", self.0),
        };
        f.pad(&text)
    }
}

/// Text that is no amount with a unit. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnitError {
    /// It is no rate.
    #[error(
        "take {0:?} for a capacity: write a number above 0 with a unit, like 125 MB/s, 10 Gbit/s or 100mbit"
    )]
    Capacity(String),
    /// It is no amount of memory.
    #[error(
        "take {0:?} for an amount of memory: write a number above 0 with a unit, like 64 GiB or 512 MB"
    )]
    Memory(String),
}

/// A number and the rest without spaces.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: String = unit.chars().filter(|c| !c.is_whitespace()).collect();
    Some((number.parse().ok()?, unit))
}

/// Decimal and binary prefixes, in any case: k, M, G, T and Ki, Mi, Gi, Ti.
fn prefix(text: &str) -> Option<f64> {
    Some(match text.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024.0 * 1024.0,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        "ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

/// A number, a prefix and a unit with or without "per second". Bytes are `B`; bits are `bit`, `bits`, or a
/// small `b` (`Gb/s`, `Gbps`). Prefixes are decimal (`MB` is 10^6 bytes) unless they have an `i` (`MiB`).
impl FromStr for BytesPerSecond {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
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
            let rate = number * prefix(scale)? / if bits { 8.0 } else { 1.0 };
            BytesPerSecond::new(rate)
        };
        parse().ok_or_else(|| UnitError::Capacity(cut(text)))
    }
}

/// Reads an amount of memory: a number, a prefix and `B` or nothing, in any case. `64 GiB` is binary, `64 GB` decimal.
///
/// # Errors
/// Text that is none, and amounts below one byte or beyond what 64 bits count.
pub fn parse_memory(text: &str) -> Result<Bytes, UnitError> {
    let parse = || {
        let (number, unit) = split(text)?;
        let unit = unit.to_ascii_lowercase();
        let size = prefix(unit.strip_suffix('b').unwrap_or(&unit))?;
        let digits = text.trim().split(|c: char| !c.is_ascii_digit()).next()?;
        // Whole numbers of units are exact beyond what floating point holds. Prefixes are whole.
        if number.fract() == 0.0 && !text.contains('.') {
            let bytes = digits.parse::<u64>().ok()?.checked_mul(size as u64)?;
            return Some(bytes).filter(|b| *b > 0).map(Bytes::new);
        }
        let amount = (number * size).round();
        (1.0..=MOST)
            .contains(&amount)
            .then(|| Bytes::new(amount as u64))
    };
    parse().ok_or_else(|| UnitError::Memory(cut(text)))
}

/// An amount of memory in the greatest binary unit that is exact: what [`parse_memory`] reads back as the same.
pub fn write_memory(memory: Bytes) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let bytes = memory.get();
    let unit = units
        .iter()
        .find(|(size, _)| bytes > 0 && bytes % size == 0);
    match unit {
        Some((size, name)) => format!("{} {name}", bytes / size),
        None => format!("{bytes} B"),
    }
}

/// Foreign text as much as a message can hold.
pub(crate) fn cut(text: &str) -> String {
    const MOST_CHARS: usize = 60;
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
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
    fn memory_is_binary_with_an_i_and_decimal_without() {
        assert_eq!(parse_memory("64 GiB").unwrap().get(), 64 << 30);
        assert_eq!(parse_memory("64gb").unwrap().get(), 64_000_000_000);
        assert_eq!(parse_memory("512").unwrap().get(), 512);
        assert_eq!(parse_memory("1.5 KiB").unwrap().get(), 1536);
        for text in ["", "0 GiB", "x", "-3 GiB", "0.2 B", "99999999999 TiB"] {
            assert!(parse_memory(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_capacity_is_read_back_as_it_was_written(bytes in 1e-3..1e18f64) {
            let capacity = BytesPerSecond::new(bytes).unwrap();
            prop_assert_eq!(capacity.to_string().parse(), Ok(capacity));
        }

        #[test]
        fn memory_is_read_back_as_it_was_written(bytes in 1u64..=u64::MAX) {
            prop_assert_eq!(parse_memory(&write_memory(Bytes::new(bytes))), Ok(Bytes::new(bytes)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = text.parse::<BytesPerSecond>();
            let _ = parse_memory(&text);
        }
    }
}
