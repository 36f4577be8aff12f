//! Amounts of data.

use crate::amount::{prefix, split};
use crate::foreign::cut;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

/// An amount of data in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// A number of bytes.
    pub const fn new(bytes: u64) -> Self {
        Bytes(bytes)
    }
    /// A number of KiB (1024 bytes).
    pub const fn from_kib(kib: u64) -> Self {
        Bytes(kib.saturating_mul(1024))
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// In the largest binary unit that is exact (`64 KiB`, `1000 B`); an amount above 0 parses back
    /// unchanged.
    pub fn exact_text(self) -> String {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let exact = |(shift, _): &&(u32, _)| self.0 > 0 && self.0 % (1 << shift) == 0;
        match units.iter().find(exact) {
            Some((shift, name)) => format!("{} {name}", self.0 >> shift),
            None => format!("{} B", self.0),
        }
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// Text that is not an amount of data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "parse {0:?} as an amount of data: write a number above 0 with a unit up to PiB, like 64 GiB or 512 MB"
)]
pub struct ParseBytesError(String);

impl FromStr for Bytes {
    type Err = ParseBytesError;

    /// Parses an amount above 0: a number, a prefix and `B` or nothing, in any case. `64 GiB` is
    /// binary, `64 GB` decimal. A fraction of a byte is rounded; amounts with a point are accepted
    /// up to 10^18 bytes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (number, unit) = split(text)?;
            let unit = unit.to_ascii_lowercase();
            let size = prefix(unit.strip_suffix('b').unwrap_or(&unit))?;
            // Whole numbers are exact beyond the range of floating point.
            let bytes = match number.contains('.') {
                false => number.parse::<u64>().ok()?.checked_mul(size)?,
                true => {
                    let amount = (number.parse::<f64>().ok()? * size as f64).round();
                    (amount <= 1e18).then_some(amount as u64)?
                }
            };
            Some(Bytes(bytes)).filter(|_| bytes > 0)
        };
        parse().ok_or_else(|| ParseBytesError(cut(text)))
    }
}

/// Binary units, as the kernel and the linker use them (`48 KiB`, `2.5 MiB`).
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < units.len() {
            value /= 1024.0;
            unit += 1;
        }
        let text = if value.fract() == 0.0 || value >= 100.0 {
            format!("{value:.0} {}", units[unit])
        } else {
            format!("{value:.1} {}", units[unit])
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_print_in_binary_units() {
        assert_eq!(Bytes::new(1023).to_string(), "1023 B");
        assert_eq!(Bytes::from_kib(48).to_string(), "48 KiB");
        assert_eq!(Bytes::new(2_621_440).to_string(), "2.5 MiB");
    }
    #[test]
    fn amounts_are_binary_with_an_i_and_decimal_without() {
        let bytes = |text: &str| text.parse::<Bytes>().unwrap().get();
        assert_eq!(bytes("64 GiB"), 64 << 30);
        assert_eq!(bytes("64gb"), 64_000_000_000);
        assert_eq!(bytes("512"), 512);
        assert_eq!(bytes("1.5 KiB"), 1536);
        assert_eq!(bytes("3 PiB"), 3 << 50);
        assert_eq!(bytes("2pb"), 2_000_000_000_000_000);
        assert_eq!(bytes("18446744073709551615"), u64::MAX);
        for text in [
            "",
            "0 GiB",
            "x",
            "-3 GiB",
            "0.2 B",
            "99999999999 TiB",
            "999999999.0 TiB",
            "1e3",
            "1..5 B",
        ] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
        // Used for messages and files too, so the message names the largest unit.
        let error = "1 EiB".parse::<Bytes>().unwrap_err().to_string();
        assert!(
            error.contains("amount of data") && error.contains("up to PiB"),
            "{error}"
        );
    }

    #[test]
    fn exact_amounts_are_in_the_greatest_unit_that_loses_nothing() {
        for (bytes, text) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (1025, "1025 B"),
            (65_536, "64 KiB"),
            (3 << 19, "1536 KiB"),
            (1 << 50, "1024 TiB"),
        ] {
            assert_eq!(Bytes::new(bytes).exact_text(), text);
        }
    }

    proptest! {
        #[test]
        fn exact_amounts_are_read_back(bytes in 1u64..=u64::MAX, shift in 0..64u32) {
            let bytes = Bytes::new((bytes >> shift).max(1) << (shift / 2));
            prop_assert_eq!(bytes.exact_text().parse(), Ok(bytes));
        }

        #[test]
        fn any_text_is_an_amount_or_refused(text in "\\PC{0,20}") {
            let _ = text.parse::<Bytes>();
        }
    }
}
