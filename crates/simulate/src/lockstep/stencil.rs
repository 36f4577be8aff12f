//! Who waits for whom: neighbours along the axes of a line, a plane or a cuboid.

use super::error::LockstepError;

/// What is beyond the first and the last rank of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edges {
    /// The other end: rings and tori.
    #[default]
    Joined,
    /// Nothing.
    Open,
}

/// A star: along each axis the neighbours up to a distance, on both sides or on the lower one only.
///
/// Rank = (z * y_side + y) * x_side + x.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stencil {
    sides: Vec<u32>,
    reach: u32,
    edges: Edges,
    one_sided: bool,
}

impl Stencil {
    /// Ranks along each side, from `x` on, one to three sides; joined edges, the nearest neighbours on both sides.
    ///
    /// # Errors
    /// A side without ranks, more than three sides, more ranks than 32 bits count.
    pub fn new(sides: &[u32]) -> Result<Stencil, LockstepError> {
        let ranks = sides
            .iter()
            .try_fold(1_u32, |product, &side| product.checked_mul(side));
        if !(1..=3).contains(&sides.len()) || ranks.is_none_or(|r| r == 0) {
            return Err(LockstepError::BadSides {
                sides: sides.to_vec(),
            });
        }
        Ok(Stencil {
            sides: sides.to_vec(),
            reach: 1,
            edges: Edges::Joined,
            one_sided: false,
        })
    }

    /// Neighbours up to this distance along each axis, from 1 on.
    ///
    /// # Errors
    /// No distance.
    pub fn with_reach(self, reach: u32) -> Result<Stencil, LockstepError> {
        match reach {
            0 => Err(LockstepError::NoReach),
            _ => Ok(Stencil { reach, ..self }),
        }
    }

    /// With such edges.
    pub fn with_edges(self, edges: Edges) -> Stencil {
        Stencil { edges, ..self }
    }

    /// Only lower neighbours are waited for.
    pub fn one_sided(self) -> Stencil {
        Stencil {
            one_sided: true,
            ..self
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.sides.iter().map(|&side| side as usize).product()
    }

    /// Ranks along each side.
    pub fn sides(&self) -> &[u32] {
        &self.sides
    }

    /// Largest distance of a neighbour along an axis.
    pub fn reach(&self) -> u32 {
        self.reach
    }

    /// Those for whom a rank waits, without itself; one may occur twice.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn neighbours(&self, rank: u32) -> Vec<u32> {
        assert!((rank as usize) < self.ranks(), "rank {rank} does not exist");
        let mut out = Vec::new();
        let mut stride = 1;
        for &side in &self.sides {
            let at = (rank / stride % side) as usize;
            let line = self.line();
            line.each(at, side as usize, |other| {
                out.push((rank as usize + other * stride as usize - at * stride as usize) as u32);
            });
            stride *= side;
        }
        out
    }

    /// The stencil along one axis.
    pub(super) fn line(&self) -> Line {
        Line {
            below: self.reach as usize,
            above: match self.one_sided {
                true => 0,
                false => self.reach as usize,
            },
            joined: self.edges == Edges::Joined,
        }
    }

    /// The sides longer than one rank, which are those that matter: row, rows of a plane, and planes.
    pub(super) fn layout(&self) -> Layout {
        let mut sides = self.sides.iter().map(|&s| s as usize).filter(|&s| s > 1);
        let first = sides.next().unwrap_or(1);
        let line = self.line();
        match (sides.next(), sides.next()) {
            (None, _) => Layout {
                row: 1,
                rows: 1,
                units: first,
                line,
            },
            (Some(second), None) => Layout {
                row: first,
                rows: 1,
                units: second,
                line,
            },
            (Some(second), Some(third)) => Layout {
                row: first,
                rows: second,
                units: third,
                line,
            },
        }
    }
}

/// Neighbours along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Distance of the farthest lower neighbour.
    pub below: usize,
    /// And of the farthest upper one; 0 if those are not waited for.
    pub above: usize,
    pub joined: bool,
}

impl Line {
    /// Calls `visit` with the neighbours of place `at` among `side` places.
    #[inline]
    pub fn each(self, at: usize, side: usize, mut visit: impl FnMut(usize)) {
        for distance in 1..=self.below {
            match (distance <= at, self.joined) {
                (true, _) => visit(at - distance),
                (false, true) => visit((at + side - distance % side) % side),
                (false, false) => break,
            }
        }
        for distance in 1..=self.above {
            match (at + distance < side, self.joined) {
                (true, _) => visit(at + distance),
                (false, true) => visit((at + distance) % side),
                (false, false) => break,
            }
        }
    }
}

/// How ranks lie in memory: units of the last axis, each a plane of rows. On a line each rank is a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Ranks of a row; 1 on a line.
    pub row: usize,
    /// Rows of a unit.
    pub rows: usize,
    /// Units, along the axis that tiles cut.
    pub units: usize,
    pub line: Line,
}

impl Layout {
    /// Ranks of a unit.
    pub fn unit(&self) -> usize {
        self.row * self.rows
    }

    /// How far a unit's influence moves in a step.
    pub fn reach(&self) -> usize {
        self.line.below.max(self.line.above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(mut v: Vec<u32>) -> Vec<u32> {
        v.sort_unstable();
        v
    }

    #[test]
    fn neighbours_by_hand() {
        let ring = Stencil::new(&[5]).unwrap();
        assert_eq!(sorted(ring.neighbours(0)), [1, 4]);
        let far = ring.clone().with_reach(2).unwrap();
        assert_eq!(sorted(far.neighbours(1)), [0, 2, 3, 4]);
        assert_eq!(sorted(far.clone().one_sided().neighbours(1)), [0, 4]);
        assert_eq!(sorted(far.with_edges(Edges::Open).neighbours(1)), [0, 2, 3]);
        let open = ring.one_sided().with_edges(Edges::Open);
        assert!(open.neighbours(0).is_empty());
        assert_eq!(open.neighbours(4), [3]);
        // 3 x 4 x 2: rank 7 is at x 1, y 2, z 0.
        let cuboid = Stencil::new(&[3, 4, 2]).unwrap();
        assert_eq!(sorted(cuboid.neighbours(7)), [4, 6, 8, 10, 19, 19]);
        let open = cuboid.with_edges(Edges::Open);
        assert_eq!(sorted(open.neighbours(0)), [1, 3, 12]);
        assert_eq!(Stencil::new(&[1]).unwrap().neighbours(0), [0, 0]);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for sides in [&[][..], &[0], &[4, 0], &[1, 1, 1, 1], &[1 << 16, 1 << 16]] {
            let error = Stencil::new(sides).unwrap_err();
            assert_eq!(
                error,
                LockstepError::BadSides {
                    sides: sides.to_vec()
                }
            );
        }
        let ring = Stencil::new(&[4]).unwrap();
        assert_eq!(ring.with_reach(0), Err(LockstepError::NoReach));
    }
}
