//! `idlewave place topology`: reads topology files of other tools, shows totals and writes Slurm's
//! topology.conf.

use crate::exit::{Exit, Failure};
use crate::files::{self, read_text, refuse_place, write_new};
use crate::json;
use crate::output::print;
use clap::Args;
use idlewave_sys::terminal::Stream;
use idlewave_topology::{
    Combined, Format, Read, ReadError, Switch, Topology, Vertex, combine, read_as, write_toml,
    write_topology_conf,
};
use idlewave_units::BytesPerSecond;
use idlewave_units::counted;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "\
Examples:
  idlewave place topology docs/examples/topology.conf
  idlewave place topology docs/examples/topology.conf docs/examples/nodes.txt
  idlewave place topology docs/examples/ibnetdiscover.txt --topology-conf
  idlewave place topology docs/examples/fat-tree.toml --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopologyArgs {
    /// topology.conf, topology.yaml, output of scontrol show topology, scontrol show node or
    /// ibnetdiscover, hwloc's XML, or TOML; several are merged. - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Topology to read from a topology.yaml [default: the cluster's default]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write Slurm's topology.conf
    #[arg(long)]
    topology_conf: bool,
    /// New file for it; a name ending in .toml selects idlewave's own format; - is standard output
    /// [default: topology.conf]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print nodes, switches and links as JSON instead of the summary
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run_topology(args: &TopologyArgs) -> Result<(), Failure> {
    let usual = || args.topology_conf.then(|| PathBuf::from("topology.conf"));
    let output = args.output.clone().or_else(usual);
    let to_stdout = output.as_deref().is_some_and(is_dash);
    if to_stdout && args.json {
        let what = "write both the topology and the JSON to standard output";
        return Err(Failure::new(Exit::Usage, what).with_next("give a file with -o"));
    }
    if let Some(output) = output.as_deref().filter(|_| !to_stdout) {
        refuse_place(output, "-o")?;
    }
    let combined = read_files(&args.files, args.name.as_deref())?;
    let Some(output) = output else {
        return show(args, &combined, None);
    };
    let own = !args.topology_conf && output.extension().is_some_and(|e| e == "toml");
    let text = match own {
        true => write_toml(&combined.topology),
        false => write_topology_conf(&combined.topology).map_err(|error| {
            let next = "give -o a name that ends in .toml, which holds any network";
            Failure::new(Exit::Usage, error.to_string()).with_next(next)
        })?,
    };
    if to_stdout {
        return print(&text);
    }
    write_new(&output, "-o", |out| out.write_all(text.as_bytes()))?;
    show(args, &combined, Some(&output))
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads the files, each in the format that its content shows, and merges them.
pub fn read_files(files: &[PathBuf], name: Option<&str>) -> Result<Combined, Failure> {
    let mut read = Vec::new();
    for file in files {
        read.push(read_file(file, name)?);
    }
    if let Some(name) = name.filter(|_| read.iter().all(|r| r.format != Format::TopologyYaml)) {
        let what =
            format!("use the topology --name {name}: only those of a topology.yaml have names");
        return Err(Failure::new(Exit::Usage, what).with_next("omit --name"));
    }
    combine(read).map_err(|error| {
        let next = match &error {
            ReadError::NoneListed { .. } => "give files of one cluster, with the same node names",
            _ => "docs/topologies.md explains which files go together",
        };
        Failure::new(Exit::Bundle, error.to_string()).with_next(next)
    })
}

/// The largest file, 1 GiB.
const MOST_BYTES: usize = 1 << 30;

fn read_file(file: &Path, name: Option<&str>) -> Result<Read, Failure> {
    let next =
        "give a text file that you may read; docs/topologies.md explains how to save each format";
    let text = read_text(file, MOST_BYTES, next, None)?;
    // Only a topology.yaml has names.
    let yaml = Format::guess(&text) == Some(Format::TopologyYaml);
    let name = name.filter(|_| yaml);
    read_as(text.as_bytes(), None, name).map_err(|error| {
        let next = match &error {
            ReadError::NoFormat => "docs/topologies.md explains how to save each format",
            _ => "correct the file; docs/topologies.md describes its format",
        };
        let what = format!("read {}: {error}", files::name(file));
        Failure::new(Exit::Bundle, what).with_next(next)
    })
}

fn show(args: &TopologyArgs, combined: &Combined, written: Option<&Path>) -> Result<(), Failure> {
    match args.json {
        true => json::print_computed(&Printed {
            levels: Levels(&combined.topology),
            links: Links(&combined.topology),
            nodes: Nodes(&combined.topology),
            notes: &combined.notes,
            parts: combined.topology.parts(),
            switches: combined.topology.switches().iter().map(of_switch).collect(),
            warnings: &combined.warnings,
            written: written.map(|w| w.display().to_string()),
        }),
        false => print(&summary(args, combined, written)),
    }
}

/// What `--json` prints. Lists are written while they are generated.
#[derive(Serialize)]
struct Printed<'a> {
    levels: Levels<'a>,
    links: Links<'a>,
    nodes: Nodes<'a>,
    notes: &'a [String],
    parts: usize,
    switches: Vec<SwitchShown<'a>>,
    warnings: &'a [String],
    written: Option<String>,
}

struct Levels<'a>(&'a Topology);
struct Links<'a>(&'a Topology);
struct Nodes<'a>(&'a Topology);

#[derive(Serialize)]
struct LevelShown {
    across: u64,
    down: u64,
    level: Option<u32>,
    oversubscription: Option<f64>,
    switches: usize,
    up: u64,
}

#[derive(Serialize)]
struct LinkShown<'a> {
    bytes_per_s: Option<f64>,
    cables: u32,
    from: &'a str,
    to: &'a str,
}

#[derive(Serialize)]
struct NodeShown<'a> {
    compute: bool,
    cores: Option<u32>,
    domains: Vec<DomainShown>,
    features: &'a [String],
    free: bool,
    leaf: Option<&'a str>,
    memory_bytes: Option<u64>,
    name: &'a str,
}

#[derive(Serialize)]
struct DomainShown {
    cores: u32,
    memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct SwitchShown<'a> {
    level: Option<u32>,
    name: &'a str,
}

fn of_switch(switch: &Switch) -> SwitchShown<'_> {
    SwitchShown {
        level: switch.level,
        name: &switch.name,
    }
}

impl Serialize for Levels<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.levels().into_iter().map(|l| LevelShown {
            across: l.across,
            down: l.down,
            level: l.level,
            oversubscription: l.oversubscription,
            switches: l.switches,
            up: l.up,
        }))
    }
}

impl Serialize for Links<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.links().iter().map(|link| LinkShown {
            bytes_per_s: link.capacity.map(|c| c.get()),
            cables: link.cables,
            from: self.0.name(link.from),
            to: self.0.name(link.to),
        }))
    }
}

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let nodes = self.0.node_indices().zip(self.0.nodes());
        to.collect_seq(nodes.map(|(index, node)| {
            let domains = node.domains.iter().map(|d| DomainShown {
                cores: d.cores,
                memory_bytes: d.memory.map(|m| m.get()),
            });
            let leaf = self.0.leaf_of(index);
            NodeShown {
                compute: node.compute,
                cores: node.cores,
                domains: domains.collect(),
                features: &node.features,
                free: node.free,
                leaf: leaf.map(|s| self.0.name(Vertex::Switch(s))),
                memory_bytes: node.memory.map(|m| m.get()),
                name: &node.name,
            }
        }))
    }
}

/// The number of nodes with each value, the most frequent first: `48 on 7 nodes, 64 on 1`.
fn spread<T: Ord>(values: impl Iterator<Item = Option<T>>, text: impl Fn(&T) -> String) -> String {
    const MOST: usize = 3;
    let mut counts: BTreeMap<Option<T>, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = |value: &Option<T>| value.as_ref().map_or("unknown".to_owned(), &text);
    if let [(value, _)] = counts.as_slice() {
        return match value {
            Some(_) => format!("{} per node", shown(value)),
            None => "unknown".to_owned(),
        };
    }
    let more = counts.len().saturating_sub(MOST);
    let parts = counts.iter().take(MOST);
    let parts = parts.map(|(value, count)| format!("{} on {count} node(s)", shown(value)));
    let mut parts: Vec<String> = parts.collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    parts.join(", ")
}

fn summary(args: &TopologyArgs, combined: &Combined, written: Option<&Path>) -> String {
    let topology = &combined.topology;
    let nodes = topology.nodes();
    let files: Vec<String> = args.files.iter().map(|f| f.display().to_string()).collect();
    let wrapped = |label: &str, text: &str| {
        let hang = " ".repeat(label.len());
        let options = textwrap::Options::new(Stream::Output.width());
        let options = options.initial_indent(label).subsequent_indent(&hang);
        textwrap::fill(text, options) + "\n"
    };
    let mut text = wrapped("TOPOLOGY of ", &files.join(", "));
    text.push('\n');
    let free = nodes.iter().filter(|n| n.is_available()).count();
    let others = nodes.iter().filter(|n| !n.compute).count();
    let others = match others {
        0 => String::new(),
        _ => format!(", {others} run no jobs"),
    };
    text.push_str(&wrapped(
        "nodes     ",
        &format!("{}, {free} of them free{others}", nodes.len()),
    ));
    let cores = spread(nodes.iter().map(|n| n.cores), u32::to_string);
    text.push_str(&wrapped("cores     ", &cores));
    let memory = spread(nodes.iter().map(|n| n.memory), ToString::to_string);
    text.push_str(&wrapped("memory    ", &memory));
    let domains = nodes
        .iter()
        .map(|n| Some(n.domains.len()).filter(|d| *d > 0));
    let domains = spread(domains, |d| format!("{d} NUMA domain(s)"));
    text.push_str(&wrapped("domains   ", &domains));
    text.push_str(&wrapped("links     ", &links(topology)));
    if topology.parts() > 1 {
        let parts = format!(
            "{}; nothing connects nodes of different parts",
            topology.parts()
        );
        text.push_str(&wrapped("parts     ", &parts));
    }
    text.push('\n');
    text.push_str(&levels(topology));
    if !combined.warnings.is_empty() {
        text.push_str("\nWARNINGS\n");
        for warning in &combined.warnings {
            text.push_str(&wrapped("  - ", warning));
        }
    }
    if !combined.notes.is_empty() {
        text.push_str("\nNOTES\n");
        for note in &combined.notes {
            text.push_str(&wrapped("  - ", note));
        }
    }
    if let Some(written) = written {
        text.push_str(&format!("\nwritten: {}\n", written.display()));
    }
    text
}

/// The number of cables and the capacity of one.
fn links(topology: &Topology) -> String {
    let one_way = topology.links().iter().step_by(2);
    let cables: u64 = one_way.clone().map(|l| u64::from(l.cables)).sum();
    let mut rates: Vec<f64> = one_way
        .clone()
        .filter_map(|l| l.capacity_per_cable().map(|c| c.get()))
        .collect();
    rates.sort_by(f64::total_cmp);
    let known = rates.len();
    let all = one_way.count();
    let shown = BytesPerSecond::scaled_text;
    let capacity = match (rates.first(), rates.last()) {
        (Some(least), Some(most)) if least == most => shown(*least),
        (Some(least), Some(most)) => format!("{} to {}", shown(*least), shown(*most)),
        _ => return format!("{cables} cables of unknown capacity"),
    };
    let unknown = match known == all {
        true => String::new(),
        false => format!(", {} of unknown capacity", counted(all - known, "pair")),
    };
    format!("{cables} cables, {capacity} each in each direction{unknown}")
}

fn levels(topology: &Topology) -> String {
    let mut text = format!(
        "{:<7}{:>10}{:>14}{:>14}{:>14}   {}\n",
        "LEVEL", "switches", "cables down", "across", "up", "down : up"
    );
    for level in topology.levels() {
        let name = level.level.map_or("none".to_owned(), |l| l.to_string());
        let over = level
            .oversubscription
            .map(|o| format!("{} : 1", (o * 100.0).round() / 100.0));
        text.push_str(&format!(
            "{name:<7}{:>10}{:>14}{:>14}{:>14}   {}\n",
            level.switches,
            level.down,
            level.across,
            level.up,
            over.unwrap_or_else(|| "-".to_owned())
        ));
    }
    text
}
