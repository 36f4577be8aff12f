//! Recorded MPI programs made up from calls with known times.

#![allow(clippy::unwrap_used, dead_code)] // Every test program uses a part of it.

pub mod world;

use idlewave_explain::{ProgramTables, explain};
use idlewave_run::findings::{Findings, ProgramFindings};
use idlewave_run::tables::{
    Burst, Bursts, Call, Calls, Communicator, Communicators, Direction, EndReason, Mark, Marks,
    OperationClass as Class, Operations, Table, Task, TaskKind, Tasks, Transfer, Transfers,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    Alignment, Manifest, Phase, PhaseKind, RankSheet, RunReader, RunWriter, TraceMode,
};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// When all ranks leave MPI_Init; times below count from there.
pub const START: u64 = 1_000_000;

const OPERATIONS: [(&str, Class); 18] = [
    ("MPI_Init", Class::Life),
    ("MPI_Finalize", Class::Life),
    ("MPI_Send", Class::Send),
    ("MPI_Ssend", Class::Send),
    ("MPI_Isend", Class::Send),
    ("MPI_Recv", Class::Receive),
    ("MPI_Irecv", Class::Receive),
    ("MPI_Waitall", Class::Complete),
    ("MPI_Barrier", Class::AllToAll),
    ("MPI_Allreduce", Class::AllToAll),
    ("MPI_Bcast", Class::FromRoot),
    ("MPI_Reduce", Class::ToRoot),
    ("MPI_Scan", Class::Prefix),
    ("MPI_Comm_split", Class::Communicator),
    ("MPI_Probe", Class::Other),
    ("MPI_Sendrecv", Class::SendReceive),
    ("MPI_Neighbor_allgather", Class::Neighbour),
    ("MPI_Alltoall", Class::AllToAll),
];

pub const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Start and end of a call.
pub type Span = (u64, u64);

/// A call without further details by a rank's thread, whose number is 100 plus the rank.
pub fn plain_call(rank: u32, operation: u32, span: Span) -> Call {
    Call {
        rank: Rank::new(rank),
        thread: Pid::new(100 + rank),
        operation,
        begin_ns: START + span.0,
        end_ns: START + span.1,
        comm: None,
        sequence: None,
        root: None,
        sent: None,
        received: None,
        request: None,
    }
}

/// A program being made up.
#[derive(Clone, Debug)]
pub struct Made {
    pub ranks: u32,
    /// Node of every rank, and CPU on it.
    pub places: Vec<(u32, u32)>,
    calls: Calls,
    transfers: Transfers,
    communicators: Communicators,
    marks: Marks,
    sequences: BTreeMap<u32, u32>,
    /// Rank, start, end, index of the name.
    strikes: Vec<(u32, u64, u64, usize)>,
    /// Rank and start of a burst of another task whose end is missing from the trace.
    pub holes: Vec<(u32, u64)>,
    /// Rank, start, end.
    sleeps: Vec<(u32, u64, u64)>,
    /// When a rank enters MPI_Finalize, if ever; the other ranks enter it at the very end.
    pub finalize: BTreeMap<u32, Option<u64>>,
    end: u64,
    /// Bound of the error of the clock of every node but the first.
    pub clock_error: u64,
    /// If set, the ranks of one place take turns of this many nanoseconds on its CPU.
    pub turns: Option<u64>,
    /// Added to all times.
    pub shift: u64,
    /// What was recorded of the kernel.
    pub mode: TraceMode,
    /// What names of functions start with instead of `MPI_`.
    pub library: &'static str,
}

/// What the analysis made of it.
pub struct Explained {
    pub findings: Findings,
    pub tables: ProgramTables,
}

impl Made {
    /// All ranks on one node, each on a CPU of its own.
    pub fn new(ranks: u32) -> Self {
        let mut made = Self {
            ranks,
            places: (0..ranks).map(|r| (0, r)).collect(),
            calls: Calls::default(),
            transfers: Transfers::default(),
            communicators: Communicators::default(),
            marks: Marks::default(),
            sequences: BTreeMap::new(),
            strikes: Vec::new(),
            holes: Vec::new(),
            sleeps: Vec::new(),
            finalize: BTreeMap::new(),
            end: START,
            clock_error: 0,
            turns: None,
            shift: 0,
            mode: TraceMode::Tracefs,
            library: "MPI_",
        };
        made.communicator(0, &(0..ranks).collect::<Vec<_>>());
        for rank in 0..ranks {
            made.add("MPI_Init", rank, (0, 0), |c| c.begin_ns = START - 1_000);
        }
        made
    }

    pub fn communicator(&mut self, comm: u32, ranks: &[u32]) {
        for (member, &rank) in ranks.iter().enumerate() {
            self.communicators.push(Communicator {
                comm,
                member: member as u32,
                rank: Rank::new(rank),
                key: u64::from(comm) + 77,
            });
        }
    }

    fn add(&mut self, name: &str, rank: u32, span: Span, set: impl FnOnce(&mut Call)) {
        let operation = OPERATIONS.iter().position(|o| o.0 == name).unwrap();
        let mut call = Call {
            comm: Some(0),
            ..plain_call(rank, operation as u32, span)
        };
        set(&mut call);
        self.end = self.end.max(call.end_ns);
        self.calls.push(call);
    }

    /// A rank leaves its MPI_Init later than the others.
    pub fn left_init(&mut self, rank: u32, at: u64) {
        self.calls.end_ns[rank as usize] = START + at;
    }

    /// The first call of a rank is not seen before that time.
    pub fn first_seen(&mut self, rank: u32, at: u64) {
        self.calls.begin_ns[rank as usize] = START + at;
        self.left_init(rank, at);
    }

    /// A call that is neither a collective nor seen to send or receive.
    pub fn call(&mut self, name: &str, rank: u32, span: Span) {
        self.add(name, rank, span, |_| {});
    }

    /// A collective, by rank, start and end.
    pub fn collective(
        &mut self,
        name: &str,
        comm: u32,
        root: Option<u32>,
        members: &[(u32, u64, u64)],
    ) {
        self.collective_of(name, comm, root, members, 8);
    }

    /// The same, with the bytes that each member sends.
    pub fn collective_of(
        &mut self,
        name: &str,
        comm: u32,
        root: Option<u32>,
        members: &[(u32, u64, u64)],
        sent: u64,
    ) {
        let next = self.sequences.entry(comm).or_default();
        let sequence = *next;
        *next += 1;
        for &(rank, begin, end) in members {
            self.add(name, rank, (begin, end), |c| {
                c.comm = Some(comm);
                c.sequence = Some(sequence);
                c.root = root.map(Rank::new);
                c.sent = Some(Bytes::new(sent));
            });
        }
    }

    /// Whether several members of a collective came last at the same nanosecond: then the first of
    /// them counts as the last.
    pub fn has_equal_arrivals(&self) -> bool {
        let mut last: BTreeMap<(u32, u32), (u64, u32)> = BTreeMap::new();
        for call in self.calls.rows() {
            let (Some(comm), Some(sequence)) = (call.comm, call.sequence) else {
                continue;
            };
            let (begin, count) = last.entry((comm, sequence)).or_default();
            *count = match call.begin_ns.cmp(begin) {
                Ordering::Less => *count,
                Ordering::Equal => *count + 1,
                Ordering::Greater => 1,
            };
            *begin = call.begin_ns.max(*begin);
        }
        last.values().any(|(_, count)| *count > 1)
    }

    /// The next collective of the communicator gets the number of the last one.
    pub fn same_number(&mut self, comm: u32) {
        *self.sequences.entry(comm).or_insert(1) -= 1;
    }

    /// One end of a message: where it was posted, and the call that completed it.
    #[allow(clippy::too_many_arguments)]
    pub fn transfer(
        &mut self,
        sends: bool,
        rank: u32,
        peer: Option<u32>,
        comm: u32,
        tag: i32,
        bytes: u64,
        posted: u64,
        completed: Option<Span>,
    ) {
        self.transfers.push(Transfer {
            rank: Rank::new(rank),
            thread: Pid::new(100 + rank),
            direction: match sends {
                true => Direction::Send,
                false => Direction::Receive,
            },
            comm,
            peer: peer.map(Rank::new),
            tag,
            bytes: Some(Bytes::new(bytes)),
            posted_ns: START + posted,
            wait_ns: completed.map(|s| START + s.0),
            completed_ns: completed.map(|s| START + s.1),
        });
    }

    /// A blocking send with its blocking receive.
    pub fn message(&mut self, from: u32, to: u32, send: Span, receive: Span) {
        self.message_by("MPI_Send", from, to, send, receive);
    }

    pub fn message_by(&mut self, name: &str, from: u32, to: u32, send: Span, receive: Span) {
        self.call(name, from, send);
        self.call("MPI_Recv", to, receive);
        self.transfer(true, from, Some(to), 0, 7, 64, send.0, Some(send));
        self.transfer(false, to, Some(from), 0, 7, 64, receive.0, Some(receive));
    }

    /// Another task takes the CPU of a rank.
    pub fn strike(&mut self, rank: u32, span: Span, name: usize) {
        self.strikes
            .push((rank, START + span.0, START + span.1, name));
    }

    /// The rank sleeps of its own accord.
    pub fn sleep(&mut self, rank: u32, span: Span) {
        self.sleeps.push((rank, START + span.0, START + span.1));
    }

    pub fn mark(&mut self, rank: u32, name: &str, begin: u64, end: Option<u64>) {
        self.marks.push(Mark {
            rank: Some(Rank::new(rank)),
            node: NodeId::new(self.places[rank as usize].0),
            thread: Pid::new(100 + rank),
            name: name.to_owned(),
            begin_ns: START + begin,
            end_ns: end.map(|e| START + e),
        });
    }

    /// Gives rank `r` the number `to[r]`.
    pub fn relabelled(&self, to: &[u32]) -> Self {
        let mut made = self.clone();
        let new = |r: &mut Rank| *r = Rank::new(to[r.index()]);
        let thread = |p: &mut Pid| *p = Pid::new(100 + to[(p.get() - 100) as usize]);
        made.calls.rank.iter_mut().for_each(new);
        made.calls.root.iter_mut().flatten().for_each(new);
        made.calls.thread.iter_mut().for_each(thread);
        made.transfers.rank.iter_mut().for_each(new);
        made.transfers.peer.iter_mut().flatten().for_each(new);
        made.transfers.thread.iter_mut().for_each(thread);
        made.communicators.rank.iter_mut().for_each(new);
        for strike in &mut made.strikes {
            strike.0 = to[strike.0 as usize];
        }
        for (r, &place) in self.places.iter().enumerate() {
            made.places[to[r] as usize] = place;
        }
        made
    }

    fn manifest(&self) -> Manifest {
        let mut manifest = empty_manifest();
        manifest.nodes[0].trace.mode = self.mode;
        let nodes = self.places.iter().map(|p| p.0).max().unwrap_or(0);
        for node in 1..=nodes {
            let mut sheet = manifest.nodes[0].clone();
            sheet.node = NodeId::new(node);
            sheet.alignment = Some(Alignment {
                points: Vec::new(),
                error: Nanos::from_nanos(self.clock_error),
                method: "test".to_owned(),
            });
            manifest.nodes.push(sheet);
        }
        manifest.phases.push(Phase {
            kind: PhaseKind::Recorded {
                library: Some("Test MPI 1.0".to_owned()),
                exit_code: Some(0),
            },
            begin_ns: START - 100_000 + self.shift,
            end_ns: self.end + 100_000 + self.shift,
        });
        for rank in 0..self.ranks {
            let (node, cpu) = self.places[rank as usize];
            manifest.ranks.push(RankSheet {
                process: Some(Pid::new(100 + rank)),
                rank: Rank::new(rank),
                node: NodeId::new(node),
                cpu: Some(Cpu::new(cpu)),
                threads: vec![Pid::new(100 + rank)],
                priority: None,
            });
        }
        manifest
    }

    /// Tasks and bursts of all nodes.
    fn kernel(&self) -> (Tasks, Bursts) {
        let (mut tasks, mut bursts) = (Tasks::default(), Bursts::default());
        let mut named = std::collections::BTreeSet::new();
        for rank in 0..self.ranks {
            let (node, cpu) = self.places[rank as usize];
            let (node, cpu) = (NodeId::new(node), Cpu::new(cpu));
            let mut task = |pid, name: &str, kind| {
                if named.insert((node, pid)) {
                    tasks.push(Task {
                        node,
                        pid: Pid::new(pid),
                        process: None,
                        name: name.to_owned(),
                        kind,
                    });
                }
            };
            task(100 + rank, &format!("rank {rank}"), TaskKind::Rank);
            for (i, name) in NAMES.iter().enumerate() {
                task(500 + i as u32, name, TaskKind::User);
            }
            let mut burst = |pid, begin: u64, end: u64, end_reason| {
                if begin < end {
                    bursts.push(Burst {
                        node,
                        cpu,
                        pid: Pid::new(pid),
                        begin_ns: begin + self.shift,
                        end_ns: end + self.shift,
                        end_reason,
                        certain: true,
                    });
                }
            };
            let strikes = self.strikes.iter().filter(|s| s.0 == rank);
            let mut away: Vec<(u64, u64, Option<usize>)> =
                strikes.map(|s| (s.1, s.2, Some(s.3))).collect();
            let sleeps = self.sleeps.iter().filter(|s| s.0 == rank);
            away.extend(sleeps.map(|s| (s.1, s.2, None)));
            away.sort_unstable();
            let mut from = START - 100_000;
            for (begin, end, by) in away {
                let reason = match by {
                    Some(_) => EndReason::Preempted,
                    None => EndReason::Sleeping,
                };
                burst(100 + rank, from, begin, reason);
                let other = by.map_or(0, |i| 500 + i as u32);
                let hole = self.holes.contains(&(rank, begin - START));
                let seen_until = if hole { begin + 10 } else { end };
                burst(other, begin, seen_until, EndReason::Sleeping);
                from = end;
            }
            burst(100 + rank, from, self.end + 100_000, EndReason::Sleeping);
        }
        if let Some(length) = self.turns {
            bursts = self.turns(length);
        }
        (tasks, bursts)
    }

    /// Bursts of ranks that take turns on their CPUs and are ready all the time, and of the tasks
    /// that strike a CPU whichever rank has it.
    fn turns(&self, length: u64) -> Bursts {
        let mut bursts = Bursts::default();
        let places: std::collections::BTreeSet<(u32, u32)> = self.places.iter().copied().collect();
        for place in places {
            let here = |rank: &u32| self.places[*rank as usize] == place;
            let ranks: Vec<u32> = (0..self.ranks).filter(here).collect();
            let strikes = self.strikes.iter().filter(|s| here(&s.0));
            let mut strikes: Vec<(u64, u64, usize)> = strikes.map(|s| (s.1, s.2, s.3)).collect();
            strikes.sort_unstable();
            let mut strikes = strikes.into_iter().peekable();
            let (mut at, end) = (START - 100_000, self.end + 100_000);
            let mut burst = |pid, begin_ns: u64, end_ns: u64| {
                bursts.push(Burst {
                    node: NodeId::new(place.0),
                    cpu: Cpu::new(place.1),
                    pid: Pid::new(pid),
                    begin_ns: begin_ns + self.shift,
                    end_ns: end_ns + self.shift,
                    end_reason: EndReason::Preempted,
                    certain: true,
                });
            };
            for turn in 0.. {
                if at >= end {
                    break;
                }
                let rank = ranks[turn % ranks.len()];
                let next = strikes.peek().map_or(end, |s| s.0);
                let until = (at + length).min(end).min(next.max(at + 1));
                burst(100 + rank, at, until);
                at = until;
                if let Some((_, over, name)) = strikes.next_if(|s| s.0 <= at) {
                    burst(500 + name as u32, at, over);
                    at = over;
                }
            }
        }
        bursts
    }

    pub fn explain(&self) -> Explained {
        self.write().explain()
    }

    /// The program as a bundle on disk.
    pub fn write(&self) -> Bundle {
        self.write_with(|_| {})
    }

    /// The same with a changed manifest.
    pub fn write_with(&self, change: impl FnOnce(&mut Manifest)) -> Bundle {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut manifest = self.manifest();
        change(&mut manifest);
        let mut out = RunWriter::create(&path, manifest).unwrap();
        let mut operations = Operations::default();
        for (id, (name, class)) in OPERATIONS.iter().enumerate() {
            operations.id.push(id as u32);
            operations.name.push(name.replace("MPI_", self.library));
            operations.class.push(*class);
        }
        let shift = self.shift;
        let mut made = self.clone();
        for rank in 0..self.ranks {
            let end = self.end - START;
            let usual = Some(end + 10);
            if let Some(at) = self.finalize.get(&rank).copied().unwrap_or(usual) {
                let span = (at, at.max(end) + 1_000);
                made.add("MPI_Finalize", rank, span, |c| c.comm = None);
            }
        }
        let times = [
            &mut made.calls.begin_ns,
            &mut made.calls.end_ns,
            &mut made.transfers.posted_ns,
            &mut made.marks.begin_ns,
        ];
        times.into_iter().flatten().for_each(|t| *t += shift);
        let optional = [
            &mut made.transfers.wait_ns,
            &mut made.transfers.completed_ns,
            &mut made.marks.end_ns,
        ];
        let optional = optional.into_iter().flatten().flatten();
        optional.for_each(|t| *t += shift);
        let (tasks, bursts) = self.kernel();
        out.write_table(&tasks).unwrap();
        out.write_table(&bursts).unwrap();
        out.write_table(&operations).unwrap();
        out.write_table(&made.calls).unwrap();
        out.write_table(&made.transfers).unwrap();
        out.write_table(&made.communicators).unwrap();
        out.write_table(&made.marks).unwrap();
        out.close(None).unwrap();
        Bundle(dir)
    }
}

/// A bundle, removed when dropped.
pub struct Bundle(tempfile::TempDir);

impl Bundle {
    pub fn open(&self) -> RunReader {
        RunReader::open(&self.0.path().join("run")).unwrap()
    }

    pub fn explain(&self) -> Explained {
        let run = self.open();
        let explanation = explain(&run, &AtomicBool::new(false)).unwrap();
        Explained {
            findings: explanation.findings,
            tables: explanation.program.unwrap(),
        }
    }
}

impl Explained {
    pub fn program(&self) -> &ProgramFindings {
        self.findings.program.as_ref().unwrap()
    }

    /// Waits as (rank, start, end, culprit, hops), times from `START`.
    pub fn waits(&self) -> Vec<(u32, u64, u64, u32, u32)> {
        let rows = self.tables.waits.rows();
        rows.map(|w| {
            let (rank, culprit) = (w.rank.get(), w.culprit.get());
            (rank, w.begin_ns - START, w.end_ns - START, culprit, w.hops)
        })
        .collect()
    }

    /// Parts of a wait as (origin, name, nanoseconds), in order of the table.
    pub fn parts(&self, wait: usize) -> Vec<(u32, &str, u64)> {
        let rows = self.tables.wait_parts.rows();
        rows.filter(|p| p.wait as usize == wait)
            .map(|p| {
                let source = &self.findings.sources[p.finding as usize];
                (p.origin.get(), source.name.as_str(), p.time.get())
            })
            .collect()
    }
}
