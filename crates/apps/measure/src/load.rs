//! How busy other processes kept the nodes during a measurement, from /proc: such a measurement has
//! no kernel trace.

use crate::gather;
use idlewave_capture::proc::ContaminationMeter;
use idlewave_fabric::{Fabric, FabricError, Nodes};
use idlewave_report::busy_machine;
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

/// A prominent line for every node that other processes used meanwhile; empty if there was none.
pub fn busy_nodes(loads: &[NodeLoad]) -> String {
    let mut out = String::new();
    for load in loads {
        if let Some(said) = busy_machine(&load.contamination, false) {
            let node = match loads.len() {
                1 => String::new(),
                _ => format!("{}: ", load.node),
            };
            out.push_str(&format!("! {node}{said}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Nanos;

    fn load(node: &str, others: f64) -> NodeLoad {
        NodeLoad {
            node: node.to_owned(),
            contamination: Contamination {
                wall: Nanos::from_secs(10),
                cpus: 2,
                others: Some(others),
                steal: Some(0.0),
                top_tasks: vec![("gzip".to_owned(), 370_000_000)],
                ..Contamination::default()
            },
        }
    }

    #[test]
    fn a_busy_node_is_told_with_what_others_used_and_a_quiet_one_is_not() {
        assert_eq!(busy_nodes(&[load("a", 0.01)]), "");
        let said = busy_nodes(&[load("a", 0.3)]);
        assert_eq!(
            said,
            "! BUSY MACHINE: others used 30.0 % of the CPUs (6.00 s of CPU time; gzip 370 ms in a sample of living processes), \
             steal 0 %. Quiet the machine and repeat.\n"
        );
        let said = busy_nodes(&[load("a", 0.3), load("b", 0.0)]);
        assert!(
            said.starts_with("! a: BUSY") && said.lines().count() == 1,
            "{said}"
        );
    }
}
