//! A host file for mpiexec of MPICH (Hydra).
//!
//! Source: "Using the Hydra Process Manager" of MPICH, host files.

use super::Assignment;

/// A host file: `mpiexec -f FILE`. A line is `host:n`, the next n ranks; a repeated host takes
/// further ranks, so every order can be expressed. MPICH 4.0 has no option for a map of ranks.
pub fn mpich_host_file(assignment: &Assignment) -> String {
    let names: Vec<&str> = assignment.names().collect();
    names
        .chunk_by(|a, b| a == b)
        .map(|run| format!("{}:{}\n", run[0], run.len()))
        .collect()
}
