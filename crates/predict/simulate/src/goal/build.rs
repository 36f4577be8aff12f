//! Builds a schedule, rank after rank. The engine need not check again what is rejected here.

use super::schedule::{ANY, AT_START, MOST_OPERATIONS, Operation, Record, Schedule};
use std::fmt;

/// An operation of the rank being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperationId {
    rank: u32,
    /// Within its rank.
    index: u32,
}

impl OperationId {
    /// Its position among the operations of its rank, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    pub(crate) fn new(rank: u32, index: u32) -> Self {
        OperationId { rank, index }
    }
}

/// Why something is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No ranks at all, or 2^32 - 1 of them.
    #[error("{0} ranks: from 1 to 4294967294 are possible")]
    Ranks(u32),
    /// An operation, or the end, of a rank after the last.
    #[error("more than the {0} ranks that were announced")]
    TooManyRanks(u32),
    /// Fewer ranks than announced.
    #[error("only {present} of {announced} ranks")]
    MissingRanks {
        /// Ranks that were built.
        present: u32,
        /// Ranks that were announced.
        announced: u32,
    },
    /// A message to or from a rank that does not exist.
    #[error("rank {peer} does not exist: there are {ranks}, from 0 to {}", .ranks - 1)]
    Peer {
        /// The missing rank.
        peer: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// The number that stands for any tag in the binary form.
    #[error("tag 4294967295 is taken: it stands for any tag")]
    Tag,
    /// A dependency on an operation of another rank.
    #[error("a dependency names an operation of rank {0}, which is not the one being built")]
    Foreign(u32),
    /// More operations than fit.
    #[error("more than 2147483647 operations")]
    TooManyOperations,
    /// More dependencies than fit.
    #[error("more than 4294967295 dependencies")]
    TooManyDependencies,
    /// Operations that wait for each other.
    #[error(transparent)]
    Circle(#[from] Circle),
}

/// Operations that wait for each other in a cycle, each for the next and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Circle {
    /// Their rank.
    pub rank: u32,
    /// Their positions in the rank.
    pub operations: Vec<u32>,
    /// Their lines in the text, in the same order; 0 if there is no text.
    pub lines: Vec<u32>,
    /// Their labels, in the same order; empty if there are none.
    pub labels: Vec<String>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Longer cycles are abbreviated.
        const SHOWN: usize = 5;
        let all = self.operations.len();
        let name = |at: usize| {
            let line = match self.lines.get(at) {
                Some(&line) if line > 0 => format!(" (line {line})"),
                _ => String::new(),
            };
            match self.labels.get(at) {
                Some(label) => format!("{label}{line}"),
                None => format!("operation {}{line}", self.operations[at]),
            }
        };
        let rank = self.rank;
        write!(
            f,
            "operations of rank {rank} wait for each other: {} for ",
            name(0)
        )?;
        for at in 1..all.min(SHOWN) {
            write!(f, "{}, that for ", name(at))?;
        }
        match all <= SHOWN {
            true => write!(f, "{}", name(0))?,
            false => write!(f, "others, {all} in all, and the last for {}", name(0))?,
        }
        Ok(())
    }
}

/// Builds a [`Schedule`]: [`push`](Self::push) the operations of rank 0 and their dependencies,
/// then call [`end_rank`](Self::end_rank), and so on to the last rank, then
/// [`finish`](Self::finish).
///
/// ```
/// use idlewave_simulate::goal::{Operation, Parameters, ScheduleBuilder, simulate};
///
/// let mut builder = ScheduleBuilder::new(2)?;
/// let work = builder.push(Operation::calc(10_000))?;
/// let send = builder.push(Operation::send(8, 1))?;
/// builder.requires(send, work)?;
/// builder.end_rank()?;
/// builder.push(Operation::recv(8, 0))?;
/// builder.end_rank()?;
/// let outcome = simulate(&builder.finish()?, &Parameters::default())?;
/// // 10000 of work, 1500 overhead, 2500 latency, 1500 overhead, 7 bytes after the first at 6 each.
/// assert_eq!(outcome.finish_ns, [11_500, 15_542]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ScheduleBuilder {
    announced: u32,
    /// The last entry is the start of the rank being built.
    ranks: Vec<u32>,
    records: Vec<Record>,
    dependents: Vec<u32>,
    /// Dependencies of this rank: the operation waited for and the one that waits, by their
    /// positions in the rank, with `AT_START`.
    edges: Vec<(u32, u32)>,
    /// Every dependency of this rank is on an earlier operation, so there is no cycle.
    backward: bool,
    /// Where the dependents of each operation of this rank start, twice: at start, at end.
    places: Vec<u32>,
}

impl ScheduleBuilder {
    /// A builder for this many ranks.
    pub fn new(ranks: u32) -> Result<Self, BuildError> {
        if ranks == 0 || ranks == ANY {
            return Err(BuildError::Ranks(ranks));
        }
        Ok(ScheduleBuilder {
            announced: ranks,
            ranks: vec![0],
            records: Vec::new(),
            dependents: Vec::new(),
            edges: Vec::new(),
            backward: true,
            places: Vec::new(),
        })
    }

    /// The rank being built.
    pub fn rank(&self) -> u32 {
        (self.ranks.len() - 1) as u32
    }

    fn first(&self) -> usize {
        self.ranks[self.ranks.len() - 1] as usize
    }

    /// Adds an operation to the rank being built.
    pub fn push(&mut self, operation: Operation) -> Result<OperationId, BuildError> {
        self.push_at(operation, 0)
    }

    /// Like [`ScheduleBuilder::push`], for an operation in this line of a text.
    pub(crate) fn push_at(
        &mut self,
        operation: Operation,
        line: u32,
    ) -> Result<OperationId, BuildError> {
        use super::schedule::Action::{Calc, Recv, Send};
        let rank = self.rank();
        let ranks = self.announced;
        if rank >= ranks {
            return Err(BuildError::TooManyRanks(ranks));
        }
        let (peer, tag) = match operation.action {
            Send { to, tag, .. } => (Some(to), Some(tag)),
            Recv { from, tag, .. } => (from, tag),
            Calc { .. } => (None, None),
        };
        if let Some(peer) = peer.filter(|peer| *peer >= ranks) {
            return Err(BuildError::Peer { peer, ranks });
        }
        if tag == Some(ANY) {
            return Err(BuildError::Tag);
        }
        if self.records.len() >= MOST_OPERATIONS {
            return Err(BuildError::TooManyOperations);
        }
        let index = (self.records.len() - self.first()) as u32;
        self.records.push(Record::new(operation, rank, line));
        Ok(OperationId { rank, index })
    }

    /// `later` may start when `earlier` has finished.
    pub fn requires(&mut self, later: OperationId, earlier: OperationId) -> Result<(), BuildError> {
        self.depend(later, earlier, 0)
    }

    /// `later` may start when `earlier` has started.
    pub fn irequires(
        &mut self,
        later: OperationId,
        earlier: OperationId,
    ) -> Result<(), BuildError> {
        self.depend(later, earlier, AT_START)
    }

    fn depend(
        &mut self,
        later: OperationId,
        earlier: OperationId,
        flag: u32,
    ) -> Result<(), BuildError> {
        for id in [later, earlier] {
            if id.rank != self.rank() {
                return Err(BuildError::Foreign(id.rank));
            }
        }
        self.backward &= earlier.index < later.index;
        self.edges.push((earlier.index, later.index | flag));
        Ok(())
    }

    /// Ends the rank being built.
    pub fn end_rank(&mut self) -> Result<(), BuildError> {
        if self.rank() >= self.announced {
            return Err(BuildError::TooManyRanks(self.announced));
        }
        let first = self.first();
        let begin = self.dependents.len();
        if u32::try_from(begin + self.edges.len()).is_err() {
            return Err(BuildError::TooManyDependencies);
        }
        let own = self.records.len() - first;
        // Counting sort by the operation waited for; those that wait for its start come first.
        let slot = |&(earlier, later): &(u32, u32)| {
            2 * earlier as usize + usize::from(later & AT_START == 0)
        };
        self.places.clear();
        self.places.resize(2 * own + 1, 0);
        for edge in &self.edges {
            self.places[slot(edge) + 1] += 1;
        }
        let mut place = begin as u32;
        for entry in &mut self.places {
            place += *entry;
            *entry = place;
        }
        for (index, record) in self.records[first..].iter_mut().enumerate() {
            record.dependents = self.places[2 * index];
        }
        self.dependents.resize(begin + self.edges.len(), 0);
        for edge in &self.edges {
            let place = &mut self.places[slot(edge)];
            // Below 2^31, so that the bit of `AT_START` is unaffected.
            self.dependents[*place as usize] = edge.1 + first as u32;
            *place += 1;
        }
        if !self.backward {
            self.look_for_circle(first)?;
        }
        self.edges.clear();
        self.backward = true;
        self.ranks.push(self.records.len() as u32);
        Ok(())
    }

    /// Repeatedly removes operations that wait for nothing, until only cycles and the operations
    /// that wait for them are left, or nothing.
    fn look_for_circle(&self, first: usize) -> Result<(), Circle> {
        let own = self.records.len() - first;
        let mut missing = vec![0_u32; own];
        for &(_, later) in &self.edges {
            missing[(later & !AT_START) as usize] += 1;
        }
        let mut free: Vec<usize> = (0..own).filter(|&at| missing[at] == 0).collect();
        while let Some(at) = free.pop() {
            let all = super::schedule::dependents_of(&self.records, &self.dependents, first + at);
            for &later in all {
                let later = (later & !AT_START) as usize - first;
                missing[later] -= 1;
                if missing[later] == 0 {
                    free.push(later);
                }
            }
        }
        // Each operation left waits for another one left: following them leads into a cycle.
        let mut waits_for = vec![None; own];
        for &(earlier, later) in &self.edges {
            let later = (later & !AT_START) as usize;
            if missing[earlier as usize] > 0 && missing[later] > 0 {
                waits_for[later] = Some(earlier as usize);
            }
        }
        let mut order = vec![None; own];
        let mut path = Vec::new();
        let mut at = waits_for.iter().position(Option::is_some);
        while let Some(here) = at {
            if let Some(begin) = order[here] {
                return Err(self.circle(first, &path[begin..]));
            }
            order[here] = Some(path.len());
            path.push(here);
            at = waits_for[here];
        }
        Ok(())
    }

    fn circle(&self, first: usize, path: &[usize]) -> Circle {
        // Starts at its lowest operation, so that the same cycle is always reported the same way.
        let lowest = (0..path.len()).min_by_key(|&at| path[at]).unwrap_or(0);
        let turned = path[lowest..].iter().chain(&path[..lowest]);
        let operations: Vec<u32> = turned.map(|&at| at as u32).collect();
        let line = |at: &u32| self.records[first + *at as usize].line;
        Circle {
            rank: self.rank(),
            lines: operations.iter().map(line).collect(),
            operations,
            labels: Vec::new(),
        }
    }

    /// Line of an operation of this rank in the text.
    pub(crate) fn line(&self, id: OperationId) -> u32 {
        let record = self.records.get(self.first() + id.index as usize);
        record.map_or(0, |record| record.line)
    }

    /// Returns the schedule, once all ranks have ended.
    pub fn finish(mut self) -> Result<Schedule, BuildError> {
        let present = self.rank();
        if present < self.announced {
            return Err(BuildError::MissingRanks {
                present,
                announced: self.announced,
            });
        }
        self.records.shrink_to_fit();
        self.dependents.shrink_to_fit();
        Ok(Schedule {
            ranks: self.ranks,
            records: self.records,
            dependents: self.dependents,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One rank of `n` computations with these dependencies (later, earlier).
    fn one_rank(n: u32, dependencies: &[(u32, u32)]) -> Result<Schedule, BuildError> {
        let mut builder = ScheduleBuilder::new(1)?;
        for _ in 0..n {
            builder.push(Operation::calc(1))?;
        }
        for &(later, earlier) in dependencies {
            builder.requires(OperationId::new(0, later), OperationId::new(0, earlier))?;
        }
        builder.end_rank()?;
        builder.finish()
    }

    #[test]
    fn circles_are_found_and_told_from_their_first_operation() {
        for (edges, circle) in [
            (&[(0, 0)][..], vec![0]),
            (&[(0, 1), (1, 0)], vec![0, 1]),
            (&[(1, 0), (3, 2), (2, 4), (4, 3), (0, 5)], vec![2, 4, 3]),
            // A tail that waits for the cycle is not part of it.
            (&[(0, 2), (2, 3), (3, 2)], vec![2, 3]),
        ] {
            match one_rank(6, edges) {
                Err(BuildError::Circle(found)) => assert_eq!(found.operations, circle),
                other => panic!("{edges:?}: {other:?}"),
            }
        }
        // A forward dependency, but no cycle.
        let schedule = one_rank(4, &[(0, 1), (1, 2), (0, 3)]).unwrap();
        assert_eq!(schedule.dependencies(), 3);
    }

    #[test]
    fn circles_are_told_in_words() {
        let circle = |operations: Vec<u32>| Circle {
            rank: 3,
            lines: vec![0; operations.len()],
            operations,
            labels: Vec::new(),
        };
        assert_eq!(
            circle(vec![4, 7]).to_string(),
            "operations of rank 3 wait for each other: operation 4 for operation 7, that for operation 4"
        );
        assert_eq!(
            circle(vec![4]).to_string(),
            "operations of rank 3 wait for each other: operation 4 for operation 4"
        );
        let long = circle((0..9).collect()).to_string();
        assert!(
            long.ends_with(
                "that for operation 4, that for others, 9 in all, and the last for operation 0"
            ),
            "{long}"
        );
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        assert_eq!(ScheduleBuilder::new(0).unwrap_err(), BuildError::Ranks(0));
        assert!(ScheduleBuilder::new(u32::MAX).is_err());
        let mut builder = ScheduleBuilder::new(2).unwrap();
        let peer = BuildError::Peer { peer: 2, ranks: 2 };
        assert_eq!(builder.push(Operation::send(1, 2)), Err(peer.clone()));
        assert_eq!(builder.push(Operation::recv(1, 2)), Err(peer));
        assert!(builder.push(Operation::recv(1, u32::MAX)).is_err());
        let tag = builder.push(Operation::send(1, 1).tag(u32::MAX));
        assert_eq!(tag, Err(BuildError::Tag));
        let here = builder.push(Operation::calc(1)).unwrap();
        builder.end_rank().unwrap();
        let there = builder.push(Operation::calc(1)).unwrap();
        let foreign = BuildError::Foreign(0);
        assert_eq!(builder.requires(there, here), Err(foreign.clone()));
        assert_eq!(builder.irequires(here, there), Err(foreign));
        builder.end_rank().unwrap();
        let more = BuildError::TooManyRanks(2);
        assert_eq!(builder.push(Operation::calc(1)), Err(more.clone()));
        assert_eq!(builder.end_rank(), Err(more));
        let missing = ScheduleBuilder::new(2).unwrap().finish();
        let wanted = BuildError::MissingRanks {
            present: 0,
            announced: 2,
        };
        assert_eq!(missing, Err(wanted));
    }

    #[test]
    fn dependents_keep_the_order_in_which_they_were_given() {
        let mut builder = ScheduleBuilder::new(2).unwrap();
        for _ in 0..2 {
            let all: Vec<OperationId> = (0..5)
                .map(|_| builder.push(Operation::calc(1)).unwrap())
                .collect();
            builder.requires(all[4], all[0]).unwrap();
            builder.irequires(all[3], all[0]).unwrap();
            builder.requires(all[1], all[0]).unwrap();
            builder.requires(all[4], all[1]).unwrap();
            builder.irequires(all[2], all[0]).unwrap();
            builder.end_rank().unwrap();
        }
        let schedule = builder.finish().unwrap();
        for first in [0, 5] {
            let own = schedule.dependents_of(first as usize);
            let at_start = |index: u32| (first + index) | AT_START;
            assert_eq!(own, [at_start(3), at_start(2), first + 4, first + 1]);
            assert_eq!(schedule.dependents_of(first as usize + 1), [first + 4]);
            assert!(schedule.dependents_of(first as usize + 4).is_empty());
        }
    }
}
