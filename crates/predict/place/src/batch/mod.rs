//! A placement as files and options for launchers and batch systems.
//!
//! Every writer takes an [`Assignment`] and returns text, without access to the machine. The
//! documentation of a writer says what its system cannot express. Sources are the manual pages
//! named there; tests/place_batch.rs runs the real tools.

mod assignment;
mod flux;
mod intel;
mod mpich;
mod open_mpi;
mod order;
mod pbs;
mod slurm;
#[cfg(test)]
mod tests;

pub use assignment::{AssignedNode, Assignment, BatchError, Slot};
pub use flux::{FluxOptions, flux_command, flux_taskmap};
pub use idlewave_topology::fold_hostlist;
pub use intel::intel_machine_file;
pub use mpich::mpich_host_file;
pub use open_mpi::{open_mpi_host_file, open_mpi_rank_file};
pub use order::Order;
pub use pbs::{pbs_nodes, pbs_script, pbs_select};
pub use slurm::{SlurmOptions, slurm_host_file, slurm_script};
