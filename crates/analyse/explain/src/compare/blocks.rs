//! Equal blocks of two series: of as many nanoseconds or steps in both, so that their values have
//! the same spread if the runs do not differ.

use idlewave_stats::blocks::BLOCKS;
use std::ops::Range;

/// Most blocks of the longer series, evenly spaced: more would add little and take long.
const MOST: u64 = 200;

/// The size of a block of series with these lengths, in the unit of the lengths; at least 1.
pub fn size(lengths: impl IntoIterator<Item = u64>) -> u64 {
    let shortest = lengths.into_iter().min().unwrap_or(0);
    (shortest / BLOCKS as u64).max(1)
}

/// The whole blocks of a series.
pub fn of(length: u64, size: u64) -> impl Iterator<Item = Range<u64>> {
    let all = length / size;
    let taken = all.min(MOST);
    (0..taken).map(move |i| {
        let block = (u128::from(i) * u128::from(all) / u128::from(taken)) as u64;
        block * size..(block + 1) * size
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_series_has_twenty_blocks_and_the_longer_as_many_as_fit() {
        let size_of = |a, b| size([a, b]);
        assert_eq!(size_of(1_019, 2_000), 50);
        assert_eq!(of(1_019, 50).count(), 20);
        assert_eq!(of(2_000, 50).last(), Some(1_950..2_000));
        assert_eq!(size_of(7, 100), 1);
        assert_eq!(of(7, 1).count(), 7);
        let many: Vec<_> = of(10_000, 1).collect();
        assert_eq!((many.len(), many[1].clone()), (200, 50..51));
        assert_eq!(of(0, size([])).count(), 0);
    }
}
