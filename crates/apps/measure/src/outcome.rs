//! What a measurement returns to its caller.

use crate::benchmark::BenchmarkRow;
use crate::load::NodeLoad;
use crate::lockstep::LockstepOutcome;
use crate::md::MdOutcome;
use crate::ping_pong::PingPongFindings;
use crate::ranks::Ranks;
use idlewave_run::{BenchmarkSheet, ScalingSheet};
use idlewave_units::Cpu;
use serde::Serialize;
use std::path::PathBuf;

/// Where a measurement took place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Where {
    /// What carried the messages.
    pub fabric: String,
    /// Host names.
    pub nodes: Vec<String>,
    /// CPU of each rank.
    pub cpus: Vec<Cpu>,
    /// Whether two ranks of a node share a CPU.
    pub shared_cpus: bool,
}

impl Where {
    /// From what the ranks know.
    pub(crate) fn of(ranks: &Ranks) -> Self {
        let cpus: Vec<Cpu> = ranks.members.iter().map(|m| m.0).collect();
        let mut places: Vec<_> = ranks.nodes.of_ranks().iter().zip(&cpus).collect();
        places.sort();
        let shared_cpus = places.windows(2).any(|w| w[0] == w[1]);
        Self {
            fabric: ranks.carrier.clone(),
            nodes: ranks.nodes.names().to_vec(),
            cpus,
            shared_cpus,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Results {
    /// Computation and meeting in lockstep.
    Lockstep(LockstepOutcome),
    /// Messages back and forth.
    PingPong(PingPongFindings),
    /// Forces of a fluid in every step of every rank.
    MolecularDynamics(Box<MdOutcome>),
    /// A benchmark whose result was correct.
    Benchmark(BenchmarkSheet),
    /// A benchmark or molecular dynamics at several numbers of ranks.
    Scaling(ScalingSheet),
    /// Several benchmarks.
    Benchmarks {
        /// One row each.
        rows: Vec<BenchmarkRow>,
    },
}

/// A measurement with its results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Where it took place.
    pub place: Where,
    /// How busy other processes kept each node meanwhile.
    pub machine: Vec<NodeLoad>,
    /// The results.
    pub results: Results,
    /// Whether it ended early on request.
    pub interrupted: bool,
    /// The bundle, if one was written.
    pub bundle: Option<PathBuf>,
}
