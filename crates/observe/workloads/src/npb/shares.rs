//! How points of a grid, or rows of a matrix, are divided.

use std::ops::Range;

/// The points at this place when `points` are divided into `shares`; the first ones are larger by
/// one if need be.
pub const fn share(points: u32, shares: u32, place: u32) -> Range<u32> {
    let (each, more) = (points / shares, points % shares);
    let first = each * place + if place < more { place } else { more };
    first..first + each + (place < more) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_each_other_and_the_first_are_larger_by_one_at_most() {
        for (points, shares) in [(10, 1), (10, 3), (34, 4), (62, 9)] {
            let mut end = 0;
            for place in 0..shares {
                let share = share(points, shares, place);
                assert_eq!(share.start, end);
                let larger = u32::from(place < points % shares);
                assert_eq!(share.len() as u32, points / shares + larger);
                end = share.end;
            }
            assert_eq!(end, points);
        }
    }
}
