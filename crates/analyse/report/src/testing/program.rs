//! A synthetic recorded MPI program: ranks compute, then wait for all others or for their
//! neighbours. Delays are planted in known places, so that every number of the findings can be
//! checked by hand.

use idlewave_run::tables::{
    Burst, Bursts, Call, Calls, Communicator, Communicators, EndReason, Interrupt, Interrupts,
    Mark, Marks, Message, Messages, Operation, OperationClass, Operations, Source, Sources, Task,
    TaskKind, Tasks, Wait, WaitKind, WaitPart, WaitParts, Waits,
};
use idlewave_run::{SourceKind, Table};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};

/// Undisturbed computation of an iteration.
pub(super) const WORK_NS: u64 = 100_000;
/// From the last arrival to the return of a barrier.
const RELEASE_NS: u64 = 2_000;
/// From the start of the first Irecv to the start of the Waitall, and when in between the sends
/// start.
const POST_NS: u64 = 1_000;
const SEND_AT_NS: u64 = 400;
/// From the start of a send to its arrival.
const LATENCY_NS: u64 = 1_500;
/// Shorter waits are not recorded.
const LEAST_WAIT_NS: u64 = 500;
/// Bytes of a message to a neighbour.
pub(super) const MESSAGE_BYTES: u64 = 1_024;
/// First thread number of the ranks, and that of the process that takes their CPU.
pub(super) const FIRST_PID: u32 = 2_000;
const CULPRIT_PID: u32 = 4_242;

/// How the ranks wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// MPI_Barrier after every computation.
    Barrier,
    /// MPI_Irecv, MPI_Isend and MPI_Waitall with both neighbours on a ring.
    Ring,
}

/// What causes a planted delay. The discriminants are the rows of the findings' table of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A process that preempts the rank.
    Task = 0,
    /// A device interrupt.
    Irq = 1,
    /// The rank itself has more to compute.
    Imbalance = 2,
}

/// A delay planted in the computation of a rank.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// The rank.
    pub rank: u32,
    /// The iteration, from 0.
    pub iteration: u64,
    /// Its length in nanoseconds.
    pub length_ns: u64,
    /// Its cause.
    pub by: Planted,
}

/// One call of a rank: operation, rank, length.
pub(super) struct Done {
    pub operation: u32,
    pub rank: u32,
    pub length: u64,
}

/// What happened, table by table.
#[derive(Default)]
pub(super) struct Recording {
    pub tasks: Tasks,
    pub sources: Sources,
    pub operations: Operations,
    pub communicators: Communicators,
    pub calls: Calls,
    pub messages: Messages,
    pub marks: Marks,
    pub waits: Waits,
    pub parts: WaitParts,
    pub bursts: Bursts,
    pub interrupts: Interrupts,
    pub done: Vec<Done>,
    /// Per rank: time taken, time waited.
    pub taken: Vec<u64>,
    pub waited: Vec<u64>,
    /// Start (all ranks have left MPI_Init) and end (the first enters MPI_Finalize).
    pub span: (u64, u64),
}

/// Names and classes of the operations, by number.
pub(super) const OPERATIONS: [(&str, OperationClass); 6] = [
    ("MPI_Init", OperationClass::Life),
    ("MPI_Barrier", OperationClass::AllToAll),
    ("MPI_Irecv", OperationClass::Receive),
    ("MPI_Isend", OperationClass::Send),
    ("MPI_Waitall", OperationClass::Complete),
    ("MPI_Finalize", OperationClass::Life),
];

/// State of a rank.
struct Runner {
    ready: u64,
    running_since: u64,
    /// Row of its last wait, and the iteration of that wait.
    last_wait: Option<(usize, u64)>,
}

impl Recording {
    /// Node and CPU of a rank; ranks on a node are consecutive.
    pub(super) fn place(rank: u32, ranks: u32, nodes: u32) -> (NodeId, Cpu) {
        let per_node = ranks.div_ceil(nodes);
        (NodeId::new(rank / per_node), Cpu::new(rank % per_node))
    }

    pub(super) fn simulate(what: &super::SyntheticProgram) -> Self {
        let ranks = what.ranks.max(1);
        let mut out = Self {
            taken: vec![0; ranks as usize],
            waited: vec![0; ranks as usize],
            ..Self::default()
        };
        out.name(what);
        let begin = what.begin_ns + 2_000_000;
        let mut runners: Vec<Runner> = (0..ranks)
            .map(|_| Runner {
                ready: begin,
                running_since: what.begin_ns,
                last_wait: None,
            })
            .collect();
        for rank in 0..ranks {
            out.call(rank, 0, what.begin_ns, begin, false);
        }
        for iteration in 0..what.iterations {
            out.iterate(what, iteration, &mut runners);
        }
        let end = runners.iter().map(|r| r.ready).max().unwrap_or(begin);
        out.span = (begin, end);
        for rank in 0..ranks {
            out.call(rank, 5, end, end + 1_000_000, false);
            let (node, cpu) = Self::place(rank, ranks, what.nodes);
            out.burst(
                node,
                cpu,
                FIRST_PID + rank,
                runners[rank as usize].running_since,
                end + 1_000_000,
                EndReason::Exited,
            );
            let mut at = what.begin_ns + 700_000 + u64::from(rank) * 1_003;
            while at < end {
                out.interrupt(node, cpu, 1, FIRST_PID + rank, at, at + 3_000);
                at += 4_000_000;
            }
        }
        out
    }

    fn name(&mut self, what: &super::SyntheticProgram) {
        let ranks = what.ranks.max(1);
        let mut task = |node: NodeId, pid: u32, name: &str, kind| {
            self.tasks.push(Task {
                node,
                pid: Pid::new(pid),
                process: Some(Pid::new(pid)),
                name: name.to_owned(),
                kind,
            });
        };
        for node in 0..what.nodes {
            task(NodeId::new(node), 0, "swapper", TaskKind::Idle);
            task(
                NodeId::new(node),
                CULPRIT_PID,
                &what.culprit,
                TaskKind::User,
            );
        }
        for rank in 0..ranks {
            let node = Self::place(rank, ranks, what.nodes).0;
            task(node, FIRST_PID + rank, "heat2d", TaskKind::Rank);
            self.communicators.push(Communicator {
                comm: 0,
                member: rank,
                rank: Rank::new(rank),
                key: 0,
            });
        }
        for (id, kind, name) in [
            (0, SourceKind::Irq, "eth0-rx-0"),
            (1, SourceKind::TimerTick, "timer tick"),
        ] {
            self.sources.push(Source {
                id,
                kind,
                name: name.to_owned(),
            });
        }
        for (id, (name, class)) in (0..).zip(OPERATIONS) {
            self.operations.push(Operation {
                id,
                name: name.to_owned(),
                class,
            });
        }
    }

    fn iterate(&mut self, what: &super::SyntheticProgram, iteration: u64, runners: &mut [Runner]) {
        let ranks = runners.len() as u32;
        let begins: Vec<u64> = runners.iter().map(|r| r.ready).collect();
        let delays: Vec<Option<Delay>> = (0..ranks)
            .map(|r| {
                let hit = |d: &&Delay| d.rank == r && d.iteration == iteration;
                what.delays.iter().find(hit).copied()
            })
            .collect();
        let enters: Vec<u64> = (0..ranks as usize)
            .map(|r| {
                let spread = (iteration * 7 + r as u64 * 13) % 97;
                let work = WORK_NS + spread;
                let Some(delay) = delays[r] else {
                    return begins[r] + work;
                };
                self.plant(
                    what,
                    r as u32,
                    begins[r] + work / 3,
                    &delay,
                    &mut runners[r],
                );
                begins[r] + work + delay.length_ns
            })
            .collect();
        match what.pattern {
            Pattern::Barrier => self.barrier(iteration, &enters, &delays, runners),
            Pattern::Ring => self.exchange(iteration, &enters, &delays, runners),
        }
        for rank in 0..ranks {
            let node = Self::place(rank, ranks, what.nodes).0;
            self.marks.push(Mark {
                rank: Some(Rank::new(rank)),
                node,
                thread: Pid::new(FIRST_PID + rank),
                name: "time step".to_owned(),
                begin_ns: begins[rank as usize],
                end_ns: Some(runners[rank as usize].ready),
            });
        }
    }

    fn plant(
        &mut self,
        what: &super::SyntheticProgram,
        rank: u32,
        at: u64,
        delay: &Delay,
        runner: &mut Runner,
    ) {
        let (node, cpu) = Self::place(rank, what.ranks.max(1), what.nodes);
        let end = at + delay.length_ns;
        match delay.by {
            Planted::Task => {
                let since = std::mem::replace(&mut runner.running_since, end);
                self.burst(node, cpu, FIRST_PID + rank, since, at, EndReason::Preempted);
                self.burst(node, cpu, CULPRIT_PID, at, end, EndReason::Sleeping);
            }
            Planted::Irq => self.interrupt(node, cpu, 0, FIRST_PID + rank, at, end),
            Planted::Imbalance => return,
        }
        self.taken[rank as usize] += delay.length_ns;
    }

    fn barrier(
        &mut self,
        iteration: u64,
        enters: &[u64],
        delays: &[Option<Delay>],
        runners: &mut [Runner],
    ) {
        let last = (0..enters.len()).max_by_key(|&r| (enters[r], std::cmp::Reverse(r)));
        let last = last.unwrap_or(0);
        let release = enters[last] + RELEASE_NS;
        for (r, &enter) in enters.iter().enumerate() {
            let call = self.call(r as u32, 1, enter, release, true);
            self.calls.sequence[call] = Some(iteration as u32);
            if r != last {
                self.wait(
                    r,
                    call,
                    WaitKind::Collective,
                    (enter, enters[last]),
                    last,
                    delays[last],
                    None,
                );
            }
            runners[r].ready = release;
        }
    }

    fn exchange(
        &mut self,
        iteration: u64,
        enters: &[u64],
        delays: &[Option<Delay>],
        runners: &mut [Runner],
    ) {
        let ranks = enters.len();
        let before: Vec<Option<(usize, u64)>> = runners.iter().map(|r| r.last_wait).collect();
        for (r, &enter) in enters.iter().enumerate() {
            let mut neighbours = vec![(r + 1) % ranks, (r + ranks - 1) % ranks];
            neighbours.dedup();
            neighbours.retain(|&n| n != r);
            let step = SEND_AT_NS / 2;
            for i in 0..2 {
                self.call(
                    r as u32,
                    2,
                    enter + i * step,
                    enter + (i + 1) * step - 20,
                    true,
                );
            }
            for i in 0..2 {
                let at = enter + SEND_AT_NS + i * 300;
                self.call(r as u32, 3, at, at + 280, true);
            }
            let begin = enter + POST_NS;
            let arrival = |n: usize| enters[n] + SEND_AT_NS + LATENCY_NS;
            let end = neighbours
                .iter()
                .map(|&n| arrival(n))
                .max()
                .unwrap_or(begin)
                .max(begin)
                + 200;
            let call = self.call(r as u32, 4, begin, end, true);
            for &n in &neighbours {
                self.messages.push(Message {
                    from: Rank::new(n as u32),
                    to: Rank::new(r as u32),
                    comm: 0,
                    tag: 7,
                    bytes: Bytes::new(MESSAGE_BYTES),
                    sent_ns: enters[n] + SEND_AT_NS,
                    posted_ns: enter,
                    wait_ns: begin,
                    completed_ns: end,
                });
            }
            if let Some(&late) = neighbours.iter().max_by_key(|&&n| enters[n]) {
                let span = (begin, enters[late] + SEND_AT_NS);
                // The neighbour is late because it waited itself in the previous iteration, or by
                // its own delay.
                let parent = before[late]
                    .filter(|&(_, i)| i + 1 == iteration && delays[late].is_none())
                    .map(|(row, _)| row);
                if let Some(row) = self.wait(
                    r,
                    call,
                    WaitKind::LateSender,
                    span,
                    late,
                    delays[late],
                    parent,
                ) {
                    runners[r].last_wait = Some((row, iteration));
                }
            }
            runners[r].ready = end;
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn wait(
        &mut self,
        rank: usize,
        call: usize,
        kind: WaitKind,
        (begin_ns, end_ns): (u64, u64),
        culprit: usize,
        delay: Option<Delay>,
        parent: Option<usize>,
    ) -> Option<usize> {
        let length = end_ns
            .checked_sub(begin_ns)
            .filter(|l| *l >= LEAST_WAIT_NS)?;
        let row = self.waits.len();
        let hops = parent.map_or(0, |p| self.waits.hops[p] + 1);
        self.waits.push(Wait {
            rank: Rank::new(rank as u32),
            call: call as u32,
            kind,
            begin_ns,
            end_ns,
            culprit: Rank::new(culprit as u32),
            parent: parent.map(|p| p as u32),
            hops,
        });
        // Whatever exceeds the delay is charged to imbalance, which stands for the spread of the
        // work.
        let (origin, finding, limit) = match (parent, delay) {
            (Some(p), _) => {
                let of = (0..self.parts.len()).find(|&i| self.parts.wait[i] == p as u32);
                of.map_or((culprit as u32, 2, 0), |i| {
                    (self.parts.origin[i].get(), self.parts.finding[i], u64::MAX)
                })
            }
            (None, Some(d)) => (culprit as u32, d.by as u32, d.length_ns),
            (None, None) => (culprit as u32, 2, 0),
        };
        let charged = length.min(limit);
        for (finding, time) in [
            (finding, charged),
            (Planted::Imbalance as u32, length - charged),
        ] {
            if time > 0 {
                self.parts.push(WaitPart {
                    wait: row as u32,
                    origin: Rank::new(origin),
                    finding,
                    time: Nanos::from_nanos(time),
                });
            }
        }
        self.waited[rank] += length;
        Some(row)
    }

    fn call(&mut self, rank: u32, operation: u32, begin_ns: u64, end_ns: u64, comm: bool) -> usize {
        self.done.push(Done {
            operation,
            rank,
            length: end_ns - begin_ns,
        });
        self.calls.push(Call {
            rank: Rank::new(rank),
            thread: Pid::new(FIRST_PID + rank),
            operation,
            begin_ns,
            end_ns,
            comm: comm.then_some(0),
            sequence: None,
            root: None,
            sent: None,
            received: None,
            request: None,
        });
        self.calls.len() - 1
    }

    fn burst(
        &mut self,
        node: NodeId,
        cpu: Cpu,
        pid: u32,
        begin_ns: u64,
        end_ns: u64,
        end_reason: EndReason,
    ) {
        self.bursts.push(Burst {
            node,
            cpu,
            pid: Pid::new(pid),
            begin_ns,
            end_ns,
            end_reason,
            certain: true,
        });
    }

    fn interrupt(
        &mut self,
        node: NodeId,
        cpu: Cpu,
        source: u32,
        pid: u32,
        begin_ns: u64,
        end_ns: u64,
    ) {
        self.interrupts.push(Interrupt {
            node,
            cpu,
            source,
            pid: Pid::new(pid),
            begin_ns,
            end_ns,
            depth: 0,
            certain: true,
        });
    }
}
