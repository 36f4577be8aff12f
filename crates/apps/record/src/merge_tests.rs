use super::*;
use crate::merge_testing::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{DetourLoop, WorkKernel};
use idlewave_units::{Cpu, Nanos};
use proptest::prelude::*;

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
    // The node has its own numbers: dense, in the order of the merged ones.
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
        exit_code: Some(7),
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

/// Of two nodes, the second 1 us behind: each keeps its phases, and their rows and times.
#[test]
fn phases_of_measured_cpus_keep_their_node_rows_and_times() {
    let dir = tempfile::tempdir().unwrap();
    let node = |name: &str, offset: i64| {
        let mut manifest = empty_manifest();
        let (threshold, floor) = (Nanos::from_micros(1), Nanos::ZERO);
        let node = NodeId::new(0);
        for kind in [
            PhaseKind::Detour {
                node,
                threshold,
                floor,
                loops: vec![DetourLoop {
                    cpu: Cpu::new(3),
                    begin_ns: 5_000,
                    end_ns: 7_000,
                    turns: 1,
                    turn_quanta: 1.0,
                    recording: Nanos::ZERO,
                    not_kept: 0,
                    stolen: Nanos::ZERO,
                    involuntary_switches: None,
                    moved: false,
                }],
            },
            PhaseKind::FixedWork {
                node,
                work_steps: 9,
                kernel: WorkKernel::Fma,
                array: None,
            },
        ] {
            manifest.phases.push(Phase {
                kind,
                begin_ns: 4_000,
                end_ns: 9_000,
            });
        }
        let path = dir.path().join(name);
        let mut out = RunWriter::create(&path, manifest).unwrap();
        let mut detours = Detours::default();
        detours.push(Detour {
            phase: 0,
            cpu: Cpu::new(3),
            rank: None,
            begin_ns: 6_000,
            length: Nanos::from_nanos(50),
        });
        let mut quanta = Quanta::default();
        quanta.push(Quantum {
            phase: 1,
            cpu: Cpu::new(3),
            begin_ns: 8_000,
            duration: Nanos::from_nanos(70),
            units: None,
        });
        out.write_table(&detours).unwrap();
        out.write_table(&quanta).unwrap();
        out.close(None).unwrap();
        let (correction, alignment) = behind(offset);
        NodeRun {
            run: RunReader::open(&path).unwrap(),
            correction,
            alignment,
        }
    };
    let nodes = [node("a", 0), node("b", 1_000)];
    let merged = merge(&nodes, Front::default(), &dir.path().join("merged")).unwrap();
    let merged = RunReader::open(merged.path()).unwrap();
    let phases = merged.manifest().phases.iter();
    let phases: Vec<_> = phases
        .map(|p| (p.kind.measured_node().unwrap().get(), p.begin_ns, p.end_ns))
        .collect();
    let (first, second) = ((0, 4_000, 9_000), (1, 5_000, 10_000));
    assert_eq!(phases, [first, first, second, second]);
    let PhaseKind::Detour { loops, .. } = &merged.manifest().phases[2].kind else {
        panic!("{phases:?}");
    };
    assert_eq!((loops[0].begin_ns, loops[0].end_ns), (6_000, 8_000));
    let detours: Vec<_> = merged.read::<Detours>().unwrap().rows().collect();
    let detours: Vec<_> = detours.iter().map(|d| (d.phase, d.begin_ns)).collect();
    assert_eq!(detours, [(0, 6_000), (2, 7_000)]);
    let quanta: Vec<_> = merged.read::<Quanta>().unwrap().rows().collect();
    let quanta: Vec<_> = quanta.iter().map(|q| (q.phase, q.begin_ns)).collect();
    assert_eq!(quanta, [(1, 8_000), (3, 9_000)]);
}
