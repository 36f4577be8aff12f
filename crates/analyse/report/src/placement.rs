//! What the page of a placement is made from, and the page of a study that measured placements: plain data, filled by whoever asked.

use idlewave_run::findings::Estimate;
use serde::{Deserialize, Serialize};

/// The answers of one `idlewave place`: everything that its page shows. All times are predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementSheet {
    /// The program in words, one line.
    pub what: String,
    /// The network in words, one line.
    pub network: String,
    /// Program, network and search in more words, one line each.
    pub details: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Version of idlewave that placed.
    pub idlewave: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The placements that were looked at, in any order; usually one for each number of ranks per node.
    pub rows: Vec<PlacementRow>,
    /// Index of the row to take.
    pub best: usize,
    /// Index of the row that the batch system would take by default; `None` if not known.
    pub baseline: Option<usize>,
    /// Loads under the row to take; `None` if they were not looked at.
    pub chosen: Option<LoadPicture>,
    /// Loads under the default.
    pub baseline_loads: Option<LoadPicture>,
    /// Files and commands for launchers and batch systems that bring the chosen placement about.
    pub files: Vec<PlacementFile>,
    /// What the model leaves out, one sentence each.
    pub not_modelled: Vec<String>,
    /// What was assumed or left out and is to be known, one sentence each.
    pub assumed: Vec<String>,
    /// What makes the answer doubtful here, with what to do about it, one sentence each.
    pub warnings: Vec<String>,
}

/// One placement and what it is predicted to cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementRow {
    /// Most ranks on a node, from 1 on.
    pub ranks_per_node: u32,
    /// Nodes, from 1 on.
    pub nodes: u32,
    /// Which nodes and which order of ranks, in words: "nodes of one leaf, blocks".
    pub how: String,
    /// Run time, seconds.
    pub seconds: Estimate,
    /// Run time times nodes, seconds: what the budget is charged.
    pub node_seconds: f64,
    /// What takes most of the critical path, a resource or not: "adapter out of n3", "computation".
    pub limit: String,
    /// Share of the critical path that it takes, 0..=1.
    pub limit_share: f64,
    /// Whether the program fits into the memory of the nodes.
    pub memory: MemoryFit,
    /// Whether the difference to the row to take is not significant.
    pub same_as_best: bool,
    /// The quick bound that the search used, seconds: bytes over capacity of the busiest resource, and computation.
    pub bound_seconds: f64,
    /// No placement of this program with as many ranks per node can be faster, seconds.
    pub lower_bound_seconds: f64,
    /// What the run time is made of, by name: shares that add up to 1.
    pub parts: Vec<(String, f64)>,
}

/// Whether a program fits into the memory of the nodes that it is placed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryFit {
    /// On every node.
    Fits,
    /// Not on every node.
    Exceeds,
    /// The memory of the nodes or of the program is not known.
    Unknown,
}

/// How busy nodes and links are under one placement. Utilisations are shares of the run time at full rate, 0..=1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPicture {
    /// Nodes with ranks.
    pub nodes: Vec<NodeLoad>,
    /// Switches.
    pub switches: Vec<SwitchSheet>,
    /// Links between switches, one entry for each direction.
    pub links: Vec<LinkLoad>,
}

/// A node under a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Name.
    pub name: String,
    /// Index of the switch that it hangs from; `None` if there is none.
    pub leaf: Option<usize>,
    /// Its ranks.
    pub ranks: Vec<u32>,
    /// Utilisation of its adapter outwards.
    pub out: f64,
    /// Utilisation of its adapter inwards.
    pub into: f64,
    /// Utilisation of its memory.
    pub memory: f64,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSheet {
    /// Name.
    pub name: String,
    /// Links down to the nodes at most: 0 for a switch that nodes hang from.
    pub level: u32,
    /// Coordinates in a torus or a mesh, number in its group and group in a dragonfly; empty elsewhere.
    pub at: Vec<u32>,
}

/// One direction of a link between switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkLoad {
    /// Index of the switch that sends.
    pub from: usize,
    /// Index of the switch that receives.
    pub to: usize,
    /// Bytes that the program sends over it.
    pub bytes: f64,
    /// Utilisation.
    pub utilisation: f64,
}

/// A file, or a command, that brings a placement about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementFile {
    /// File name, or what the command is for: "rankfile (Open MPI)".
    pub name: String,
    /// Content.
    pub content: String,
}

/// The measurements of a placement study, the same program again and again on other nodes: everything that its page shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudySheet {
    /// What was measured where, one line.
    pub what: String,
    /// More words on program, machine and method, one line each.
    pub details: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Version of idlewave that measured.
    pub idlewave: String,
    /// The measurements, one for each number of ranks and layout.
    pub rows: Vec<StudyRow>,
    /// What was left out and is to be known, one sentence each.
    pub notes: Vec<String>,
    /// What makes the measurements or the comparison doubtful, one sentence each.
    pub warnings: Vec<String>,
}

/// One layout, measured. Times are seconds; estimates are over repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyRow {
    /// Ranks, from 1 on.
    pub ranks: u32,
    /// Nodes, from 1 on.
    pub nodes: u32,
    /// Ranks on each node but the last ones.
    pub ranks_per_node: u32,
    /// Run time.
    pub total: Estimate,
    /// Time in collective operations; `None` if not measured.
    pub collective: Option<Estimate>,
    /// Time in point-to-point operations. May overlap with the collectives where the two were measured on different ranks.
    pub point_to_point: Option<Estimate>,
    /// Whether no layout of as many ranks is faster.
    pub is_minimum: bool,
    /// Run time as it was predicted before; `None` if it was not.
    pub predicted: Option<Estimate>,
}
