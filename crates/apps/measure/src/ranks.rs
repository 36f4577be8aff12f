//! The ranks with their nodes, CPUs and processes.

use crate::gather;
use idlewave_fabric::{Fabric, FabricError, Nodes};
use idlewave_sys::process::own_thread;
use idlewave_units::{Cpu, NodeId, Pid, Rank};

/// What a rank knows about itself and the others.
pub struct Ranks {
    /// Nodes of all ranks.
    pub nodes: Nodes,
    /// CPU, thread and process of every rank.
    pub members: Vec<(Cpu, Pid, Pid)>,
    /// The name of the fabric in output.
    pub carrier: String,
}

impl Ranks {
    /// Gathers the data of all ranks; all of them call it. `cpu` is the caller's CPU, `carrier` the
    /// name of the fabric.
    pub fn gather<F: Fabric>(fabric: &mut F, cpu: Cpu, carrier: &str) -> Result<Self, FabricError> {
        let nodes = fabric.nodes()?;
        let own = [cpu.get(), own_thread().get(), std::process::id()].map(u64::from);
        let members = gather::of_all(fabric, own)?
            .into_iter()
            .map(|[cpu, thread, process]| {
                let pid = |id: u64| Pid::new(id as u32);
                (Cpu::new(cpu as u32), pid(thread), pid(process))
            })
            .collect();
        Ok(Self {
            nodes,
            members,
            carrier: carrier.to_owned(),
        })
    }

    /// The node that `rank` leads, if any.
    pub fn led_by(&self, rank: Rank) -> Option<NodeId> {
        let node = self.nodes.of_rank(rank)?;
        (self.nodes.leader(node) == Some(rank)).then_some(node)
    }

    /// Processes of the ranks of a node.
    pub fn processes_of(&self, node: NodeId) -> Vec<Pid> {
        let ranks = self.nodes.ranks_of(node);
        let process = |rank: Rank| self.members.get(rank.index()).map(|m| m.2);
        ranks.filter_map(process).collect()
    }
}
