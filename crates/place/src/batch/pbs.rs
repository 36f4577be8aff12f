//! Options for PBS and TORQUE.
//!
//! Sources: qsub(1B) and pbs_resources(7B) of OpenPBS, "Requesting Resources in Chunks"; qsub(1B) of TORQUE, `-l nodes`.

use super::{Assignment, words};

/// The value of `-l select=` for PBS: one chunk per node by its name, in order, the uneven tail with fewer ranks. Cores are all of the
/// node where they are known, or one per rank.
///
/// PBS writes the name of each chunk's host `mpiprocs` times into PBS_NODEFILE, in this order: mpirun goes through it in blocks.
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

/// A script for qsub of PBS. `launcher` are the words before those of the program, as `mpirun -machinefile FILE`: the order of ranks is
/// the launcher's business, and only a placement in blocks needs no file.
pub fn pbs_script(assignment: &Assignment, launcher: &[String], command: &[String]) -> String {
    let all: Vec<String> = launcher.iter().chain(command).cloned().collect();
    format!(
        "#!/bin/sh\n#PBS -l select={}\n#PBS -l place=scatter:excl\ncd \"$PBS_O_WORKDIR\"\n{}\n",
        pbs_select(assignment),
        words::line(&all)
    )
}
