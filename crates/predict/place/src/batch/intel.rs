//! A machine file for mpirun of Intel MPI.
//!
//! Source: Intel MPI Library Developer Reference, mpiexec.hydra global options, `-machinefile`.

use super::Assignment;

/// One line per rank: `mpirun -machinefile FILE`. A line is a host name; a repeated name takes the
/// next rank, so every order can be expressed.
pub fn intel_machine_file(assignment: &Assignment) -> String {
    assignment.names().map(|name| format!("{name}\n")).collect()
}
