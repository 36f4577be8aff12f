//! What all measurements have in common.

use crate::exit::{Exit, Failure};
use clap::Args;
use idlewave_measure::MeasureError;
use idlewave_mpi::MpiError;
use idlewave_units::CpuSet;

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
