use super::*;
use crate::align::Exchange;
use idlewave_run::testing::empty_manifest;
use idlewave_units::{Bytes, Cpu, Nanos, Pid};
use proptest::prelude::*;
use std::path::PathBuf;

/// All tables that a merge carries, of one run or of one node.
#[derive(Clone, Debug, Default, PartialEq)]
struct All {
    tasks: Tasks,
    sources: Sources,
    bursts: Bursts,
    interrupts: Interrupts,
    wakeups: Wakeups,
    migrations: Migrations,
    task_times: TaskTimes,
    counters: Counters,
    calls: Calls,
    transfers: Transfers,
    communicators: Communicators,
    operations: Operations,
    marks: Marks,
}

impl All {
    fn read(run: &RunReader) -> Self {
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

    fn write(&self, out: &mut RunWriter) {
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

/// A small generator of numbers, so that one seed makes one bundle.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    fn time(&mut self) -> u64 {
        1_000_000_000 + self.below(1_000_000_000)
    }
}

/// World and its communicators: number, key, members.
fn communicators(ranks: u32) -> Vec<(u64, Vec<u32>)> {
    vec![
        (99, (0..ranks).collect()),
        (1_000, (0..ranks).filter(|r| r % 2 == 0).collect()),
        (7, (0..ranks).rev().filter(|r| r % 2 == 1).collect()),
        (500, vec![0]),
    ]
}

fn sheet(rank: u32, pid: u32) -> RankSheet {
    RankSheet {
        rank: Rank::new(rank),
        node: NodeId::new(0),
        cpu: None,
        threads: vec![Pid::new(pid)],
        process: Some(Pid::new(pid)),
    }
}

/// A node's bundle in which every source, operation and communicator is used.
fn node(draw: &mut Draw, ranks: &[u32], world: u32) -> All {
    let mut all = All::default();
    let at = NodeId::new(0);
    let mut pool: Vec<u64> = (0..6).collect();
    for id in 0..1 + draw.below(4) as u32 {
        let name = pool.remove(draw.below(pool.len() as u64) as usize);
        all.sources.push(Source {
            id,
            kind: (name % 3) as u8,
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
        all.operations.push(Operation { id, name, class: 0 });
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
                    direction: direction::SEND,
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
            kind: 2,
        });
        let (end_ns, certain, end_reason) = (begin_ns + 5, true, 1);
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

fn recorded(begin_ns: u64, end_ns: u64) -> Phase {
    Phase {
        kind: PhaseKind::Recorded {
            library: Some("Open MPI v4".to_owned()),
            exit_code: Some(0),
        },
        begin_ns,
        end_ns,
    }
}

fn write(path: PathBuf, name: &str, ranks: &[u32], phase: Phase, all: &All) -> RunReader {
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
fn behind(offset: i64) -> (Correction, Option<Alignment>) {
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
    let correction = crate::align::corrections(&[(own, own), (own, own)], &[exchange])[1]
        .clone()
        .unwrap();
    let alignment = Some(correction.sheet(own, own));
    (correction, alignment)
}

fn offset_of(node: usize) -> i64 {
    [0, 5_000, -70_000, 12][node % 4]
}

fn nodes_of(runs: Vec<RunReader>) -> Vec<NodeRun> {
    // The offset belongs to the node, whatever place it got.
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

/// Node `at` of a merged run, as it would have been recorded.
fn split(merged: &All, manifest: &Manifest, at: NodeId, offset: i64) -> All {
    let back = |t: u64| t.saturating_add_signed(-offset);
    let mine = |rank: Rank| {
        manifest
            .ranks
            .iter()
            .any(|r| r.rank == rank && r.node == at)
    };
    let mut all = All::default();
    macro_rules! take {
        ($table:ident, $keep:expr, $change:expr) => {
            for mut row in merged.$table.rows().filter($keep) {
                #[allow(clippy::redundant_closure_call)]
                $change(&mut row);
                all.$table.push(row);
            }
        };
    }
    take!(tasks, |r| r.node == at, |r: &mut Task| r.node =
        NodeId::new(0));
    take!(bursts, |r| r.node == at, |r: &mut Burst| {
        r.node = NodeId::new(0);
        (r.begin_ns, r.end_ns) = (back(r.begin_ns), back(r.end_ns));
    });
    take!(interrupts, |r| r.node == at, |r: &mut Interrupt| {
        r.node = NodeId::new(0);
        (r.begin_ns, r.end_ns) = (back(r.begin_ns), back(r.end_ns));
    });
    take!(wakeups, |r| r.node == at, |r: &mut Wakeup| {
        r.node = NodeId::new(0);
        r.time_ns = back(r.time_ns);
    });
    take!(migrations, |r| r.node == at, |r: &mut Migration| {
        r.node = NodeId::new(0);
        r.time_ns = back(r.time_ns);
    });
    take!(task_times, |r| r.node == at, |r: &mut TaskTime| {
        r.node = NodeId::new(0);
        (r.begin_ns, r.end_ns) = (back(r.begin_ns), back(r.end_ns));
    });
    take!(counters, |r| r.node == at, |r: &mut Counter| {
        r.node = NodeId::new(0);
        (r.begin_ns, r.end_ns) = (back(r.begin_ns), back(r.end_ns));
    });
    take!(marks, |r| r.node == at, |r: &mut Mark| {
        r.node = NodeId::new(0);
        (r.begin_ns, r.end_ns) = (back(r.begin_ns), r.end_ns.map(back));
    });
    take!(calls, |r| mine(r.rank), |r: &mut Call| {
        (r.begin_ns, r.end_ns) = (back(r.begin_ns), back(r.end_ns));
    });
    take!(transfers, |r| mine(r.rank), |r: &mut Transfer| {
        r.posted_ns = back(r.posted_ns);
        (r.wait_ns, r.completed_ns) = (r.wait_ns.map(back), r.completed_ns.map(back));
    });
    // Numbers of its own, dense, in the order of those of the whole.
    let number = |old: u32, used: &[u32]| used.iter().position(|&u| u == old).unwrap() as u32;
    let sources: Vec<u32> = merged
        .sources
        .id
        .iter()
        .copied()
        .filter(|id| all.interrupts.source.contains(id))
        .collect();
    for row in merged.sources.rows().filter(|r| sources.contains(&r.id)) {
        all.sources.push(Source {
            id: number(row.id, &sources),
            ..row
        });
    }
    all.interrupts
        .source
        .iter_mut()
        .chain(&mut all.counters.source)
        .for_each(|id| *id = number(*id, &sources));
    let operations: Vec<u32> = merged
        .operations
        .id
        .iter()
        .copied()
        .filter(|id| all.calls.operation.contains(id))
        .collect();
    for row in merged
        .operations
        .rows()
        .filter(|r| operations.contains(&r.id))
    {
        all.operations.push(Operation {
            id: number(row.id, &operations),
            ..row
        });
    }
    all.calls
        .operation
        .iter_mut()
        .for_each(|id| *id = number(*id, &operations));
    let mut comms: Vec<u32> = merged
        .communicators
        .rows()
        .filter(|r| mine(r.rank))
        .map(|r| r.comm)
        .collect();
    comms.sort_unstable();
    comms.dedup();
    for row in merged
        .communicators
        .rows()
        .filter(|r| comms.contains(&r.comm))
    {
        all.communicators.push(Communicator {
            comm: number(row.comm, &comms),
            ..row
        });
    }
    all.calls
        .comm
        .iter_mut()
        .flatten()
        .for_each(|id| *id = number(*id, &comms));
    all.transfers
        .comm
        .iter_mut()
        .for_each(|id| *id = number(*id, &comms));
    all
}

/// Which node each of `world` ranks is on; every node has one.
fn placed(draw: &mut Draw, nodes: usize, world: u32) -> Vec<Vec<u32>> {
    let mut places = vec![Vec::new(); nodes];
    for rank in 0..world {
        let at = if (rank as usize) < nodes {
            rank as usize
        } else {
            draw.below(nodes as u64) as usize
        };
        places[at].push(rank);
    }
    places
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn to_merge_the_parts_of_a_run_gives_the_run_in_any_order_of_the_parts(
        seed in any::<u64>(),
        count in 1..=4_usize,
        more in 0..6_u32,
        rotate in 0..4_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut draw = Draw(seed);
        let world = count as u32 + more;
        let mut runs = Vec::new();
        for (k, ranks) in placed(&mut draw, count, world).iter().enumerate() {
            let all = node(&mut draw, ranks, world);
            let phase = recorded(draw.time(), 3_000_000_000 + draw.time());
            runs.push(write(dir.path().join(format!("in{k}")), &format!("node{k}"), ranks, phase, &all));
        }
        let again: Vec<RunReader> = {
            let mut again: Vec<RunReader> = runs.iter().map(|r| RunReader::open(r.path()).unwrap()).collect();
            again.rotate_left(rotate % count);
            again
        };
        let first = nodes_of(order(runs));
        merge(&first, Front::default(), &dir.path().join("merged")).unwrap();
        let merged = RunReader::open(&dir.path().join("merged")).unwrap();
        let whole = All::read(&merged);
        prop_assert_eq!(merged.manifest().state, RunState::Complete);
        prop_assert_eq!(merged.manifest().ranks.len(), world as usize);
        prop_assert_eq!(whole.calls.len(), first.iter().map(|n| n.run.read::<Calls>().unwrap().len()).sum::<usize>());

        merge(&nodes_of(order(again)), Front::default(), &dir.path().join("rotated")).unwrap();
        let rotated = RunReader::open(&dir.path().join("rotated")).unwrap();
        prop_assert_eq!(&All::read(&rotated), &whole);
        prop_assert_eq!(rotated.manifest(), merged.manifest());

        let mut parts = Vec::new();
        for at in ids().take(count) {
            let offset = offset_of(at.index()) - offset_of(0);
            let all = split(&whole, merged.manifest(), at, offset);
            let ranks: Vec<u32> =
                merged.manifest().ranks.iter().filter(|r| r.node == at).map(|r| r.rank.get()).collect();
            let phase = &merged.manifest().phases[0];
            let back = |t: u64| t.saturating_add_signed(-offset);
            let phase = recorded(back(phase.begin_ns), back(phase.end_ns));
            let path = dir.path().join(format!("part{at}"));
            parts.push(write(path, &format!("node{at}"), &ranks, phase, &all));
        }
        merge(&nodes_of(order(parts)), Front::default(), &dir.path().join("again")).unwrap();
        let again = RunReader::open(&dir.path().join("again")).unwrap();
        prop_assert_eq!(All::read(&again), whole);
        prop_assert_eq!(again.manifest(), merged.manifest());
    }
}

#[test]
fn nodes_without_a_rank_are_left_out_unless_none_has_one() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = |name: &str, ranks: &[u32]| {
        write(
            dir.path().join(name),
            name,
            ranks,
            recorded(0, 1),
            &All::default(),
        )
    };
    let names = |runs: Vec<RunReader>| order(runs).iter().map(host).collect::<Vec<_>>();
    assert_eq!(
        names(vec![
            bundle("a", &[]),
            bundle("b", &[2, 3]),
            bundle("c", &[1, 0])
        ]),
        ["c", "b"]
    );
    assert_eq!(names(vec![bundle("e", &[]), bundle("d", &[])]), ["d", "e"]);
}

#[test]
fn what_one_node_lost_is_told_with_its_name_and_makes_the_whole_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for name in ["a", "b"] {
        let rank = u32::from(name == "b");
        let run = write(
            dir.path().join(name),
            name,
            &[rank],
            recorded(0, 1),
            &All::default(),
        );
        let mut writer = run.into_writer();
        writer.manifest.losses.enter("events lost", 3, "c", "d");
        writer
            .close((name == "b").then_some(Incomplete::Killed))
            .unwrap();
        let (correction, alignment) = behind(0);
        let run = RunReader::open(&dir.path().join(name)).unwrap();
        runs.push(NodeRun {
            run,
            correction,
            alignment,
        });
    }
    let front = Front {
        exit_code: 7,
        command: vec!["x".to_owned()],
        ..Front::default()
    };
    let merged = merge(&runs, front, &dir.path().join("merged"))
        .unwrap()
        .manifest;
    let whats: Vec<&str> = merged
        .losses
        .entries()
        .iter()
        .map(|l| l.what.as_str())
        .collect();
    assert_eq!(whats, ["a: events lost", "b: events lost"]);
    assert_eq!(merged.state, RunState::Incomplete);
    assert_eq!(
        merged.incomplete,
        Some(Incomplete::Error(
            "node b: its recorder was killed".to_owned()
        ))
    );
    assert!(matches!(
        merged.phases[0].kind,
        PhaseKind::Recorded {
            exit_code: Some(7),
            ..
        }
    ));
}

#[test]
fn a_damaged_table_of_one_node_costs_that_table_of_that_node_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut draw = Draw(1);
    let mut runs = Vec::new();
    for (k, name) in [(0, "node0"), (1, "node1")] {
        let all = node(&mut draw, &[k], 2);
        runs.push(write(
            dir.path().join(name),
            name,
            &[k],
            recorded(0, 1),
            &all,
        ));
    }
    std::fs::write(dir.path().join("node1/calls.arrow"), b"no table").unwrap();
    let calls = runs[0].read::<Calls>().unwrap().len();
    let bursts = runs[1].read::<Bursts>().unwrap().len();
    let merged = merge(
        &nodes_of(runs),
        Front::default(),
        &dir.path().join("merged"),
    )
    .unwrap();
    let losses: Vec<&str> = merged
        .manifest
        .losses
        .entries()
        .iter()
        .map(|l| l.what.as_str())
        .collect();
    assert!(
        losses.len() == 1 && losses[0].contains("`calls` of node node1"),
        "{losses:?}"
    );
    let merged = RunReader::open(merged.path()).unwrap();
    assert_eq!(merged.manifest().state, RunState::Incomplete);
    assert_eq!(merged.read::<Calls>().unwrap().len(), calls);
    assert_eq!(merged.read::<Bursts>().unwrap().len(), 2 * bursts);
}
