//! Which nodes a job may have: `--only` and `--exclude`, as lists in Slurm's form or as files of
//! hosts.

use crate::exit::{Exit, Failure};
use crate::files::read_text;
use clap::Args;
use idlewave_topology::{Topology, expand_hostlist, fold_hostlist};
use idlewave_units::counted;
use idlewave_units::foreign::cut;
use std::collections::BTreeSet;
use std::path::Path;

/// The largest file of hosts, in bytes.
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug, Default, Args)]
pub struct ChoiceArgs {
    /// Nodes not to use, as in login[1-2],n007; a value with a / is a file with one host per line
    #[arg(long, value_name = "LIST")]
    pub exclude: Vec<String>,
    /// Use these nodes only, whatever their state; a list or file as with --exclude
    #[arg(long, value_name = "LIST")]
    pub only: Vec<String>,
}

/// What the options did, as text.
#[derive(Debug, Default)]
pub struct Chosen {
    pub notes: Vec<String>,
    pub warnings: Vec<String>,
}

impl ChoiceArgs {
    /// Restricts the available nodes to those that the options allow. All nodes stay in the
    /// network.
    pub fn apply(&self, topology: &mut Topology) -> Result<Chosen, Failure> {
        let mut chosen = Chosen::default();
        if !self.only.is_empty() {
            let only = places(topology, "--only", &self.only)?;
            let told = |place: &usize| !topology.nodes()[*place].is_available();
            let busy: Vec<&str> = only
                .iter()
                .filter(|place| told(place))
                .map(|place| topology.nodes()[*place].name.as_str())
                .collect();
            if !busy.is_empty() {
                chosen.warnings.push(format!(
                    "--only uses {} that the files list as not free or as no compute node: {}",
                    counted(busy.len() as u32, "node"),
                    cut(&fold_hostlist(busy.iter().copied()))
                ));
            }
            topology.update_nodes(|index, node| {
                node.free = only.contains(&index.get());
                node.compute |= node.free;
            });
        }
        if !self.exclude.is_empty() {
            let out = places(topology, "--exclude", &self.exclude)?;
            topology.update_nodes(|index, node| node.free &= !out.contains(&index.get()));
            chosen.notes.push(format!(
                "--exclude removes {}",
                counted(out.len() as u32, "node")
            ));
        }
        if !topology.nodes().iter().any(|node| node.is_available()) {
            let what = "place ranks: --only and --exclude leave no node";
            return Err(Failure::new(Exit::Usage, what).with_next("leave some nodes"));
        }
        Ok(chosen)
    }
}

/// Indices of the nodes that an option names.
fn places(topology: &Topology, option: &str, given: &[String]) -> Result<BTreeSet<usize>, Failure> {
    let mut places = BTreeSet::new();
    let mut unknown: Vec<String> = Vec::new();
    for value in given {
        for name in names(option, value)? {
            match topology.node(&name) {
                Some(index) => {
                    places.insert(index.get());
                }
                None => unknown.push(name),
            }
        }
    }
    if unknown.is_empty() {
        return Ok(places);
    }
    let there = topology.nodes().iter().take(1_000);
    let next = format!(
        "give node names of this network, such as {}",
        cut(&fold_hostlist(there.map(|n| n.name.as_str())))
    );
    let unknown = cut(&fold_hostlist(unknown.iter().map(String::as_str)));
    let what = format!("use {option}: the network has no node {unknown}");
    Err(Failure::new(Exit::Usage, what).with_next(next))
}

/// The names in a list, or in a file; as in Slurm's `--nodelist`, a `/` tells them apart.
fn names(option: &str, value: &str) -> Result<Vec<String>, Failure> {
    let next = "give names such as n[001-016],login1, or a file by its path: ./hosts";
    let wrong = |why: String| {
        Failure::new(Exit::Usage, format!("use {option} {}: {why}", cut(value))).with_next(next)
    };
    if !value.contains('/') {
        return expand_hostlist(value).map_err(|error| wrong(error.to_string()));
    }
    let text = read_text(Path::new(value), MOST_BYTES, next, None)?;
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        // `n1 slots=4` of Open MPI, `n1:4` of MPICH.
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        let name = word.split(':').next().unwrap_or(word);
        all.extend(expand_hostlist(name).map_err(|error| wrong(error.to_string()))?);
        if all.len() > idlewave_topology::MAX_NODES {
            return Err(wrong("it names more than a million nodes".to_owned()));
        }
    }
    match all.is_empty() {
        true => Err(wrong("it names no node".to_owned())),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(args: &ChoiceArgs) -> Result<Vec<usize>, Failure> {
        let mut topology = Topology::star(5).unwrap();
        topology.update_nodes(|index, node| node.free = index.get() != 4);
        args.apply(&mut topology)?;
        let nodes = topology.nodes().iter().enumerate();
        let nodes = nodes.filter(|(_, n)| n.is_available());
        Ok(nodes.map(|(place, _)| place).collect())
    }

    fn choice(only: &[&str], exclude: &[&str]) -> ChoiceArgs {
        let owned = |all: &[&str]| all.iter().map(|v| (*v).to_owned()).collect();
        ChoiceArgs {
            only: owned(only),
            exclude: owned(exclude),
        }
    }

    #[test]
    fn lists_and_files_of_hosts_say_which_nodes_are_used() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        std::fs::write(&file, "# mine\nn1 slots=4\n\nn2:8\nn[4-5]\n").unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(available(&choice(&[], &["n[1-2]"])).unwrap(), [2, 3]);
        assert_eq!(available(&choice(&["n3,n5"], &[])).unwrap(), [2, 4]);
        assert_eq!(available(&choice(&[file], &["n1"])).unwrap(), [1, 3, 4]);
        for (only, exclude, said) in [
            ("n9", "n1", "use --only: the network has no node n9"),
            ("n1", "n[1", "use --exclude n[1: read the list of names"),
            ("n1", "n1", "leave no node"),
        ] {
            let failure = available(&choice(&[only], &[exclude])).unwrap_err();
            assert!(failure.what.contains(said), "{failure:?}");
            assert!(failure.next.is_some());
        }
    }

    #[test]
    fn nodes_that_are_not_free_are_told_where_only_names_them() {
        let mut topology = Topology::star(3).unwrap();
        topology.update_nodes(|index, node| {
            node.free = index.get() != 0;
            node.compute = index.get() != 1;
        });
        let chosen = choice(&["n[1-2]"], &[]).apply(&mut topology).unwrap();
        assert!(chosen.warnings[0].ends_with(": n[1-2]"), "{chosen:?}");
        let available = topology.nodes().iter().map(|n| n.is_available());
        assert_eq!(available.collect::<Vec<_>>(), [true, true, false]);
    }
}
