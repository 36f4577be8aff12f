//! Options and files for Slurm.
//!
//! Source: sbatch(1) and srun(1) of Slurm 22.05, `--nodes`, `--ntasks-per-node`, `--nodelist`, `--switches`, `--exclusive`,
//! `--distribution`, and the variable SLURM_HOSTFILE; `slurm.schedmd.com/dist_plane.html`.

use super::order::{Order, by_name};
use super::{Assignment, fold_hostlist, words};

/// What the script asks for beside the placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmOptions {
    /// Leaf switches that the nodes are on, from 1 on; `None` asks for nothing.
    pub switches: Option<u32>,
    /// Whether nobody else may run on the nodes. Without it Slurm may give fewer CPUs of a node than the placement uses.
    pub exclusive: bool,
    /// Where [`slurm_host_file`] will lie, seen from the first node.
    pub host_file: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// The content of the file that SLURM_HOSTFILE names for `srun --distribution=arbitrary`: one line per rank.
pub fn slurm_host_file(assignment: &Assignment) -> String {
    assignment.names().map(|name| format!("{name}\n")).collect()
}

/// A script for sbatch.
///
/// The order of ranks is said by its name where it has one that Slurm means the same by: Slurm sorts the nodes of a job by name, so
/// that this needs nodes in that order, and the same number of ranks on each of them, or a cyclic order. Everything else goes through
/// the host file. The cores of a node are left to Slurm, which binds ranks in their order.
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
        let file = words::word(&options.host_file);
        out.push_str(&format!("export SLURM_HOSTFILE={file}\n"));
    }
    out.push_str(&format!(
        "srun --ntasks={ranks} --distribution={distribution} {}\n",
        words::line(&options.command)
    ));
    out
}
