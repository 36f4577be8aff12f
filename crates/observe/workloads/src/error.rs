//! Why a workload could not run to its end.

use idlewave_fabric::FabricError;
use idlewave_run::RunError;
use idlewave_units::{Cpu, Rank};
use std::io;

/// Why a workload could not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The thread could not be bound to its CPU.
    #[error("bind a measuring thread to CPU {cpu}: {source}")]
    Pin {
        /// The CPU.
        cpu: Cpu,
        /// The system's reason.
        source: io::Error,
    },
    /// A measuring thread may not have a real-time priority.
    #[error("take real-time priority {priority}: {source}")]
    Realtime {
        /// The priority.
        priority: u8,
        /// The system's reason.
        source: io::Error,
    },
    /// A neighbour could not run.
    #[error("run the neighbour {neighbour}: {source}")]
    Neighbour {
        /// Its name.
        neighbour: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A measuring thread could not be started.
    #[error("start a measuring thread: {0}")]
    Spawn(io::Error),
    /// A measuring thread panicked: a defect of idlewave.
    #[error("finish a measurement: a measuring thread failed ({0})")]
    Panicked(String),
    /// A box of the Lennard-Jones run is too small.
    #[error(
        "run molecular dynamics: a rank's box is {width} sigma wide, but at least {least} is needed; give more particles per rank"
    )]
    NarrowBox {
        /// Width of the box where it is too narrow.
        width: f64,
        /// The smallest width allowed.
        least: f64,
    },
    /// Particles of the Lennard-Jones run flew apart: a defect of idlewave.
    #[error("run molecular dynamics: a particle left the system")]
    Unstable,
    /// A message of a lockstep run is not the expected one: a defect of the fabric.
    #[error(
        "run in lockstep: the message from rank {from} in iteration {iteration} is not the expected one"
    )]
    WrongMessage {
        /// The rank that should have sent it.
        from: Rank,
        /// The iteration.
        iteration: u64,
    },
    /// Values were combined wrongly: a defect of the fabric.
    #[error("run in lockstep: the values combined in iteration {iteration} are wrong")]
    WrongSum {
        /// The iteration.
        iteration: u64,
    },
    /// A decomposition does not match the number of ranks.
    #[error(
        "decompose {ranks} ranks into {sides:?}: the product of the sides is not the number of ranks"
    )]
    WrongSides {
        /// Ranks along each dimension.
        sides: Vec<u32>,
        /// Number of ranks.
        ranks: u32,
    },
    /// No ranks were requested.
    #[error("run ranks: the number of ranks is 0")]
    NoRanks,
    /// A benchmark cannot use this many ranks.
    #[error("run {benchmark}: it has work for at most {most} ranks, not for {ranks}")]
    TooManyRanks {
        /// The benchmark.
        benchmark: String,
        /// Number of ranks.
        ranks: u32,
        /// The most ranks it can use.
        most: u32,
    },
    /// A benchmark cannot run at this size.
    #[error("run {benchmark}: {reason}")]
    WrongSize {
        /// The benchmark.
        benchmark: String,
        /// Which sizes are possible.
        reason: String,
    },
    /// The result of a benchmark is wrong. All its ranks get this error.
    #[error("verify {benchmark}: {what}")]
    NotVerified {
        /// The benchmark.
        benchmark: String,
        /// What is wrong.
        what: String,
    },
    /// A rank could not communicate.
    #[error("communicate between ranks: {0}")]
    Fabric(#[from] FabricError),
    /// The records could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
}
