//! `--load`: a load that is measured now, or that a file has, subtracted from a network.

use super::measure::{self, none, read_adapters, split};
use super::text::taken;
use crate::exit::{Exit, Failure};
use crate::files::read_text;
use idlewave_load::host::HostCounters;
use idlewave_load::{Ends, LoadEntry, LoadFile, Sources, acquire};
use idlewave_network::Network;
use idlewave_session::Stop;
use idlewave_topology::{LinkIndex, Topology, Vertex, expand_hostlist, fold_hostlist};
use idlewave_units::foreign::cut;
use idlewave_units::{BytesPerSecond, Nanos, counted};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds after which a load is doubtful: jobs come and go.
const OLD: i64 = 600;
/// The largest file, in bytes: some hundred thousand loads.
const MOST_BYTES: usize = 16 << 20;

/// The value of `--load`.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Measured.
    Now,
    /// A file.
    File(PathBuf),
}

impl FromStr for Choice {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "now" => Choice::Now,
            path => Choice::File(path.into()),
        })
    }
}

/// What was obtained before the network is known.
pub enum Source {
    /// Counters of the nodes.
    Measured(Vec<Result<HostCounters, String>>),
    /// A file, with its path.
    Read(LoadFile, PathBuf),
}

/// A network under a load, beside the one without it.
pub struct Loaded {
    /// Without the load.
    pub blind: Network,
    /// With the lower and upper ends of its intervals; `None` if it has none.
    pub ends: Option<Box<[Network; 2]>>,
}

/// Measures or reads the load; `None` on ranks that only took part in the measurement.
pub fn obtain(choice: &Choice, over: Nanos, stop: &Stop) -> Result<Option<Source>, Failure> {
    match choice {
        Choice::Now => {
            let time = measure::interval("--load-interval", over)?;
            Ok(read_adapters(time, stop)?.map(Source::Measured))
        }
        Choice::File(path) => {
            let next = "give a text file that you may read; docs/network.md describes the format";
            let text = read_text(path, MOST_BYTES, next, Some(stop))?;
            let file = LoadFile::read(&text).map_err(|error| wrong(path, &error.to_string()))?;
            Ok(Some(Source::Read(file, path.clone())))
        }
    }
}

fn wrong(path: &Path, why: &str) -> Failure {
    Failure::new(Exit::Bundle, format!("read {}: {why}", path.display()))
        .with_next("give [[load]] with from = \"n1\", to = \"n2\", rate = \"500 MB/s\"; docs/network.md describes the format")
}

impl Source {
    /// The loads on a topology, with how messages call their origin.
    pub fn on(self, topology: &Topology) -> Result<(LoadFile, String), Failure> {
        match self {
            Source::Read(file, path) => Ok((file, path.display().to_string())),
            Source::Measured(read) => {
                let (hosts, warnings) = split(read);
                let sources = Sources {
                    names_switches: true,
                    hosts,
                    ..Sources::default()
                };
                let mut file = acquire(topology, &sources);
                file.warnings.splice(0..0, warnings);
                if file.loads.is_empty() {
                    return Err(none(&file));
                }
                Ok((file, "now".to_owned()))
            }
        }
    }
}

/// Takes the nodes of running jobs out of the available ones; a note names them, another those that
/// the topology does not have. `--only`, which is applied later, may bring them back.
pub fn jobs(
    file: &LoadFile,
    origin: &str,
    topology: &mut Topology,
) -> Result<Vec<String>, Failure> {
    let (mut busy, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for job in &file.jobs {
        let names = expand_hostlist(&job.nodes).map_err(|error| {
            wrong(
                Path::new(origin),
                &format!("[[job]] {}: {error}", cut(&job.id)),
            )
        })?;
        for name in names {
            match topology.node(&name) {
                Some(node) => drop(busy.insert(node)),
                None => drop(unknown.insert(name)),
            }
        }
    }
    topology.update_nodes(|index, node| node.free &= !busy.contains(&index));
    let mut notes = Vec::new();
    if !busy.is_empty() {
        let names = busy.iter().map(|node| topology.name(Vertex::Node(*node)));
        notes.push(format!(
            "nodes of running jobs get no ranks, unless --only names them: {}",
            cut(&fold_hostlist(names))
        ));
    }
    if !unknown.is_empty() {
        let names = unknown.iter().map(String::as_str);
        notes.push(format!(
            "nodes of running jobs that are not in the topology, and change nothing: {}",
            cut(&fold_hostlist(names))
        ));
    }
    Ok(notes)
}

/// Subtracts the loads from a network. Also returns the note and the warnings.
pub fn apply(
    file: &LoadFile,
    origin: &str,
    network: &mut Network,
) -> Result<(Loaded, String, Vec<String>), Failure> {
    let blind = network.clone();
    add(file, origin, network, |load| load.rate)?;
    let ends = match file.loads.iter().any(|load| load.range.is_some()) {
        false => None,
        true => {
            let end = |high: bool| {
                let mut network = blind.clone();
                let rate = |load: &LoadEntry| match load.range {
                    Some((_, end)) if high && end.is_finite() => end,
                    Some((end, _)) if !high => end,
                    _ => load.rate,
                };
                add(file, origin, &mut network, rate).map(|()| network)
            };
            Some(Box::new([end(false)?, end(true)?]))
        }
    };
    let mut warnings = file.warnings.clone();
    if let Some((resource, taken, whole)) = network.overloaded() {
        let advice = match origin {
            "now" => "the topology gives too low a capacity, or the traffic leaves it".to_owned(),
            path => format!("correct {path}"),
        };
        warnings.push(format!(
            "other jobs cannot send as much: {} over {}, which carries {}; {advice}",
            BytesPerSecond::scaled_text(taken),
            network.describe(resource),
            BytesPerSecond::scaled_text(whole),
        ));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs() as i64);
    if let Some(at) = file.taken.filter(|at| now - at.seconds() > OLD) {
        warnings.push(format!(
            "the load was taken at {}, more than 10 min ago: jobs may have come and gone; measure it again with idlewave place load",
            at.text()
        ));
    }
    let note = format!(
        "{} of other jobs from {origin}{}, subtracted from the capacity of links, at least a tenth of which remains",
        counted(file.loads.len() as u32, "load"),
        taken(file),
    );
    Ok((Loaded { blind, ends }, note, warnings))
}

/// Adds each load with the rate that `rate` takes of it.
fn add(
    file: &LoadFile,
    origin: &str,
    network: &mut Network,
    rate: impl Fn(&LoadEntry) -> f64,
) -> Result<(), Failure> {
    for load in &file.loads {
        let bad = |why: String| {
            let line = match load.line {
                0 => String::new(),
                line => format!("[[load]] of line {line}: "),
            };
            wrong(Path::new(origin), &format!("{line}{why}"))
        };
        let vertex = |name: &str| {
            let found = network.topology().vertex(name);
            found.ok_or_else(|| bad(format!("unknown node {}", cut(name))))
        };
        let rate = rate(load);
        match &load.ends {
            Ends::Pair(from, to) => {
                let (a, b) = (vertex(from)?, vertex(to)?);
                match (a, b) {
                    (Vertex::Node(a), Vertex::Node(b)) => network
                        .add_load(a, b, rate)
                        .map_err(|error| bad(error.to_string()))?,
                    _ => {
                        let link = network.topology().link_between(a, b).ok_or_else(|| {
                            bad(format!("no link leads from {} to {}", cut(from), cut(to)))
                        })?;
                        network.add_link_load(link, rate);
                    }
                }
            }
            Ends::Out(name) | Ends::Into(name) => {
                let node = vertex(name)?;
                let Vertex::Node(_) = node else {
                    return Err(bad(format!("{} is a switch: give both ends", cut(name))));
                };
                let links: Vec<LinkIndex> = network.topology().links_from(node).collect();
                for link in &links {
                    let link = match &load.ends {
                        Ends::Into(_) => link.opposite(),
                        _ => *link,
                    };
                    network.add_link_load(link, rate / links.len() as f64);
                }
            }
        }
    }
    Ok(())
}
