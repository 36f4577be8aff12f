//! The calls of a recorded program, one lane per thread that called MPI.

use crate::ExplainError;
use idlewave_run::tables::{Communicators, OperationClass, Operations, Table};
use idlewave_run::{Manifest, RunReader};
use idlewave_stats::random::bits_at;
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;

/// One MPI call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Entry, nanoseconds.
    pub begin: u64,
    /// Return.
    pub end: u64,
    /// Row of the table `calls`.
    pub row: u32,
    /// Index of the operation.
    pub operation: u16,
    /// Calls with equal sites repeat the same operation: function, communicator and partners.
    pub site: u32,
    /// Collective it is part of, plus 1: index into `Program::instances`.
    pub instance: Option<NonZeroU32>,
}

/// A thread that called MPI, with its calls in order of time; they do not overlap.
#[derive(Debug)]
pub struct Lane {
    /// Its rank.
    pub rank: Rank,
    /// Its node.
    pub node: NodeId,
    /// CPU that the rank was bound to.
    pub cpu: Option<Cpu>,
    /// Its thread number on the node.
    pub thread: Pid,
    /// Its calls.
    pub calls: Vec<Call>,
    /// Per communicator, its collective calls by index, in order of time.
    pub collectives: BTreeMap<u32, Vec<u32>>,
}

impl Lane {
    /// The call that began at this time.
    pub fn call_at(&self, begin: u64) -> Option<u32> {
        let found = self.calls.binary_search_by_key(&begin, |c| c.begin);
        found.ok().map(|i| i as u32)
    }
    /// Calls that end after `begin` and start before `end`, by index.
    pub fn calls_within(&self, begin: u64, end: u64) -> Range<usize> {
        calls_within(&self.calls, begin, end)
    }
}

/// Those of a lane's calls that end after `begin` and start before `end`, by index.
pub fn calls_within(calls: &[Call], begin: u64, end: u64) -> Range<usize> {
    let first = calls.partition_point(|c| c.end <= begin);
    let after = calls.partition_point(|c| c.begin < end);
    first..after.max(first)
}

/// Whether a function is one of MPI, not of another library.
pub fn is_of_mpi(function: &str) -> bool {
    function.starts_with("MPI_")
}

/// A function of MPI, or of another library that communicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name in C.
    pub name: String,
    /// What it does.
    pub class: OperationClass,
    /// Bytes sent by collectives of this kind.
    pub sent: u64,
}

/// What a collective call says about its collective, until the instances are built.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub comm: u32,
    pub sequence: u32,
    pub root: Option<Rank>,
}

/// One collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// What it does; `Other` if it cannot be determined which members waited for which.
    pub class: OperationClass,
    /// Its communicator.
    pub comm: u32,
    /// Its root, if it has one.
    pub root: Option<Rank>,
    /// Its calls: range of `Program::members`.
    pub members: Range<u32>,
    /// When the last member entered.
    pub last_enter: u64,
    /// Lane of that member; the first of those that entered at the same time.
    pub last: u32,
}

/// A recorded program.
#[derive(Debug, Default)]
pub struct Program {
    /// In order of ranks; the first of a rank is the thread that called MPI_Init.
    pub lanes: Vec<Lane>,
    /// Indices of the lanes of each rank of the manifest.
    pub of_rank: BTreeMap<Rank, Vec<u32>>,
    /// The functions, by the number that calls refer to.
    pub operations: Vec<Operation>,
    /// Members of every communicator and their ranks in it.
    pub communicators: BTreeMap<u32, BTreeMap<Rank, u32>>,
    /// The collectives.
    pub instances: Vec<Instance>,
    /// Calls of the collectives, as lane and index, one instance after the other.
    pub members: Vec<(u32, u32)>,
    /// Bound of the error between the clock of a node and that of node 0.
    clock_errors: BTreeMap<NodeId, u64>,
}

impl Program {
    /// The threads of a run, its operations and communicators, still without calls.
    pub(super) fn without_calls(run: &RunReader) -> Result<Self, ExplainError> {
        let mut program = Program::new(run.manifest());
        for op in run.read::<Operations>()?.rows() {
            let index = op.id as usize;
            if index > usize::from(u16::MAX) {
                return Err(inconsistent("operations", format!("number {index}")));
            }
            let none = Operation {
                name: String::new(),
                class: OperationClass::Other,
                sent: 0,
            };
            if program.operations.len() <= index {
                program.operations.resize(index + 1, none);
            }
            program.operations[index].name = op.name;
            program.operations[index].class = op.class;
        }
        run.for_each::<Communicators>(|c| {
            let members = program.communicators.entry(c.comm).or_default();
            members.insert(c.rank, c.member);
        })?;
        Ok(program)
    }

    fn new(manifest: &Manifest) -> Self {
        let mut program = Program::default();
        for node in &manifest.nodes {
            let error = node.alignment.as_ref().map_or(Nanos::ZERO, |a| a.error);
            program.clock_errors.insert(node.node, error.get());
        }
        for sheet in &manifest.ranks {
            let lanes = program.of_rank.entry(sheet.rank).or_default();
            for &thread in &sheet.threads {
                lanes.push(program.lanes.len() as u32);
                program.lanes.push(Lane {
                    rank: sheet.rank,
                    node: sheet.node,
                    cpu: sheet.cpu,
                    thread,
                    calls: Vec::new(),
                    collectives: BTreeMap::new(),
                });
            }
        }
        program
    }

    /// The lane of a thread of a rank.
    pub fn lane_of(&self, rank: Rank, thread: Pid) -> Option<u32> {
        let lanes = self.of_rank.get(&rank)?;
        lanes
            .iter()
            .copied()
            .find(|&l| self.lanes[l as usize].thread == thread)
    }

    /// A call, by lane and index.
    pub fn call(&self, lane: u32, call: u32) -> &Call {
        &self.lanes[lane as usize].calls[call as usize]
    }

    /// Class of a call's operation.
    pub fn class(&self, call: &Call) -> OperationClass {
        self.operations[usize::from(call.operation)].class
    }

    /// Name of a call's operation.
    pub fn name(&self, call: &Call) -> &str {
        &self.operations[usize::from(call.operation)].name
    }

    /// Bound of the error of a difference between times of two lanes.
    pub fn clock_error(&self, a: u32, b: u32) -> u64 {
        let (a, b) = (self.lanes[a as usize].node, self.lanes[b as usize].node);
        let of = |node| self.clock_errors.get(node).copied().unwrap_or(0);
        match a == b {
            true => 0,
            false => of(&a).saturating_add(of(&b)),
        }
    }
}

/// Combines two numbers into one that differs for different pairs, except for one collision in
/// 2^32.
pub fn mix(a: u32, b: u32) -> u32 {
    (bits_at(u64::from(a) << 32 | u64::from(b), 0) >> 32) as u32
}

pub fn inconsistent(what: &'static str, reason: String) -> ExplainError {
    ExplainError::Inconsistent { what, reason }
}

#[cfg(test)]
impl Program {
    /// A program of one thread that made calls from and to these times.
    pub fn of_calls(spans: &[(u64, u64)]) -> Self {
        let call = |&(begin, end)| Call {
            begin,
            end,
            row: 0,
            operation: 0,
            site: 0,
            instance: None,
        };
        let lane = Lane {
            rank: Rank::new(0),
            node: NodeId::new(0),
            cpu: None,
            thread: Pid::new(1),
            calls: spans.iter().map(call).collect(),
            collectives: BTreeMap::new(),
        };
        Program {
            lanes: vec![lane],
            ..Program::default()
        }
    }
}
