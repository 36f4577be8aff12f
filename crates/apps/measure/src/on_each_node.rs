//! Something that one rank of every node does, all at the same time, gathered on rank 0.

use crate::{MeasureError, gather};
use idlewave_fabric::mpi::{MpiFabric, ThreadLevel};
use idlewave_fabric::{Fabric, Nodes, PointToPoint};
use idlewave_mpi::{Launch, Search};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How rarely a rank that waits looks whether the others are done.
const PAUSE: Duration = Duration::from_millis(50);

/// The result of each node, on rank 0 of a job in the order of the nodes; `None` on other ranks. A
/// process that no launcher started is a node by itself. The other ranks of a node sleep meanwhile.
///
/// # Errors
/// The ranks cannot communicate. A node that fails, or whose result cannot be read, has its error
/// among the results.
pub fn on_each_node<T: Serialize + DeserializeOwned>(
    own: impl FnOnce() -> Result<T, String>,
) -> Result<Option<Vec<Result<T, String>>>, MeasureError> {
    let launch = Launch::of_this_process();
    if launch.is_none_or(|launch| launch.size.is_some_and(|size| size <= 1)) {
        return Ok(Some(vec![own()]));
    }
    let mut fabric = MpiFabric::begin_with_threads(&Search::default(), ThreadLevel::Funneled)?;
    let nodes = fabric.nodes()?;
    let mut pause = || std::thread::sleep(PAUSE);
    fabric.barrier(&mut pause)?;
    let rank = fabric.rank();
    let leads = nodes.of_rank(rank).and_then(|node| nodes.leader(node)) == Some(rank);
    let done = leads.then(own);
    fabric.barrier(&mut pause)?;
    let all = gather::values_to_root(&mut fabric, done.as_ref())?;
    if rank.get() > 0 {
        return Ok(None);
    }
    Ok(Some(each(&nodes, all)))
}

/// The result of each node, from those of all ranks. A node without one has an error; errors name
/// the node.
fn each<T>(nodes: &Nodes, all: Vec<Option<Result<T, String>>>) -> Vec<Result<T, String>> {
    let named = gather::by_node(nodes, all).into_iter().zip(nodes.names());
    named
        .map(|(sent, name)| {
            let sent = sent.unwrap_or_else(|| Err("it sent nothing".to_owned()));
            sent.map_err(|why| format!("node {name}: {why}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_result_is_missing_is_named() {
        // Ranks 0 and 2 on n0, 1 and 3 on n1, 4 on n4.
        let hosts = ["n0", "n1", "n0", "n1", "n4"].map(str::to_owned);
        let nodes = Nodes::from_leaders(&[0, 1, 0, 1, 4], &hosts);
        let sent = vec![Some(Ok(7)), None, None, None, Some(Err("no".to_owned()))];
        assert_eq!(
            each(&nodes, sent),
            [
                Ok(7),
                Err("node n1: it sent nothing".to_owned()),
                Err("node n4: no".to_owned())
            ]
        );
    }
}
