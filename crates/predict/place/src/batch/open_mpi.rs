//! Files for mpirun of Open MPI, versions 4 and 5.
//!
//! Sources: mpirun(1) of Open MPI 4.1, "Rankfiles" and "Specifying Host Nodes"; mpirun(1) of Open
//! MPI 5 and the PRRTE documentation on placement by rank files and on host files.

use super::Assignment;

/// A rank file: `mpirun --rankfile FILE` in version 4, `mpirun --map-by rankfile:FILE=FILE` in
/// version 5. Needs the host file of [`open_mpi_host_file`] unless a batch system provides the
/// nodes.
///
/// Each rank is bound to its logical core, so the node must have that core.
pub fn open_mpi_rank_file(assignment: &Assignment) -> String {
    let places = assignment.names().zip(assignment.ranks()).enumerate();
    places
        .map(|(rank, (name, slot))| format!("rank {rank}={name} slot={}\n", slot.core))
        .collect()
}

/// A host file with slots: `mpirun --hostfile FILE`. There are as many slots as ranks, so ranks
/// fill the nodes in this order without a rank file if the order is [`super::Order::Block`], and
/// with `--map-by node` if it is [`super::Order::Cyclic`].
pub fn open_mpi_host_file(assignment: &Assignment) -> String {
    let nodes = assignment.nodes().iter().zip(assignment.ranks_of_nodes());
    nodes
        .map(|(node, ranks)| format!("{} slots={ranks}\n", node.name))
        .collect()
}
