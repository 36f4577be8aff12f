//! Clocks that do not count nanoseconds.

/// Turns counts of a clock into nanoseconds: `(counts * mult >> shift) + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The multiplier.
    pub mult: u32,
    /// The shift in bits, below 64.
    pub shift: u32,
    /// Nanoseconds to add.
    pub offset: u64,
}

impl Scale {
    /// The time of a count.
    #[inline]
    pub fn ns(self, counts: u64) -> u64 {
        let scaled = (u128::from(counts) * u128::from(self.mult)) >> self.shift;
        (scaled as u64).wrapping_add(self.offset)
    }
}
