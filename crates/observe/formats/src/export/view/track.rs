//! Tracks and the groups in which a viewer shows them.

use crate::export::names::{self, Names};
use idlewave_run::Manifest;
use idlewave_units::{Cpu, NodeId, Pid, Rank};

/// A row of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Track {
    /// Steps of a rank: compute, exchange, barrier.
    Regions(Rank),
    /// MPI calls of a thread of a rank.
    Calls(Rank, Pid),
    /// Waits of a rank for other ranks.
    Waits(Rank),
    /// What was taken from a rank in late steps.
    Taken(Rank),
    /// Late steps in which this rank was the last.
    Late(Rank),
    /// Sends and receives of a rank.
    Messages(Rank),
    /// Marks of a thread of a rank.
    Marks(Rank, Pid),
    /// Marks of a thread that is no rank.
    OtherMarks(NodeId, Pid),
    /// A source of the table `sources` on a CPU.
    Source(u32, Place),
    /// A source of the findings where it struck a rank in a late step.
    Charged(u32, Rank),
    /// Gaps that the measuring thread of a CPU saw, by phase.
    Gaps(u32, Cpu),
    /// Repetitions of the fixed work quantum on a CPU, by phase.
    Quanta(u32, Cpu),
    /// The threads that had a CPU.
    Threads(Place),
    /// All interrupts of a CPU.
    Interrupts(Place),
}

/// A CPU of a node.
type Place = (NodeId, Cpu);

/// Tracks shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Group {
    /// CPUs of a node.
    Node(NodeId),
    /// A rank.
    Rank(Rank),
    /// A source of the table `sources`.
    Source(u32),
    /// Sources charged with late steps.
    Charged,
    /// The measuring threads.
    Measured,
    /// Threads of the recorded program that are no ranks.
    Others(NodeId),
}

impl Track {
    /// The group that it belongs to.
    pub(crate) fn group(self) -> Group {
        match self {
            Self::Regions(rank)
            | Self::Calls(rank, _)
            | Self::Waits(rank)
            | Self::Taken(rank)
            | Self::Late(rank)
            | Self::Messages(rank)
            | Self::Marks(rank, _) => Group::Rank(rank),
            Self::OtherMarks(node, _) => Group::Others(node),
            Self::Source(source, _) => Group::Source(source),
            Self::Charged(..) => Group::Charged,
            Self::Gaps(..) | Self::Quanta(..) => Group::Measured,
            Self::Threads((node, _)) | Self::Interrupts((node, _)) => Group::Node(node),
        }
    }

    /// Its name within the group.
    pub(crate) fn name(self, manifest: &Manifest, names: &Names) -> String {
        match self {
            Self::Regions(_) => "steps".to_owned(),
            Self::Calls(_, thread) => format!("MPI calls of thread {thread}"),
            Self::Waits(_) => "waits".to_owned(),
            Self::Taken(_) => "taken in late steps".to_owned(),
            Self::Late(_) => "late steps".to_owned(),
            Self::Messages(_) => "messages".to_owned(),
            Self::Marks(_, thread) | Self::OtherMarks(_, thread) => {
                format!("marks of thread {thread}")
            }
            Self::Source(_, (node, cpu)) => match manifest.nodes.len() {
                0 | 1 => format!("CPU {cpu}"),
                _ => format!("node {}, CPU {cpu}", names::node(manifest, node)),
            },
            Self::Charged(finding, rank) => {
                format!(
                    "{} in {}",
                    names.finding(finding),
                    names::rank(manifest, rank)
                )
            }
            Self::Gaps(phase, cpu) => format!("gaps of CPU {cpu}, phase {phase}"),
            Self::Quanta(phase, cpu) => format!("fixed work of CPU {cpu}, phase {phase}"),
            Self::Threads((_, cpu)) => format!("CPU {cpu}"),
            Self::Interrupts((_, cpu)) => format!("interrupts of CPU {cpu}"),
        }
    }
}

impl Group {
    /// Its name.
    pub(crate) fn name(self, manifest: &Manifest, names: &Names) -> String {
        match self {
            Self::Node(node) => format!("node {}", names::node(manifest, node)),
            Self::Rank(rank) => names::rank(manifest, rank),
            Self::Source(id) => match names.source(id) {
                Some(source) if source.name == source.kind.label() => source.name.clone(),
                Some(source) => format!("{} ({})", source.name, source.kind.label()),
                None => format!("source {id}"),
            },
            Self::Charged => "charged with late steps".to_owned(),
            Self::Measured => "measuring threads".to_owned(),
            Self::Others(node) => format!("program on node {}", names::node(manifest, node)),
        }
    }
}
