//! What a rank holds of each level's grid, and whom it exchanges with there.
//!
//! The cells of a level are numbered from 1 along each axis; number 2i of a level is number i of the
//! next coarser one. A level of n cells along an axis gives n/P of them to each of P ranks. With
//! fewer cells than ranks only those ranks hold one whose share ends with a cell, so that a cell
//! stays where it was on the finer level; the others have nothing to do until the way back up.

use idlewave_units::Rank;

/// One rank's share of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Cells of the whole level before the share, along each axis.
    pub before: [usize; 3],
    /// Cells of the share along each axis. Zero along an axis: the rank holds none.
    pub cells: [usize; 3],
    /// Neighbours below and above along each axis, unless the rank is alone there.
    pub neighbours: [Option<[Rank; 2]>; 3],
    /// What to do along each axis before values go to the next finer level, for ranks that hold
    /// cells of that one.
    pub waking: [Waking; 3],
    /// The next coarser level has cell `(i + odd) / 2` where this one has cell i, both counted in
    /// the share.
    pub odd: [usize; 3],
}

/// How ranks that hold no cell along an axis get what they interpolate between. The ranks are those
/// below and above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// All ranks of the next finer level hold cells.
    None,
    /// This one gives its cells.
    Give([Rank; 2]),
    /// This one takes theirs.
    Take([Rank; 2]),
}

/// Ranks along each axis: as equal as powers of two can be, the last axis with the most.
pub fn sides(ranks: u32) -> [u32; 3] {
    let all = ranks.ilog2();
    let first = all / 3;
    let second = (all - first) / 2;
    [1 << first, 1 << second, 1 << (all - first - second)]
}

/// The place of a rank along each axis; the first varies fastest.
fn place(rank: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [rank % x, rank / x % y, rank / x / y]
}

impl Level {
    /// The levels of a rank, from 2 cells along each edge to `1 << finest`.
    pub fn all(finest: u32, rank: u32, ranks: u32) -> Vec<Self> {
        let sides = sides(ranks);
        let place = place(rank, sides);
        let at = |axis: usize, steps: u32| {
            let mut other = place;
            other[axis] = (place[axis] + steps) % sides[axis];
            Rank::new(other[0] + sides[0] * (other[1] + sides[1] * other[2]))
        };
        let of = |log2: u32| {
            let edge = 1_u64 << log2;
            let start = |axis: usize, place: u32| {
                (u64::from(place) * edge / u64::from(sides[axis])) as usize
            };
            let before = std::array::from_fn(|axis| start(axis, place[axis]));
            let cells = std::array::from_fn(|axis| start(axis, place[axis] + 1) - before[axis]);
            // From one rank with cells to the next, at this level and the next finer one.
            let apart = |axis: usize, edge: u64| (u64::from(sides[axis]) / edge).max(1) as u32;
            let both = |axis: usize, apart: u32| [at(axis, sides[axis] - apart), at(axis, apart)];
            Self {
                before,
                cells,
                neighbours: std::array::from_fn(|axis| {
                    (sides[axis] > 1).then(|| both(axis, apart(axis, edge)))
                }),
                waking: std::array::from_fn(|axis| {
                    let finer = apart(axis, 2 * edge);
                    match (finer < apart(axis, edge), cells[axis]) {
                        (false, _) => Waking::None,
                        (true, 0) => Waking::Take(both(axis, finer)),
                        (true, _) => Waking::Give(both(axis, finer)),
                    }
                }),
                odd: std::array::from_fn(|axis| before[axis] % 2),
            }
        };
        (1..=finest).map(of).collect()
    }

    /// Whether the rank holds cells.
    pub fn is_active(&self) -> bool {
        self.cells.iter().all(|&cells| cells > 0)
    }
}
