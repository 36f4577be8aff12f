//! Which ranks wait for which: decompositions of ranks, and how an iteration of a lockstep run
//! couples them.

use serde::{Deserialize, Serialize};

/// How the ranks of a lockstep run wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coupling {
    /// Each waits for its neighbours in a periodic decomposition.
    Neighbours,
    /// Each waits for all.
    Barrier,
    /// Each waits for all, and all get the combined values.
    Allreduce,
    /// Rank 0 waits for all; the others do not wait.
    Reduce,
    /// Each waits for a message from all.
    Alltoall,
}

impl Coupling {
    /// Display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Neighbours => "neighbour exchange",
            Self::Barrier => "barrier",
            Self::Allreduce => "allreduce",
            Self::Reduce => "reduce",
            Self::Alltoall => "all-to-all",
        }
    }
}

/// How a neighbour exchange is programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeVariant {
    /// One direction after the other: send there, receive from the opposite side, wait for both.
    Blocking,
    /// Starts all receives and sends, then waits for all of them.
    #[default]
    NonBlocking,
    /// Like non-blocking, with half of the computation between start and wait. The other half comes
    /// before.
    Overlapped,
}

impl ExchangeVariant {
    /// Name in displays and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::NonBlocking => "nonblocking",
            Self::Overlapped => "overlapped",
        }
    }
}

/// The ranks from which a rank receives in a neighbour exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbourhood {
    /// Neighbours along each dimension and side; at least 1.
    pub reach: u32,
    /// Whether each dimension wraps around.
    pub periodic: bool,
    /// Whether a rank receives from lower ranks only.
    pub one_sided: bool,
}

impl Default for Neighbourhood {
    /// The nearest on both sides, periodic: what the measured runs do.
    fn default() -> Self {
        Self {
            reach: 1,
            periodic: true,
            one_sided: false,
        }
    }
}

impl Neighbourhood {
    /// The ranks from which `rank` receives on a grid with these sides, the last dimension varying
    /// fastest: `rank` included, each once, in rising order.
    fn of(self, sides: &[u32], rank: u32) -> Vec<usize> {
        let mut set = vec![rank as usize];
        let mut stride: u32 = sides.iter().product();
        for &side in sides {
            stride /= side.max(1);
            if side < 2 {
                continue;
            }
            let place = i64::from(rank / stride % side);
            let base = i64::from(rank) - place * i64::from(stride);
            // Beyond one turn around the dimension there are no new ranks.
            for distance in 1..=i64::from(self.reach.min(side)) {
                for offset in [-distance, distance] {
                    let there = match (self.one_sided && offset > 0, self.periodic) {
                        (true, _) => continue,
                        (_, true) => (place + offset).rem_euclid(side.into()),
                        (_, false) => place + offset,
                    };
                    if (0..i64::from(side)).contains(&there) {
                        set.push((base + there * i64::from(stride)) as usize);
                    }
                }
            }
        }
        set.sort_unstable();
        set.dedup();
        set
    }
}

/// Ranks on a periodic grid, the last dimension varying fastest (as `MPI_Cart_create` numbers
/// them).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decomposition {
    sides: Vec<u32>,
}

/// A connection over which a rank sends to a neighbour and receives from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The neighbour.
    pub rank: u32,
    /// Twice the dimension, plus one if the neighbour lies upwards. What a rank receives over link
    /// `l`, its neighbour sent over its own link `l ^ 1`.
    pub direction: u32,
}

impl Decomposition {
    /// As even as possible: sides in falling order whose largest is as small as possible, as
    /// `MPI_Dims_create` should choose them (MPI 4.1, 8.5.2). Zero dimensions count as one.
    pub fn balanced(ranks: u32, dimensions: u32) -> Self {
        Self {
            sides: factors(ranks.max(1), dimensions.max(1), u32::MAX).unwrap_or_default(),
        }
    }

    /// With these sides; an empty list makes all `ranks` a ring. `None` if the sides do not hold
    /// `ranks` ranks.
    pub fn of_sides(sides: &[u32], ranks: u32) -> Option<Self> {
        if sides.is_empty() {
            return Some(Self::balanced(ranks, 1));
        }
        let mut product = 1_u32;
        for &side in sides {
            product = product.checked_mul(side)?;
        }
        (product == ranks).then(|| Self {
            sides: sides.to_vec(),
        })
    }

    /// Ranks along each dimension.
    pub fn sides(&self) -> &[u32] {
        &self.sides
    }

    /// The links of `rank`: two for each dimension of more than one rank. In a dimension of two
    /// ranks both links lead to the same rank, since a periodic box has two faces.
    pub fn links(&self, rank: u32) -> Vec<Link> {
        let mut links = Vec::new();
        // Distance in rank numbers between neighbours along the dimension.
        let mut stride: u32 = self.sides.iter().product();
        for (dimension, &side) in self.sides.iter().enumerate() {
            stride /= side.max(1);
            if side < 2 {
                continue;
            }
            let place = rank / stride % side;
            let base = rank - place * stride;
            let at = |place: u32| base + place % side * stride;
            let direction = 2 * dimension as u32;
            links.push(Link {
                rank: at(place + side - 1),
                direction,
            });
            links.push(Link {
                rank: at(place + 1),
                direction: direction + 1,
            });
        }
        links
    }

    /// Largest number of exchanges that a delay needs to travel between two ranks.
    pub fn diameter(&self) -> u32 {
        self.sides.iter().map(|side| side / 2).sum()
    }
}

/// The factorisation of `n` into `parts` falling factors, none above `most`, with the smallest
/// largest factor, then the smallest second one, and so on.
fn factors(n: u32, parts: u32, most: u32) -> Option<Vec<u32>> {
    if parts == 1 {
        return (n <= most).then(|| vec![n]);
    }
    let root = f64::from(n).powf(1.0 / f64::from(parts)).floor() as u32;
    // One less, in case the root was rounded up.
    (root.saturating_sub(1).max(1)..=n.min(most))
        .filter(|first| n % first == 0)
        .find_map(|first| {
            let mut sides = vec![first];
            sides.extend(factors(n / first, parts - 1, first)?);
            Some(sides)
        })
}

/// The ranks whose arrival in an iteration each rank awaits before its next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsFor {
    ranks: usize,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    All,
    Root,
    These(Vec<Vec<usize>>),
}

impl WaitsFor {
    /// For `ranks` ranks; `sides` are those of the decomposition, empty for a ring. Sides that do
    /// not hold `ranks` ranks count as a ring too; callers check this before.
    pub fn new(coupling: Coupling, sides: &[u32], ranks: usize) -> Self {
        Self::within(coupling, sides, Neighbourhood::default(), ranks)
    }

    /// The same for a neighbourhood other than the nearest on a periodic grid.
    pub fn within(
        coupling: Coupling,
        sides: &[u32],
        neighbourhood: Neighbourhood,
        ranks: usize,
    ) -> Self {
        let rule = match coupling {
            Coupling::Barrier | Coupling::Allreduce | Coupling::Alltoall => Rule::All,
            Coupling::Reduce => Rule::Root,
            Coupling::Neighbours => {
                let ring = || Decomposition::balanced(ranks as u32, 1);
                let grid = Decomposition::of_sides(sides, ranks as u32).unwrap_or_else(ring);
                let set = |rank: usize| neighbourhood.of(grid.sides(), rank as u32);
                Rule::These((0..ranks).map(set).collect())
            }
        };
        Self { ranks, rule }
    }

    /// Whether every rank waits for all.
    pub fn is_global(&self) -> bool {
        self.rule == Rule::All
    }

    /// The ranks for which `rank` waits, itself included, in rising order.
    pub fn of(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        let (range, list) = match &self.rule {
            Rule::All => (0..self.ranks, &[][..]),
            Rule::Root if rank == 0 => (0..self.ranks, &[][..]),
            Rule::Root => (rank..rank + 1, &[][..]),
            Rule::These(sets) => (0..0, sets.get(rank).map_or(&[][..], Vec::as_slice)),
        };
        range.chain(list.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_factored_as_mpi_dims_create_does() {
        // MPI 4.1, example of 8.5.2, and hand arithmetic.
        for (ranks, dimensions, sides) in [
            (6, 2, &[3, 2][..]),
            (7, 2, &[7, 1]),
            (6, 3, &[3, 2, 1]),
            (7, 3, &[7, 1, 1]),
            (16, 2, &[4, 4]),
            (8, 3, &[2, 2, 2]),
            (12, 3, &[3, 2, 2]),
            (64, 3, &[4, 4, 4]),
            (36, 3, &[4, 3, 3]),
            (5, 1, &[5]),
            (1, 3, &[1, 1, 1]),
        ] {
            assert_eq!(Decomposition::balanced(ranks, dimensions).sides(), sides);
        }
    }

    fn neighbours(sides: &[u32], rank: u32) -> Vec<u32> {
        let grid = Decomposition::of_sides(sides, sides.iter().product()).unwrap();
        grid.links(rank).iter().map(|l| l.rank).collect()
    }

    #[test]
    fn neighbours_are_those_of_the_periodic_grid() {
        assert_eq!(neighbours(&[5], 0), [4, 1]);
        assert_eq!(neighbours(&[2], 0), [1, 1]);
        assert!(neighbours(&[1], 0).is_empty());
        // 3 x 4, row by row: rank 5 is row 1, column 1; rank 0 a corner.
        assert_eq!(neighbours(&[3, 4], 5), [1, 9, 4, 6]);
        assert_eq!(neighbours(&[3, 4], 0), [8, 4, 3, 1]);
        assert_eq!(neighbours(&[2, 1, 3], 4), [1, 1, 3, 5]);
    }

    #[test]
    fn the_diameter_is_the_way_to_the_farthest_corner() {
        let diameter = |sides: &[u32]| {
            Decomposition::of_sides(sides, sides.iter().product())
                .unwrap()
                .diameter()
        };
        assert_eq!(
            [diameter(&[1]), diameter(&[5]), diameter(&[4, 4, 2])],
            [0, 2, 5]
        );
        assert_eq!(Decomposition::of_sides(&[2, 2], 5), None);
        assert_eq!(Decomposition::of_sides(&[70_000, 70_000], 5), None);
    }

    #[test]
    fn who_waits_for_whom_follows_from_the_coupling() {
        let of = |coupling, rank| WaitsFor::new(coupling, &[], 4).of(rank).collect::<Vec<_>>();
        assert_eq!(of(Coupling::Neighbours, 0), [0, 1, 3]);
        assert_eq!(of(Coupling::Allreduce, 2), [0, 1, 2, 3]);
        assert_eq!(of(Coupling::Reduce, 0), [0, 1, 2, 3]);
        assert_eq!(of(Coupling::Reduce, 3), [3]);
        let pair = WaitsFor::new(Coupling::Neighbours, &[2], 2);
        assert_eq!(pair.of(1).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_neighbourhood_reaches_as_far_as_it_says() {
        // 3 x 4, row by row: rank 5 is row 1, column 1.
        let of = |reach, periodic, one_sided, rank| {
            let neighbourhood = Neighbourhood {
                reach,
                periodic,
                one_sided,
            };
            let waits = WaitsFor::within(Coupling::Neighbours, &[3, 4], neighbourhood, 12);
            waits.of(rank).collect::<Vec<_>>()
        };
        assert_eq!(of(1, true, false, 5), [1, 4, 5, 6, 9]);
        assert_eq!(of(1, true, true, 0), [0, 3, 8]);
        assert_eq!(of(1, false, false, 0), [0, 1, 4]);
        assert_eq!(of(1, false, true, 0), [0]);
        assert_eq!(of(2, false, true, 11), [3, 7, 9, 10, 11]);
        assert_eq!(of(2, true, false, 5), [1, 4, 5, 6, 7, 9]);
        // Beyond the grid there are no new ranks.
        assert_eq!(of(u32::MAX, true, false, 5), [1, 4, 5, 6, 7, 9]);
    }

    proptest! {
        #[test]
        fn the_nearest_neighbours_are_those_of_the_links(ranks in 1_u32..100, dimensions in 1_u32..4) {
            let grid = Decomposition::balanced(ranks, dimensions);
            let waits = WaitsFor::new(Coupling::Neighbours, grid.sides(), ranks as usize);
            for rank in 0..ranks {
                let mut linked: Vec<usize> = grid.links(rank).iter().map(|l| l.rank as usize).collect();
                linked.push(rank as usize);
                linked.sort_unstable();
                linked.dedup();
                prop_assert_eq!(waits.of(rank as usize).collect::<Vec<_>>(), linked);
            }
        }

        #[test]
        fn what_is_sent_over_a_link_is_received_over_the_opposite_one(ranks in 1_u32..200, dimensions in 1_u32..4) {
            let grid = Decomposition::balanced(ranks, dimensions);
            prop_assert_eq!(grid.sides().iter().product::<u32>(), ranks);
            prop_assert!(grid.sides().windows(2).all(|w| w[0] >= w[1]));
            for rank in 0..ranks {
                for link in grid.links(rank) {
                    let back = Link { rank, direction: link.direction ^ 1 };
                    prop_assert!(grid.links(link.rank).contains(&back));
                }
            }
        }
    }
}
