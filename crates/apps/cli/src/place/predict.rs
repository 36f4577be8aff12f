//! Predicts each layout of a study: `idlewave place study --network FILE`.

use super::network::{read_parameters, read_topology};
use crate::exit::Failure;
use idlewave_measure::{PlacedRuns, PlacementOutcome};
use idlewave_network::{Network, NetworkParameters, Place, Predicted, Program, play};
use idlewave_place::Loop;
use idlewave_simulate::collectives::Library;
use idlewave_topology::{NodeIndex, Routing, Topology};
use idlewave_workloads::Benchmark;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The inputs of predictions.
pub struct Model {
    parameters: NetworkParameters,
    /// Nodes and switches; without them all nodes are on one switch.
    topology: Option<Topology>,
    /// The MPI library whose rules choose the algorithms of collectives.
    library: Library,
}

impl Model {
    /// Reads its files, so that an invalid one is refused before the measurement.
    pub fn read(
        parameters: &Path,
        topology: &[PathBuf],
        library: Library,
    ) -> Result<Self, Failure> {
        let topology = match topology {
            [] => None,
            files => Some(read_topology(files)?.topology),
        };
        Ok(Self {
            parameters: read_parameters(parameters)?,
            topology,
            library,
        })
    }

    /// Predicts each layout. It takes the computation from the layout with the same number of ranks
    /// and the fewest ranks per node; the parameters say how more ranks on a node slow it down. The
    /// error is text, since the measurements are worth showing even without predictions.
    pub fn predict(
        &self,
        workload: &Benchmark,
        outcome: &PlacementOutcome,
    ) -> Result<Vec<Option<Predicted>>, String> {
        let (topology, nodes) = match &self.topology {
            None => {
                let star = Topology::star(outcome.nodes.len()).map_err(|e| e.to_string())?;
                let nodes: Vec<NodeIndex> = star.node_indices().collect();
                (star, nodes)
            }
            Some(topology) => (topology.clone(), nodes_of_job(topology, &outcome.nodes)?),
        };
        let network = Network::new(topology, self.parameters.clone(), Routing::Deterministic);
        let network = network.map_err(|error| error.to_string())?;
        let measured = outcome.layouts.iter().filter(|l| !l.runs.is_empty());
        let mut of_ranks: BTreeMap<u32, &PlacedRuns> = BTreeMap::new();
        for layout in measured {
            let least = of_ranks.entry(layout.ranks).or_insert(layout);
            if layout.ranks_per_node < least.ranks_per_node {
                *least = layout;
            }
        }
        let one = |layout: &PlacedRuns| {
            let reference = of_ranks.get(&layout.ranks);
            let known = reference.and_then(|r| Some((r, r.estimate(|run| run.computation)?.value)));
            let Some((reference, compute)) = known else {
                return Ok(None);
            };
            let work = (compute * 1e9 / outcome.iterations.max(1) as f64).round() as u64;
            let looped = Loop::of_workload(workload, layout.ranks, work);
            let Some(looped) = looped.map_err(|error| error.to_string())? else {
                return Ok(None);
            };
            let places = (0..layout.ranks).map(|rank| Place {
                node: nodes[(rank / layout.ranks_per_node) as usize],
                domain: 0,
            });
            self.time(
                &network,
                workload,
                &looped,
                &places.collect::<Vec<_>>(),
                reference.ranks_per_node,
            )
            .map(Some)
        };
        outcome.layouts.iter().map(one).collect()
    }

    fn time(
        &self,
        network: &Network,
        workload: &Benchmark,
        looped: &Loop,
        places: &[Place],
        measured_with: u32,
    ) -> Result<Predicted, String> {
        let schedule = looped.schedule(&workload.to_string(), self.library);
        let schedule = schedule.map_err(|error| error.to_string())?;
        let program = Program::new(&schedule).map_err(|error| error.to_string())?;
        let stage = network
            .stage(&program, places, measured_with)
            .map_err(|error| error.to_string())?;
        let played = play(&program, &stage);
        let estimate = network.estimate(&program, &stage, places, &played, looped.times());
        Ok(estimate.seconds)
    }
}

/// The nodes of a topology that have the host names of a job's nodes, in full or up to the first
/// dot.
fn nodes_of_job(topology: &Topology, hosts: &[String]) -> Result<Vec<NodeIndex>, String> {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    let mut by_short: BTreeMap<String, Vec<NodeIndex>> = BTreeMap::new();
    for (node, index) in topology.nodes().iter().zip(topology.node_indices()) {
        by_short.entry(short(&node.name)).or_default().push(index);
    }
    let mut seen = BTreeSet::new();
    let of_host = |host: &String| {
        let index =
            topology
                .node(host)
                .or_else(|| match by_short.get(&short(host)).map(Vec::as_slice) {
                    Some([one]) => Some(*one),
                    _ => None,
                });
        let index = index.ok_or_else(|| no_node(host))?;
        match seen.insert(index) {
            true => Ok(index),
            false => Err(format!("two nodes of the job match {host} of the topology")),
        }
    };
    hosts.iter().map(of_host).collect()
}

fn no_node(host: &str) -> String {
    format!(
        "the topology has no node {host}; give one with the names that `hostname` prints on the nodes, or omit --topology"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(names: &[&str]) -> Topology {
        let text = format!("SwitchName=s Nodes={}\n", names.join(","));
        let read = idlewave_topology::read(text.as_bytes()).unwrap();
        idlewave_topology::combine(vec![read]).unwrap().topology
    }

    #[test]
    fn what_is_too_much_to_predict_is_named() {
        let run = idlewave_measure::PlacedRun {
            total: 1.0,
            collective: 0.5,
            point_to_point: 0.0,
            computation: 0.5,
        };
        let outcome = PlacementOutcome {
            benchmark: "is:S".to_owned(),
            fabric: String::new(),
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            cpus_per_node: 2_048,
            layouts: vec![PlacedRuns {
                ranks: 4_096,
                nodes: 2,
                ranks_per_node: 2_048,
                runs: vec![run],
            }],
            iterations: 10,
            interrupted: false,
            notes: Vec::new(),
            machine: Vec::new(),
        };
        let model = Model {
            parameters: NetworkParameters::assumed("test", 1e9),
            topology: None,
            library: Library::OpenMpi,
        };
        let why = model.predict(&"is:S".parse().unwrap(), &outcome);
        let why = why.unwrap_err();
        assert!(why.starts_with("place is:S: it has"), "{why}");
    }

    #[test]
    fn nodes_of_a_job_are_found_by_their_names() {
        let topology = topology(&["n1", "n2", "n3.a", "n3.b"]);
        let found = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|h| (*h).to_owned()).collect();
            nodes_of_job(&topology, &hosts)
                .map(|nodes| nodes.iter().map(|n| n.get()).collect::<Vec<_>>())
        };
        assert_eq!(found(&["n2", "n1"]), Ok(vec![1, 0]));
        assert_eq!(found(&["n2.cluster", "n3.b"]), Ok(vec![1, 3]));
        for (hosts, said) in [
            (["n1", "n9"], no_node("n9")),
            (["n1", "n3"], no_node("n3")),
            (
                ["n1", "n1.x"],
                "two nodes of the job match n1.x of the topology".to_owned(),
            ),
        ] {
            assert_eq!(found(&hosts), Err(said));
        }
    }
}
