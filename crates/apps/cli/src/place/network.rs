//! The network on which to place a program: nodes and switches, their capacities, and the traffic
//! of other jobs.

use super::choice::ChoiceArgs;
use super::load::{self, Loaded};
use super::topology::read_files;
use crate::exit::{Exit, Failure};
use crate::files::read_text;
use clap::Args;
use idlewave_network::{Network, NetworkParameters};
use idlewave_topology::{Routing, Topology, Vertex};
use idlewave_units::counted;
use idlewave_units::{BytesPerSecond, Nanos};
use std::path::{Path, PathBuf};

/// Bandwidth of an adapter if nothing specifies it: 10 Gbit/s.
const ADAPTER: f64 = 1.25e9;
/// The largest file of parameters, in bytes.
const MOST_BYTES: usize = 16 << 20;

/// The network.
#[derive(Debug, Args)]
pub struct NetworkArgs {
    /// Nodes and switches: topology.conf, topology.yaml, output of scontrol or ibnetdiscover, hwloc
    /// XML, or TOML; several files are merged
    #[arg(long, value_name = "FILE")]
    pub topology: Vec<PathBuf>,
    /// Number of nodes on a single switch, instead of a topology file
    #[arg(long, value_name = "N", conflicts_with = "topology", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Option<u32>,
    /// Cores per node [default: as the files say]
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub cores: Option<u32>,
    /// Network parameters from `idlewave place calibrate` [default: assumed, typical for the
    /// adapters]
    #[arg(long, value_name = "FILE")]
    pub network: Option<PathBuf>,
    /// Bandwidth of an adapter, as in 10Gbit/s [default: as the files say, or 10Gbit/s]
    #[arg(long, value_name = "RATE", conflicts_with = "network")]
    pub adapter: Option<BytesPerSecond>,
    /// Bandwidth of a cable between switches [default: as the files say, otherwise unlimited]
    #[arg(long, value_name = "RATE", conflicts_with = "nodes")]
    pub uplink: Option<BytesPerSecond>,
    /// Spread the messages between two nodes over all shortest paths [default: one path per pair]
    #[arg(long)]
    pub multipath: bool,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// Traffic of other jobs: `now` measures it on the nodes where this runs, FILE is one of
    /// `idlewave place load`, or TOML with [[load]] from, to and rate
    #[arg(long, value_name = "now|FILE")]
    pub load: Option<load::Choice>,
    /// Time over which `--load now` measures, from 1s to 10min
    #[arg(long, value_name = "TIME", default_value = "5s", requires = "load")]
    pub load_interval: Nanos,
}

/// The network, with assumptions and warnings about it.
pub struct Prepared {
    pub network: Network,
    /// A description in one line.
    pub what: String,
    pub notes: Vec<String>,
    pub warnings: Vec<String>,
    /// The networks without the load and at the ends of its intervals; `None` without `--load`.
    pub loaded: Option<Loaded>,
}

impl Prepared {
    /// The most cores of any free node; `None` if not known.
    pub fn most_cores(&self) -> Option<u32> {
        let nodes = self.network.topology().nodes().iter();
        nodes
            .filter(|n| n.is_available())
            .filter_map(|n| n.cores)
            .max()
    }
}

impl NetworkArgs {
    /// A remark for files with invented node names; `None` if the names come from files.
    pub fn about_names(&self) -> Option<String> {
        let nodes = self.nodes.filter(|_| self.topology.is_empty())?;
        Some(format!(
            "{}: replace them with your node names",
            invented_names(nodes)
        ))
    }

    /// Reads everything but the load.
    pub fn prepare(&self, source: Option<load::Source>) -> Result<Prepared, Failure> {
        let Files {
            mut topology,
            name,
            mut notes,
            mut warnings,
        } = self.topology()?;
        let load = source.map(|source| source.on(&topology)).transpose()?;
        if let Some((file, origin)) = &load {
            notes.extend(load::jobs(file, origin, &mut topology)?);
        }
        let chosen = self.choice.apply(&mut topology)?;
        notes.extend(chosen.notes);
        warnings.extend(chosen.warnings);
        if let Some(cores) = self.cores {
            topology = topology.with_cores(cores);
        }
        if let Some(rate) = self.uplink {
            topology = topology.with_uplink_capacity(rate);
        }
        let parameters = match &self.network {
            Some(path) => {
                let read = read_parameters(path)?;
                if read.between_nodes_is_assumed() && topology.nodes().len() > 1 {
                    warnings.push(format!(
                        "{} has no measurements between nodes; these parameters are assumed: run `idlewave place calibrate` on two nodes or more",
                        path.display()
                    ));
                }
                read
            }
            None => {
                let stated = node_link(&topology);
                let rate = self
                    .adapter
                    .map(BytesPerSecond::get)
                    .or(stated)
                    .unwrap_or(ADAPTER);
                let about = format!(
                    "assumed, for adapters of {}",
                    BytesPerSecond::scaled_text(rate)
                );
                warnings.push(format!(
                    "the network is {about}: `idlewave place calibrate` measures it"
                ));
                NetworkParameters::assumed(about, rate)
            }
        };
        let about = parameters.about.clone();
        let routing = match self.multipath {
            true => Routing::Multipath,
            false => Routing::Deterministic,
        };
        let mut network = Network::new(topology, parameters, routing).map_err(|error| {
            Failure::new(Exit::Usage, format!("use the network: {error}"))
                .with_next("correct the file of --network; docs/network.md describes the format")
        })?;
        let parts = network.topology().parts();
        if parts > 1 {
            notes.push(format!(
                "nothing connects the {parts} parts of the network: only nodes of one part are used"
            ));
        }
        if network.unknown_links() > 0 {
            warnings.push(format!(
                "{} links between switches are assumed to be no limit: give their bandwidth with --uplink",
                network.unknown_links()
            ));
        }
        let mut loaded = None;
        if let Some((file, origin)) = &load {
            let (networks, note, said) = load::apply(file, origin, &mut network)?;
            loaded = Some(networks);
            notes.push(note);
            warnings.extend(said);
        }
        let nodes = network.topology().nodes();
        let free = nodes.iter().filter(|node| node.is_available()).count();
        let free = match free == nodes.len() {
            true => String::new(),
            false => format!(", {free} of them available"),
        };
        let nodes = counted(nodes.len() as u32, "node");
        let switches = network.topology().switches().len();
        let switches = match switches {
            1 => "1 switch".to_owned(),
            several => format!("{several} switches"),
        };
        Ok(Prepared {
            what: format!("{name}: {nodes}{free}, {switches}; {about}"),
            network,
            notes,
            warnings,
            loaded,
        })
    }

    fn topology(&self) -> Result<Files, Failure> {
        if !self.topology.is_empty() {
            return read_topology(&self.topology);
        }
        let Some(nodes) = self.nodes else {
            let next = "give --topology FILE, or --nodes N and --cores Q for nodes on one switch";
            return Err(
                Failure::new(Exit::Usage, "place ranks: no network was given").with_next(next),
            );
        };
        let topology = Topology::star(nodes as usize).map_err(|error| {
            Failure::new(
                Exit::Usage,
                format!("make {nodes}: {error}", nodes = counted(nodes, "node")),
            )
            .with_next("give fewer --nodes")
        })?;
        let named = invented_names(nodes);
        let note =
            format!("{named}: give --topology to use the names that your batch system knows");
        Ok(Files {
            topology,
            name: "one switch".to_owned(),
            notes: vec![note],
            warnings: Vec::new(),
        })
    }
}

/// Names nodes if only their number is given.
fn invented_names(nodes: u32) -> String {
    match nodes {
        1 => "the node is called n1".to_owned(),
        _ => format!("nodes are called n1 to n{nodes}"),
    }
}

/// Nodes and switches as read from files.
pub struct Files {
    pub topology: Topology,
    /// Names of the files.
    pub name: String,
    /// Assumptions and omissions.
    pub notes: Vec<String>,
    /// What makes the answer doubtful.
    pub warnings: Vec<String>,
}

/// Reads and merges files.
pub fn read_topology(files: &[PathBuf]) -> Result<Files, Failure> {
    let read = read_files(files, None)?;
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    Ok(Files {
        topology: read.topology,
        name: names.join(", "),
        notes: read.notes,
        warnings: read.warnings,
    })
}

/// Reads text in one of the formats of docs/network.md.
fn read_form(path: &Path) -> Result<String, Failure> {
    let next = "give a text file that you may read; docs/network.md describes the formats";
    read_text(path, MOST_BYTES, next, None)
}

/// Reads network parameters from a file.
pub fn read_parameters(path: &Path) -> Result<NetworkParameters, Failure> {
    NetworkParameters::read(&read_form(path)?).map_err(|error| {
        Failure::new(Exit::Bundle, format!("read {}: {error}", path.display())).with_next(
            "give a file that `idlewave place calibrate` wrote; docs/network.md describes the format",
        )
    })
}

/// The nominal capacity of the first node's link.
fn node_link(topology: &Topology) -> Option<f64> {
    let mut links = topology.links().iter();
    let out = links.find(|link| matches!(link.from, Vertex::Node(_)))?;
    out.capacity.map(BytesPerSecond::get)
}
