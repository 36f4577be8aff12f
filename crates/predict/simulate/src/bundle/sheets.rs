//! The manifest of a simulated run. It says nothing about a machine: there was none.

use super::phase::{LockstepPhase, in_words};
use super::run::Run;
use super::threads::Names;
use idlewave_noise::Noise;
use idlewave_run::{
    ClockSheet, Contamination, HostSheet, Ledger, Manifest, NodeSheet, Phase, PhaseKind, RankSheet,
    RunState, SchemaVersion, Simulated, SimulatedDelay, TraceCost, TraceMode, TraceSheet,
    Unavailable,
};
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId, Rank};

pub fn manifest(run: &Run<'_>, noise: &Noise, lockstep: LockstepPhase) -> Manifest {
    let ranks = run.program.ranks;
    let places = || (0..ranks).map(|r| (r, noise.place(r)));
    let nodes = ranks.div_ceil(run.model.cpus_per_node);
    Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: run.command.to_vec(),
        started: run.started.to_owned(),
        seed: run.seed,
        simulated: Some(Simulated {
            engine: "bulk-synchronous program, noise on the wall clock".to_owned(),
            program: in_words(run.program),
            steps: run.steps,
            noise_model: run.model.write(),
            replication: run.replication,
            without: run
                .without
                .iter()
                .map(|&i| run.model.sources[i].name.clone())
                .collect(),
            delays: run
                .delays
                .iter()
                .map(|d| SimulatedDelay {
                    rank: Rank::new(d.rank),
                    step: d.step,
                    length: Nanos::from_nanos(d.ns),
                })
                .collect(),
        }),
        nodes: (0..nodes)
            .map(|node| {
                let cpus = places().filter(|(_, p)| p.node == node);
                node_sheet(node, cpus.map(|(_, p)| Cpu::new(p.cpu)).collect())
            })
            .collect(),
        conditions: Default::default(),
        phases: vec![Phase {
            kind: PhaseKind::Lockstep {
                coupling: lockstep.coupling,
                work_steps: 0,
                work_target: lockstep.work,
                message_bytes: lockstep.message_bytes,
                sides: lockstep.sides,
                neighbourhood: lockstep.neighbourhood,
                variant: lockstep.variant,
                ranks: Some(ranks),
                iterations: run.steps,
                threshold: Nanos::ZERO,
                turn: None,
            },
            begin_ns: 0,
            end_ns: 0,
        }],
        ranks: places()
            .map(|(rank, place)| RankSheet {
                rank: Rank::new(rank),
                node: NodeId::new(place.node),
                cpu: Some(Cpu::new(place.cpu)),
                threads: vec![Names::rank(rank)],
                process: None,
                priority: None,
            })
            .collect(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}

fn node_sheet(node: u32, cpus: CpuSet) -> NodeSheet {
    NodeSheet {
        node: NodeId::new(node),
        host: HostSheet {
            name: format!("simulated-{node}"),
            architecture: "simulated".to_owned(),
            online: cpus.clone(),
            allowed: cpus,
            kernel: "simulated".to_owned(),
            ..HostSheet::default()
        },
        clock: ClockSheet {
            counter: "simulated".to_owned(),
            counts_per_second: 1e9,
            quantum_counts: 1,
            quantum_ns: 1.0,
            read_ns: 0.0,
            error: Nanos::ZERO,
            rate_change: 0.0,
            invariant: None,
            method: "simulated time in whole nanoseconds from the begin of the program".to_owned(),
        },
        trace: TraceSheet {
            mode: TraceMode::Off,
            unavailable: vec![Unavailable {
                what: "a kernel's view".to_owned(),
                why: "the run was simulated: what struck is that of the noise model".to_owned(),
                allow: None,
            }],
            cost: TraceCost::default(),
        },
        contamination: Contamination::default(),
        alignment: None,
    }
}
