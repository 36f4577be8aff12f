//! Chooses the algorithm of a collective.
//!
//! Sources of the rules: for Open MPI, the fixed decisions of its component `tuned` as of 4.1
//! (unchanged in 5.0), for commutative operations; for MPICH, the defaults of its variables
//! `MPIR_CVAR_*_MSG_SIZE` and R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005). Algorithms of
//! a library that do not exist here are replaced by the nearest one: chains, pipelines and k-nomial
//! or binary trees by a binomial tree, segmented rings by rings, a linear barrier by a tree up and
//! down, an exchange of two by pairwise, a linear all-to-all with bounded requests (MPICH's
//! `scattered`, its only one for pieces of different lengths or types) by a linear one.

use crate::bulk::{Algorithm, Collective, CollectiveError};
use std::fmt;
use std::str::FromStr;

/// From this size an allreduce goes around a ring; below, it uses recursive doubling: 10 kB as in
/// the fixed rules of Open MPI up to 4.0.
const LONG_ALLREDUCE: u64 = 10_000;

/// An MPI library whose rules choose the algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Open MPI 4.1 and 5.0.
    OpenMpi,
    /// MPICH 3 and 4 and their derivatives.
    Mpich,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::OpenMpi => "openmpi",
            Library::Mpich => "mpich",
        })
    }
}

impl FromStr for Library {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Library::OpenMpi, Library::Mpich]
            .into_iter()
            .find(|library| library.to_string() == text)
            .ok_or_else(|| format!("`{text}` is not one of openmpi, mpich"))
    }
}

/// The algorithms of collectives: the usual one for the size, or a library's choice, unless one is
/// set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    library: Option<Library>,
    set: Vec<(Collective, Algorithm)>,
}

impl Algorithms {
    /// The choices of a library.
    pub fn of_library(library: Library) -> Self {
        Algorithms {
            library: Some(library),
            set: Vec::new(),
        }
    }

    /// Sets the algorithm of an operation at every size; the last one set counts.
    ///
    /// # Errors
    /// The algorithm cannot perform the operation.
    pub fn set(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
    ) -> Result<(), CollectiveError> {
        let linear = (Collective::Alltoall, Algorithm::Linear);
        if !collective.algorithms().contains(&algorithm) && (collective, algorithm) != linear {
            return Err(CollectiveError {
                collective,
                algorithm,
            });
        }
        self.set.retain(|(other, _)| *other != collective);
        self.set.push((collective, algorithm));
        Ok(())
    }

    /// The algorithm for an operation of `members` members with `bytes` bytes each; for an
    /// all-to-all, `bytes` to each other member.
    pub fn of(&self, collective: Collective, members: u32, bytes: u64) -> Algorithm {
        let set = self.set.iter().find(|(other, _)| *other == collective);
        match (set, self.library) {
            (Some((_, algorithm)), _) => *algorithm,
            (None, Some(Library::OpenMpi)) => of_open_mpi(collective, members, bytes),
            (None, Some(Library::Mpich)) => of_mpich(collective, members, bytes),
            (None, None) => match collective {
                Collective::Allreduce if bytes >= LONG_ALLREDUCE => Algorithm::Ring,
                _ => collective.algorithms()[0],
            },
        }
    }

    /// The algorithm for an all-to-all of pieces of different lengths (`MPI_Alltoallv`), with
    /// `bytes` bytes to each other member on average. No member knows the lengths of the others, so
    /// libraries decide by the number of members alone. An algorithm set for the all-to-all applies
    /// here too; without a library the call is treated as an all-to-all.
    pub fn of_alltoallv(&self, members: u32, bytes: u64) -> Algorithm {
        self.of_unequal(OPEN_MPI_ALLTOALLV, members, bytes)
    }

    /// The same for pieces of different types (`MPI_Alltoallw`), which both libraries send all at
    /// once.
    pub fn of_alltoallw(&self, members: u32, bytes: u64) -> Algorithm {
        self.of_unequal(LINEAR, members, bytes)
    }

    fn of_unequal(&self, open_mpi: Rules, members: u32, bytes: u64) -> Algorithm {
        let is_set = self.set.iter().any(|(of, _)| *of == Collective::Alltoall);
        let rules = match self.library.filter(|_| !is_set) {
            Some(Library::OpenMpi) => open_mpi,
            Some(Library::Mpich) => LINEAR,
            None => return self.of(Collective::Alltoall, members, bytes),
        };
        by_rules(rules, members, bytes).unwrap_or(Algorithm::Linear)
    }
}

/// Rows of (members, (bytes, algorithm)): below that many members, below that many bytes, the
/// algorithm. The first match counts; the last entry of a row has no bound.
type Rules = &'static [(u32, &'static [(u64, Algorithm)])];

const ANY: u32 = u32::MAX;
const MORE: u64 = u64::MAX;

/// From the fixed decisions of Open MPI 4.1.
const OPEN_MPI_ALLREDUCE: Rules = {
    use Algorithm::{Binomial as B, Rabenseifner as F, RecursiveDoubling as D, Ring as R};
    &[
        (
            4,
            &[
                (8, R),
                (4_096, D),
                (8_192, R),
                (16_384, D),
                (262_144, R),
                (MORE, F),
            ],
        ),
        (8, &[(16, R), (8_192, D), (MORE, F)]),
        (16, &[(8_192, D), (MORE, F)]),
        (32, &[(64, R), (4_096, D), (MORE, F)]),
        (64, &[(128, R), (MORE, F)]),
        (128, &[(262_144, D), (MORE, F)]),
        (256, &[(131_072, B), (262_144, D), (MORE, F)]),
        (512, &[(4_096, B), (MORE, F)]),
        (2_048, &[(2_048, B), (16_384, D), (MORE, F)]),
        (4_096, &[(2_048, B), (4_096, R), (16_384, D), (MORE, F)]),
        (ANY, &[(2_048, B), (16_384, R), (32_768, D), (MORE, F)]),
    ]
};

/// The same, with bytes to each other member. For two members Open MPI alternates between the
/// exchange of two and pairwise, which are the same here.
const OPEN_MPI_ALLTOALL: Rules = {
    use Algorithm::{Bruck as B, Linear as L, Pairwise as P};
    &[
        (3, &[(32_768, P), (262_144, L), (MORE, P)]),
        (8, &[(524_288, L), (1_048_576, P), (MORE, L)]),
        (16, &[(MORE, L)]),
        (32, &[(4, L), (512, B), (MORE, L)]),
        (64, &[(512, B), (MORE, L)]),
        (256, &[(1_024, B), (262_144, L), (MORE, P)]),
        (512, &[(1_024, B), (32_768, L), (MORE, P)]),
        (1_024, &[(512, B), (262_144, L), (MORE, P)]),
        (2_048, &[(512, B), (MORE, L)]),
        (4_096, &[(1_024, B), (MORE, L)]),
        (ANY, &[(2_048, B), (MORE, L)]),
    ]
};

/// The same by members alone: the lengths are not known to all.
const OPEN_MPI_ALLTOALLV: Rules = {
    use Algorithm::{Linear as L, Pairwise as P};
    &[
        (4, &[(MORE, P)]),
        (64, &[(MORE, L)]),
        (128, &[(MORE, P)]),
        (256, &[(MORE, L)]),
        (1_024, &[(MORE, P)]),
        (ANY, &[(MORE, L)]),
    ]
};

/// Open MPI's `basic` for `MPI_Alltoallw`, and MPICH for both.
const LINEAR: Rules = &[(ANY, &[(MORE, Algorithm::Linear)])];

const OPEN_MPI_BARRIER: Rules = {
    use Algorithm::{Binomial as B, Dissemination as D, RecursiveDoubling as R};
    &[
        (4, &[(MORE, R)]),
        (8, &[(MORE, B)]),
        (64, &[(MORE, R)]),
        (256, &[(MORE, D)]),
        (512, &[(MORE, B)]),
        (1_024, &[(MORE, D)]),
        (4_096, &[(MORE, B)]),
        (ANY, &[(MORE, D)]),
    ]
};

const OPEN_MPI_BROADCAST: Rules = {
    use Algorithm::{Binomial as B, ScatterRing as S};
    &[
        (16, &[(MORE, B)]),
        (32, &[(1_048_576, B), (MORE, S)]),
        (1_024, &[(MORE, B)]),
        (2_048, &[(524_288, B), (MORE, S)]),
        (ANY, &[(262_144, B), (MORE, S)]),
    ]
};

fn of_open_mpi(collective: Collective, members: u32, bytes: u64) -> Algorithm {
    let rules = match collective {
        Collective::Allreduce => OPEN_MPI_ALLREDUCE,
        Collective::Alltoall => OPEN_MPI_ALLTOALL,
        Collective::Barrier => OPEN_MPI_BARRIER,
        Collective::Broadcast => OPEN_MPI_BROADCAST,
        Collective::Reduce => return Algorithm::Binomial,
    };
    by_rules(rules, members, bytes).unwrap_or(collective.algorithms()[0])
}

fn by_rules(rules: Rules, members: u32, bytes: u64) -> Option<Algorithm> {
    let (_, row) = rules.iter().find(|(below, _)| members < *below)?;
    let (_, algorithm) = row.iter().find(|(below, _)| bytes < *below)?;
    Some(*algorithm)
}

fn of_mpich(collective: Collective, members: u32, bytes: u64) -> Algorithm {
    match collective {
        Collective::Allreduce if bytes > 2_048 => Algorithm::Rabenseifner,
        Collective::Alltoall if bytes <= 256 && members >= 8 => Algorithm::Bruck,
        Collective::Alltoall if bytes <= 32_768 => Algorithm::Linear,
        // From 512 KiB a ring; from 12 KiB with a power of two, recursive doubling, which moves as
        // much.
        Collective::Broadcast if members >= 8 && bytes >= 12_288 => Algorithm::ScatterRing,
        _ => collective.algorithms()[0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_is_that_of_the_size_unless_it_is_set() {
        let mut algorithms = Algorithms::default();
        let of = |a: &Algorithms, bytes| a.of(Collective::Allreduce, 4, bytes);
        assert_eq!(of(&algorithms, 9_999), Algorithm::RecursiveDoubling);
        assert_eq!(of(&algorithms, 10_000), Algorithm::Ring);
        for algorithm in [Algorithm::Ring, Algorithm::Binomial] {
            algorithms.set(Collective::Allreduce, algorithm).unwrap();
        }
        assert_eq!(of(&algorithms, 8), Algorithm::Binomial);
        assert_eq!(of(&algorithms, 1 << 20), Algorithm::Binomial);
        let barrier = algorithms.of(Collective::Barrier, 4, 0);
        assert_eq!(barrier, Algorithm::Dissemination);
        assert!(
            algorithms
                .set(Collective::Barrier, Algorithm::Ring)
                .is_err()
        );
        assert!(
            algorithms
                .set(Collective::Barrier, Algorithm::Linear)
                .is_err()
        );
        algorithms
            .set(Collective::Alltoall, Algorithm::Linear)
            .unwrap();
    }

    #[test]
    fn libraries_choose_by_members_and_bytes() {
        let open = Algorithms::of_library(Library::OpenMpi);
        let mpich = Algorithms::of_library(Library::Mpich);
        use Algorithm::*;
        for (collective, members, bytes, by_open, by_mpich) in [
            (Collective::Allreduce, 4, 8, Ring, RecursiveDoubling),
            (Collective::Allreduce, 16, 4_096, Rabenseifner, Rabenseifner),
            (
                Collective::Allreduce,
                8,
                1 << 20,
                Rabenseifner,
                Rabenseifner,
            ),
            (
                Collective::Allreduce,
                100,
                2_048,
                RecursiveDoubling,
                RecursiveDoubling,
            ),
            (Collective::Alltoall, 16, 4, Bruck, Bruck),
            (Collective::Alltoall, 8, 256, Linear, Bruck),
            (Collective::Alltoall, 7, 256, Linear, Linear),
            (Collective::Alltoall, 8, 257, Linear, Linear),
            (Collective::Alltoall, 16, 1, Linear, Bruck),
            (Collective::Alltoall, 4, 1 << 10, Linear, Linear),
            (Collective::Alltoall, 8, 1 << 20, Linear, Pairwise),
            (Collective::Alltoall, 4, 1 << 19, Pairwise, Pairwise),
            (Collective::Barrier, 16, 0, RecursiveDoubling, Dissemination),
            (Collective::Broadcast, 16, 1 << 20, ScatterRing, ScatterRing),
            (Collective::Broadcast, 4, 1 << 20, Binomial, Binomial),
            (Collective::Reduce, 10_000, 1 << 20, Binomial, Binomial),
        ] {
            let case = format!("{collective} {members} {bytes}");
            assert_eq!(open.of(collective, members, bytes), by_open, "{case}");
            assert_eq!(mpich.of(collective, members, bytes), by_mpich, "{case}");
        }
    }

    #[test]
    fn pieces_of_different_lengths_are_sent_by_rules_of_their_own() {
        use Algorithm::{Bruck, Linear, Pairwise};
        let open = Algorithms::of_library(Library::OpenMpi);
        let mpich = Algorithms::of_library(Library::Mpich);
        // Both sides of each number of members where Open MPI changes its choice; lengths change
        // nothing.
        let changes = [
            (2, Pairwise),
            (3, Pairwise),
            (4, Linear),
            (63, Linear),
            (64, Pairwise),
            (127, Pairwise),
            (128, Linear),
            (255, Linear),
            (256, Pairwise),
            (1_023, Pairwise),
            (1_024, Linear),
            (1_000_000, Linear),
        ];
        for (members, by_open) in changes {
            for bytes in [0, 4, 400, 1 << 16, 1 << 30] {
                assert_eq!(open.of_alltoallv(members, bytes), by_open, "{members}");
                assert_eq!(open.of_alltoallw(members, bytes), Linear, "{members}");
                assert_eq!(mpich.of_alltoallv(members, bytes), Linear, "{members}");
                assert_eq!(mpich.of_alltoallw(members, bytes), Linear, "{members}");
            }
        }
        // An algorithm that is set counts; without a library it is an ordinary all-to-all.
        assert_eq!(Algorithms::default().of_alltoallv(16, 4), Pairwise);
        for mut algorithms in [Algorithms::default(), open, mpich] {
            algorithms.set(Collective::Alltoall, Bruck).unwrap();
            assert_eq!(algorithms.of_alltoallv(16, 1 << 20), Bruck);
            assert_eq!(algorithms.of_alltoallw(16, 1 << 20), Bruck);
        }
    }

    #[test]
    fn every_choice_does_the_operation() {
        use Collective::*;
        for library in [Library::OpenMpi, Library::Mpich] {
            assert_eq!(library.to_string().parse(), Ok(library));
            let algorithms = Algorithms::of_library(library);
            for collective in [Barrier, Allreduce, Broadcast, Reduce, Alltoall] {
                for members in [1, 2, 3, 7, 8, 31, 100, 500, 3_000, 100_000] {
                    for bytes in [0, 8, 100, 3_000, 20_000, 300_000, 1 << 24] {
                        let chosen = algorithms.of(collective, members, bytes);
                        let does = Algorithms::default().set(collective, chosen).is_ok();
                        assert!(does, "{collective} {members} {bytes}: {chosen}");
                    }
                }
            }
        }
    }
}
