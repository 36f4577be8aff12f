//! A mapping of ranks given by the user: read from launchers' files or from a line, and applied to
//! a network.
//!
//! Sources: mpirun(1) of Open MPI 4.1, "Rankfiles" and "Specifying Host Nodes"; "Using the Hydra
//! Process Manager" of MPICH, host files; sbatch(1) and srun(1) of Slurm, `SLURM_HOSTFILE` and
//! `--distribution`.

use crate::error::PlaceError;
use crate::job::{Candidate, How, Job};
use crate::loads::{Loads, unit};
use crate::order::Order;
use crate::select::Selection;
use crate::slots::domains_in_turn;
use crate::traffic::Traffic;
use crate::ways::Ways;
use idlewave_network::{Network, Place, Program};
use idlewave_topology::{Node, NodeIndex, Topology, expand_hostlist, fold_hostlist};
use idlewave_units::foreign::cut;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thiserror::Error;

/// The requested place of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRank {
    /// Name of the node.
    pub node: String,
    /// Socket, if given, and core: within the socket, or within the node if no socket is given.
    /// `None`: any.
    pub core: Option<(Option<u32>, u32)>,
}

/// Why a mapping is invalid. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GivenError {
    /// A line that is not in any of the formats.
    #[error("read line {line}, {text:?}: {why}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// Its text, cut.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The number of places differs from the number of ranks.
    #[error("read the mapping: it has places for {places} ranks, but the program has {ranks}")]
    Ranks {
        /// Ranks that have a place.
        places: u64,
        /// Ranks of the program.
        ranks: u32,
    },
    /// A script that refers to another file for the order of ranks.
    #[error("read the mapping: this script has its order of ranks in a host file; give that file")]
    Elsewhere,
}

/// The places of `ranks` ranks from a rank file or host file of Open MPI, a host file of MPICH, or
/// a host file or script of Slurm in the form written by [`batch`](crate::batch).
///
/// # Errors
/// A line in none of these formats, ranks without a place or with several.
pub fn read_given(text: &str, ranks: u32) -> Result<Vec<GivenRank>, GivenError> {
    if text.lines().any(|line| line.starts_with("#SBATCH")) {
        return script(text, ranks);
    }
    let lines: Vec<(usize, &str)> = (1..)
        .zip(text.lines())
        .map(|(n, line)| (n, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let first = |line: &str| {
        line.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    if lines.iter().any(|(_, line)| first(line) == "rank") {
        return rank_file(&lines, ranks);
    }
    let counted = |line: &str| line.contains("slots") || first(line).contains(':');
    if lines.iter().any(|(_, line)| counted(line)) {
        return host_file(&lines, ranks);
    }
    // One name for each rank.
    if lines.len() as u64 != u64::from(ranks) {
        let places = lines.len() as u64;
        return Err(GivenError::Ranks { places, ranks });
    }
    lines.iter().map(|(n, line)| one(*n, line)).collect()
}

/// The places of `ranks` ranks from a line like `n1:0-3,8 n2:4-7`: nodes with their ranks.
///
/// # Errors
/// An invalid word, ranks without a place or with several.
pub fn read_given_line(text: &str, ranks: u32) -> Result<Vec<GivenRank>, GivenError> {
    let mut all = BTreeMap::new();
    let words = text.split([' ', ';', '\n', '\t']).filter(|w| !w.is_empty());
    for word in words {
        let wrong = |why: &str| GivenError::Line {
            line: 1,
            text: cut(word),
            why: why.to_owned(),
        };
        let form = "expected nodes with their ranks, as in n1:0-3,8 n2:4-7";
        let (node, list) = word.rsplit_once(':').ok_or_else(|| wrong(form))?;
        let given = one(1, node)?;
        for range in list.split(',') {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<u32>().map_err(|_| wrong(form));
            let (from, to) = (number(from)?, number(to)?);
            if from > to || to >= ranks {
                let why = format!("ranks are 0 to {}", ranks.saturating_sub(1));
                return Err(wrong(&why));
            }
            for rank in from..=to {
                if all.insert(rank, given.clone()).is_some() {
                    return Err(wrong(&format!("rank {rank} already has a place")));
                }
            }
        }
    }
    complete(all, ranks)
}

fn complete(all: BTreeMap<u32, GivenRank>, ranks: u32) -> Result<Vec<GivenRank>, GivenError> {
    let places = all.len() as u64;
    match places == u64::from(ranks) {
        true => Ok(all.into_values().collect()),
        false => Err(GivenError::Ranks { places, ranks }),
    }
}

/// Exactly one node name.
fn one(line: usize, text: &str) -> Result<GivenRank, GivenError> {
    let why = "it is not the name of one node";
    match expand_hostlist(text).as_deref() {
        Ok([node]) if !node.contains(char::is_whitespace) => Ok(GivenRank {
            node: node.clone(),
            core: None,
        }),
        _ => Err(GivenError::Line {
            line,
            text: cut(text),
            why: why.to_owned(),
        }),
    }
}

/// `rank 3=n1 slot=0:2`
fn rank_file(lines: &[(usize, &str)], ranks: u32) -> Result<Vec<GivenRank>, GivenError> {
    let mut all = BTreeMap::new();
    for &(line, text) in lines {
        let wrong = |why: String| GivenError::Line {
            line,
            text: cut(text),
            why,
        };
        let form = || wrong("expected a line like rank 0=n1 slot=0".to_owned());
        let rest = text.strip_prefix("rank").ok_or_else(form)?;
        let (rank, rest) = rest.split_once('=').ok_or_else(form)?;
        let rank: u32 = rank.trim().parse().map_err(|_| form())?;
        let (node, slot) = match rest.trim().split_once(char::is_whitespace) {
            Some((node, slot)) => (node, Some(slot.trim())),
            None => (rest.trim(), None),
        };
        if node.starts_with('+') {
            let why = "nodes must be given by name; only mpirun knows them by number";
            return Err(wrong(why.to_owned()));
        }
        let mut given = one(line, node)?;
        if let Some(slot) = slot {
            let slot = slot.strip_prefix("slots").or(slot.strip_prefix("slot"));
            let cores = slot.and_then(|s| s.trim_start().strip_prefix('='));
            given.core = Some(core(cores.ok_or_else(form)?.trim()).ok_or_else(form)?);
        }
        if rank >= ranks {
            let why = format!("the program has ranks 0 to {}", ranks.saturating_sub(1));
            return Err(wrong(why));
        }
        if all.insert(rank, given).is_some() {
            return Err(wrong(format!("rank {rank} already has a place")));
        }
    }
    complete(all, ranks)
}

/// The first core of `2`, `0-3`, `0,4`, `1:2`, `1:*`.
fn core(text: &str) -> Option<(Option<u32>, u32)> {
    let first = |text: &str| {
        let first = text.split([',', '-']).next()?.trim();
        match first {
            "*" => Some(0),
            number => number.parse().ok(),
        }
    };
    match text.split_once(':') {
        Some((socket, core)) => Some((Some(socket.trim().parse().ok()?), first(core)?)),
        None => Some((None, first(text)?)),
    }
}

/// `n1 slots=4` of Open MPI and `n1:4` of MPICH: the node of the next ranks.
fn host_file(lines: &[(usize, &str)], ranks: u32) -> Result<Vec<GivenRank>, GivenError> {
    let wanted = ranks as usize;
    // Open MPI merges lines with the same node, MPICH continues with the next ranks.
    let of_open_mpi = lines.iter().any(|(_, text)| text.contains("slots"));
    let mut runs: Vec<(GivenRank, u64)> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for &(line, text) in lines {
        let wrong = || GivenError::Line {
            line,
            text: cut(text),
            why: "expected a line like n1 slots=4 (Open MPI) or n1:4 (MPICH)".to_owned(),
        };
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let (name, count) = match name.split_once(':') {
            Some((name, count)) => (name, Some(count)),
            None => (name, None),
        };
        let slots = words.find_map(|w| w.strip_prefix("slots="));
        let count = match count.or(slots) {
            Some(count) => count.parse::<u32>().map_err(|_| wrong())?,
            None => 1,
        };
        let given = one(line, name)?;
        match seen.get(&given.node).filter(|_| of_open_mpi) {
            Some(&at) => runs[at].1 += u64::from(count),
            None => {
                seen.insert(given.node.clone(), runs.len());
                runs.push((given, u64::from(count)));
            }
        }
    }
    let mut all = Vec::with_capacity(wanted);
    for (given, count) in &runs {
        let left = (wanted - all.len()) as u64;
        all.extend(std::iter::repeat_n(given, *count.min(&left) as usize).cloned());
    }
    match all.len() == wanted {
        true => Ok(all),
        false => {
            let places = all.len() as u64;
            Err(GivenError::Ranks { places, ranks })
        }
    }
}

/// A script written by [`slurm_script`](crate::batch::slurm_script), with a named order of ranks.
fn script(text: &str, ranks: u32) -> Result<Vec<GivenRank>, GivenError> {
    let value = |option: &str| {
        let mut words = (1..).zip(text.lines()).flat_map(|(line, content)| {
            let commands = content.starts_with("#SBATCH") || content.starts_with("srun ");
            let words = content.split_whitespace().filter(move |_| commands);
            words.map(move |word| (line, word))
        });
        let given = words.find_map(|(line, w)| Some((line, w.strip_prefix(option)?)));
        given.and_then(|(line, w)| Some((line, w.strip_prefix('=')?)))
    };
    let missing = |option: &str| GivenError::Line {
        line: 1,
        text: "#SBATCH".to_owned(),
        why: format!("the script does not say {option}=, which the mapping needs"),
    };
    let (_, order) = value("--distribution").ok_or_else(|| missing("--distribution"))?;
    if order == "arbitrary" {
        return Err(GivenError::Elsewhere);
    }
    let (line, nodes) = value("--nodelist").ok_or_else(|| missing("--nodelist"))?;
    let nodes = expand_hostlist(nodes).map_err(|error| GivenError::Line {
        line,
        text: cut(nodes),
        why: error.to_string(),
    })?;
    let count = nodes.len().max(1);
    let node: Box<dyn Fn(usize) -> usize> = match (order, order.strip_prefix("plane=")) {
        ("block", _) => {
            let each = (ranks as usize).div_ceil(count);
            Box::new(move |rank| rank / each)
        }
        ("cyclic", _) => Box::new(move |rank| rank % count),
        (_, Some(size)) if size.parse::<u32>().is_ok_and(|size| size > 0) => {
            let size = size.parse::<usize>().unwrap_or(1);
            Box::new(move |rank| rank / size % count)
        }
        _ => {
            return Err(GivenError::Line {
                line,
                text: cut(order),
                why: "expected block, cyclic, plane=N or arbitrary".to_owned(),
            });
        }
    };
    let asked = value("--ntasks").and_then(|(_, n)| n.parse::<u32>().ok());
    if let Some(asked) = asked.filter(|&asked| asked != ranks) {
        let places = u64::from(asked);
        return Err(GivenError::Ranks { places, ranks });
    }
    let given = |rank: usize| GivenRank {
        node: nodes.get(node(rank)).cloned().unwrap_or_default(),
        core: None,
    };
    Ok((0..ranks as usize).map(given).collect())
}

/// The nodes in the order of their first ranks, with the ranks of each.
fn by_node(
    topology: &Topology,
    given: &[GivenRank],
) -> Result<Vec<(NodeIndex, Vec<usize>)>, PlaceError> {
    let mut unknown: BTreeSet<&str> = BTreeSet::new();
    let mut nodes: Vec<(NodeIndex, Vec<usize>)> = Vec::new();
    let mut index_of: HashMap<NodeIndex, usize> = HashMap::new();
    for (rank, place) in given.iter().enumerate() {
        let Some(node) = topology.node(&place.node) else {
            unknown.insert(&place.node);
            continue;
        };
        let index = *index_of.entry(node).or_insert(nodes.len());
        if index == nodes.len() {
            nodes.push((node, Vec::new()));
        }
        nodes[index].1.push(rank);
    }
    if !unknown.is_empty() {
        let names = cut(&fold_hostlist(unknown));
        return Err(PlaceError::UnknownNodes { names });
    }
    Ok(nodes)
}

/// Finds the memory domain of each of these ranks of a node, by its core.
fn place_on(
    node: &Node,
    given: &[GivenRank],
    ranks: &[usize],
    domain_of: &mut [u32],
) -> Result<(), PlaceError> {
    let on = |rank: usize| node.name.clone().replace('\n', " ") + &format!(" (rank {rank})");
    if let Some(cores) = node.cores.filter(|&cores| ranks.len() > cores as usize) {
        return Err(PlaceError::Crowded {
            node: node.name.clone(),
            ranks: ranks.len(),
            cores,
        });
    }
    let domains = node.domains.iter().map(|d| d.cores);
    let domains: Vec<u32> = domains.filter(|&cores| cores > 0).collect();
    let some = if domains.is_empty() {
        vec![u32::MAX]
    } else {
        domains.clone()
    };
    let mut turn = domains_in_turn(&some);
    let mut taken: HashMap<u32, usize> = HashMap::new();
    for &rank in ranks {
        let Some((socket, core)) = given[rank].core else {
            domain_of[rank] = turn.next().unwrap_or(0);
            continue;
        };
        let first = |socket: u32| domains.iter().take(socket as usize).sum::<u32>();
        let core = match socket {
            // Sockets are assumed to be memory domains.
            Some(socket) if socket > 0 && socket as usize >= some.len() => {
                return Err(PlaceError::NoCore { place: on(rank) });
            }
            Some(socket) => first(socket).saturating_add(core),
            None => core,
        };
        if node.cores.is_some_and(|cores| core >= cores) {
            return Err(PlaceError::NoCore { place: on(rank) });
        }
        if taken.insert(core, rank).is_some() {
            return Err(PlaceError::SharedCore {
                place: on(rank),
                core,
            });
        }
        let mut behind = 0;
        domain_of[rank] = (0..)
            .zip(&domains)
            .find(|(_, cores)| {
                behind += **cores;
                core < behind
            })
            .map_or(0, |(domain, _)| domain);
    }
    Ok(())
}

/// The mapping as a placement of the program on the network. Ranks without a core take turns among
/// the memory domains of their node.
///
/// # Errors
/// Nodes that the network does not have, more ranks on a node than cores, a core that does not
/// exist or is used twice, or nodes that are not connected.
pub fn given_candidate(
    network: &Network,
    program: &Program,
    job: &Job,
    given: &[GivenRank],
) -> Result<Candidate, PlaceError> {
    let topology = network.topology();
    let nodes = by_node(topology, given)?;
    let mut domain_of = vec![0; given.len()];
    for (node, ranks) in &nodes {
        place_on(&topology.nodes()[node.get()], given, ranks, &mut domain_of)?;
    }
    let places: Vec<Place> = given
        .iter()
        .zip(domain_of)
        .filter_map(|(place, domain)| {
            let node = topology.node(&place.node)?;
            Some(Place { node, domain })
        })
        .collect();
    if places.len() != program.ranks() as usize {
        let (there, wanted) = (places.len(), u64::from(program.ranks()));
        return Err(PlaceError::OtherRanks { there, wanted });
    }
    let traffic = Traffic::new(program);
    let unit = unit(network, &traffic);
    let mut ways = Ways::new(network, unit, program.ranks(), job.measured_with);
    let at = places.iter().map(|place| ways.site(*place)).collect();
    let mut loads = Loads::new(&traffic, &mut ways, at)?;
    let bound_seconds = loads.objective().bound as f64 * unit;
    let counts: Vec<(NodeIndex, u32)> = nodes
        .iter()
        .map(|(node, ranks)| (*node, ranks.len() as u32))
        .collect();
    Ok(Candidate {
        ranks_per_node: counts.iter().map(|c| c.1).max().unwrap_or(0),
        memory: job.memory(network, &counts),
        nodes: nodes.into_iter().map(|(node, _)| node).collect(),
        places,
        how: How {
            selection: Selection::First,
            order: Order::Given,
            even: false,
            improved: false,
        },
        bound_seconds,
    })
}

#[cfg(test)]
#[path = "given_tests.rs"]
mod tests;
