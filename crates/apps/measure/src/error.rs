//! Why a measurement ended without a result.

use idlewave_fabric::FabricError;
use idlewave_fabric::netctx::DeviceError;
use idlewave_mpi::MpiError;
use idlewave_session::SessionError;
use idlewave_workloads::WorkloadError;

/// Why a measurement ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// An option, the machine or the bundle.
    #[error(transparent)]
    Recording(#[from] SessionError),
    /// The ranks cannot communicate.
    #[error("measure between ranks: {0}")]
    Fabric(#[from] FabricError),
    /// The network device of this rank cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The computation of a rank failed.
    #[error(transparent)]
    Workload(WorkloadError),
    /// A benchmark's result is wrong, or its size is not possible. All ranks get the same error.
    #[error(transparent)]
    Benchmark(WorkloadError),
    /// A thread could not be started.
    #[error("start a rank: {0}")]
    Spawn(std::io::Error),
    /// A rank panicked: a defect of idlewave.
    #[error("measure: a rank failed")]
    Panicked,
}

impl MeasureError {
    /// An option that is not possible; `next` is an alternative.
    pub fn option(
        option: impl Into<String>,
        reason: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self::Recording(SessionError::Option {
            option: option.into(),
            reason: reason.into(),
            next: next.into(),
        })
    }

    /// What the user can do about it, one line.
    pub fn next_step(&self) -> Option<String> {
        let text = match self {
            Self::Recording(error) => return error.next_step(),
            Self::Fabric(FabricError::Mpi(MpiError::WrongPair { .. })) => {
                "start with the mpirun of that library, or name the library of this launcher with --mpi-lib"
            }
            Self::Fabric(FabricError::Mpi(MpiError::NoLibrary(_) | MpiError::Unusable { .. })) => {
                "name the library with --mpi-lib FILE or a program of it with --mpi-of PROGRAM, or measure between threads: without a launcher and these options"
            }
            Self::Fabric(FabricError::Mpi(MpiError::NotNeeded { .. })) => {
                "name a program that is linked with MPI, or the library itself with --mpi-lib FILE"
            }
            Self::Fabric(FabricError::Mpi(MpiError::Elf { .. })) => {
                "name the compiled program, not a script that starts it, or the library itself with --mpi-lib FILE"
            }
            Self::Fabric(FabricError::Mpi(MpiError::NotOfProgram(_))) => {
                "load the modules that the program needs, or name the library itself with --mpi-lib FILE"
            }
            Self::Benchmark(WorkloadError::NotVerified { .. }) => {
                "run it again; if it is wrong again, on other nodes, with another MPI library, or between threads"
            }
            Self::Device(_) => {
                "restart it as a rank of its gang, or without IDLEWAVE_NETCTX in its environment"
            }
            Self::Fabric(FabricError::PeerFailed) => "read the other rank's message",
            Self::Fabric(FabricError::NetworkGone) => {
                "submit it again once `idlewave gang status` answers"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl From<WorkloadError> for MeasureError {
    fn from(error: WorkloadError) -> Self {
        match error {
            WorkloadError::Fabric(error) => Self::Fabric(error),
            error if is_agreed(&error) => Self::Benchmark(error),
            other => Self::Workload(other),
        }
    }
}

/// Whether all ranks of the benchmark get the same error.
fn is_agreed(error: &WorkloadError) -> bool {
    matches!(
        error,
        WorkloadError::NotVerified { .. }
            | WorkloadError::TooManyRanks { .. }
            | WorkloadError::WrongSize { .. }
    )
}
