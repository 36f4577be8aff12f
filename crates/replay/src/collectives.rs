//! What each member of a collective sends and receives, in rounds.
//!
//! Algorithms: those of [`idlewave_simulate::bulk`], and for operations which that does not have (Thakur, Rabenseifner, Gropp, IJHPCA 19, 2005):
//! all-gathers by dissemination (Bruck) or around a ring, gathers and scatters along a binomial tree with the pieces of each
//! subtree in one message, reduce-scatters pairwise, prefixes by distances that double. Pieces of different lengths (`v`)
//! count as equal ones: of each call only the sum was recorded.

use idlewave_simulate::bulk::{Algorithm, Collective, CollectiveError, Pattern, Round};

/// From here on an allreduce goes around a ring, below by recursive doubling: 10 kB as in the fixed rules of Open MPI.
const LONG_ALLREDUCE: u64 = 10_000;
/// From here on (of all members together) an all-gather goes around a ring, below by dissemination: 80 KiB as in MPICH.
const LONG_ALLGATHER: u64 = 81_920;

/// The algorithms that collectives are resolved with: the usual one for their size, unless one is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    set: Vec<(Collective, Algorithm)>,
}

impl Algorithms {
    /// Resolves an operation by this algorithm whatever its size; the last one set counts.
    ///
    /// # Errors
    /// The algorithm does not do that operation.
    pub fn set(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
    ) -> Result<(), CollectiveError> {
        if !collective.algorithms().contains(&algorithm) {
            return Err(CollectiveError {
                collective,
                algorithm,
            });
        }
        self.set.retain(|(other, _)| *other != collective);
        self.set.push((collective, algorithm));
        Ok(())
    }

    /// The algorithm for an operation with so many bytes per rank.
    pub fn of(&self, collective: Collective, bytes: u64) -> Algorithm {
        let set = self.set.iter().find(|(other, _)| *other == collective);
        match (set, collective) {
            (Some((_, algorithm)), _) => *algorithm,
            (None, Collective::Allreduce) if bytes >= LONG_ALLREDUCE => Algorithm::Ring,
            (None, _) => collective.algorithms()[0],
        }
    }
}

/// What is done, as far as its messages differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Barrier,
    Allreduce,
    Broadcast,
    Reduce,
    Alltoall,
    Allgather,
    ReduceScatter,
    Gather,
    Scatter,
    Scan,
}

impl Kind {
    /// Of a function by its name in C; `None` if it is no blocking collective with messages of its own.
    pub fn of(name: &str) -> Option<Kind> {
        let name = name.strip_suffix("_c").unwrap_or(name);
        Some(match name.strip_prefix("MPI_")? {
            "Barrier" => Kind::Barrier,
            "Allreduce" => Kind::Allreduce,
            "Bcast" => Kind::Broadcast,
            "Reduce" => Kind::Reduce,
            "Alltoall" | "Alltoallv" | "Alltoallw" => Kind::Alltoall,
            "Allgather" | "Allgatherv" => Kind::Allgather,
            "Reduce_scatter" | "Reduce_scatter_block" => Kind::ReduceScatter,
            "Gather" | "Gatherv" => Kind::Gather,
            "Scatter" | "Scatterv" => Kind::Scatter,
            "Scan" | "Exscan" => Kind::Scan,
            _ => return None,
        })
    }

    /// The operation of a program of the bulk engine that does the same.
    pub fn in_bulk(self) -> Option<Collective> {
        Some(match self {
            Kind::Barrier => Collective::Barrier,
            Kind::Allreduce => Collective::Allreduce,
            Kind::Broadcast => Collective::Broadcast,
            Kind::Reduce => Collective::Reduce,
            Kind::Alltoall => Collective::Alltoall,
            _ => return None,
        })
    }

    /// Bytes of a message of one rank to one other, or of the piece of one rank. `sent` and `received` are the most that any member
    /// contributed and got.
    pub fn piece(self, members: u32, sent: u64, received: u64) -> u64 {
        match self {
            Kind::Barrier => 0,
            Kind::Allreduce | Kind::Reduce | Kind::Allgather | Kind::Scan => sent,
            Kind::Broadcast => sent.max(received),
            Kind::Alltoall | Kind::ReduceScatter => sent.div_ceil(u64::from(members.max(1))),
            // All that the root has, in equal pieces; what the others have, where the root's was not recorded.
            Kind::Gather if received > 0 => received.div_ceil(u64::from(members.max(1))),
            Kind::Gather => sent,
            Kind::Scatter if sent > 0 => sent.div_ceil(u64::from(members.max(1))),
            Kind::Scatter => received,
        }
    }
}

/// What a member does in a round: sends to one, receives from one, each with the length of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub to: Option<(u32, u64)>,
    pub from: Option<(u32, u64)>,
}

/// A collective as it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub kind: Kind,
    /// Number of members, from 1.
    pub members: u32,
    /// The root's number among the members; 0 if there is none.
    pub root: u32,
    /// As [`Kind::piece`] says.
    pub piece: u64,
}

impl Call {
    /// What a member does, round after round.
    pub fn steps(&self, member: u32, algorithms: &Algorithms) -> Vec<Step> {
        let (ranks, piece) = (self.members, self.piece);
        // As if the root were the first.
        let own = (member + (ranks - self.root)) % ranks;
        let real =
            |number: u32| ((u64::from(number) + u64::from(self.root)) % u64::from(ranks)) as u32;
        let by_pattern = |pattern: Pattern, bytes: &dyn Fn(u32) -> u64| Step {
            to: pattern
                .target(own, ranks)
                .map(|to| (real(to), bytes(own.max(to)))),
            from: pattern
                .source(own, ranks)
                .map(|from| (real(from), bytes(own.max(from)))),
        };
        let levels = ranks.next_power_of_two().trailing_zeros();
        // Ranks of the subtree that hangs on the link between two: that of the higher number.
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
                .map(|k| Step {
                    to: (own.checked_add(1 << k).filter(|&to| to < ranks)).map(|to| (to, piece)),
                    from: own.checked_sub(1 << k).map(|from| (from, piece)),
                })
                .collect(),
            Kind::Barrier | Kind::Allreduce | Kind::Broadcast | Kind::Reduce | Kind::Alltoall => {
                let Some(collective) = self.kind.in_bulk() else {
                    return Vec::new();
                };
                let algorithm = algorithms.of(collective, piece);
                // `Algorithms` holds only what does the operation.
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
#[path = "collectives_tests.rs"]
mod tests;
