//! Durations in integer nanoseconds.

use crate::show;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;
use std::time::Duration;

/// A duration in nanoseconds: 0 ..= 2^64-1 (584 years). Never negative; subtraction is checked.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Nanos = Nanos(0);
    /// The longest duration.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A number of nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Nanos(ns)
    }
    /// A number of microseconds; saturates.
    pub const fn from_micros(us: u64) -> Self {
        Nanos(us.saturating_mul(1_000))
    }
    /// A number of milliseconds; saturates.
    pub const fn from_millis(ms: u64) -> Self {
        Nanos(ms.saturating_mul(1_000_000))
    }
    /// A number of seconds; saturates.
    pub const fn from_secs(s: u64) -> Self {
        Nanos(s.saturating_mul(1_000_000_000))
    }
    /// The integer number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Nanoseconds as a floating-point number, for statistics.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }
    /// Seconds as a floating-point number, for rates.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `self - other`, or `None` if that would be negative.
    pub const fn checked_sub(self, other: Nanos) -> Option<Nanos> {
        match self.0.checked_sub(other.0) {
            Some(ns) => Some(Nanos(ns)),
            None => None,
        }
    }
    /// `self - other`, or zero if that would be negative: the excess over `other`.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
    /// This duration for waits of the standard library.
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Self {
        Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(iter: I) -> Nanos {
        iter.fold(Nanos::ZERO, Add::add)
    }
}

/// For display: three significant digits with a suitable unit (`9.07 us`, `1.40 ms`).
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show::time(self.as_f64()))
    }
}

/// Why a duration could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNanosError {
    /// The text does not start with a decimal number.
    #[error("`{0}` is not a number followed by a unit (ns, us, ms, s, min), as in `20us`")]
    NotANumber(String),
    /// The number has no unit, or an unknown one.
    #[error("`{0}` has no known unit (ns, us, ms, s, min), as in `20us`")]
    Unit(String),
    /// The duration is negative, or too long for 64-bit nanoseconds.
    #[error("`{0}` is out of range")]
    Range(String),
}

impl FromStr for Nanos {
    type Err = ParseNanosError;

    /// Reads `20us`, `1.5 ms`, `30s`, `2min`. A bare `0` needs no unit.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let split = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let value: f64 = number
            .parse()
            .map_err(|_| ParseNanosError::NotANumber(text.to_owned()))?;
        let scale = match unit.trim() {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" | "sec" => 1e9,
            "min" | "m" => 60e9,
            "" if value == 0.0 => 1.0,
            _ => return Err(ParseNanosError::Unit(text.to_owned())),
        };
        let ns = value * scale;
        if !(0.0..1.8e19).contains(&ns) {
            return Err(ParseNanosError::Range(text.to_owned()));
        }
        Ok(Nanos(ns.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!("20us".parse(), Ok(Nanos::from_micros(20)));
        assert_eq!("1.5 ms".parse(), Ok(Nanos::from_micros(1500)));
        assert_eq!("30s".parse(), Ok(Nanos::from_secs(30)));
        assert_eq!("0".parse(), Ok(Nanos::ZERO));
    }

    #[test]
    fn durations_without_a_unit_or_below_zero_are_refused() {
        assert!(matches!(
            "20".parse::<Nanos>(),
            Err(ParseNanosError::Unit(_))
        ));
        assert!(matches!(
            "-1s".parse::<Nanos>(),
            Err(ParseNanosError::Range(_))
        ));
        assert!(matches!(
            "1e30s".parse::<Nanos>(),
            Err(ParseNanosError::Unit(_))
        ));
        assert!(matches!(
            "99999999999999min".parse::<Nanos>(),
            Err(ParseNanosError::Range(_))
        ));
        assert!(matches!(
            "us".parse::<Nanos>(),
            Err(ParseNanosError::NotANumber(_))
        ));
    }

    #[test]
    fn durations_print_three_significant_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (9_070, "9.07 us"),
            (22_440, "22.4 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (1_400_000, "1.40 ms"),
            (61_000_000_000, "61.0 s"),
        ] {
            assert_eq!(Nanos::from_nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn subtraction_never_wraps() {
        let (a, b) = (Nanos::from_nanos(3), Nanos::from_nanos(5));
        assert_eq!(a.checked_sub(b), None);
        assert_eq!(a.saturating_sub(b), Nanos::ZERO);
        assert_eq!(b.checked_sub(a), Some(Nanos::from_nanos(2)));
    }
}
