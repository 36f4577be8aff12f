//! The nodes of Slurm's `slurm.conf`: names, cores, memory, features, and whether they take jobs.
//!
//! Source: slurm.conf(5) of Slurm 25.05, "NODE CONFIGURATION" and "DOWN NODE CONFIGURATION". All
//! other parameters, including partitions, are ignored: they change what a user may request, not
//! the nodes.

use super::tree::expand;
use super::{Content, NodeList, Read, topology_conf};
use crate::model::Node;
use crate::read::{Format, ReadError};
use crate::topology::{MAX_NODES, count};
use idlewave_units::Bytes;
use std::collections::{HashMap, HashSet};

/// Most bytes of features of all nodes together.
const MOST_FEATURES: usize = 128 << 20;

/// The parameters used, in lower case.
const KEYS: [&str; 14] = [
    "nodename",
    "nodehostname",
    "downnodes",
    "state",
    "boards",
    "sockets",
    "socketsperboard",
    "corespersocket",
    "threadspercore",
    "cpus",
    "procs",
    "realmemory",
    "feature",
    "features",
];

/// A line's parameters with their lower-case keys.
#[derive(Clone, Default)]
struct Values<'a>(HashMap<String, (usize, &'a str)>);

impl<'a> Values<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|(_, value)| *value)
    }

    /// The value of a numeric parameter, by the manual's name.
    fn number(&self, name: &str) -> Result<Option<u64>, ReadError> {
        let Some((line, value)) = self.0.get(&name.to_ascii_lowercase()) else {
            return Ok(None);
        };
        let number = value.parse::<u32>().map_err(|_| {
            let text = format!("{name}={value}");
            ReadError::line(*line, &text, "its value is not a number below 2^32")
        });
        number.map(|n| Some(u64::from(n)))
    }

    fn cores(&self) -> Result<Option<u32>, ReadError> {
        let boards = self.number("Boards")?.unwrap_or(1);
        let sockets = match (self.number("Sockets")?, self.number("SocketsPerBoard")?) {
            (Some(sockets), _) => Some(sockets),
            (None, per_board) => per_board.map(|s| s.saturating_mul(boards)),
        };
        let per_socket = self.number("CoresPerSocket")?;
        let threads = self.number("ThreadsPerCore")?.filter(|t| *t > 0);
        let cpus = match self.number("CPUs")? {
            None => self.number("Procs")?,
            cpus => cpus,
        };
        let cores = match (sockets, per_socket, cpus) {
            // Slurm assumes 1 for the one that is left out.
            (Some(sockets), cores, None) => Some(sockets.saturating_mul(cores.unwrap_or(1))),
            (None, Some(cores), None) => Some(cores),
            (Some(sockets), Some(cores), Some(_)) => Some(sockets.saturating_mul(cores)),
            (_, _, cpus) => cpus.map(|cpus| cpus / threads.unwrap_or(1)),
        };
        Ok(cores.and_then(|c| u32::try_from(c).ok()).filter(|c| *c > 0))
    }
}

/// Reads the nodes.
///
/// # Errors
/// Invalid numbers and lists of names, with their line; a duplicate node; no nodes; a file that
/// includes another.
pub(super) fn read(text: &str) -> Result<Read, ReadError> {
    let mut list = NodeList::default();
    let mut lines: HashMap<String, usize> = HashMap::new();
    let joined = topology_conf::lines(text);
    let mut default = Values::default();
    let mut down: Vec<(usize, &str)> = Vec::new();
    let mut features = 0;
    for (line, content) in &joined {
        let line = *line;
        let first = content.split_whitespace().next().unwrap_or_default();
        if first.eq_ignore_ascii_case("include") {
            let why = "included files are not read: replace this line by their content";
            return Err(ReadError::line(line, content, why));
        }
        let key = first.split_once('=').map(|(key, _)| key);
        let is = |name: &str| key.is_some_and(|key| key.eq_ignore_ascii_case(name));
        if is("DownNodes") {
            let state = Values::of(line, content);
            if state.text("state").is_none_or(|state| !takes_jobs(state)) {
                down.extend(state.text("downnodes").map(|names| (line, names)));
            }
        }
        if !is("NodeName") {
            continue;
        }
        let own = Values::of(line, content);
        let names = own.text("nodename").unwrap_or_default();
        if names.eq_ignore_ascii_case("DEFAULT") {
            default.0.extend(own.0);
            continue;
        }
        let mut values = default.clone();
        values.0.extend(own.0);
        let names = expand(line, names)?;
        let hosts = expand(line, values.text("nodehostname").unwrap_or_default())?;
        if !hosts.is_empty() && hosts.len() != names.len() {
            let why = "NodeHostName= must have as many host names as NodeName= has names";
            return Err(ReadError::line(line, content, why));
        }
        let memory = values.number("RealMemory")?;
        // Slurm assumes 1 MiB if it is not given.
        let memory = memory.filter(|m| *m > 1);
        let node = Node {
            cores: values.cores()?,
            memory: memory.map(|m| Bytes::new(m.saturating_mul(1 << 20))),
            free: values.text("state").is_none_or(takes_jobs),
            features: split(values.text("features").or(values.text("feature"))),
            ..Node::new(String::new())
        };
        let each: usize = node.features.iter().map(|f| f.len() + 24).sum();
        features += each.saturating_mul(names.len());
        if features > MOST_FEATURES {
            let why = "the features of all nodes take more than 128 MiB";
            return Err(ReadError::line(line, "Feature=", why));
        }
        let mut hosts = hosts.into_iter();
        for name in names {
            if !crate::topology::is_name(&name) {
                return Err(ReadError::line(line, &name, "it is not a valid node name"));
            }
            if let Some(first) = lines.insert(name.clone(), line) {
                let what = "node";
                return Err(ReadError::Repeated {
                    line,
                    what,
                    name,
                    first,
                });
            }
            if let Some(host) = hosts.next().filter(|host| *host != name) {
                list.hosts.insert(host, list.nodes.len());
            }
            list.nodes.push(Node {
                name,
                ..node.clone()
            });
            count("nodes", list.nodes.len() as u64, 1, MAX_NODES as u64)?;
        }
    }
    if list.nodes.is_empty() {
        let what = "a line with NodeName=";
        return Err(ReadError::Nothing { what });
    }
    let mut stopped: HashSet<String> = HashSet::new();
    let mut named = 0;
    for (line, names) in down {
        let names = expand(line, names)?;
        named += names.len();
        count("nodes of DownNodes", named as u64, 0, MAX_NODES as u64)?;
        stopped.extend(names);
    }
    for node in &mut list.nodes {
        node.free &= !stopped.contains(&node.name);
    }
    Ok(Read {
        format: Format::SlurmConf,
        content: Content::Nodes(list),
        notes: vec![
            "slurm.conf does not say which nodes are in use; `scontrol show node` does".to_owned(),
        ],
    })
}

impl<'a> Values<'a> {
    /// The first value of a key counts; words without a value belong to a comment or a reason.
    fn of(line: usize, content: &'a str) -> Self {
        let mut values = HashMap::new();
        for (key, value) in content.split_whitespace().filter_map(|w| w.split_once('=')) {
            let key = key.to_ascii_lowercase();
            if KEYS.contains(&key.as_str()) {
                let value = value.trim_matches('"');
                values.entry(key).or_insert((line, value));
            }
        }
        Self(values)
    }
}

fn split(features: Option<&str>) -> Vec<String> {
    let features = features.unwrap_or_default().split(',');
    features
        .filter(|f| !f.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether a node in this configured state takes jobs once it has registered.
fn takes_jobs(state: &str) -> bool {
    ["UNKNOWN", "CLOUD", "IDLE"]
        .iter()
        .any(|s| state.eq_ignore_ascii_case(s))
}
