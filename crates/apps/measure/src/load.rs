//! How busy other processes kept the nodes during a measurement, from /proc: such a measurement has
//! no kernel trace.

use crate::gather;
use idlewave_capture::proc::ContaminationMeter;
use idlewave_fabric::{Fabric, FabricError, Nodes};
use idlewave_run::Contamination;
use idlewave_units::Pid;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How busy other processes kept a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Host name.
    pub node: String,
    /// What they used.
    pub contamination: Contamination,
}

/// A meter, held by the first rank of every node.
pub(crate) struct LoadMeter(Option<(String, ContaminationMeter)>);

impl LoadMeter {
    /// Starts a meter on the first rank of every node. All ranks call it.
    pub(crate) fn begin<F: Fabric>(fabric: &mut F, nodes: &Nodes) -> Result<Self, FabricError> {
        let processes = gather::of_all(fabric, [u64::from(std::process::id())])?;
        let own = nodes.of_rank(fabric.rank());
        let led = own.filter(|&node| nodes.leader(node) == Some(fabric.rank()));
        Ok(Self(led.map(|node| {
            let here = nodes.ranks_of(node);
            let here: Vec<Pid> = here
                .filter_map(|rank| processes.get(rank.index()))
                .map(|[process]| Pid::new(*process as u32))
                .collect();
            let name = nodes.names().get(node.index()).cloned();
            (name.unwrap_or_default(), alone(&here))
        })))
    }

    /// The load of all nodes, on rank 0; empty elsewhere. All ranks call it.
    pub(crate) fn finish<F: Fabric>(self, fabric: &mut F) -> Result<Vec<NodeLoad>, FabricError> {
        let own = self.0.map(|(node, meter)| NodeLoad {
            node,
            contamination: meter.finish(),
        });
        let all: Vec<Option<NodeLoad>> = gather::values_to_root(fabric, own.as_ref())?;
        Ok(all.into_iter().flatten().collect())
    }
}

/// A meter that does not count these processes of this node as others.
pub(crate) fn alone(processes: &[Pid]) -> ContaminationMeter {
    let mut meter = ContaminationMeter::start(Path::new("/"));
    meter.set_running(processes);
    meter
}

/// A sentence for every node that other processes used meanwhile; empty if there was none.
pub fn busy_nodes(loads: &[NodeLoad]) -> Vec<String> {
    let nodes = loads.iter();
    idlewave_run::busy_nodes(nodes.map(|n| (n.node.as_str(), &n.contamination)))
}
