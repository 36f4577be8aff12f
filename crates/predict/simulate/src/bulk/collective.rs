//! Collective operations as rounds of messages, by algorithm.
//!
//! Sources of the algorithms: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
//! communication operations in MPICH", IJHPCA 19 (2005); D. Hensgen, R. Finkel, U. Manber, "Two
//! algorithms for barrier synchronization", 1988 (dissemination).

use std::fmt;
use std::str::FromStr;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All wait for all.
    Barrier,
    /// All ranks get the sum over all.
    Allreduce,
    /// All ranks get the data of rank 0.
    Broadcast,
    /// Rank 0 gets the sum over all.
    Reduce,
    /// Each rank sends every other rank a piece of its own.
    Alltoall,
}

/// The messages that perform a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Along a binomial tree: to the root, from the root, or first one and then the other.
    Binomial,
    /// In round k each rank sends to the rank 2^k above it.
    Dissemination,
    /// In round k, ranks whose numbers differ in bit k exchange; ranks beyond a power of two join
    /// before and after.
    RecursiveDoubling,
    /// Pieces travel around a ring, from each rank to the next.
    Ring,
    /// In round k each rank sends to the rank k above it.
    Pairwise,
    /// In round k each rank sends to the rank 2^k above it everything that still has to travel in
    /// that direction, whatever its destination.
    Bruck,
    /// Halves are exchanged and summed, then reassembled (Rabenseifner).
    Rabenseifner,
    /// Pieces down a binomial tree, then around a ring.
    ScatterRing,
    /// All messages at once. Not in the bulk-synchronous engine, whose rounds have one message per
    /// rank.
    Linear,
}

/// The algorithm cannot perform the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{algorithm} is no algorithm for {collective}; there are {}", names(*collective))]
pub struct CollectiveError {
    /// The operation.
    pub collective: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
}

fn names(collective: Collective) -> String {
    let names: Vec<String> = collective
        .algorithms()
        .iter()
        .map(Algorithm::to_string)
        .collect();
    names.join(", ")
}

const COLLECTIVES: [(Collective, &str); 5] = [
    (Collective::Barrier, "barrier"),
    (Collective::Allreduce, "allreduce"),
    (Collective::Broadcast, "bcast"),
    (Collective::Reduce, "reduce"),
    (Collective::Alltoall, "alltoall"),
];

const ALGORITHMS: [(Algorithm, &str); 9] = [
    (Algorithm::Binomial, "binomial"),
    (Algorithm::Dissemination, "dissemination"),
    (Algorithm::RecursiveDoubling, "recursive-doubling"),
    (Algorithm::Ring, "ring"),
    (Algorithm::Pairwise, "pairwise"),
    (Algorithm::Bruck, "bruck"),
    (Algorithm::Rabenseifner, "rabenseifner"),
    (Algorithm::ScatterRing, "scatter-ring"),
    (Algorithm::Linear, "linear"),
];

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(COLLECTIVES[*self as usize].1)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALGORITHMS[*self as usize].1)
    }
}

/// Looks up a name in a table.
fn named<T: Copy>(table: &[(T, &str)], text: &str) -> Result<T, String> {
    table
        .iter()
        .find(|(_, name)| *name == text)
        .map(|(value, _)| *value)
        .ok_or_else(|| {
            let names: Vec<&str> = table.iter().map(|(_, name)| *name).collect();
            format!("`{text}` is not one of {}", names.join(", "))
        })
}

impl FromStr for Collective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(&COLLECTIVES, text)
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(&ALGORITHMS, text)
    }
}

impl Collective {
    /// Algorithms for this operation; MPI libraries usually choose the first one for short
    /// messages.
    pub fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::*;
        match self {
            Collective::Barrier => &[Dissemination, RecursiveDoubling, Binomial],
            Collective::Allreduce => &[RecursiveDoubling, Ring, Binomial, Rabenseifner],
            Collective::Broadcast => &[Binomial, ScatterRing],
            Collective::Reduce => &[Binomial],
            Collective::Alltoall => &[Pairwise, Bruck],
        }
    }

    /// The rounds of an algorithm on `ranks` ranks, with messages of `bytes` bytes per rank of the
    /// operation.
    ///
    /// # Errors
    /// The algorithm is not one for this operation.
    pub fn rounds(
        self,
        algorithm: Algorithm,
        ranks: u32,
        bytes: u64,
    ) -> Result<Vec<Round>, CollectiveError> {
        if !self.algorithms().contains(&algorithm) {
            return Err(CollectiveError {
                collective: self,
                algorithm,
            });
        }
        let levels = ranks.next_power_of_two().trailing_zeros();
        let up = (0..levels).map(|k| Pattern::TreeUp(1 << k));
        let down = (0..levels).rev().map(|k| Pattern::TreeDown(1 << k));
        let around = |times: u32| (0..times).map(|_| Pattern::Shift(1));
        let with = |bytes: u64, patterns: Vec<Pattern>| {
            let round = |pattern| Round { pattern, bytes };
            patterns.into_iter().map(round).collect()
        };
        let piece = |pieces: u32| {
            let all = u128::from(bytes) * u128::from(pieces);
            u64::try_from(all.div_ceil(ranks.into())).unwrap_or(u64::MAX)
        };
        Ok(match (self, algorithm) {
            (Collective::Broadcast, Algorithm::ScatterRing) => {
                let scatter = (0..levels).rev().map(|k| Round {
                    pattern: Pattern::TreeDown(1 << k),
                    bytes: piece(1 << k),
                });
                let ring = with(piece(1), around(ranks - 1).collect());
                scatter.chain(ring).collect()
            }
            (Collective::Broadcast, _) => with(bytes, down.collect()),
            (Collective::Reduce, _) => with(bytes, up.collect()),
            (_, Algorithm::Binomial) => with(bytes, up.chain(down).collect()),
            (_, Algorithm::Dissemination) => {
                with(bytes, (0..levels).map(|k| Pattern::Shift(1 << k)).collect())
            }
            (_, Algorithm::RecursiveDoubling) => {
                let power = 1 << ranks.ilog2();
                let inner = (0..ranks.ilog2()).map(|k| Pattern::Differ(1 << k, power));
                let mut all: Vec<Pattern> = inner.collect();
                if power < ranks {
                    all.insert(0, Pattern::FoldIn(power));
                    all.push(Pattern::FoldOut(power));
                }
                with(bytes, all)
            }
            (_, Algorithm::Rabenseifner) => {
                let power = 1 << ranks.ilog2();
                let half = |k: u32| Round {
                    pattern: Pattern::Differ(1 << k, power),
                    bytes: bytes.div_ceil(u64::from(power >> k)),
                };
                let halves = (0..ranks.ilog2()).rev().map(half);
                let mut all: Vec<Round> = halves.chain((0..ranks.ilog2()).map(half)).collect();
                if power < ranks {
                    let fold = |pattern| Round { pattern, bytes };
                    all.insert(0, fold(Pattern::FoldIn(power)));
                    all.push(fold(Pattern::FoldOut(power)));
                }
                all
            }
            (_, Algorithm::Bruck) => (0..levels)
                .map(|k| Round {
                    pattern: Pattern::Shift(1 << k),
                    bytes: bytes.saturating_mul(with_bit(ranks, k)),
                })
                .collect(),
            (_, Algorithm::Ring) => {
                let piece = bytes.div_ceil(u64::from(ranks));
                with(piece, around(2 * (ranks - 1)).collect())
            }
            // No collective has these algorithms, as checked above.
            (_, Algorithm::Pairwise | Algorithm::ScatterRing | Algorithm::Linear) => {
                with(bytes, (1..ranks).map(Pattern::Shift).collect())
            }
        })
    }
}

/// How many of the numbers below `ranks` have this bit set.
fn with_bit(ranks: u32, bit: u32) -> u64 {
    let (ranks, size) = (u64::from(ranks), 1_u64 << bit);
    (ranks / (2 * size)) * size + (ranks % (2 * size)).saturating_sub(size)
}

/// A round: each rank sends at most one message and receives at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Length of each message.
    pub bytes: u64,
}

/// Which rank sends to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// To the rank this far above, wrapping around at the end.
    Shift(u32),
    /// Between ranks whose numbers differ in this bit, both below the second number.
    Differ(u32, u32),
    /// From the ranks at or above this number to those that far below.
    FoldIn(u32),
    /// The reverse of `FoldIn`.
    FoldOut(u32),
    /// In a binomial tree: from the ranks whose lowest set bit is this one to the ranks without it.
    TreeUp(u32),
    /// The reverse of `TreeUp`.
    TreeDown(u32),
}

impl Pattern {
    /// The rank that `rank` sends to.
    #[inline]
    pub fn target(self, rank: u32, ranks: u32) -> Option<u32> {
        match self {
            Pattern::Shift(by) => {
                let to = ((u64::from(rank) + u64::from(by)) % u64::from(ranks)) as u32;
                (to != rank).then_some(to)
            }
            Pattern::Differ(bit, below) => (rank < below).then_some(rank ^ bit),
            Pattern::FoldIn(power) => rank.checked_sub(power),
            Pattern::FoldOut(power) => (rank < power && power < ranks - rank).then(|| rank + power),
            Pattern::TreeUp(bit) => (rank % (2 * bit) == bit).then(|| rank - bit),
            Pattern::TreeDown(bit) => {
                (rank % (2 * bit) == 0 && bit < ranks - rank).then(|| rank + bit)
            }
        }
    }

    /// The rank that `rank` receives from.
    #[inline]
    pub fn source(self, rank: u32, ranks: u32) -> Option<u32> {
        match self {
            Pattern::Shift(by) => {
                let by = by % ranks;
                (by != 0).then(|| (rank + (ranks - by)) % ranks)
            }
            Pattern::Differ(..) => self.target(rank, ranks),
            Pattern::FoldIn(power) => Pattern::FoldOut(power).target(rank, ranks),
            Pattern::FoldOut(power) => Pattern::FoldIn(power).target(rank, ranks),
            Pattern::TreeUp(bit) => Pattern::TreeDown(bit).target(rank, ranks),
            Pattern::TreeDown(bit) => Pattern::TreeUp(bit).target(rank, ranks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> impl Iterator<Item = (Collective, Algorithm)> {
        COLLECTIVES
            .iter()
            .flat_map(|&(c, _)| c.algorithms().iter().map(move |&a| (c, a)))
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (collective, algorithm) in all() {
            assert_eq!(collective.to_string().parse(), Ok(collective));
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        assert!(
            "sum"
                .parse::<Collective>()
                .unwrap_err()
                .contains("allreduce")
        );
        let error = Collective::Broadcast
            .rounds(Algorithm::Ring, 4, 1)
            .unwrap_err();
        assert!(error.to_string().contains("there are binomial"), "{error}");
    }

    /// Tracks which ranks' data each rank has: the oracle for what a collective must achieve.
    #[test]
    fn every_rank_ends_with_what_the_operation_promises() {
        for ranks in [1_u32, 2, 3, 4, 5, 7, 8, 13, 16, 33] {
            for (collective, algorithm) in all() {
                let rounds = collective.rounds(algorithm, ranks, 800).unwrap();
                let mut knows: Vec<BTreeSet<u32>> = (0..ranks).map(|r| [r].into()).collect();
                let mut direct = vec![BTreeSet::new(); ranks as usize];
                for round in &rounds {
                    let before = knows.clone();
                    for rank in 0..ranks {
                        if let Some(to) = round.pattern.target(rank, ranks) {
                            assert_eq!(round.pattern.source(to, ranks), Some(rank), "{round:?}");
                            knows[to as usize].extend(&before[rank as usize]);
                            direct[to as usize].insert(rank);
                        }
                        if let Some(from) = round.pattern.source(rank, ranks) {
                            assert_eq!(round.pattern.target(from, ranks), Some(rank), "{round:?}");
                        }
                    }
                }
                let everything: BTreeSet<u32> = (0..ranks).collect();
                for rank in 0..ranks {
                    let mut others = everything.clone();
                    others.remove(&rank);
                    let fulfilled = match collective {
                        Collective::Barrier | Collective::Allreduce => {
                            knows[rank as usize] == everything
                        }
                        Collective::Broadcast => knows[rank as usize].contains(&0),
                        Collective::Reduce => rank > 0 || knows[0] == everything,
                        Collective::Alltoall if algorithm == Algorithm::Bruck => {
                            knows[rank as usize] == everything
                        }
                        Collective::Alltoall => direct[rank as usize] == others,
                    };
                    assert!(fulfilled, "{collective} {algorithm} {ranks}: rank {rank}");
                }
            }
        }
    }

    #[test]
    fn the_numbers_of_rounds_are_those_of_the_literature() {
        let rounds = |c: Collective, a, ranks| c.rounds(a, ranks, 1_000).unwrap();
        for (ranks, log) in [(2, 1), (5, 3), (8, 3), (1_000_000, 20)] {
            let count = rounds(Collective::Barrier, Algorithm::Dissemination, ranks).len();
            assert_eq!(count, log);
            assert_eq!(
                rounds(Collective::Broadcast, Algorithm::Binomial, ranks).len(),
                log
            );
        }
        let of = |ranks| rounds(Collective::Allreduce, Algorithm::RecursiveDoubling, ranks).len();
        assert_eq!([of(8), of(9), of(1)], [3, 5, 0]);
        // In round k the pieces whose distance has bit k travel: four of the distances 0 to 7 each;
        // of the distances 0 to 4 two (1, 3), two (2, 3) and one (4).
        let bruck = rounds(Collective::Alltoall, Algorithm::Bruck, 8);
        assert_eq!(
            bruck.iter().map(|r| r.bytes).collect::<Vec<_>>(),
            [4_000; 3]
        );
        let odd = rounds(Collective::Alltoall, Algorithm::Bruck, 5);
        assert_eq!(
            odd.iter().map(|r| r.bytes).collect::<Vec<_>>(),
            [2_000, 2_000, 1_000]
        );
        // Twice all but one of n pieces, the least that bandwidth allows.
        let halves = rounds(Collective::Allreduce, Algorithm::Rabenseifner, 8);
        assert_eq!(halves.iter().map(|r| r.bytes).sum::<u64>(), 2 * 7 * 125);
        let scattered = rounds(Collective::Broadcast, Algorithm::ScatterRing, 4);
        assert_eq!(
            scattered.iter().map(|r| r.bytes).collect::<Vec<_>>(),
            [500, 250, 250, 250, 250]
        );
        let ring = rounds(Collective::Allreduce, Algorithm::Ring, 10);
        assert_eq!((ring.len(), ring[0].bytes), (18, 100));
    }
}
