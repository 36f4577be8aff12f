//! The noise of a run and that of one of its phases, event by event.

#![allow(clippy::unwrap_used)]

use idlewave_explain::{NoiseOf, noise_events};
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Region, RegionKind, Regions, Table, Task, TaskKind, Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Coupling, ExchangeVariant, Phase, PhaseKind, RankSheet, RunReader, RunWriter};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::sync::atomic::AtomicBool;

const STEP: u64 = 10_000;
const STEPS: u64 = 100;
const RANK: u32 = 10;
const NODE: NodeId = NodeId::new(0);

/// Two phases of one rank; `taken` says who takes its CPU, when, and for how long.
fn run(path: &std::path::Path, taken: &[(u32, u64, u64)]) -> RunReader {
    let mut manifest = empty_manifest();
    let mut regions = Regions::default();
    for phase in 0..2_u32 {
        let begin_ns = u64::from(phase) * 2 * STEP * STEPS;
        manifest.phases.push(Phase {
            kind: PhaseKind::Lockstep {
                coupling: Coupling::Neighbours,
                work_steps: 1,
                work_target: Nanos::from_nanos(STEP),
                message_bytes: 8,
                sides: vec![1],
                neighbourhood: Default::default(),
                variant: ExchangeVariant::NonBlocking,
                ranks: None,
                iterations: STEPS,
                threshold: Nanos::from_nanos(100),
                turn: None,
            },
            begin_ns,
            end_ns: begin_ns + STEP * STEPS,
        });
        for iteration in 0..STEPS {
            regions.push(Region {
                phase,
                rank: Rank::new(0),
                iteration,
                kind: RegionKind::Compute,
                begin_ns: begin_ns + iteration * STEP,
                end_ns: begin_ns + (iteration + 1) * STEP,
                bytes: None,
            });
        }
    }
    manifest.ranks.push(RankSheet {
        rank: Rank::new(0),
        node: NODE,
        cpu: Some(Cpu::new(0)),
        // One for each lockstep run.
        threads: vec![Pid::new(RANK); 2],
        process: Some(Pid::new(RANK)),
        priority: None,
    });
    let mut tasks = Tasks::default();
    for (pid, name, kind) in [
        (RANK, "rank", TaskKind::Rank),
        (20, "cron", TaskKind::User),
        (21, "sshd", TaskKind::User),
        (30, "idlewave", TaskKind::Own),
    ] {
        tasks.push(Task {
            node: NODE,
            pid: Pid::new(pid),
            process: None,
            name: name.to_owned(),
            kind,
        });
    }
    let mut bursts = Bursts::default();
    let mut burst = |pid, begin_ns, end_ns, end_reason| {
        bursts.push(Burst {
            node: NODE,
            cpu: Cpu::new(0),
            pid: Pid::new(pid),
            begin_ns,
            end_ns,
            end_reason,
            certain: true,
        });
    };
    let mut at = 0;
    for &(pid, begin, length) in taken {
        burst(RANK, at, begin, EndReason::Preempted);
        burst(pid, begin, begin + length, EndReason::Sleeping);
        at = begin + length;
    }
    burst(RANK, at, 4 * STEP * STEPS, EndReason::Exited);
    let mut out = RunWriter::create(path, manifest).unwrap();
    out.write_table(&regions).unwrap();
    out.write_table(&tasks).unwrap();
    out.write_table(&bursts).unwrap();
    out.close(None).unwrap();
    RunReader::open(path).unwrap()
}

#[test]
fn a_phase_has_its_own_noise_with_the_recorder_and_the_machine_that_of_all_phases_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let second = 2 * STEP * STEPS;
    let run = run(
        &dir.path().join("run"),
        &[
            (20, 5_000, 300),
            (30, 55_000, 700),
            // Between the phases nobody is watched.
            (20, STEP * STEPS + 5_000, 900),
            (21, second + 5_000, 400),
            (30, second + 25_000, 600),
            (20, second + 35_000, 200),
        ],
    );
    let of = |of: NoiseOf| -> Vec<(String, Vec<(u64, u64)>)> {
        let found = noise_events(&run, of, &AtomicBool::new(false)).unwrap();
        let strikes = found.sources.into_iter().map(|s| {
            let strikes = s.strikes.iter().map(|s| (s.begin, s.length));
            (s.name, strikes.collect())
        });
        strikes.collect()
    };
    let named = |all: &[(&str, &[(u64, u64)])]| -> Vec<(String, Vec<(u64, u64)>)> {
        let all = all.iter().map(|(name, s)| ((*name).to_owned(), s.to_vec()));
        all.collect()
    };
    let mut machine = of(NoiseOf::Machine);
    machine.sort();
    let cron: &[(u64, u64)] = &[(5_000, 300), (second + 35_000, 200)];
    assert_eq!(
        machine,
        named(&[("cron", cron), ("sshd", &[(second + 5_000, 400)])])
    );
    for (phase, expected) in [
        (
            0,
            named(&[("cron", &[(5_000, 300)]), ("idlewave", &[(55_000, 700)])]),
        ),
        (
            1,
            named(&[
                ("cron", &[(second + 35_000, 200)]),
                ("idlewave", &[(second + 25_000, 600)]),
                ("sshd", &[(second + 5_000, 400)]),
            ]),
        ),
        (2, Vec::new()),
    ] {
        let mut found = of(NoiseOf::Phase(phase));
        found.sort();
        assert_eq!(found, expected, "phase {phase}");
    }
}
