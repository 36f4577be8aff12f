//! Writes a placement as files for launchers and batch systems.

use crate::exit::{Exit, Failure};
use idlewave_network::Network;
use idlewave_place::Candidate;
use idlewave_place::batch::{
    AssignedNode, Assignment, FluxOptions, Slot, SlurmOptions, flux_command, mpich_host_file,
    open_mpi_host_file, open_mpi_rank_file, pbs_script, slurm_host_file, slurm_script,
};
use idlewave_sys::files;
use idlewave_topology::{NodeIndex, Vertex};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// One name per rank and nothing else: the format has no comments.
const HOST_FILE: &str = "slurm_hostfile";

/// All files of a placement by name. `remark` becomes the first line of those whose format has
/// comments.
pub fn of(
    network: &Network,
    candidate: &Candidate,
    remark: Option<&str>,
) -> Result<Vec<(String, String)>, Failure> {
    let assignment = assignment(network, candidate)?;
    let command = vec!["./app".to_owned()];
    let leaves = leaves(network, candidate);
    let slurm = SlurmOptions {
        // With one switch there is nothing to request.
        switches: (network.topology().switches().len() > 1 && leaves > 0).then_some(leaves),
        exclusive: true,
        host_file: HOST_FILE.to_owned(),
        command: command.clone(),
    };
    let flux = FluxOptions {
        submit: false,
        command: command.clone(),
    };
    let launcher =
        ["mpirun", "--hostfile", "hostfile", "--rankfile", "rankfile"].map(str::to_owned);
    let named = [
        ("rankfile", open_mpi_rank_file(&assignment)),
        ("hostfile", open_mpi_host_file(&assignment)),
        ("hostfile.mpich", mpich_host_file(&assignment)),
        ("job.sbatch", slurm_script(&assignment, &slurm)),
        (HOST_FILE, slurm_host_file(&assignment)),
        (
            "job.flux",
            format!("#!/bin/sh\n{}\n", flux_command(&assignment, &flux)),
        ),
        ("job.pbs", pbs_script(&assignment, &launcher, &command)),
    ];
    Ok(named
        .map(|(name, content)| match remark {
            Some(remark) if name != HOST_FILE => (name.to_owned(), remarked(&content, remark)),
            _ => (name.to_owned(), content),
        })
        .to_vec())
}

/// Prepends a comment; in scripts it follows the line that names the shell.
fn remarked(content: &str, remark: &str) -> String {
    let first = content.split_inclusive('\n').next().unwrap_or_default();
    match content.strip_prefix("#!").and(content.strip_prefix(first)) {
        Some(rest) => format!("{first}# {remark}\n{rest}"),
        None => format!("# {remark}\n{content}"),
    }
}

/// Assigns core numbers: the cores of a node's memory domains are numbered one domain after the
/// other.
fn assignment(network: &Network, candidate: &Candidate) -> Result<Assignment, Failure> {
    let mut nodes: Vec<AssignedNode> = Vec::new();
    let mut index: HashMap<NodeIndex, usize> = HashMap::new();
    let mut next: HashMap<(NodeIndex, u32), u32> = HashMap::new();
    let mut slots = Vec::new();
    for place in &candidate.places {
        let node = *index.entry(place.node).or_insert_with(|| {
            let of = &network.topology().nodes()[place.node.get()];
            nodes.push(AssignedNode {
                name: of.name.clone(),
                cores: of.cores,
                domains: network.domains(place.node),
            });
            nodes.len() - 1
        });
        let used = next.entry((place.node, place.domain)).or_insert(0);
        let core = first_core(network, place.node, place.domain) + *used;
        *used += 1;
        slots.push(Slot {
            node,
            core,
            domain: place.domain,
        });
    }
    Assignment::new(nodes, slots).map_err(|error| {
        Failure::new(Exit::Other, error.to_string())
            .with_next("give node names that a batch system accepts")
    })
}

fn first_core(network: &Network, node: NodeIndex, domain: u32) -> u32 {
    let of = &network.topology().nodes()[node.get()];
    let with_cores = of.domains.iter().filter(|d| d.cores > 0);
    with_cores.take(domain as usize).map(|d| d.cores).sum()
}

/// The number of leaf switches of the nodes in use.
pub fn leaves(network: &Network, candidate: &Candidate) -> u32 {
    let topology = network.topology();
    let mut leaves: Vec<_> = candidate
        .nodes
        .iter()
        .filter_map(|&n| topology.leaf_of(n))
        .collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves.len() as u32
}

/// Names of the nodes in use, in order.
pub fn names(network: &Network, candidate: &Candidate) -> Vec<String> {
    let name = |node: &NodeIndex| network.topology().name(Vertex::Node(*node)).to_owned();
    candidate.nodes.iter().map(name).collect()
}

/// Writes all files into a new directory, or none.
pub fn write(directory: &Path, files: &[(String, String)]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Io, format!("write {}: {error}", directory.display()))
            .with_next("choose a directory that does not exist yet, where you may write, with -o")
    };
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = directory.with_file_name(name);
    let written = fs::create_dir(&temporary).and_then(|()| {
        for (name, content) in files {
            files::write_new(&temporary.join(name), content.as_bytes())?;
        }
        // An empty directory of this name would be replaced; nothing would be lost.
        fs::rename(&temporary, directory)
    });
    if written.is_err() {
        // Report the original failure even if the temporary directory cannot be removed.
        let _ = fs::remove_dir_all(&temporary);
    }
    written.map_err(failed)
}
