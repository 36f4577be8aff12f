//! Programs that are described instead of recorded: steps of computation, exchange with neighbours
//! and collectives.

use idlewave_simulate::Stencil;
use idlewave_simulate::collectives::{Algorithms, Call, Kind};
use idlewave_simulate::goal::{BuildError, Operation, OperationId, Schedule, ScheduleBuilder};

/// A loop executed by all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Number of ranks, at least 1.
    pub ranks: u32,
    /// One step.
    pub phases: Vec<Part>,
}

/// A part of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Every rank computes for this many nanoseconds.
    Compute(u64),
    /// Every rank sends this many bytes to each of its neighbours, all at once, and waits for
    /// theirs.
    Exchange(Stencil, u64),
    /// Every rank but the last sends this many bytes to the next one; every rank but the first
    /// waits for those of the previous one.
    Next(u64),
    /// These messages, all at once: from, to and bytes. Every rank waits for those it sends or
    /// receives.
    Between(Vec<(u32, u32, u64)>),
    /// A collective of all ranks, with a piece as in [`Call`]; the root is rank 0.
    Collective(Kind, u64),
    /// What each rank does on its own, by rank.
    Each(Vec<Vec<Act>>),
}

/// Something that one rank does, after what it did before.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// These operations start together; the next act waits for all of them.
    Together(Vec<Operation>),
    /// Starts to send this many bytes to a rank; the next act does not wait until they have left.
    Send(u64, u32),
    /// Waits until everything that was sent has left.
    Flush,
    /// These acts, so many times.
    Repeat(u32, Vec<Act>),
}

impl Act {
    /// Number of operations of these acts.
    pub fn operations(acts: &[Self]) -> u64 {
        let of = |act: &Self| match act {
            Self::Together(operations) => operations.len() as u64,
            Self::Send(..) => 1,
            Self::Flush => 0,
            Self::Repeat(times, acts) => u64::from(*times) * Self::operations(acts),
        };
        acts.iter().map(of).sum()
    }
}

/// The described program, repeated for a number of steps.
///
/// # Errors
/// No ranks, or more operations than a schedule can have.
pub fn described(
    description: &Description,
    steps: u32,
    algorithms: &Algorithms,
) -> Result<Schedule, BuildError> {
    let mut builder = ScheduleBuilder::new(description.ranks)?;
    let ends = description
        .phases
        .iter()
        .map(|part| ends(part, description.ranks));
    let ends: Vec<_> = ends.collect();
    for rank in 0..description.ranks {
        let mut writer = Writer {
            builder: &mut builder,
            last: Vec::new(),
            started: None,
            leaving: Vec::new(),
        };
        for _ in 0..steps {
            for ((tag, part), ends) in (0..).zip(&description.phases).zip(&ends) {
                match ends.get(rank as usize) {
                    Some(own) => writer.together(own.iter().map(|o| o.tag(tag)))?,
                    None => writer.part(description.ranks, rank, part, tag, algorithms)?,
                }
            }
        }
        builder.end_rank()?;
    }
    builder.finish()
}

/// Number of operations in one step of this many ranks, without creating any.
pub fn operations_of(members: u32, phases: &[Part], algorithms: &Algorithms) -> u64 {
    /// If a member has more operations than this, all members have equally many; counting each of
    /// them would take long.
    const MANY: u64 = 64;
    let ranks = u64::from(members);
    let of = |part: &Part| match part {
        Part::Compute(_) => ranks,
        Part::Exchange(stencil, _) => {
            let ends = (0..members as usize)
                .map(|rank| stencil.sources(rank).count() + stencil.targets(rank).count());
            ends.sum::<usize>() as u64
        }
        Part::Next(_) => 2 * ranks.saturating_sub(1),
        Part::Between(messages) => 2 * messages.len() as u64,
        Part::Each(ranks) => ranks.iter().map(|acts| Act::operations(acts)).sum(),
        Part::Collective(kind, piece) => {
            let call = Call {
                kind: *kind,
                members,
                root: 0,
                piece: *piece,
            };
            let of_member = |member: u32| -> u64 {
                let steps = call.steps(member, algorithms);
                steps
                    .iter()
                    .map(|s| (s.to.len() + s.from.len()) as u64)
                    .sum()
            };
            match of_member(members / 2) {
                many if many > MANY => many.saturating_mul(ranks),
                _ => (0..members).map(of_member).sum(),
            }
        }
    };
    phases.iter().map(of).sum()
}

/// Sends and receives of each rank for [`Part::Between`]; empty for other parts.
fn ends(part: &Part, ranks: u32) -> Vec<Vec<Operation>> {
    let Part::Between(messages) = part else {
        return Vec::new();
    };
    let mut ends = vec![Vec::new(); ranks as usize];
    for &(from, to, bytes) in messages {
        if let Some(sender) = ends.get_mut(from as usize) {
            sender.push(Operation::send(bytes, to));
        }
        if let Some(receiver) = ends.get_mut(to as usize) {
            receiver.push(Operation::recv(bytes, from));
        }
    }
    ends
}

struct Writer<'a> {
    builder: &'a mut ScheduleBuilder,
    /// Operations that the next ones wait for.
    last: Vec<OperationId>,
    /// A send that the next ones only follow.
    started: Option<OperationId>,
    /// All sends that were started since the last flush.
    leaving: Vec<OperationId>,
}

impl Writer<'_> {
    fn part(
        &mut self,
        ranks: u32,
        rank: u32,
        part: &Part,
        tag: u32,
        algorithms: &Algorithms,
    ) -> Result<(), BuildError> {
        match part {
            Part::Compute(ns) => self.together([Operation::calc(*ns)]),
            Part::Each(ranks) => match ranks.get(rank as usize) {
                Some(acts) => self.acts(acts, tag),
                None => Ok(()),
            },
            // The caller adds these from `ends`.
            Part::Between(_) => Ok(()),
            Part::Exchange(stencil, bytes) => {
                let own = rank as usize;
                let receives = stencil
                    .sources(own)
                    .map(|from| Operation::recv(*bytes, from as u32).tag(tag));
                let sends = stencil
                    .targets(own)
                    .map(|to| Operation::send(*bytes, to as u32).tag(tag));
                self.together(receives.chain(sends))
            }
            Part::Next(bytes) => {
                let before = rank.checked_sub(1);
                let after = Some(rank + 1).filter(|&next| next < ranks);
                let receive = before.map(|from| Operation::recv(*bytes, from).tag(tag));
                let send = after.map(|to| Operation::send(*bytes, to).tag(tag));
                self.together(receive.into_iter().chain(send))
            }
            Part::Collective(kind, piece) => {
                let call = Call {
                    kind: *kind,
                    members: ranks,
                    root: 0,
                    piece: *piece,
                };
                for step in call.steps(rank, algorithms) {
                    let receives = step.from.iter();
                    let receives = receives.map(|&(from, b)| Operation::recv(b, from).tag(tag));
                    let sends = step
                        .to
                        .iter()
                        .map(|&(to, b)| Operation::send(b, to).tag(tag));
                    self.together(receives.chain(sends))?;
                }
                Ok(())
            }
        }
    }

    fn acts(&mut self, acts: &[Act], tag: u32) -> Result<(), BuildError> {
        for act in acts {
            match act {
                Act::Together(operations) => {
                    self.together(operations.iter().map(|o| o.tag(tag)))?
                }
                Act::Send(bytes, to) => {
                    let send = self.push(Operation::send(*bytes, *to).tag(tag))?;
                    self.last.clear();
                    self.started = Some(send);
                    self.leaving.push(send);
                }
                Act::Flush => {
                    // Who waits until a send has left need not wait for its start.
                    self.started = None;
                    self.last.append(&mut self.leaving);
                }
                Act::Repeat(times, acts) => {
                    for _ in 0..*times {
                        self.acts(acts, tag)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds an operation after what came before.
    fn push(&mut self, operation: Operation) -> Result<OperationId, BuildError> {
        let id = self.builder.push(operation)?;
        for &before in &self.last {
            self.builder.requires(id, before)?;
        }
        if let Some(before) = self.started {
            self.builder.irequires(id, before)?;
        }
        Ok(id)
    }

    /// Adds operations that start together, after the previous group.
    fn together(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<(), BuildError> {
        let mut all = Vec::new();
        for operation in operations {
            all.push(self.push(operation)?);
        }
        if !all.is_empty() {
            self.last = all;
            self.started = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;
    use idlewave_simulate::Shape;
    use idlewave_simulate::collectives::Library;

    fn program(phases: Vec<Part>, ranks: u32, algorithms: &Algorithms) -> Program {
        let description = Description { ranks, phases };
        let schedule = described(&description, 2, algorithms).unwrap();
        let counted = operations_of(description.ranks, &description.phases, algorithms);
        assert_eq!(schedule.operations(), 2 * counted, "{description:?}");
        Program::new(&schedule).unwrap()
    }

    #[test]
    fn every_part_has_its_messages_and_both_ends_of_them() {
        let usual = Algorithms::default();
        let stencil = Stencil::nearest(Shape::of_sides(&[2, 3, 4]).unwrap());
        // Two steps of 24 ranks with 6 neighbours; along the side of length 2, two neighbours are
        // the same rank.
        let halo = program(
            vec![Part::Compute(7), Part::Exchange(stencil, 100)],
            24,
            &usual,
        );
        let count: usize = (0..24).map(|r| stencil.targets(r).count()).sum();
        assert_eq!(halo.messages().len(), 2 * count);
        assert_eq!(halo.work_ns(5), 14);
        assert_eq!(program(vec![Part::Next(8)], 5, &usual).messages().len(), 8);
        let between = program(
            vec![Part::Between(vec![(0, 2, 5), (2, 0, 6), (0, 2, 7)])],
            3,
            &usual,
        );
        let seen: Vec<(u32, u32, u64)> = between
            .messages()
            .iter()
            .map(|m| (m.from, m.to, m.bytes))
            .collect();
        let one = [(0, 2, 5), (0, 2, 7)];
        assert_eq!(seen, [one[0], one[1], one[0], one[1], (2, 0, 6), (2, 0, 6)]);
        let all = program(vec![Part::Collective(Kind::Alltoall, 9)], 6, &usual);
        assert_eq!(all.messages().len(), 2 * 6 * 5);
        assert!(all.messages().iter().all(|m| m.bytes == 9));
    }

    #[test]
    fn a_rank_goes_on_while_a_message_leaves_until_it_flushes() {
        let waits = |acts: Vec<Act>| {
            let receive = vec![Act::Together(vec![Operation::recv(9, 0)])];
            let description = Description {
                ranks: 2,
                phases: vec![Part::Each(vec![acts, receive])],
            };
            let algorithms = Algorithms::default();
            let schedule = described(&description, 1, &algorithms).unwrap();
            assert_eq!(
                schedule.operations(),
                operations_of(description.ranks, &description.phases, &algorithms)
            );
            let mut text = Vec::new();
            schedule.write_text(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let waits = text.lines().filter(|line| line.contains("requires"));
            waits.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        let compute = || Act::Together(vec![Operation::calc(7)]);
        let send = Act::Send(9, 1);
        assert_eq!(
            waits(vec![send.clone(), compute(), Act::Flush, compute()]),
            ["o1 irequires o0", "o2 requires o0", "o2 requires o1"]
        );
        assert_eq!(
            waits(vec![send, Act::Flush, Act::Repeat(2, vec![compute()])]),
            ["o1 requires o0", "o2 requires o1"]
        );
    }

    #[test]
    fn every_collective_of_every_library_can_be_played() {
        for library in [Library::OpenMpi, Library::Mpich] {
            let algorithms = Algorithms::of_library(library);
            for kind in [
                Kind::Barrier,
                Kind::Allreduce,
                Kind::Broadcast,
                Kind::Alltoall,
                Kind::Alltoallv,
                Kind::Allgather,
            ] {
                for (ranks, piece) in [(1, 8), (3, 100_000), (8, 64), (17, 5_000), (100, 3_000)] {
                    let program = program(vec![Part::Collective(kind, piece)], ranks, &algorithms);
                    assert_eq!(
                        program.messages().is_empty(),
                        ranks == 1,
                        "{kind:?} {ranks}"
                    );
                }
            }
        }
    }
}
