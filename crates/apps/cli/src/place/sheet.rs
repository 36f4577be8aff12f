//! The answer as plain data, from which table, page and JSON are made.

use super::answer::Answer;
use super::evaluate;
use super::files::names;
use super::load;
use super::words::{how, interval, limit, scotch};
use crate::exit::{Exit, Failure};
use idlewave_network::{Estimate, Parameter, Resource};
use idlewave_place::{Advised, Candidate, MemoryVerdict, Replayed, Subject};
use idlewave_report::{
    LinkLoad, LoadPicture, MemoryFit, NodeLoad, PlacementFile, PlacementRow, PlacementSheet,
    SwitchSheet,
};
use idlewave_topology::{NodeIndex, Vertex};
use idlewave_units::BytesPerSecond;
use idlewave_units::counted;
use idlewave_units::show;
use serde_json::Value;
use std::collections::HashMap;

/// What the model does not cover, for any placement.
const NOT_MODELLED: [&str; 5] = [
    "packets: loss, retransmission, incast collapse and congestion trees; flows share each resource fairly at every moment",
    "adaptive routing: a pair of nodes uses one path, or all shortest paths in equal parts",
    "noise, and computation that varies: recorded computation takes the same time on every node",
    "the traffic of running jobs, unless given with --load",
    "collectives that take nodes into account (hierarchical ones), and those of the network hardware",
];

/// Builds the sheet of an answer.
pub fn of(answer: &Answer<'_>) -> Result<PlacementSheet, Failure> {
    let advice = answer.advice;
    let rows = advice.rows.iter().map(|row| row_of(row, answer)).collect();
    let (mut assumed, mut warnings) = (answer.notes.clone(), answer.warnings.clone());
    if advice.left_out > 0 {
        assumed.push(format!(
            "{} placements were judged by their loads alone and are not shown",
            advice.left_out
        ));
    }
    let (best, default) = (&advice.rows[advice.best], &advice.rows[advice.default]);
    if let MemoryVerdict::Exceeds {
        node,
        needed,
        there,
    } = best.candidate.memory
    {
        let name = answer.network.topology().name(Vertex::Node(node));
        let much = format!(
            "no placement fits into memory: {name} needs {needed} and has {there}; \
             use more nodes, or a smaller problem"
        );
        warnings.insert(0, much);
    }
    if let (MemoryVerdict::Unknown, Some(each)) =
        (&best.candidate.memory, answer.job.memory_per_rank)
    {
        assumed.push(format!(
            "ranks of {each} are assumed to fit: the memory of the nodes is not known"
        ));
    }
    Ok(PlacementSheet {
        what: answer.what.to_owned(),
        network: answer.network_in_words.to_owned(),
        details: details(answer),
        command: std::env::args_os()
            .map(|a| a.to_string_lossy().into_owned())
            .collect(),
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        seed: answer.seed,
        rows,
        best: advice.best,
        baseline: Some(advice.default),
        chosen: Some(picture(answer, &best.candidate)?),
        baseline_loads: match advice.best == advice.default {
            true => None,
            false => Some(picture(answer, &default.candidate)?),
        },
        files: answer
            .files
            .iter()
            .map(|(name, content)| PlacementFile {
                name: name.clone(),
                content: content.clone(),
            })
            .collect(),
        not_modelled: NOT_MODELLED.map(str::to_owned).to_vec(),
        assumed,
        warnings,
    })
}

fn details(answer: &Answer<'_>) -> Vec<String> {
    let program = &answer.subject.program;
    let bytes: u64 = program.messages().iter().map(|m| m.bytes).sum();
    let repeated = match answer.subject.times {
        1.0 => String::new(),
        times => format!(", {times} times"),
    };
    let mut details = vec![format!(
        "{} of {:.1} MB together are simulated{repeated}",
        counted(program.messages().len(), "message"),
        bytes as f64 / 1e6
    )];
    if let Some(memory) = answer.subject.memory_per_rank {
        details.push(format!("each rank needs {memory}"));
    }
    details.push(format!(
        "computation as measured with {} per node",
        counted(answer.subject.measured_with, "rank")
    ));
    let parameters = answer.network.parameters();
    details.push(format!(
        "adapters {} out and {} in, a message alone {}, latency {}, memory {}; misfit of long messages {} between nodes",
        BytesPerSecond::scaled_text(parameters.adapter.out.value),
        BytesPerSecond::scaled_text(parameters.adapter.into.value),
        BytesPerSecond::scaled_text(parameters.outside.bandwidth.value),
        show::time(parameters.outside.latency_ns.value),
        BytesPerSecond::scaled_text(parameters.memory.value),
        show::percent(parameters.misfit.outside),
    ));
    details.extend(scotch(answer));
    if let Some(effect) = &answer.effect {
        details.extend(load::lines(effect, answer));
    }
    if let Some(given) = &answer.given {
        let said = evaluate::lines(given, answer.network, answer.advice);
        details.push(format!("given {}: {}", given.name, said.join("; ")));
    }
    details
}

fn row_of(row: &Advised, answer: &Answer<'_>) -> PlacementRow {
    let (candidate, estimate) = (&row.candidate, &row.estimate);
    PlacementRow {
        ranks_per_node: candidate.ranks_per_node,
        nodes: candidate.nodes.len() as u32,
        how: how(candidate),
        seconds: interval(&estimate.seconds),
        node_seconds: row.node_seconds,
        limit: limit(estimate, answer.network),
        limit_share: estimate.limit_share,
        memory: match candidate.memory {
            MemoryVerdict::Fits => MemoryFit::Fits,
            MemoryVerdict::Exceeds { .. } => MemoryFit::Exceeds,
            MemoryVerdict::Unknown => MemoryFit::Unknown,
        },
        same_as_best: row.same_as_best,
        // The bound covers only the simulated part; the other times cover the whole program.
        bound_seconds: candidate.bound_seconds * answer.subject.times,
        lower_bound_seconds: row.lower_bound_seconds,
        parts: parts(estimate),
    }
}

/// Shares of the time by parts that users know; like those of the estimate, they add up to 1.
fn parts(estimate: &Estimate) -> Vec<(String, f64)> {
    let names = [
        "computation",
        "overhead",
        "latency",
        "messages alone",
        "memory",
        "adapters",
        "links",
        "switches",
    ];
    let place = |parameter: &Parameter| match parameter {
        Parameter::SlowDown => 0,
        Parameter::Overhead => 1,
        Parameter::InsideLatency | Parameter::OutsideLatency => 2,
        Parameter::InsideBandwidth | Parameter::OutsideBandwidth => 3,
        Parameter::Memory => 4,
        Parameter::AdapterOut | Parameter::AdapterInto | Parameter::AdapterBoth => 5,
        Parameter::Link => 6,
        Parameter::Switch => 7,
    };
    let mut shares = [0.0; 8];
    for (parameter, share) in &estimate.shares {
        shares[place(parameter)] += share;
    }
    let named = names.iter().zip(shares);
    named
        .map(|(name, share)| ((*name).to_owned(), share))
        .collect()
}

/// The load of every part of the network under a placement.
fn picture(answer: &Answer<'_>, candidate: &Candidate) -> Result<LoadPicture, Failure> {
    let network = answer.network;
    let subject = Subject {
        network,
        program: &answer.subject.program,
        times: answer.subject.times,
    };
    let replayed = subject.replay(candidate, answer.job.measured_with);
    let Replayed { stage, played } = replayed?;
    let loads = stage.loads(subject.program);
    let seconds = played.makespan_ns().max(1) as f64 * 1e-9;
    let topology = network.topology();
    let mut nodes: Vec<NodeLoad> = Vec::new();
    let mut index: HashMap<NodeIndex, usize> = HashMap::new();
    for &node in &candidate.nodes {
        index.insert(node, nodes.len());
        nodes.push(NodeLoad {
            name: topology.name(Vertex::Node(node)).to_owned(),
            leaf: topology.leaf_of(node).map(|leaf| leaf.get()),
            ranks: Vec::new(),
            out: 0.0,
            into: 0.0,
            memory: 0.0,
        });
    }
    for (rank, place) in (0..).zip(&candidate.places) {
        if let Some(&at) = index.get(&place.node) {
            nodes[at].ranks.push(rank);
        }
    }
    let mut links = Vec::new();
    for (at, resource) in network.resources().iter().enumerate() {
        let used = loads[at] / (stage.capacity[at] * seconds);
        let mut of = |node: &NodeIndex, field: fn(&mut NodeLoad) -> &mut f64| {
            if let Some(&place) = index.get(node) {
                let field = field(&mut nodes[place]);
                *field = field.max(used);
            }
        };
        match resource {
            Resource::Memory(node, _) => of(node, |n| &mut n.memory),
            Resource::Link(link) => {
                let link = topology.links()[link.get()];
                match (link.from, link.to) {
                    (Vertex::Node(node), _) => of(&node, |n| &mut n.out),
                    (_, Vertex::Node(node)) => of(&node, |n| &mut n.into),
                    (Vertex::Switch(from), Vertex::Switch(to)) => links.push(LinkLoad {
                        from: from.get(),
                        to: to.get(),
                        bytes: loads[at] * answer.subject.times,
                        utilisation: used,
                    }),
                }
            }
            Resource::Adapter(_) | Resource::Switch(_) => {}
        }
    }
    let switches = topology.switch_indices().zip(topology.switches());
    let switches = switches.map(|(index, switch)| SwitchSheet {
        name: switch.name.clone(),
        at: topology.coordinates(index),
        level: switch.level.map_or(0, |level| level.saturating_sub(1)),
    });
    Ok(LoadPicture {
        nodes,
        switches: switches.collect(),
        links,
    })
}

/// The complete JSON, with the node and memory domain of each rank of the recommended placement.
pub fn as_json(sheet: &PlacementSheet, answer: &Answer<'_>) -> Result<Value, Failure> {
    let wrong = |error| Failure::new(Exit::Other, format!("encode the answer: {error}"));
    let mut value = serde_json::to_value(sheet).map_err(wrong)?;
    let best = &answer.advice.rows[answer.advice.best].candidate;
    let of_rank = |place: &idlewave_network::Place| {
        let node = answer.network.topology().name(Vertex::Node(place.node));
        serde_json::json!({ "node": node, "domain": place.domain })
    };
    value["ranks"] = Value::Array(best.places.iter().map(of_rank).collect());
    value["nodes"] = names(answer.network, best).into();
    if let Some(given) = &answer.given {
        value["given"] = evaluate::as_json(given, answer);
    }
    if let Some(effect) = &answer.effect {
        value["load"] = load::as_json(effect, answer);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_network::{Network, NetworkParameters, Program};
    use idlewave_place::{Advice, Job, Order, advise, candidates};
    use idlewave_topology::{Routing, Topology};
    use idlewave_units::Bytes;

    /// Four ranks in a ring on two nodes, and the advice.
    fn advised() -> (Network, Program, Advice) {
        let topology = Topology::star(2).unwrap().with_cores(2);
        let parameters = NetworkParameters::assumed("test", 1e9);
        let network = Network::new(topology, parameters, Routing::Deterministic).unwrap();
        let messages: Vec<_> = (0..4).map(|r| (r, (r + 1) % 4, 1 << 20)).collect();
        let program = idlewave_place::testing::program_of(4, &messages, 0);
        let subject = Subject {
            network: &network,
            program: &program,
            times: 1.0,
        };
        let job = Job::default();
        let found = candidates(&network, &program, &job).unwrap();
        let advice = advise(&subject, &job, found).unwrap();
        (network, program, advice)
    }

    #[test]
    fn whose_order_is_taken_is_said_where_scotch_was_asked() {
        let (network, program, mut advice) = advised();
        assert!(advice.rows.len() > 1);
        let subject = super::super::subject::Subject {
            what: String::new(),
            program,
            times: 1.0,
            measured_with: 1,
            memory_per_rank: None,
            notes: Vec::new(),
            warnings: Vec::new(),
        };
        let said = |advice: &Advice, asked| {
            let answer = Answer {
                what: "",
                network_in_words: "",
                subject: &subject,
                network: &network,
                job: &Job::default(),
                advice,
                notes: Vec::new(),
                warnings: Vec::new(),
                files: Vec::new(),
                seed: 1,
                scotch: asked,
                given: None,
                effect: None,
            };
            let of = of(&answer).unwrap();
            let details = of.details.iter().any(|line| line.contains("Scotch"));
            assert_eq!(details, asked);
            (scotch(&answer), of.rows[of.best].how.clone())
        };
        assert_eq!(said(&advice, false).0, None);
        assert!(said(&advice, true).0.unwrap().contains("the same as those"));
        advice.left_out = 1;
        assert!(said(&advice, true).0.unwrap().contains("worth simulating"));
        let other = usize::from(advice.best == 0);
        let best = advice.rows[advice.best].estimate.seconds.value;
        advice.rows[other].candidate.how.order = Order::Scotch;
        advice.rows[other].estimate.seconds.value = 3.0 * best;
        let (text, how) = said(&advice, true);
        let text = text.unwrap();
        assert!(
            text.starts_with("the fastest order by Scotch takes"),
            "{text}"
        );
        assert!(
            text.ends_with("x3.00 as long") && !how.contains("Scotch"),
            "{text}"
        );
        // A placement that does not fit into memory is no alternative.
        advice.rows[other].candidate.memory = MemoryVerdict::Exceeds {
            node: NodeIndex::new(0),
            needed: Bytes::new(2),
            there: Bytes::new(1),
        };
        assert!(said(&advice, true).0.unwrap().contains("worth simulating"));
        for row in &mut advice.rows {
            row.candidate.memory = MemoryVerdict::Fits;
            row.candidate.how.order = Order::Block;
        }
        advice.rows[advice.best].candidate.how.order = Order::Scotch;
        let (text, how) = said(&advice, true);
        assert!(
            text.unwrap()
                .contains("is Scotch's; the fastest other one takes")
        );
        assert!(how.ends_with("ranks as Scotch maps them"), "{how}");
    }
}
