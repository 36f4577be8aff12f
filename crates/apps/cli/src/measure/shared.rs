//! What all measurements have in common.

use crate::exit::{Exit, Failure};
use clap::{Args, ValueEnum};
use idlewave_measure::{FabricChoice, MeasureError, MeasureOptions, Scaling};
use idlewave_mpi::{MpiError, Search};
use idlewave_units::CpuSet;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// CPUs to use, as in 0-3,8 [default: all allowed CPUs]
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<CpuSet>,
    /// Print everything as JSON instead of the table
    #[arg(long)]
    pub json: bool,
}

/// The command line, for the manifest.
pub fn command() -> Vec<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect()
}

/// How a measurement failed.
pub fn failure(error: MeasureError) -> Failure {
    use idlewave_fabric::FabricError::Mpi;
    let next = error.next_step();
    let (exit, what) = match error {
        MeasureError::Recording(error) => return error.into(),
        MeasureError::Fabric(Mpi(MpiError::Call { .. })) => (Exit::Other, error.to_string()),
        MeasureError::Fabric(Mpi(MpiError::Elf { .. } | MpiError::NotNeeded { .. })) => {
            (Exit::Usage, error.to_string())
        }
        MeasureError::Fabric(Mpi(_)) | MeasureError::Device(_) => {
            (Exit::NotPossible, error.to_string())
        }
        _ => (Exit::Other, error.to_string()),
    };
    Failure { exit, what, next }
}

#[derive(Debug, Args)]
pub struct RanksArgs {
    /// Number of ranks; with --scaling an ascending list [default: all; threads: one per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub ranks: Vec<u32>,
    /// What carries the messages [default: netctx under a gang's agent, mpi under a launcher, else
    /// threads]
    #[arg(long, value_enum)]
    pub fabric: Option<FabricArg>,
    /// MPI library to load [default: the launcher's]
    #[arg(long, value_name = "PATH")]
    pub mpi_lib: Option<PathBuf>,
    /// Use the MPI library that this compiled program loads
    #[arg(long, value_name = "PROGRAM", conflicts_with = "mpi_lib")]
    pub mpi_of: Option<PathBuf>,
}

/// Where a run is kept.
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// Directory for a run, for explain and report; must not exist, or be empty
    #[arg(short, long, value_name = "RUN")]
    pub output: Option<PathBuf>,
    /// With -o, do not trace the kernel of the first node (causes will have no names)
    #[arg(long, requires = "output")]
    pub no_trace: bool,
}

/// A series over numbers of ranks.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// Run with each number of ranks that fits, in turn; strong divides the work among them
    #[arg(long, value_enum)]
    pub scaling: Option<ScalingArg>,
    /// With --scaling, how often each number has its turn; an interval needs 6
    #[arg(long, default_value_t = 6, value_name = "N", requires = "scaling")]
    pub repeats: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FabricArg {
    Threads,
    /// An MPI library; in a gang with contexts over those, if it uses libfabric
    Mpi,
    /// A gang's network device, named by the environment (IDLEWAVE_NETCTX)
    Netctx,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScalingArg {
    Strong,
    Weak,
}

impl RanksArgs {
    pub fn fill(self, options: &mut MeasureOptions) {
        options.ranks = self.ranks;
        options.mpi = Search {
            library: self.mpi_lib,
            program: self.mpi_of,
        };
        options.fabric = self.fabric.map(|fabric| match fabric {
            FabricArg::Threads => FabricChoice::Threads,
            FabricArg::Mpi => FabricChoice::Mpi,
            FabricArg::Netctx => FabricChoice::Netctx,
        });
    }
}

impl KeepArgs {
    pub fn fill(self, options: &mut MeasureOptions) {
        options.output = self.output;
        options.trace = !self.no_trace;
    }
}

impl ScaleArgs {
    pub fn fill(&self, options: &mut MeasureOptions) {
        options.scaling = self.scaling.map(Scaling::from);
        options.repeats = self.repeats;
    }
}

impl From<ScalingArg> for Scaling {
    fn from(scaling: ScalingArg) -> Self {
        match scaling {
            ScalingArg::Strong => Self::Strong,
            ScalingArg::Weak => Self::Weak,
        }
    }
}
