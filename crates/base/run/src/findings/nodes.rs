//! The nodes of a run, compared with each other.

use super::Estimate;
use crate::SourceKind;
use idlewave_units::{Cpu, Nanos, NodeId};
use serde::{Deserialize, Serialize};

/// The CPUs of several nodes, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodesFindings {
    /// Share of the time of all CPUs of all nodes that detours took, 0..=1; `None` if no detour loop
    /// ran.
    pub stolen: Option<Estimate>,
    /// Time in detours on all CPUs together.
    pub taken: Nanos,
    /// What took most of it on all nodes together; `None` if nothing has a name.
    pub offender: Option<NodeOffender>,
    /// How outliers were found, and how often equal nodes would give a false alarm; or why nodes
    /// could not be compared.
    pub test: String,
    /// Number of comparisons with peers; 0 if nodes could not be compared.
    pub comparisons: u64,
    /// The nodes: outliers first, then the others, in falling order of the share of time that their
    /// worst CPU lost.
    pub ranked: Vec<NodeRank>,
}

impl NodesFindings {
    /// The nodes that differ from their peers, worst first.
    pub fn outliers(&self) -> impl Iterator<Item = &NodeRank> {
        self.ranked.iter().filter(|n| !n.reasons.is_empty())
    }
}

/// What took time on several nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeOffender {
    /// Class.
    pub kind: SourceKind,
    /// Name within the class.
    pub name: String,
    /// Time that it took from the detour loops of all nodes.
    pub taken: Nanos,
    /// The node from which it took most.
    pub node: NodeId,
    /// Time that it took there.
    pub taken_there: Nanos,
}

/// One node among others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRank {
    /// The node.
    pub node: NodeId,
    /// Name of the host.
    pub name: String,
    /// CPUs measured.
    pub cpus: u32,
    /// Share of the time that detours took, mean over the CPUs, 0..=1; `None` if no detour loop ran.
    pub stolen: Option<Estimate>,
    /// Detours per second and CPU.
    pub rate: Option<Estimate>,
    /// The CPU from which most was stolen.
    pub worst_cpu: Option<Cpu>,
    /// The share stolen from it.
    pub worst_stolen: Option<Estimate>,
    /// Slow-down of fixed work against the CPU's own best, mean over the CPUs; `None` if it was not
    /// measured.
    pub slowdown: Option<Estimate>,
    /// The CPU that works most slowly.
    pub slowest_cpu: Option<Cpu>,
    /// How much longer the same work takes there than on the median of its peers, interruptions left
    /// out; `None` without peers.
    pub slower: Option<Estimate>,
    /// Largest distance from the peers, in their robust standard deviations; `None` without peers.
    pub distance: Option<f64>,
    /// In what it is worse than its peers, worst first; empty if it is not an outlier.
    pub reasons: Vec<NodeReason>,
}

/// What was compared among nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeMeasure {
    /// Share of the time that detours took.
    Stolen,
    /// Time of the same work, interruptions left out.
    Work,
}

/// Why a node is an outlier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReason {
    /// What differs.
    pub measure: NodeMeasure,
    /// The CPU that differs from the CPUs with its number on the other nodes; `None` if the mean over
    /// the node's CPUs differs most.
    pub cpu: Option<Cpu>,
    /// The value: a share for `stolen`, nanoseconds of a quantum for `work`.
    pub value: Estimate,
    /// Median of the peers.
    pub peers: f64,
    /// Distance from it, in the peers' robust standard deviations.
    pub distance: f64,
    /// Where most of the difference comes from, in words.
    pub because: String,
}
