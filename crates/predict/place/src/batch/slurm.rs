//! Options and files for Slurm.
//!
//! Source: sbatch(1) and srun(1) of Slurm 22.05, `--nodes`, `--ntasks-per-node`, `--nodelist`,
//! `--switches`, `--exclusive`, `--distribution`, and the variable SLURM_HOSTFILE;
//! `slurm.schedmd.com/dist_plane.html`.

use super::order::{Order, by_name};
use super::{Assignment, fold_hostlist};
use idlewave_units::foreign::{shell_line, shell_word};

/// Options of the script besides the placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmOptions {
    /// Number of leaf switches of the nodes, at least 1; `None` for no request.
    pub switches: Option<u32>,
    /// Whether the nodes are exclusive. Otherwise Slurm may allocate fewer CPUs of a node than the
    /// placement uses.
    pub exclusive: bool,
    /// Path of [`slurm_host_file`], as seen from the first node.
    pub host_file: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// The content of the file that SLURM_HOSTFILE names for `srun --distribution=arbitrary`: one line
/// per rank.
pub fn slurm_host_file(assignment: &Assignment) -> String {
    assignment.names().map(|name| format!("{name}\n")).collect()
}

/// A script for sbatch.
///
/// The script names the order of ranks if Slurm's order of that name is the same: Slurm sorts the
/// nodes of a job by name, so the nodes must be in that order, with equal rank counts or a cyclic
/// order. Everything else uses the host file. The choice of cores is left to Slurm, which binds
/// ranks in order.
pub fn slurm_script(assignment: &Assignment, options: &SlurmOptions) -> String {
    let even = assignment.even();
    let distribution = match (Order::of(assignment), even) {
        _ if !by_name(assignment) => "arbitrary".to_owned(),
        (Order::Block, Some(_)) => "block".to_owned(),
        (Order::Cyclic, _) => "cyclic".to_owned(),
        (Order::Plane(size), Some(_)) => format!("plane={size}"),
        _ => "arbitrary".to_owned(),
    };
    let ranks = assignment.ranks().len();
    let mut asked = vec![
        format!("nodes={}", assignment.nodes().len()),
        format!("ntasks={ranks}"),
    ];
    asked.extend(even.map(|k| format!("ntasks-per-node={k}")));
    let names = assignment.nodes().iter().map(|n| n.name.as_str());
    asked.push(format!("nodelist={}", fold_hostlist(names)));
    asked.extend(options.switches.map(|n| format!("switches={n}")));
    if options.exclusive {
        asked.push("exclusive".to_owned());
    }
    let mut out = "#!/bin/sh\n".to_owned();
    for option in asked {
        out.push_str(&format!("#SBATCH --{option}\n"));
    }
    if distribution == "arbitrary" {
        let file = shell_word(&options.host_file);
        out.push_str(&format!("export SLURM_HOSTFILE={file}\n"));
    }
    out.push_str(&format!(
        "srun --ntasks={ranks} --distribution={distribution} {}\n",
        shell_line(&options.command)
    ));
    out
}
