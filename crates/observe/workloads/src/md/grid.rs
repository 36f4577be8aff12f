//! Ranks as a periodic grid of equal boxes.

use idlewave_units::Rank;

/// A side of a box along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Towards smaller coordinates.
    Low,
    /// Towards larger coordinates.
    High,
}

impl Side {
    /// Both sides, in the order in which they are processed.
    pub const BOTH: [Side; 2] = [Side::Low, Side::High];

    /// The other side.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }
}

/// One rank's place among `shape[0] * shape[1] * shape[2]` boxes; the first dimension varies
/// fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    shape: [u32; 3],
    place: [u32; 3],
}

/// The three factors of `size` whose box has the smallest surface, in descending order.
pub fn shape_of(size: u32) -> [u32; 3] {
    let size = size.max(1);
    let mut best = [size, 1, 1];
    let surface = |[a, b, c]: [u32; 3]| {
        let [a, b, c] = [u64::from(a), u64::from(b), u64::from(c)];
        a * b + b * c + a * c
    };
    let divisors = |n: u32| {
        (1..=n)
            .take_while(move |d| d * d <= n)
            .filter(move |d| n % d == 0)
    };
    for c in divisors(size) {
        for b in divisors(size / c).filter(|&b| b >= c) {
            let shape = [size / c / b, b, c];
            if surface(shape) < surface(best) {
                best = shape;
            }
        }
    }
    best
}

impl Grid {
    /// The place of `rank` in a grid of this shape.
    pub fn new(shape: [u32; 3], rank: Rank) -> Self {
        let r = rank.get();
        Self {
            shape,
            place: [
                r % shape[0],
                r / shape[0] % shape[1],
                r / shape[0] / shape[1],
            ],
        }
    }

    /// Boxes along a dimension.
    pub fn boxes(&self, dimension: usize) -> u32 {
        self.shape[dimension]
    }

    /// This rank's index along a dimension.
    pub fn index(&self, dimension: usize) -> u32 {
        self.place[dimension]
    }

    /// Index, along a dimension, of the box beyond a side.
    pub fn index_beyond(&self, dimension: usize, side: Side) -> u32 {
        let (index, boxes) = (self.place[dimension], self.shape[dimension]);
        match side {
            Side::Low => (index + boxes - 1) % boxes,
            Side::High => (index + 1) % boxes,
        }
    }

    /// The rank beyond a side; this rank itself if there is only one box.
    pub fn neighbour(&self, dimension: usize, side: Side) -> Rank {
        let mut place = self.place;
        place[dimension] = self.index_beyond(dimension, side);
        Rank::new(place[0] + self.shape[0] * (place[1] + self.shape[1] * place[2]))
    }

    /// Whether this rank's box is the last one on this side, so that the next one lies across the
    /// periodic boundary.
    pub fn at_border(&self, dimension: usize, side: Side) -> bool {
        match side {
            Side::Low => self.place[dimension] == 0,
            Side::High => self.place[dimension] + 1 == self.shape[dimension],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_as_cubic_as_the_number_of_ranks_allows() {
        for (size, shape) in [
            (1, [1, 1, 1]),
            (2, [2, 1, 1]),
            (4, [2, 2, 1]),
            (7, [7, 1, 1]),
            (8, [2, 2, 2]),
            (12, [3, 2, 2]),
            (64, [4, 4, 4]),
            (8_192, [32, 16, 16]),
        ] {
            assert_eq!(shape_of(size), shape);
        }
    }

    #[test]
    fn what_lies_beyond_a_side_has_the_own_rank_beyond_the_opposite_one() {
        for shape in [[1, 1, 1], [2, 1, 1], [2, 3, 1], [4, 3, 2]] {
            for r in 0..shape.iter().product() {
                let own = Rank::new(r);
                let grid = Grid::new(shape, own);
                for d in 0..3 {
                    for side in Side::BOTH {
                        let there = Grid::new(shape, grid.neighbour(d, side));
                        assert_eq!(there.neighbour(d, side.opposite()), own);
                        assert_eq!(grid.at_border(d, side), there.at_border(d, side.opposite()));
                    }
                }
            }
        }
    }
}
