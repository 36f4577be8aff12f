//! A schedule in memory: flat arrays, one record of 32 bytes per operation and one word per
//! dependency.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a message.
    Send {
        /// Its length.
        bytes: u64,
        /// Receiving rank.
        to: u32,
        /// Tag that the receive must match.
        tag: u32,
    },
    /// Receives a message.
    Recv {
        /// Length of the buffer. A message keeps the length with which it was sent.
        bytes: u64,
        /// The sending rank; `None` receives from any rank.
        from: Option<u32>,
        /// Tag of the message; `None` receives any tag.
        tag: Option<u32>,
    },
    /// Computes.
    Calc {
        /// Duration in nanoseconds.
        ns: u64,
    },
}

/// One operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub action: Action,
    /// The CPU of its rank that it uses.
    pub cpu: u8,
    /// The NIC of its rank that it uses; 0 for a computation.
    pub nic: u8,
}

impl Operation {
    /// A message of tag 0, on CPU and NIC 0.
    pub fn send(bytes: u64, to: u32) -> Self {
        Action::Send { bytes, to, tag: 0 }.into()
    }

    /// The receive of a message of tag 0, on CPU and NIC 0; `None` receives from any rank.
    pub fn recv(bytes: u64, from: impl Into<Option<u32>>) -> Self {
        let (from, tag) = (from.into(), Some(0));
        Action::Recv { bytes, from, tag }.into()
    }

    /// A computation on CPU 0, in nanoseconds.
    pub fn calc(ns: u64) -> Self {
        Action::Calc { ns }.into()
    }

    /// Sets the tag. A computation has none.
    pub fn tag(mut self, value: u32) -> Self {
        match &mut self.action {
            Action::Send { tag, .. } => *tag = value,
            Action::Recv { tag, .. } => *tag = Some(value),
            Action::Calc { .. } => {}
        }
        self
    }

    /// Receives any tag. Sends and computations are unchanged.
    pub fn any_tag(mut self) -> Self {
        if let Action::Recv { tag, .. } = &mut self.action {
            *tag = None;
        }
        self
    }

    /// Sets the CPU.
    pub fn cpu(mut self, cpu: u8) -> Self {
        self.cpu = cpu;
        self
    }

    /// Sets the NIC.
    pub fn nic(mut self, nic: u8) -> Self {
        self.nic = nic;
        self
    }
}

impl From<Action> for Operation {
    /// On CPU and NIC 0.
    fn from(action: Action) -> Self {
        Operation {
            action,
            cpu: 0,
            nic: 0,
        }
    }
}

/// Kinds, in the order in which operations freed together begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Send,
    Recv,
    Calc,
}

/// Any rank, any tag: their value in the binary form.
pub(crate) const ANY: u32 = u32::MAX;
/// In a list of dependents: waits for the start, not the end.
pub(crate) const AT_START: u32 = 1 << 31;
/// Most operations: their numbers leave one bit free.
pub(crate) const MOST_OPERATIONS: usize = (1 << 31) - 1;

/// An operation as the engine reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// Bytes, or nanoseconds.
    pub size: u64,
    /// The other rank, or `ANY`; 0 for a computation.
    pub peer: u32,
    /// Tag, or `ANY`; 0 for a computation.
    pub tag: u32,
    /// Its own rank.
    pub rank: u32,
    pub kind: Kind,
    pub cpu: u8,
    pub nic: u8,
}

/// One operation of a schedule: half a cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub task: Task,
    /// Where its dependents start; they end where those of the next operation start.
    pub dependents: u32,
    /// Its line in the text; 0 if there is no text.
    pub line: u32,
}

impl std::ops::Deref for Record {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.task
    }
}

impl Record {
    pub fn new(operation: Operation, rank: u32, line: u32) -> Self {
        Record {
            task: Task::new(operation, rank),
            dependents: 0,
            line,
        }
    }
}

impl Task {
    pub fn new(operation: Operation, rank: u32) -> Self {
        let (kind, size, peer, tag) = match operation.action {
            Action::Send { bytes, to, tag } => (Kind::Send, bytes, to, tag),
            Action::Recv { bytes, from, tag } => {
                (Kind::Recv, bytes, from.unwrap_or(ANY), tag.unwrap_or(ANY))
            }
            Action::Calc { ns } => (Kind::Calc, ns, 0, 0),
        };
        Task {
            size,
            peer,
            tag,
            rank,
            kind,
            cpu: operation.cpu,
            nic: if kind == Kind::Calc { 0 } else { operation.nic },
        }
    }

    pub fn operation(&self) -> Operation {
        let some = |value: u32| (value != ANY).then_some(value);
        let action = match self.kind {
            Kind::Send => Action::Send {
                bytes: self.size,
                to: self.peer,
                tag: self.tag,
            },
            Kind::Recv => Action::Recv {
                bytes: self.size,
                from: some(self.peer),
                tag: some(self.tag),
            },
            Kind::Calc => Action::Calc { ns: self.size },
        };
        Operation {
            action,
            cpu: self.cpu,
            nic: self.nic,
        }
    }
}

/// An operation that waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Its index among the operations of all ranks.
    pub operation: usize,
    /// Whether it may start when the other one has started, rather than ended.
    pub at_start: bool,
}

/// What every rank does, and in which order. It has no cycles and refers to no missing rank.
///
/// Two schedules are equal if they have the same operations and dependencies in the same order,
/// wherever they were read from.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Where the operations of each rank start; one more than there are ranks.
    pub(crate) ranks: Vec<u32>,
    /// Records, rank by rank.
    pub(crate) records: Vec<Record>,
    /// For each operation, those that wait for its start, then those that wait for its end, each in
    /// the order in which the dependencies were given. That order decides between operations that
    /// begin at the same time.
    pub(crate) dependents: Vec<u32>,
}

impl Schedule {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        (self.ranks.len() - 1) as u32
    }

    /// Number of CPUs per rank: the largest CPU number of any operation plus 1.
    pub fn cpus(&self) -> u16 {
        let largest = self.records.iter().map(|r| r.cpu).max();
        u16::from(largest.unwrap_or(0)) + 1
    }

    /// Number of operations of all ranks.
    pub fn operations(&self) -> u64 {
        self.records.len() as u64
    }

    /// Number of dependencies.
    pub fn dependencies(&self) -> u64 {
        self.dependents.len() as u64
    }

    /// The operations of a rank in order; empty for a rank that does not exist.
    pub fn rank(&self, rank: u32) -> impl ExactSizeIterator<Item = Operation> + '_ {
        self.records[self.span(rank)]
            .iter()
            .map(|record| record.operation())
    }

    /// Indices of the operations of a rank among those of all ranks; empty for a rank that does not
    /// exist.
    pub fn span(&self, rank: u32) -> std::ops::Range<usize> {
        match (
            self.ranks.get(rank as usize),
            self.ranks.get(rank as usize + 1),
        ) {
            (Some(&begin), Some(&end)) => begin as usize..end as usize,
            _ => 0..0,
        }
    }

    /// The operations that wait for an operation, given its index among those of all ranks. Those
    /// that wait for its start come first.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn waiting_for(&self, index: usize) -> impl Iterator<Item = Dependent> + '_ {
        self.dependents_of(index).iter().map(|&entry| Dependent {
            operation: (entry & !AT_START) as usize,
            at_start: entry & AT_START != 0,
        })
    }

    /// The dependents of an operation, both kinds.
    pub(crate) fn dependents_of(&self, index: usize) -> &[u32] {
        dependents_of(&self.records, &self.dependents, index)
    }
}

/// The dependents of an operation, both kinds.
#[inline]
pub(crate) fn dependents_of<'a>(
    records: &[Record],
    dependents: &'a [u32],
    index: usize,
) -> &'a [u32] {
    let begin = records[index].dependents as usize;
    let end = match records.get(index + 1) {
        Some(next) => next.dependents as usize,
        None => dependents.len(),
    };
    &dependents[begin..end]
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Record, &Record)| {
            a.operation() == b.operation() && a.dependents == b.dependents
        };
        self.ranks == other.ranks
            && self.dependents == other.dependents
            && self.records.iter().zip(&other.records).all(same)
    }
}

impl Eq for Schedule {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_half_a_cache_line_and_keeps_the_operation() {
        assert_eq!(size_of::<Record>(), 32);
        for operation in [
            Operation::send(5, 7).tag(3).cpu(2).nic(1),
            Operation::recv(5, 7).tag(3),
            Operation::recv(5, None).any_tag(),
            Operation::calc(9).cpu(255),
        ] {
            assert_eq!(Record::new(operation, 1, 0).operation(), operation);
        }
    }
}
