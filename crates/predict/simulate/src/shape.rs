//! The layout of ranks: their number as a product of near-equal sides.

use idlewave_run::findings::Topology;

/// Sides of a torus; `x` is the longest, and ranks adjacent in `x` are adjacent in memory.
///
/// The product is exactly the number of ranks: 1,000,000 ranks are 1000 x 1000 or 100 x 100 x 100,
/// 16,384 are 128 x 128 or 32 x 32 x 16. A prime number of ranks is a ring in every dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Ranks along the first direction, the longest.
    pub x: usize,
    /// Ranks along the second direction.
    pub y: usize,
    /// Ranks along the third direction, the shortest; 1 in a plane.
    pub z: usize,
}

impl Shape {
    /// A line or ring.
    pub fn line(ranks: usize) -> Self {
        Shape {
            x: ranks,
            y: 1,
            z: 1,
        }
    }

    /// From the sides of a run's decomposition, of which the last varies fastest; no sides mean a
    /// single rank. `None` for more than three.
    pub fn of_sides(sides: &[u32]) -> Option<Self> {
        let mut fastest_first = sides.iter().rev().map(|&side| side as usize);
        let mut next = || fastest_first.next().unwrap_or(1);
        let (x, y, z) = (next(), next(), next());
        (sides.len() <= 3).then_some(Shape { x, y, z })
    }

    /// The sides as in a run, the last one varying fastest; leading sides of one rank are omitted.
    pub fn sides(&self) -> Vec<u32> {
        let all = [self.z, self.y, self.x].map(|side| side as u32);
        let first = all.iter().position(|&s| s > 1).unwrap_or(2);
        all[first..].to_vec()
    }

    /// The rectangle closest to a square.
    pub fn plane(ranks: usize) -> Self {
        let y = largest_divisor_up_to(ranks, |d| d * d <= ranks);
        Shape {
            x: ranks / y,
            y,
            z: 1,
        }
    }

    /// The cuboid of least surface, which is closest to a cube.
    pub fn cuboid(ranks: usize) -> Self {
        let mut best = Shape::plane(ranks);
        let surface = |s: Shape| s.x * s.y + s.y * s.z + s.z * s.x;
        let mut z = 1;
        while z * z * z <= ranks {
            if ranks % z == 0 {
                let plane = Shape::plane(ranks / z);
                let candidate = Shape { z, ..plane };
                // The plane's y may be below z: that cuboid occurs with its sides in order at
                // another z.
                if plane.y >= z && surface(candidate) < surface(best) {
                    best = candidate;
                }
            }
            z += 1;
        }
        best
    }

    /// The shape for a topology; a barrier has none and counts as a ring.
    pub fn of(topology: Topology, ranks: usize) -> Self {
        match topology {
            Topology::Torus2d => Shape::plane(ranks),
            Topology::Torus3d => Shape::cuboid(ranks),
            Topology::Ring1d | Topology::Barrier => Shape::line(ranks),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.x * self.y * self.z
    }
}

fn largest_divisor_up_to(n: usize, fits: impl Fn(usize) -> bool) -> usize {
    (1..)
        .take_while(|&d| fits(d))
        .filter(|d| n % d == 0)
        .last()
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn powers_of_two_and_a_million_are_near_cubic() {
        let cuboid = |n| {
            let s = Shape::cuboid(n);
            (s.x, s.y, s.z)
        };
        assert_eq!(cuboid(64), (4, 4, 4));
        assert_eq!(cuboid(256), (8, 8, 4));
        assert_eq!(cuboid(1024), (16, 8, 8));
        assert_eq!(cuboid(16_384), (32, 32, 16));
        assert_eq!(cuboid(1_000_000), (100, 100, 100));
        assert_eq!(cuboid(7), (7, 1, 1));
        assert_eq!(
            Shape::plane(1_000_000),
            Shape {
                x: 1000,
                y: 1000,
                z: 1
            }
        );
        assert_eq!(Shape::plane(1024), Shape { x: 32, y: 32, z: 1 });
        assert_eq!(Shape::plane(256 * 2), Shape { x: 32, y: 16, z: 1 });
    }

    #[test]
    fn sides_are_those_of_a_run_and_back() {
        let shape = Shape { x: 4, y: 3, z: 2 };
        assert_eq!(shape.sides(), [2, 3, 4]);
        assert_eq!(Shape::of_sides(&[2, 3, 4]), Some(shape));
        assert_eq!(Shape::of_sides(&[5]), Some(Shape::line(5)));
        assert_eq!(Shape::line(5).sides(), [5]);
        assert_eq!(Shape::line(1).sides(), [1]);
        assert_eq!(Shape { x: 1, y: 5, z: 1 }.sides(), [5, 1]);
        assert_eq!(Shape::of_sides(&[]), Some(Shape::line(1)));
        assert_eq!(Shape::of_sides(&[1, 2, 3, 4]), None);
    }

    proptest! {
        #[test]
        fn no_rank_is_lost(ranks in 1usize..5_000) {
            prop_assert_eq!(Shape::plane(ranks).ranks(), ranks);
            let s = Shape::cuboid(ranks);
            prop_assert_eq!(s.ranks(), ranks);
            prop_assert!(s.x >= s.y && s.y >= s.z);
        }
    }
}
