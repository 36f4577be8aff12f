//! Bundles of nodes for tests.

use crate::merge::{NodeRun, host};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Alignment, Phase, PhaseKind, RankSheet, RunReader, RunWriter};
use idlewave_session::align::{Correction, Exchange};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use std::path::PathBuf;

/// All tables that a merge carries, of one run or of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct All {
    pub(crate) tasks: Tasks,
    pub(crate) sources: Sources,
    pub(crate) bursts: Bursts,
    pub(crate) interrupts: Interrupts,
    pub(crate) wakeups: Wakeups,
    pub(crate) migrations: Migrations,
    pub(crate) task_times: TaskTimes,
    pub(crate) counters: Counters,
    pub(crate) calls: Calls,
    pub(crate) transfers: Transfers,
    pub(crate) communicators: Communicators,
    pub(crate) operations: Operations,
    pub(crate) marks: Marks,
}

impl All {
    pub(crate) fn read(run: &RunReader) -> Self {
        Self {
            tasks: run.read().unwrap(),
            sources: run.read().unwrap(),
            bursts: run.read().unwrap(),
            interrupts: run.read().unwrap(),
            wakeups: run.read().unwrap(),
            migrations: run.read().unwrap(),
            task_times: run.read().unwrap(),
            counters: run.read().unwrap(),
            calls: run.read().unwrap(),
            transfers: run.read().unwrap(),
            communicators: run.read().unwrap(),
            operations: run.read().unwrap(),
            marks: run.read().unwrap(),
        }
    }

    pub(crate) fn write(&self, out: &mut RunWriter) {
        out.write_table(&self.tasks).unwrap();
        out.write_table(&self.sources).unwrap();
        out.write_table(&self.bursts).unwrap();
        out.write_table(&self.interrupts).unwrap();
        out.write_table(&self.wakeups).unwrap();
        out.write_table(&self.migrations).unwrap();
        out.write_table(&self.task_times).unwrap();
        out.write_table(&self.counters).unwrap();
        out.write_table(&self.calls).unwrap();
        out.write_table(&self.transfers).unwrap();
        out.write_table(&self.communicators).unwrap();
        out.write_table(&self.operations).unwrap();
        out.write_table(&self.marks).unwrap();
    }
}

/// A small random generator, so that one seed makes one bundle.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    pub(crate) fn time(&mut self) -> u64 {
        1_000_000_000 + self.below(1_000_000_000)
    }
}

/// World and its communicators: number, key, members.
pub(crate) fn communicators(ranks: u32) -> Vec<(u64, Vec<u32>)> {
    vec![
        (99, (0..ranks).collect()),
        (1_000, (0..ranks).filter(|r| r % 2 == 0).collect()),
        (7, (0..ranks).rev().filter(|r| r % 2 == 1).collect()),
        (500, vec![0]),
    ]
}

pub(crate) fn sheet(rank: u32, pid: u32) -> RankSheet {
    RankSheet {
        rank: Rank::new(rank),
        node: NodeId::new(0),
        cpu: None,
        threads: vec![Pid::new(pid)],
        process: Some(Pid::new(pid)),
        priority: None,
    }
}

/// A node's bundle in which every source, operation and communicator is used.
pub(crate) fn node(draw: &mut Draw, ranks: &[u32], world: u32) -> All {
    let mut all = All::default();
    let at = NodeId::new(0);
    let mut pool: Vec<u64> = (0..6).collect();
    for id in 0..1 + draw.below(4) as u32 {
        let name = pool.remove(draw.below(pool.len() as u64) as usize);
        all.sources.push(Source {
            id,
            kind: SourceKind::ALL[(name % 3) as usize],
            name: format!("source {name}"),
        });
        let begin_ns = draw.time();
        all.interrupts.push(Interrupt {
            node: at,
            cpu: Cpu::new(draw.below(2) as u32),
            source: id,
            pid: Pid::new(5),
            begin_ns,
            end_ns: begin_ns + draw.below(100),
            depth: 0,
            certain: true,
        });
        all.counters.push(Counter {
            node: at,
            cpu: Cpu::new(0),
            source: id,
            begin_ns,
            end_ns: begin_ns + 7,
            increase: draw.below(9),
        });
    }
    let known: Vec<(u64, Vec<u32>)> = communicators(world)
        .into_iter()
        .filter(|(_, members)| members.iter().any(|m| ranks.contains(m)))
        .collect();
    for (comm, (key, members)) in (0..).zip(&known) {
        for (member, &rank) in (0..).zip(members) {
            all.communicators.push(Communicator {
                comm,
                member,
                rank: Rank::new(rank),
                key: *key,
            });
        }
    }
    let mut names: Vec<&str> = vec!["MPI_Send", "MPI_Recv", "MPI_Barrier", "MPI_Init"];
    for id in 0..1 + draw.below(3) as u32 {
        let name = names
            .remove(draw.below(names.len() as u64) as usize)
            .to_owned();
        all.operations.push(Operation {
            id,
            name,
            class: OperationClass::Other,
        });
        for &rank in ranks {
            for comm in 0..known.len() as u32 {
                let begin_ns = draw.time();
                all.calls.push(Call {
                    rank: Rank::new(rank),
                    thread: Pid::new(100 + rank),
                    operation: id,
                    begin_ns,
                    end_ns: begin_ns + draw.below(50),
                    comm: Some(comm).filter(|_| draw.below(5) > 0),
                    sequence: Some(draw.below(10) as u32),
                    root: None,
                    sent: Some(Bytes::new(draw.below(10))),
                    received: None,
                    request: None,
                });
                all.transfers.push(Transfer {
                    rank: Rank::new(rank),
                    thread: Pid::new(100 + rank),
                    direction: Direction::Send,
                    comm,
                    peer: Some(Rank::new(0)),
                    tag: 3,
                    bytes: None,
                    posted_ns: begin_ns,
                    wait_ns: Some(begin_ns + 1).filter(|_| draw.below(2) > 0),
                    completed_ns: None,
                });
            }
        }
    }
    for pid in 0..3 {
        let (begin_ns, node) = (draw.time(), at);
        let (cpu, pid) = (Cpu::new(0), Pid::new(pid));
        let name = format!("task {}", draw.below(9));
        all.tasks.push(Task {
            node,
            pid,
            process: None,
            name: name.clone(),
            kind: TaskKind::User,
        });
        let (end_ns, certain, end_reason) = (begin_ns + 5, true, EndReason::Sleeping);
        all.bursts.push(Burst {
            node,
            cpu,
            pid,
            begin_ns,
            end_ns,
            end_reason,
            certain,
        });
        let (time_ns, waker, target_cpu) = (begin_ns, Pid::new(9), cpu);
        all.wakeups.push(Wakeup {
            node,
            time_ns,
            cpu,
            waker,
            pid,
            target_cpu,
        });
        all.migrations.push(Migration {
            node,
            time_ns,
            pid,
            from: cpu,
            to: Cpu::new(1),
        });
        let (ran, waited, slices) = (Nanos::from_nanos(3), Nanos::ZERO, 1);
        all.task_times.push(TaskTime {
            node,
            pid,
            name: name.clone(),
            begin_ns,
            end_ns,
            ran,
            waited,
            slices,
        });
        let (rank, thread, end_ns) = (None, pid, Some(end_ns).filter(|_| draw.below(2) > 0));
        all.marks.push(Mark {
            rank,
            node,
            thread,
            name,
            begin_ns,
            end_ns,
        });
    }
    all
}

pub(crate) fn recorded(begin_ns: u64, end_ns: u64) -> Phase {
    Phase {
        kind: PhaseKind::Recorded {
            library: Some("Open MPI v4".to_owned()),
            exit_code: Some(0),
        },
        begin_ns,
        end_ns,
    }
}

pub(crate) fn write(
    path: PathBuf,
    name: &str,
    ranks: &[u32],
    phase: Phase,
    all: &All,
) -> RunReader {
    let mut manifest = empty_manifest();
    manifest.nodes[0].host.name = name.to_owned();
    manifest.ranks = ranks.iter().map(|&r| sheet(r, 100 + r)).collect();
    manifest.phases = vec![phase];
    let mut out = RunWriter::create(&path, manifest).unwrap();
    all.write(&mut out);
    out.close(None).unwrap();
    RunReader::open(&path).unwrap()
}

/// A clock that is exactly `offset` behind.
pub(crate) fn behind(offset: i64) -> (Correction, Option<Alignment>) {
    if offset == 0 {
        return (Correction::none(), None);
    }
    let own = 1_000_000_000;
    let exchange = Exchange {
        node: 1,
        peer: 0,
        sent_ns: own,
        received_ns: own,
        peer_ns: own.saturating_add_signed(offset),
    };
    let correction = idlewave_session::align::corrections(&[(own, own), (own, own)], &[exchange])
        [1]
    .clone()
    .unwrap();
    let alignment = Some(correction.sheet(own, own));
    (correction, alignment)
}

pub(crate) fn offset_of(node: usize) -> i64 {
    [0, 5_000, -70_000, 12][node % 4]
}

pub(crate) fn nodes_of(runs: Vec<RunReader>) -> Vec<NodeRun> {
    // The offset belongs to the node, whatever index it got.
    let offset = |run: &RunReader| offset_of(host(run)[4..].parse().unwrap());
    let first = offset(&runs[0]);
    let one = |run: RunReader| {
        let (correction, alignment) = behind(offset(&run) - first);
        NodeRun {
            run,
            correction,
            alignment,
        }
    };
    runs.into_iter().map(one).collect()
}
