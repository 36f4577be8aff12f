//! A repetitive program, of which a few steps are replayed.

use crate::PlaceError;
use idlewave_network::{Act, Description, Part, described, operations_of};
use idlewave_simulate::collectives::{Algorithms, Kind, Library};
use idlewave_simulate::goal::{self, Schedule};
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
    /// A workload that computes this many nanoseconds per rank and iteration; `None` if it cannot use
    /// this number of ranks.
    ///
    /// # Errors
    /// See [`schedule`](Self::schedule).
    pub fn of_workload(
        workload: &Benchmark,
        ranks: u32,
        work: u64,
    ) -> Result<Option<Self>, PlaceError> {
        Ok(Some(match workload {
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
            Benchmark::Npb(npb) => return looped_npb(*npb, ranks, work),
        }))
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
        let operations = |phases: &[Part]| operations_of(self.ranks, phases, &algorithms);
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
///
/// # Errors
/// See [`Loop::schedule`].
fn looped_npb(npb: Npb, ranks: u32, work: u64) -> Result<Option<Loop>, PlaceError> {
    let iterations = npb.iterations() as u32;
    let mut all = Vec::new();
    let mut operations = 0_u64;
    for rank in 0..ranks {
        let Some(traffic) = npb.traffic(ranks, Rank::new(rank)) else {
            return Ok(None);
        };
        // Collectives are not counted here, but in `Loop::schedule`.
        operations += Act::operations(&npb_acts(&traffic.iteration, &|_| 0));
        if operations > MOST_OPERATIONS / u64::from(STEPS_PLAYED.min(iterations)) {
            return Err(PlaceError::OverLimit {
                limit: MOST_OPERATIONS,
                what: npb.to_string(),
            });
        }
        all.push(traffic);
    }
    let moved = |part: fn(&npb::Traffic) -> &[npb::Operation]| -> u64 {
        let operations = all.iter().flat_map(part);
        operations.map(|o| o.bytes(ranks).get()).sum()
    };
    let (before, each) = (moved(|t| &t.before), moved(|t| &t.iteration));
    let phases = |part: fn(&npb::Traffic) -> &[npb::Operation], work: u64| {
        let of_ranks: Vec<&[npb::Operation]> = all.iter().map(part).collect();
        npb_phases(&of_ranks, work)
    };
    if each == 0 {
        return Ok(Some(Loop {
            ranks,
            step: phases(|t| &t.iteration, work),
            after_round: phases(|t| &t.after, 0),
            steps_per_round: iterations,
            steps: iterations,
        }));
    }
    let more = (before as f64 / each as f64).round() as u32;
    let steps = iterations + more;
    let work = (work as f64 * f64::from(iterations) / f64::from(steps)).round() as u64;
    Ok(Some(Loop {
        ranks,
        step: phases(|t| &t.iteration, work),
        after_round: Vec::new(),
        steps_per_round: 1,
        steps,
    }))
}

/// What operations compute, in their own measure.
fn npb_work(operations: &[npb::Operation]) -> u128 {
    let of = |operation: &npb::Operation| match operation {
        npb::Operation::Compute(work) => u128::from(*work),
        npb::Operation::Repeat(times, once) => u128::from(*times) * npb_work(once),
        _ => 0,
    };
    operations.iter().map(of).sum()
}

/// The parts of these operations, given by rank. On average a rank computes for `work` nanoseconds.
/// Collectives, which all ranks do in the same order, divide the rest into parts.
fn npb_phases(ranks: &[&[npb::Operation]], work: u64) -> Vec<Part> {
    let all: u128 = ranks.iter().map(|operations| npb_work(operations)).sum();
    let ns_of = |own: u64| {
        let time = u128::from(own) * u128::from(work) * ranks.len() as u128;
        (time / all.max(1)) as u64
    };
    let collective = |operation: &npb::Operation| match operation {
        npb::Operation::Allreduce { bytes } => Some((Kind::Allreduce, bytes.get())),
        npb::Operation::Alltoall { bytes_per_pair } => Some((Kind::Alltoall, bytes_per_pair.get())),
        _ => None,
    };
    let mut rest = ranks.to_vec();
    let mut parts = Vec::new();
    while rest.iter().any(|operations| !operations.is_empty()) {
        let mut next = None;
        let mut each = Vec::with_capacity(rest.len());
        for operations in &mut rest {
            let ends = operations.iter().position(|o| collective(o).is_some());
            let (own, more) = operations.split_at(ends.unwrap_or(operations.len()));
            each.push(npb_acts(own, &ns_of));
            next = next.or(more.first().and_then(collective));
            *operations = more.get(1..).unwrap_or_default();
        }
        if each.iter().any(|acts| !acts.is_empty()) {
            parts.push(Part::Each(each));
        }
        parts.extend(next.map(|(kind, bytes)| Part::Collective(kind, bytes)));
    }
    parts
}

/// What a rank does between two collectives.
fn npb_acts(operations: &[npb::Operation], ns_of: &impl Fn(u64) -> u64) -> Vec<Act> {
    let act = |operation: &npb::Operation| {
        Some(match operation {
            npb::Operation::Compute(work) => {
                Act::Together(vec![goal::Operation::calc(ns_of(*work))])
            }
            npb::Operation::Exchange(messages) => {
                let end = |message: &npb::Message| match message {
                    npb::Message::Send { to, bytes } => {
                        goal::Operation::send(bytes.get(), to.get())
                    }
                    npb::Message::Receive { from, bytes } => {
                        goal::Operation::recv(bytes.get(), from.get())
                    }
                };
                Act::Together(messages.iter().map(end).collect())
            }
            npb::Operation::Send { to, bytes } => Act::Send(bytes.get(), to.get()),
            npb::Operation::Flush => Act::Flush,
            npb::Operation::Repeat(times, once) => Act::Repeat(*times, npb_acts(once, ns_of)),
            // These are parts of their own; `Repeat` has none.
            npb::Operation::Allreduce { .. } | npb::Operation::Alltoall { .. } => return None,
        })
    };
    operations.iter().filter_map(act).collect()
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

    /// A workload by its name.
    fn of(name: &str, ranks: u32, work: u64) -> Option<Loop> {
        Loop::of_workload(&name.parse().expect("a name"), ranks, work).expect("not too long")
    }

    /// All ranks compute this many nanoseconds.
    fn compute(ranks: usize, ns: u64) -> Part {
        Part::Each(vec![vec![together(goal::Operation::calc(ns))]; ranks])
    }

    fn together(operation: goal::Operation) -> Act {
        Act::Together(vec![operation])
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
        let looped = of("is:A", 64, 0).expect("it can use them");
        let pieces = |wanted| {
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
        assert_eq!(pieces(Kind::Alltoall), [4]);
        let keys = pieces(Kind::Alltoallv);
        assert!(keys.len() == 1 && keys[0].abs_diff(8_192) <= 2, "{keys:?}");
    }

    #[test]
    fn the_transposition_before_the_first_iteration_of_ft_counts_as_a_step() {
        let ft = |ranks| of("ft:A", ranks, 7_000);
        let looped = ft(64).expect("it can use them");
        // Six iterations of 7 us and the beginning are seven steps of 6 us. 2^23 numbers of 16 bytes
        // over 64 x 64 pairs.
        let step = [
            compute(64, 3_000),
            Part::Collective(Kind::Alltoall, 32_768),
            compute(64, 3_000),
            Part::Collective(Kind::Allreduce, 16),
        ];
        assert_eq!((looped.steps, looped.steps_per_round), (7, 1));
        assert_eq!(
            (looped.step.as_slice(), looped.after_round),
            (&step[..], Vec::new())
        );
        // Both computations and the checksum.
        assert_eq!(ft(1).expect("it can use it").step.len(), 2);
        assert_eq!(ft(6), None);
    }

    #[test]
    fn all_iterations_of_ep_are_a_round_that_ends_with_the_sums() {
        let ep = of("ep:S", 3, 1_000);
        let sum = |bytes| Part::Collective(Kind::Allreduce, bytes);
        let expected = Loop {
            ranks: 3,
            step: vec![compute(3, 1_000)],
            after_round: vec![sum(8), sum(8), sum(80)],
            steps_per_round: 64,
            steps: 64,
        };
        assert_eq!(ep, Some(expected));
    }

    #[test]
    fn a_rank_of_lu_receives_a_plane_before_it_computes_it_and_sends_it_on_afterwards() {
        // 12 points along each edge, 6 x 6 x 12 per rank, of which 5 x 5 x 10 are inside.
        let lu = of("lu:S", 4, 1_790_000).expect("it can use them");
        let [Part::Each(ranks)] = &lu.step[..] else {
            panic!("{:?}", lu.step);
        };
        let (send, receive) = (goal::Operation::send, goal::Operation::recv);
        // Of 55 + 55 + 69 per point and iteration, a tenth of the first in each of ten planes.
        let plane = together(goal::Operation::calc(55_000));
        let edge = 5 * 5 * 8;
        let sweep = |before: Vec<Act>, after: Vec<Act>| {
            let all = [before, vec![plane.clone(), Act::Flush], after].concat();
            [Act::Repeat(10, all), Act::Flush]
        };
        let receives = Act::Together(vec![receive(edge, 1), receive(edge, 2)]);
        let sends = vec![Act::Send(edge, 1), Act::Send(edge, 2)];
        let face = 5 * 2 * 6 * 12 * 8;
        let halo = [
            receive(face, 1),
            receive(face, 2),
            send(face, 1),
            send(face, 2),
        ];
        let [lower, upper] = [sweep(vec![], sends), sweep(vec![receives], vec![])];
        let end = [
            Act::Together(halo.to_vec()),
            together(goal::Operation::calc(690_000)),
        ];
        let expected = [&lower[..], &upper, &end].concat();
        assert_eq!(ranks[0], expected);
        assert_eq!((lu.steps, lu.steps_played()), (50, 2));
    }

    #[test]
    fn every_workload_of_every_size_can_be_played_with_all_its_work_or_is_too_long() {
        for name in ["ep", "cg", "mg", "ft", "lu", "sp", "bt"] {
            for (class, ranks) in [("S", 1), ("S", 4), ("S", 16), ("A", 64), ("C", 16)] {
                let name = format!("{name}:{class}");
                let looped = of(&name, ranks, 1_000_000).expect("it can use them");
                let schedule = looped.schedule(&name, Library::OpenMpi).expect("short");
                let program = idlewave_network::Program::new(&schedule).expect("it matches");
                let work: u64 = (0..ranks).map(|rank| program.work_ns(rank)).sum();
                let Benchmark::Npb(npb) = name.parse().expect("a name") else {
                    panic!("{name}");
                };
                // FT has one step more than iterations, which share the work.
                let played = u64::from(ranks * looped.steps_played()) * 1_000_000;
                let asked = played * npb.iterations() / u64::from(looped.steps);
                // Each computation is rounded down to a nanosecond.
                assert!(
                    work <= asked && work > asked * 99 / 100,
                    "{name}: {work} of {asked}"
                );
            }
        }
        for (name, ranks) in [("lu:D", 16_384), ("sp:D", 40_000), ("mg:D", 1 << 17)] {
            let looped = Loop::of_workload(&name.parse().expect("a name"), ranks, 0);
            let said = looped.expect_err("too long").to_string();
            assert!(
                said.starts_with(&format!("place {name}: it has ")),
                "{said}"
            );
        }
    }
}
