//! The parameters of the LogGOPS model.

use idlewave_units::{Bytes, Nanos};
use std::fmt;
use std::str::FromStr;

/// Nanoseconds per byte, kept as the decimal fraction that was given: 0.04 is 4/100, not the
/// nearest binary number.
///
/// Always in lowest terms, so that equal values compare equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerByte {
    numerator: u64,
    /// A power of ten.
    denominator: u64,
}

/// Why a number of nanoseconds per byte could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a decimal number of nanoseconds per byte, as in `6` or `0.04`")]
pub struct ParsePerByteError(String);

impl PerByte {
    /// Bytes cost nothing.
    pub const ZERO: PerByte = PerByte::from_nanos(0);

    /// A whole number of nanoseconds for each byte.
    pub const fn from_nanos(ns: u64) -> Self {
        PerByte {
            numerator: ns,
            denominator: 1,
        }
    }

    /// Nanoseconds for `bytes` bytes, rounded half up once, at the end. `None` if the result does
    /// not fit 64 bits.
    pub fn cost(self, bytes: u64) -> Option<u64> {
        if self.denominator == 1 {
            return self.numerator.checked_mul(bytes);
        }
        let exact = u128::from(self.numerator) * u128::from(bytes);
        let denominator = u128::from(self.denominator);
        let up = u128::from(exact % denominator * 2 >= denominator);
        u64::try_from(exact / denominator + up).ok()
    }
}

impl FromStr for PerByte {
    type Err = ParsePerByteError;

    /// Reads digits with at most one decimal point, as in `6`, `0.04` or `12.5`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParsePerByteError(text.to_owned());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let decimals = decimals.trim_end_matches('0');
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let empty = whole.is_empty() || text.ends_with('.');
        if empty || !digits(whole) || !digits(decimals) {
            return Err(refused());
        }
        let numerator = format!("{whole}{decimals}").parse().ok();
        let denominator = u32::try_from(decimals.len())
            .ok()
            .and_then(|places| 10_u64.checked_pow(places));
        match (numerator, denominator) {
            (Some(numerator), Some(denominator)) => Ok(PerByte {
                numerator,
                denominator,
            }),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for PerByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.numerator / self.denominator;
        if self.denominator == 1 {
            return write!(f, "{whole}");
        }
        let places = self.denominator.ilog10() as usize;
        write!(f, "{whole}.{:0places$}", self.numerator % self.denominator)
    }
}

/// What a message costs. The defaults are those of LogGOPSim: a cluster with about 170 MB/s per
/// link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// L: time from the end of the sender's overhead to the first byte at the receiver.
    pub latency: Nanos,
    /// o: time that a message takes on a CPU, at the sender and again at the receiver.
    pub overhead: Nanos,
    /// g: least time between the starts of two messages on one NIC, for each direction separately.
    pub gap: Nanos,
    /// G: time on the NIC for each byte after the first; the receiver's CPU waits for it.
    pub gap_per_byte: PerByte,
    /// O: time on the sender's CPU for each byte after the first.
    pub overhead_per_byte: PerByte,
    /// S: a longer message makes its sender wait for the matching receive.
    pub rendezvous: Bytes,
}

impl Parameters {
    /// Messages cost nothing and need no handshake: ranks only wait for each other.
    pub const FREE: Parameters = Parameters {
        latency: Nanos::ZERO,
        overhead: Nanos::ZERO,
        gap: Nanos::ZERO,
        gap_per_byte: PerByte::ZERO,
        overhead_per_byte: PerByte::ZERO,
        rendezvous: Bytes::new(u64::MAX),
    };
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            latency: Nanos::from_nanos(2_500),
            overhead: Nanos::from_nanos(1_500),
            gap: Nanos::from_nanos(1_000),
            gap_per_byte: PerByte::from_nanos(6),
            overhead_per_byte: PerByte::ZERO,
            rendezvous: Bytes::new(65_535),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_fractions_are_kept_exactly_and_rounded_half_up_once() {
        let fraction: PerByte = "0.04".parse().unwrap();
        // 0.04 * 1023 = 40.92, 0.04 * 12 = 0.48, 0.5 * 3 = 1.5, 0.5 * 1 = 0.5
        assert_eq!(fraction.cost(1_023), Some(41));
        assert_eq!(fraction.cost(12), Some(0));
        let half: PerByte = "0.5".parse().unwrap();
        assert_eq!(half.cost(3), Some(2));
        assert_eq!(half.cost(1), Some(1));
        assert_eq!(half.cost(0), Some(0));
        // In binary, 0.1 * n would fall below one half for many such n.
        let tenth: PerByte = "0.1".parse().unwrap();
        assert!((0..1_000).all(|n| tenth.cost(10 * n + 5) == Some(n + 1)));
    }

    #[test]
    fn whole_numbers_multiply_and_overflow_is_no_number() {
        let six = PerByte::from_nanos(6);
        assert_eq!(six.cost(1_023), Some(6_138));
        assert_eq!(six.cost(u64::MAX), None);
        let fraction: PerByte = "1.5".parse().unwrap();
        assert_eq!(fraction.cost(u64::MAX), None);
        let small: PerByte = "0.5".parse().unwrap();
        assert_eq!(small.cost(u64::MAX), Some(1 << 63));
    }

    #[test]
    fn equal_values_are_equal_and_print_as_they_are_read() {
        for (text, shown) in [
            ("6", "6"),
            ("6.0", "6"),
            ("0.040", "0.04"),
            ("12.5", "12.5"),
        ] {
            let value: PerByte = text.parse().unwrap();
            assert_eq!(value.to_string(), shown);
            assert_eq!(shown.parse(), Ok(value));
        }
    }

    #[test]
    fn what_is_no_decimal_number_is_refused() {
        for text in [
            "",
            ".",
            ".5",
            "5.",
            "-1",
            "+1",
            "1e3",
            "0x1",
            "1.2.3",
            " 1",
            "NaN",
            "inf",
            "\u{0661}",
            "18446744073709551616",
            "0.00000000000000000001",
        ] {
            assert!(text.parse::<PerByte>().is_err(), "{text}");
        }
    }
}
