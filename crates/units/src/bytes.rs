//! Amounts of data.

use serde::{Deserialize, Serialize};
use std::fmt;

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

    #[test]
    fn amounts_print_in_binary_units() {
        assert_eq!(Bytes::new(1023).to_string(), "1023 B");
        assert_eq!(Bytes::from_kib(48).to_string(), "48 KiB");
        assert_eq!(Bytes::new(2_621_440).to_string(), "2.5 MiB");
    }
}
