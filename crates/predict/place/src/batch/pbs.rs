//! Options for PBS and TORQUE.
//!
//! Sources: qsub(1B) and pbs_resources(7B) of OpenPBS, "Requesting Resources in Chunks"; qsub(1B)
//! of TORQUE, `-l nodes`.

use super::Assignment;
use idlewave_units::foreign::shell_line;

/// The value of `-l select=` for PBS: one chunk per node by name, in order, with fewer ranks on an
/// uneven last one. A chunk requests all cores of its node if known, otherwise one per rank.
///
/// PBS writes the name of each chunk's host `mpiprocs` times into PBS_NODEFILE, in this order;
/// mpirun uses it in blocks.
pub fn pbs_select(assignment: &Assignment) -> String {
    let nodes = assignment.nodes().iter().zip(assignment.ranks_of_nodes());
    let chunks: Vec<String> = nodes
        .map(|(node, ranks)| {
            let cores = node.cores.unwrap_or(ranks);
            format!("1:ncpus={cores}:mpiprocs={ranks}:host={}", node.name)
        })
        .collect();
    chunks.join("+")
}

/// The value of `-l nodes=` for TORQUE: each node by its name with its ranks.
pub fn pbs_nodes(assignment: &Assignment) -> String {
    let nodes = assignment.nodes().iter().zip(assignment.ranks_of_nodes());
    let specs: Vec<String> = nodes
        .map(|(node, ranks)| format!("{}:ppn={ranks}", node.name))
        .collect();
    specs.join("+")
}

/// A script for qsub of PBS. `launcher` holds the words before those of the program, such as
/// `mpirun -machinefile FILE`: the launcher sets the order of ranks, and only a placement in blocks
/// needs no file.
pub fn pbs_script(assignment: &Assignment, launcher: &[String], command: &[String]) -> String {
    let all: Vec<String> = launcher.iter().chain(command).cloned().collect();
    format!(
        "#!/bin/sh\n#PBS -l select={}\n#PBS -l place=scatter:excl\ncd \"$PBS_O_WORKDIR\"\n{}\n",
        pbs_select(assignment),
        shell_line(&all)
    )
}
