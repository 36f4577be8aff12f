//! A repetitive program, of which a few steps are replayed.

use crate::PlaceError;
use idlewave_network::{Description, Part, described, operations_of};
use idlewave_simulate::collectives::{Algorithms, Kind, Library};
use idlewave_simulate::goal::Schedule;
use idlewave_units::Rank;
use idlewave_workloads::halo::Halo;
use idlewave_workloads::npb::{self, Npb};
use idlewave_workloads::{Benchmark, is};

/// Steps replayed, unless a round has more; the total time is scaled from them.
const STEPS_PLAYED: u32 = 2;

/// Most operations of a program: a replay takes 5 GB, some 260 bytes per operation.
pub const MOST_OPERATIONS: u64 = 20_000_000;

/// A loop of equal rounds of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Number of ranks, at least 1.
    pub ranks: u32,
    /// Operations of every step.
    pub step: Vec<Part>,
    /// Operations after the last step of a round.
    pub after_round: Vec<Part>,
    /// Steps per round, at least 1.
    pub steps_per_round: u32,
    /// Steps in all.
    pub steps: u32,
}

impl Loop {
    /// A workload that computes this many nanoseconds per rank and iteration, if its messages are
    /// known.
    pub fn of_workload(workload: &Benchmark, ranks: u32, work: u64) -> Option<Self> {
        Some(match workload {
            Benchmark::Is(class) => {
                let traffic = is::traffic(*class, ranks);
                Self {
                    ranks,
                    step: sort_phases(&traffic, ranks, work),
                    after_round: Vec::new(),
                    steps_per_round: 1,
                    steps: traffic.timed,
                }
            }
            Benchmark::Halo(halo) => looped_halo(halo, ranks, work),
            Benchmark::Npb(npb) => looped_npb(*npb, &npb.traffic(ranks)?, ranks, work),
        })
    }

    fn rounds_played(&self) -> u32 {
        let steps = STEPS_PLAYED.min(self.steps);
        steps.div_ceil(self.steps_per_round).max(1)
    }

    /// Steps replayed.
    pub fn steps_played(&self) -> u32 {
        self.rounds_played() * self.steps_per_round
    }

    /// Factor from the replayed steps to all steps.
    pub fn times(&self) -> f64 {
        f64::from(self.steps) / f64::from(self.steps_played())
    }

    /// The replayed part of the program called `what`.
    ///
    /// # Errors
    /// It has more operations than [`MOST_OPERATIONS`], or no ranks.
    pub fn schedule(&self, what: &str, library: Library) -> Result<Schedule, PlaceError> {
        let algorithms = Algorithms::of_library(library);
        let operations = |phases: &[Part]| {
            let description = Description {
                ranks: self.ranks,
                phases: phases.to_vec(),
            };
            operations_of(&description, &algorithms)
        };
        let of_steps = operations(&self.step).saturating_mul(self.steps_per_round.into());
        let of_round = of_steps.saturating_add(operations(&self.after_round));
        refuse_many(what, of_round.saturating_mul(self.rounds_played().into()))?;
        let steps = (0..self.steps_per_round).flat_map(|_| &self.step);
        let round = Description {
            ranks: self.ranks,
            phases: steps.chain(&self.after_round).cloned().collect(),
        };
        described(&round, self.rounds_played(), &algorithms).map_err(|error| {
            PlaceError::Description {
                what: what.to_owned(),
                error,
            }
        })
    }
}

/// Rejects programs that take too much memory.
///
/// # Errors
/// There are more than [`MOST_OPERATIONS`].
pub fn refuse_many(what: &str, operations: u64) -> Result<(), PlaceError> {
    if operations <= MOST_OPERATIONS {
        return Ok(());
    }
    Err(PlaceError::TooLong {
        what: what.to_owned(),
        operations,
    })
}

/// The halo workload as a loop. Rounds end with the residual, if it has one.
fn looped_halo(halo: &Halo, ranks: u32, work: u64) -> Loop {
    let of_rank = |rank: u32| {
        let faces = halo.faces(ranks, Rank::new(rank)).into_iter();
        faces.map(move |face| (rank, face.rank.get(), face.bytes.get()))
    };
    let faces = Part::Between((0..ranks).flat_map(of_rank).collect());
    let (steps_per_round, after_round) = match halo.residual_every {
        every if (1..=halo.steps).contains(&every) => {
            (every, vec![Part::Collective(Kind::Allreduce, 8)])
        }
        _ => (1, Vec::new()),
    };
    Loop {
        ranks,
        step: vec![Part::Compute(work), faces],
        after_round,
        steps_per_round,
        steps: halo.steps,
    }
}

/// One of the NAS Parallel Benchmarks as a loop. If its iterations do not communicate, all of them
/// are a round, which ends with what comes after the last one. Else that is left out; and what comes
/// before the first one counts as as many steps as move its bytes, with their share of the work.
fn looped_npb(npb: Npb, traffic: &npb::Traffic, ranks: u32, work: u64) -> Loop {
    let iterations = npb.iterations() as u32;
    let moved = |operations: &[npb::Operation]| -> u64 {
        let bytes = operations.iter().map(|o| o.bytes(ranks).get());
        bytes.sum()
    };
    let (before, each) = (moved(&traffic.before), moved(&traffic.iteration));
    if each == 0 {
        return Loop {
            ranks,
            step: npb_phases(&traffic.iteration, work),
            after_round: npb_phases(&traffic.after, 0),
            steps_per_round: iterations,
            steps: iterations,
        };
    }
    let more = (before as f64 / each as f64).round() as u32;
    let steps = iterations + more;
    let work = (work as f64 * f64::from(iterations) / f64::from(steps)).round() as u64;
    Loop {
        ranks,
        step: npb_phases(&traffic.iteration, work),
        after_round: Vec::new(),
        steps_per_round: 1,
        steps,
    }
}

/// The parts of these operations, with equal shares of the work between them.
fn npb_phases(operations: &[npb::Operation], work: u64) -> Vec<Part> {
    let computations = operations.iter();
    let count = computations
        .filter(|o| matches!(o, npb::Operation::Compute))
        .count();
    let each = work / count.max(1) as u64;
    let part = |operation: &npb::Operation| match operation {
        npb::Operation::Compute => Part::Compute(each),
        npb::Operation::Allreduce { bytes } => Part::Collective(Kind::Allreduce, bytes.get()),
        npb::Operation::Alltoall { bytes_per_pair } => {
            Part::Collective(Kind::Alltoall, bytes_per_pair.get())
        }
    };
    operations.iter().map(part).collect()
}

fn sort_phases(traffic: &is::Traffic, ranks: u32, work: u64) -> Vec<Part> {
    let computations = traffic.iteration.iter();
    let count = computations
        .filter(|o| matches!(o, is::Operation::Compute(_)))
        .count();
    let each = work / count.max(1) as u64;
    let part = |operation: &is::Operation| match operation {
        is::Operation::Compute(_) => Part::Compute(each),
        is::Operation::Allreduce { bytes } => Part::Collective(Kind::Allreduce, *bytes),
        is::Operation::Alltoall { bytes_per_pair } => {
            Part::Collective(Kind::Alltoall, *bytes_per_pair)
        }
        is::Operation::Alltoallv(pairs) => {
            let all: u64 = (0..ranks)
                .flat_map(|from| (0..ranks).map(move |to| (from, to)))
                .map(|(f, t)| pairs.of(f, t))
                .sum();
            let pairs = u64::from(ranks) * u64::from(ranks);
            Part::Collective(Kind::Alltoallv, all / pairs)
        }
        is::Operation::SendNext { bytes } => Part::Next(*bytes),
    };
    traffic.iteration.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halo(steps_per_round: u32, steps: u32) -> Loop {
        Loop {
            ranks: 2,
            step: vec![Part::Compute(1_000), Part::Between(vec![(0, 1, 8)])],
            after_round: vec![Part::Collective(Kind::Allreduce, 8)],
            steps_per_round,
            steps,
        }
    }

    /// The replayed part: steps, factor, operations.
    fn played(looped: &Loop) -> (u32, f64, u64) {
        let schedule = looped.schedule("a loop", Library::OpenMpi).unwrap();
        (looped.steps_played(), looped.times(), schedule.operations())
    }

    #[test]
    fn whole_rounds_are_played_of_two_steps_or_more() {
        // A step has 4 operations, and an allreduce of two ranks as many: each sends and receives.
        assert_eq!(played(&halo(1, 100)), (2, 50.0, 16));
        assert_eq!(played(&halo(5, 100)), (5, 20.0, 24));
        assert_eq!(played(&halo(2, 100)), (2, 50.0, 12));
        assert_eq!(played(&halo(1, 1)), (1, 1.0, 8));
    }

    #[test]
    fn a_round_of_too_many_steps_is_refused_before_it_is_made() {
        let refused = halo(u32::MAX, u32::MAX).schedule("a loop", Library::OpenMpi);
        let said = refused.err().map(|error| error.to_string());
        // 4 for each of 2^32 - 1 steps, and 4 more.
        let expected = "place a loop: it has 17,179,869,184 operations";
        assert_eq!(said.as_deref(), Some(expected));
    }

    #[test]
    fn keys_of_the_sort_go_by_the_rules_for_pieces_of_different_lengths() {
        let looped =
            Loop::of_workload(&Benchmark::Is(is::Class::A), 64, 0).expect("known messages");
        let of = |wanted| {
            let parts = looped.step.iter();
            parts
                .filter_map(|part| match part {
                    Part::Collective(kind, bytes) if *kind == wanted => Some(*bytes),
                    _ => None,
                })
                .collect::<Vec<u64>>()
        };
        // Counts of 4 bytes; then 2^23 keys of 4 bytes over 64 x 64 pairs, up to the rounding for
        // each pair.
        assert_eq!(of(Kind::Alltoall), [4]);
        let keys = of(Kind::Alltoallv);
        assert!(keys.len() == 1 && keys[0].abs_diff(8_192) <= 2, "{keys:?}");
    }

    #[test]
    fn the_transposition_before_the_first_iteration_of_ft_counts_as_a_step() {
        let ft = |ranks| Loop::of_workload(&"ft:A".parse().expect("a name"), ranks, 7_000);
        let looped = ft(64).expect("known messages");
        // Six iterations of 7 us and the beginning are seven steps of 6 us. 2^23 numbers of 16 bytes
        // over 64 x 64 pairs.
        let step = [
            Part::Compute(3_000),
            Part::Collective(Kind::Alltoall, 32_768),
            Part::Compute(3_000),
            Part::Collective(Kind::Allreduce, 16),
        ];
        assert_eq!((looped.steps, looped.steps_per_round), (7, 1));
        assert_eq!(
            (looped.step.as_slice(), looped.after_round),
            (&step[..], Vec::new())
        );
        assert_eq!(ft(1).expect("known messages").step.len(), 3);
        assert_eq!(ft(6), None);
    }

    #[test]
    fn all_iterations_of_ep_are_a_round_that_ends_with_the_sums() {
        let ep = Loop::of_workload(&"ep:S".parse().expect("a name"), 3, 1_000);
        let sum = |bytes| Part::Collective(Kind::Allreduce, bytes);
        let expected = Loop {
            ranks: 3,
            step: vec![Part::Compute(1_000)],
            after_round: vec![sum(8), sum(8), sum(80)],
            steps_per_round: 64,
            steps: 64,
        };
        assert_eq!(ep, Some(expected));
    }
}
