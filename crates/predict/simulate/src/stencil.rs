//! Which ranks exchange messages.

use crate::Shape;
use idlewave_run::Neighbourhood;

/// The neighbours of every rank of a line, a plane or a cuboid: those within reach along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stencil {
    /// Ranks along each axis; rank = (z * y_side + y) * x_side + x.
    pub shape: Shape,
    /// Neighbours along each axis and side, at least 1.
    pub reach: u32,
    /// Whether each axis wraps around.
    pub periodic: bool,
    /// Whether messages go to higher ranks only.
    pub one_sided: bool,
}

/// One message of every rank that has this neighbour: it is received from the rank at this distance
/// along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direction {
    axis: u8,
    /// Rank of the sender relative to the receiver.
    offset: i64,
}

impl Stencil {
    /// Nearest neighbours on both sides, periodic.
    pub fn nearest(shape: Shape) -> Self {
        Stencil {
            shape,
            reach: 1,
            periodic: true,
            one_sided: false,
        }
    }

    /// The neighbourhood of a run, applied to this shape.
    pub fn within(shape: Shape, neighbourhood: Neighbourhood) -> Self {
        let Neighbourhood {
            reach,
            periodic,
            one_sided,
        } = neighbourhood;
        Stencil {
            shape,
            reach,
            periodic,
            one_sided,
        }
    }

    /// The neighbourhood as a run bundle describes it.
    pub fn neighbourhood(&self) -> Neighbourhood {
        Neighbourhood {
            reach: self.reach,
            periodic: self.periodic,
            one_sided: self.one_sided,
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.shape.ranks()
    }

    /// The ranks that a rank sends to, one entry per message.
    pub fn targets(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        let directions = self.directions().into_iter();
        directions.filter_map(move |direction| self.target(rank, direction))
    }

    /// The ranks that a rank receives from, one entry per message.
    pub fn sources(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        let directions = self.directions().into_iter();
        directions.filter_map(move |direction| self.source(rank, direction))
    }

    /// The messages that a rank in the interior receives, nearest first.
    pub(crate) fn directions(&self) -> Vec<Direction> {
        let mut all = Vec::new();
        for axis in 0..3 {
            if self.side(axis) == 1 {
                continue;
            }
            for distance in 1..=i64::from(self.reach) {
                all.push(Direction {
                    axis,
                    offset: -distance,
                });
                if !self.one_sided {
                    all.push(Direction {
                        axis,
                        offset: distance,
                    });
                }
            }
        }
        all
    }

    /// The rank that `rank` receives from in a direction.
    #[inline]
    pub(crate) fn source(&self, rank: usize, direction: Direction) -> Option<usize> {
        self.beside(rank, direction.axis, direction.offset)
    }

    /// The rank that `rank` sends to in a direction.
    #[inline]
    pub(crate) fn target(&self, rank: usize, direction: Direction) -> Option<usize> {
        self.beside(rank, direction.axis, -direction.offset)
    }

    fn side(&self, axis: u8) -> usize {
        match axis {
            0 => self.shape.x,
            1 => self.shape.y,
            _ => self.shape.z,
        }
    }

    #[inline]
    fn beside(&self, rank: usize, axis: u8, offset: i64) -> Option<usize> {
        let stride = match axis {
            0 => 1,
            1 => self.shape.x,
            _ => self.shape.x * self.shape.y,
        };
        let side = self.side(axis);
        let here = rank / stride % side;
        let there = here as i64 + offset;
        let there = match self.periodic {
            true => there.rem_euclid(side as i64) as usize,
            false => usize::try_from(there).ok().filter(|&t| t < side)?,
        };
        // Around a short axis a rank may be its own neighbour: no message.
        (there != here).then(|| rank + there * stride - here * stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_neighbours_of_a_plane_are_those_of_the_picture() {
        // 0 1 2
        // 3 4 5
        let shape = Shape { x: 3, y: 2, z: 1 };
        let of = |stencil: Stencil, rank| {
            let directions = stencil.directions();
            let source = |d: &Direction| stencil.source(rank, *d);
            directions.iter().filter_map(source).collect::<Vec<_>>()
        };
        let mut s = Stencil::nearest(shape);
        assert_eq!(of(s, 4), [3, 5, 1, 1]);
        assert_eq!(of(s, 0), [2, 1, 3, 3]);
        s.periodic = false;
        assert_eq!(of(s, 0), [1, 3]);
        s.reach = 2;
        assert_eq!(of(s, 0), [1, 2, 3]);
        s.one_sided = true;
        assert_eq!(of(s, 5), [4, 3, 2]);
    }

    proptest! {
        #[test]
        fn every_message_has_both_its_ends(
            x in 1usize..6, y in 1usize..5, z in 1usize..4, reach in 1u32..4,
            periodic: bool, one_sided: bool,
        ) {
            let stencil = Stencil { shape: Shape { x, y, z }, reach, periodic, one_sided };
            for direction in stencil.directions() {
                for rank in 0..stencil.ranks() {
                    if let Some(to) = stencil.target(rank, direction) {
                        prop_assert_eq!(stencil.source(to, direction), Some(rank));
                    }
                    if let Some(from) = stencil.source(rank, direction) {
                        prop_assert_eq!(stencil.target(from, direction), Some(rank));
                    }
                }
            }
        }
    }
}
