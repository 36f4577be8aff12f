//! A synthetic run for tests and the example: a machine simulated event by event, so that tables
//! and findings agree, with culprits, late steps and a prediction.

mod calibration;
mod findings;
mod machine;
mod nodes;
mod placement;
mod program;
mod program_findings;
mod simulation;

pub use calibration::calibration_sheet;
pub use findings::bare_findings;
pub use nodes::SyntheticNodes;
pub use placement::{placement_sheet, study_sheet};
pub use program::{Delay, Pattern, Planted};
pub use simulation::simulation_sheet;

use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    Alignment, AlignmentPoint, Manifest, Phase, PhaseKind, RankSheet, RunError, RunReader,
    RunWriter, findings::Findings,
};
use idlewave_units::{Nanos, NodeId, Pid, Rank};
use std::path::Path;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Ranks, one per CPU; at least 1.
    pub ranks: u32,
    /// Iterations of each of the two lockstep runs, with 20 us of computation each.
    pub iterations: u64,
    /// Name of the process that takes 500 us every 50 ms on CPU 0.
    pub culprit: String,
    /// CLOCK_MONOTONIC at the start of the run: above 2^53 after 104 days of uptime.
    pub begin_ns: u64,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            ranks: 2,
            iterations: 12_000,
            culprit: "iw-daemon".to_owned(),
            begin_ns: 1 << 54,
        }
    }
}

impl Synthetic {
    /// Writes the bundle and its findings into `path`, which must not exist or must be empty.
    pub fn write(&self, path: &Path) -> Result<(RunReader, Findings), RunError> {
        let machine = machine::Machine::run(self);
        let mut writer = RunWriter::create(path, machine.manifest(self))?;
        writer.write_table(&machine.tasks)?;
        writer.write_table(&machine.sources)?;
        writer.write_table(&machine.bursts)?;
        writer.write_table(&machine.interrupts)?;
        writer.write_table(&machine.regions)?;
        writer.write_table(&machine.detours)?;
        writer.close(None)?;
        let run = RunReader::open(path)?;
        let findings = findings::find(&machine, run.manifest());
        run.write_findings(&findings)?;
        Ok((run, findings))
    }
}

/// An MPI program to simulate.
#[derive(Clone, Debug)]
pub struct SyntheticProgram {
    /// Ranks, one per CPU; at least 1.
    pub ranks: u32,
    /// Nodes, at least 1; ranks on a node are consecutive.
    pub nodes: u32,
    /// Iterations, with 100 us of computation each.
    pub iterations: u64,
    /// How the ranks wait for each other.
    pub pattern: Pattern,
    /// What disturbs them.
    pub delays: Vec<Delay>,
    /// Name of the process that takes CPUs.
    pub culprit: String,
    /// CLOCK_MONOTONIC at the start of the run.
    pub begin_ns: u64,
}

impl SyntheticProgram {
    /// Four ranks and a barrier; now and then a daemon preempts one of them during its computation.
    pub fn barrier() -> Self {
        let delays = (0..12u32).map(|i| Delay {
            rank: [2, 2, 1, 2, 0, 2][i as usize % 6],
            iteration: 40 + 77 * u64::from(i),
            length_ns: 25_000 + 2_000 * u64::from(i),
            by: Planted::Task,
        });
        Self {
            ranks: 4,
            nodes: 1,
            iterations: 1_000,
            pattern: Pattern::Barrier,
            delays: delays.collect(),
            culprit: "iw-daemon".to_owned(),
            begin_ns: 1 << 54,
        }
    }

    /// Sixteen ranks on a ring over two nodes; two delays become idle waves.
    pub fn ring() -> Self {
        Self {
            ranks: 16,
            nodes: 2,
            iterations: 200,
            pattern: Pattern::Ring,
            delays: vec![
                Delay {
                    rank: 5,
                    iteration: 30,
                    length_ns: 400_000,
                    by: Planted::Task,
                },
                Delay {
                    rank: 12,
                    iteration: 33,
                    length_ns: 250_000,
                    by: Planted::Irq,
                },
                Delay {
                    rank: 9,
                    iteration: 120,
                    length_ns: 150_000,
                    by: Planted::Imbalance,
                },
            ],
            ..Self::barrier()
        }
    }

    /// Writes the bundle and its findings into `path`, which must not exist or must be empty.
    pub fn write(&self, path: &Path) -> Result<(RunReader, Findings), RunError> {
        let recording = program::Recording::simulate(self);
        let mut writer = RunWriter::create(path, self.manifest(&recording))?;
        writer.write_table(&recording.tasks)?;
        writer.write_table(&recording.sources)?;
        writer.write_table(&recording.operations)?;
        writer.write_table(&recording.communicators)?;
        writer.write_table(&recording.calls)?;
        writer.write_table(&recording.messages)?;
        writer.write_table(&recording.marks)?;
        writer.write_table(&recording.waits)?;
        writer.write_table(&recording.parts)?;
        writer.write_table(&recording.bursts)?;
        writer.write_table(&recording.interrupts)?;
        writer.close(None)?;
        let run = RunReader::open(path)?;
        let findings = program_findings::find(self, &recording, run.manifest());
        run.write_findings(&findings)?;
        Ok((run, findings))
    }

    fn manifest(&self, recording: &program::Recording) -> Manifest {
        let mut manifest = empty_manifest();
        manifest.idlewave = "0.1.0".to_owned();
        manifest.command = ["idlewave", "record", "--", "mpirun", "-n"]
            .map(str::to_owned)
            .into();
        manifest
            .command
            .extend([self.ranks.to_string(), "./heat2d".to_owned()]);
        manifest.phases = vec![Phase {
            kind: PhaseKind::Recorded {
                library: Some("Open MPI v4.1.4".to_owned()),
                exit_code: Some(0),
            },
            begin_ns: self.begin_ns,
            end_ns: recording.span.1 + 1_000_000,
        }];
        let ranks = self.ranks.max(1);
        manifest.ranks = (0..ranks)
            .map(|r| {
                let (node, cpu) = program::Recording::place(r, ranks, self.nodes);
                RankSheet {
                    rank: Rank::new(r),
                    node,
                    cpu: Some(cpu),
                    threads: vec![Pid::new(program::FIRST_PID + r)],
                    process: Some(Pid::new(program::FIRST_PID + r)),
                    priority: None,
                }
            })
            .collect();
        let mut first = manifest.nodes[0].clone();
        first.host = machine::host(ranks.div_ceil(self.nodes));
        manifest.nodes = (0..self.nodes)
            .map(|n| {
                let mut node = first.clone();
                node.node = NodeId::new(n);
                node.host.name = format!("n{}", n + 1);
                node.alignment = (n > 0).then(|| Alignment {
                    points: vec![AlignmentPoint {
                        time_ns: self.begin_ns,
                        offset_ns: -1_234_567,
                        round_trip: Nanos::from_nanos(5_200),
                    }],
                    error: Nanos::from_nanos(2_600),
                    method: "shortest of 1000 round trips, once at the begin".to_owned(),
                });
                node
            })
            .collect();
        manifest
    }
}
