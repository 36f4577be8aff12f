//! What each member of a collective sends and receives, in rounds.
//!
//! Algorithms: those of [`crate::bulk`]; for operations that it does not have (Thakur,
//! Rabenseifner, Gropp, IJHPCA 19, 2005): all-gathers by dissemination (Bruck) or around a ring,
//! gathers and scatters along a binomial tree with the pieces of each subtree in one message,
//! pairwise reduce-scatters, prefix sums over doubling distances. Pieces of different lengths (`v`)
//! count as equal, because only the sum of each call was recorded.

use super::select::Algorithms;
use crate::bulk::{Algorithm, Collective, Pattern, Round};

/// From this total over all members, an all-gather goes around a ring; below, it uses
/// dissemination: 80 KiB as in MPICH.
const LONG_ALLGATHER: u64 = 81_920;

/// A collective operation, as far as its messages differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// All wait for all.
    Barrier,
    /// All members get the sum over all.
    Allreduce,
    /// All members get the data of the root.
    Broadcast,
    /// The root gets the sum over all.
    Reduce,
    /// Each member sends every other one a piece of its own.
    Alltoall,
    /// An all-to-all with pieces of different lengths: libraries choose an algorithm without
    /// knowing them.
    Alltoallv,
    /// An all-to-all with pieces of different types.
    Alltoallw,
    /// All members get the pieces of all.
    Allgather,
    /// Each member gets its piece of the sum over all.
    ReduceScatter,
    /// The root gets the pieces of all.
    Gather,
    /// Each member gets its piece of the root's data.
    Scatter,
    /// Each member gets the sum of those before it.
    Scan,
}

impl Kind {
    /// The operation of an MPI function, by its C name; `None` if it is not a blocking collective
    /// with messages of its own.
    pub fn of(name: &str) -> Option<Kind> {
        let name = name.strip_suffix("_c").unwrap_or(name);
        Some(match name.strip_prefix("MPI_")? {
            "Barrier" => Kind::Barrier,
            "Allreduce" => Kind::Allreduce,
            "Bcast" => Kind::Broadcast,
            "Reduce" => Kind::Reduce,
            "Alltoall" => Kind::Alltoall,
            "Alltoallv" => Kind::Alltoallv,
            "Alltoallw" => Kind::Alltoallw,
            "Allgather" | "Allgatherv" => Kind::Allgather,
            "Reduce_scatter" | "Reduce_scatter_block" => Kind::ReduceScatter,
            "Gather" | "Gatherv" => Kind::Gather,
            "Scatter" | "Scatterv" => Kind::Scatter,
            "Scan" | "Exscan" => Kind::Scan,
            _ => return None,
        })
    }

    /// The corresponding operation of the bulk engine.
    pub fn in_bulk(self) -> Option<Collective> {
        Some(match self {
            Kind::Barrier => Collective::Barrier,
            Kind::Allreduce => Collective::Allreduce,
            Kind::Broadcast => Collective::Broadcast,
            Kind::Reduce => Collective::Reduce,
            Kind::Alltoall | Kind::Alltoallv | Kind::Alltoallw => Collective::Alltoall,
            _ => return None,
        })
    }

    /// Bytes of a message from one rank to another, or of one rank's piece. `sent` and `received`
    /// are the largest numbers of bytes that any member contributed and received.
    pub fn piece(self, members: u32, sent: u64, received: u64) -> u64 {
        match self {
            Kind::Barrier => 0,
            Kind::Allreduce | Kind::Reduce | Kind::Allgather | Kind::Scan => sent,
            Kind::Broadcast => sent.max(received),
            Kind::Alltoall | Kind::Alltoallv | Kind::Alltoallw | Kind::ReduceScatter => {
                sent.div_ceil(u64::from(members.max(1)))
            }
            // The root's total in equal pieces. If it was not recorded, the next arm uses what the
            // others sent.
            Kind::Gather if received > 0 => received.div_ceil(u64::from(members.max(1))),
            Kind::Gather => sent,
            Kind::Scatter if sent > 0 => sent.div_ceil(u64::from(members.max(1))),
            Kind::Scatter => received,
        }
    }
}

/// What a member does in a round, all at once: the members that it sends to and receives from, each
/// with the bytes of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Messages that it sends: receiver and bytes.
    pub to: Vec<(u32, u64)>,
    /// Messages that it receives: sender and bytes.
    pub from: Vec<(u32, u64)>,
}

/// A collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub kind: Kind,
    /// Number of members, at least 1.
    pub members: u32,
    /// The root's number among the members; 0 if there is none.
    pub root: u32,
    /// Bytes as returned by [`Kind::piece`].
    pub piece: u64,
}

impl Call {
    /// What a member does, round after round.
    pub fn steps(&self, member: u32, algorithms: &Algorithms) -> Vec<Step> {
        let (ranks, piece) = (self.members, self.piece);
        // Renumbered as if the root were the first.
        let own = (member + (ranks - self.root)) % ranks;
        let real =
            |number: u32| ((u64::from(number) + u64::from(self.root)) % u64::from(ranks)) as u32;
        let by_pattern = |pattern: Pattern, bytes: &dyn Fn(u32) -> u64| {
            let end = |peer: u32| (real(peer), bytes(own.max(peer)));
            Step {
                to: pattern.target(own, ranks).map(end).into_iter().collect(),
                from: pattern.source(own, ranks).map(end).into_iter().collect(),
            }
        };
        let levels = ranks.next_power_of_two().trailing_zeros();
        // Bytes for the subtree below a link of the tree, given by the link's higher-numbered end.
        let subtree =
            |bit: u32| move |child: u32| piece.saturating_mul(bit.min(ranks - child).into());
        match self.kind {
            Kind::Allgather if piece.saturating_mul(ranks.into()) >= LONG_ALLGATHER => (1..ranks)
                .map(|_| by_pattern(Pattern::Shift(1), &|_| piece))
                .collect(),
            Kind::Allgather => (0..levels)
                .map(|k| {
                    let pieces = (1 << k).min(ranks - (1 << k));
                    by_pattern(Pattern::Shift(1 << k), &|_| {
                        piece.saturating_mul(pieces.into())
                    })
                })
                .collect(),
            Kind::ReduceScatter => (1..ranks)
                .map(|k| by_pattern(Pattern::Shift(k), &|_| piece))
                .collect(),
            Kind::Gather => (0..levels)
                .map(|k| by_pattern(Pattern::TreeUp(1 << k), &subtree(1 << k)))
                .collect(),
            Kind::Scatter => (0..levels)
                .rev()
                .map(|k| by_pattern(Pattern::TreeDown(1 << k), &subtree(1 << k)))
                .collect(),
            Kind::Scan => (0..levels)
                .map(|k| {
                    let above = own.checked_add(1 << k).filter(|&to| to < ranks);
                    let below = own.checked_sub(1 << k);
                    Step {
                        to: above.map(|to| (to, piece)).into_iter().collect(),
                        from: below.map(|from| (from, piece)).into_iter().collect(),
                    }
                })
                .collect(),
            Kind::Barrier
            | Kind::Allreduce
            | Kind::Broadcast
            | Kind::Reduce
            | Kind::Alltoall
            | Kind::Alltoallv
            | Kind::Alltoallw => {
                let Some(collective) = self.kind.in_bulk() else {
                    return Vec::new();
                };
                let algorithm = match self.kind {
                    Kind::Alltoallv => algorithms.of_alltoallv(ranks, piece),
                    Kind::Alltoallw => algorithms.of_alltoallw(ranks, piece),
                    _ => algorithms.of(collective, ranks, piece),
                };
                if algorithm == Algorithm::Linear {
                    let others = |step: fn(u32, u32, u32) -> u32| {
                        (1..ranks)
                            .map(move |k| (step(member, k, ranks), piece))
                            .collect()
                    };
                    return vec![Step {
                        to: others(|own, k, ranks| (own + k) % ranks),
                        from: others(|own, k, ranks| (own + ranks - k) % ranks),
                    }];
                }
                // `Algorithms` holds only algorithms that can perform the operation.
                let rounds = collective
                    .rounds(algorithm, ranks, piece)
                    .unwrap_or_default();
                let step = |r: &Round| by_pattern(r.pattern, &|_| r.bytes);
                rounds.iter().map(step).collect()
            }
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
