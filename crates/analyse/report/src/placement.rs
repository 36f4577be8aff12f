//! The data behind the page of a placement and the page of a placement study, filled in by the code
//! that measures or predicts.

use idlewave_run::findings::Estimate;
use serde::{Deserialize, Serialize};

/// The result of one `idlewave place`: everything its page shows. All times are predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementSheet {
    /// The program in words, one line.
    pub what: String,
    /// The network in words, one line.
    pub network: String,
    /// More on program, network and search, one line each.
    pub details: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The version of idlewave that computed the placement.
    pub idlewave: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The placements considered, in any order; usually one for each number of ranks per node.
    pub rows: Vec<PlacementRow>,
    /// Index of the best row.
    pub best: usize,
    /// Index of the batch system's default; `None` if not known.
    pub baseline: Option<usize>,
    /// Loads under the best row; `None` if they were not computed.
    pub chosen: Option<LoadPicture>,
    /// Loads under the default.
    pub baseline_loads: Option<LoadPicture>,
    /// Files and commands for launchers and batch systems that apply the chosen placement.
    pub files: Vec<PlacementFile>,
    /// What the model leaves out, one sentence each.
    pub not_modelled: Vec<String>,
    /// What was assumed or left out that the reader should know, one sentence each.
    pub assumed: Vec<String>,
    /// What makes the answer doubtful here, and what to do about it, one sentence each.
    pub warnings: Vec<String>,
}

/// One placement and its predicted cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementRow {
    /// Most ranks on a node, at least 1.
    pub ranks_per_node: u32,
    /// Nodes, at least 1.
    pub nodes: u32,
    /// Which nodes and which order of ranks, in words: "nodes of one leaf, blocks".
    pub how: String,
    /// Run time, seconds.
    pub seconds: Estimate,
    /// Run time times nodes, in seconds: what the budget is charged.
    pub node_seconds: f64,
    /// What takes most of the critical path, whether a resource or not: "adapter out of n3",
    /// "computation".
    pub limit: String,
    /// Share of the critical path that it takes, 0..=1.
    pub limit_share: f64,
    /// Whether the program fits into the memory of the nodes.
    pub memory: MemoryFit,
    /// Whether it does not differ significantly from the best row.
    pub same_as_best: bool,
    /// The search's quick bound, in seconds: bytes over capacity of the busiest resource, plus
    /// computation.
    pub bound_seconds: f64,
    /// Lower bound, in seconds, for every placement of this program with the same number of ranks
    /// per node.
    pub lower_bound_seconds: f64,
    /// What the run time consists of, by name: shares that add up to 1.
    pub parts: Vec<(String, f64)>,
}

/// Whether a program fits into the memory of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryFit {
    /// On every node.
    Fits,
    /// Not on every node.
    Exceeds,
    /// The memory of the nodes or of the program is unknown.
    Unknown,
}

/// How busy nodes and links are under one placement. Utilisations are shares of the run time at
/// full rate, 0..=1.
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
    /// Index of the switch that it is attached to; `None` if there is none.
    pub leaf: Option<usize>,
    /// Its ranks.
    pub ranks: Vec<u32>,
    /// Utilisation of its adapter, outgoing.
    pub out: f64,
    /// Utilisation of its adapter, incoming.
    pub into: f64,
    /// Utilisation of its memory.
    pub memory: f64,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSheet {
    /// Name.
    pub name: String,
    /// Most links down to a node: 0 for a switch with nodes attached.
    pub level: u32,
    /// Coordinates in a torus or a mesh; index in the group, then the group, in a dragonfly; empty
    /// elsewhere.
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

/// A file or a command that applies a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementFile {
    /// File name, or the purpose of the command: "rankfile (Open MPI)".
    pub name: String,
    /// Content.
    pub content: String,
}

/// The measurements of a placement study, which runs the same program on different nodes:
/// everything its page shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudySheet {
    /// What was measured, and where, in one line.
    pub what: String,
    /// More on program, machine and method, one line each.
    pub details: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The version of idlewave that measured.
    pub idlewave: String,
    /// The measurements, one for each number of ranks and layout.
    pub rows: Vec<StudyRow>,
    /// What was left out that the reader should know, one sentence each.
    pub notes: Vec<String>,
    /// What makes the measurements or the comparison doubtful, one sentence each.
    pub warnings: Vec<String>,
}

/// One layout, measured. Times are seconds; estimates are over repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyRow {
    /// Ranks, at least 1.
    pub ranks: u32,
    /// Nodes, at least 1.
    pub nodes: u32,
    /// Ranks on each node except the last ones.
    pub ranks_per_node: u32,
    /// Run time.
    pub total: Estimate,
    /// Time in collective operations; `None` if not measured.
    pub collective: Option<Estimate>,
    /// Time in point-to-point operations. May overlap with the collectives if the two were measured
    /// on different ranks.
    pub point_to_point: Option<Estimate>,
    /// Whether no layout with the same number of ranks is faster.
    pub is_minimum: bool,
    /// Run time as predicted beforehand; `None` if not predicted.
    pub predicted: Option<Estimate>,
}
