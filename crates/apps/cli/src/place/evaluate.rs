//! `idlewave place --evaluate MAPPING`: predicts the time of a given mapping and compares it with
//! the default and the recommended placement.

use super::answer::{Answer, Given};
use super::files::names;
use super::format::{host_list, time_with_range, wrap};
use super::words::{interval, limit};
use crate::exit::{Exit, Failure};
use crate::files::read_text;
use idlewave_network::{Estimate, Network, Predicted};
use idlewave_place::{
    GivenError, GivenRank, Job, MemoryVerdict, Subject, given_candidate, read_given,
    read_given_line,
};
use idlewave_topology::Vertex;
use idlewave_units::show::{self, factor};
use serde_json::{Value, json};
use std::path::Path;

/// The largest mapping, in bytes: a million ranks with long names.
const MOST_BYTES: usize = 256 << 20;

const FORMS: &str = "give a rank file or host file of Open MPI, MPICH or Slurm, or nodes with their ranks: \"n1:0-3 n2:4-7\"";

/// Reads the mapping of this many ranks: a file, or nodes with their ranks if there is no such
/// file.
pub fn read(mapping: &str, ranks: u32) -> Result<Vec<GivenRank>, Failure> {
    let path = Path::new(mapping);
    let in_line = mapping.contains(':') && !mapping.contains('/') && !path.exists();
    let read = match in_line {
        true => read_given_line(mapping, ranks),
        false => read_given(&read_text(path, MOST_BYTES, FORMS, None)?, ranks),
    };
    read.map_err(|error| {
        let next = match &error {
            GivenError::Ranks { .. } => "give a mapping with as many ranks as the program has",
            GivenError::Elsewhere => "give that file: --evaluate slurm_hostfile",
            _ => FORMS,
        };
        let (exit, what) = match in_line {
            true => (Exit::Usage, format!("use --evaluate: {error}")),
            false => (Exit::Bundle, format!("use --evaluate {mapping}: {error}")),
        };
        Failure::new(exit, what).with_next(next)
    })
}

/// Simulates the mapping; also returns warnings about it.
pub fn judge(mapping: &str, on: &Subject<'_>, job: &Job) -> Result<(Given, Vec<String>), Failure> {
    let given = read(mapping, on.program.ranks())?;
    let candidate = given_candidate(on.network, on.program, job, &given)?;
    let topology = on.network.topology();
    let busy: Vec<String> = candidate
        .nodes
        .iter()
        .filter(|node| !topology.nodes()[node.get()].is_available())
        .map(|node| topology.name(Vertex::Node(*node)).to_owned())
        .collect();
    let mut warnings = Vec::new();
    if !busy.is_empty() {
        warnings.push(format!(
            "--evaluate puts ranks on nodes that are not available now: {}",
            host_list(&busy)
        ));
    }
    if let MemoryVerdict::Exceeds {
        node,
        needed,
        there,
    } = candidate.memory
    {
        let name = topology.name(Vertex::Node(node));
        warnings.push(format!(
            "--evaluate does not fit into memory: {name} needs {needed} and has {there}"
        ));
    }
    let advised = on.judge(candidate, job)?;
    let name = mapping.to_owned();
    Ok((Given { name, advised }, warnings))
}

/// Compares this time with another one, in words.
fn against(given: &Estimate, other: &Estimate, what: &str) -> String {
    let ratio = given.ratio(other);
    let seconds = other.seconds.value;
    match (given.differs_from(other), ratio.value >= 1.0) {
        (false, _) => format!(
            "no significant difference from {what}, {}",
            time_with_range(&other.seconds)
        ),
        (true, true) => format!(
            "{} as long as {what}, {} ({} to {})",
            factor(ratio.value),
            show::seconds(seconds),
            factor(ratio.low),
            factor(ratio.high)
        ),
        (true, false) => format!(
            "faster than {what}: {what} takes {}, {} as long ({} to {})",
            show::seconds(seconds),
            factor(1.0 / ratio.value),
            factor(1.0 / ratio.high),
            factor(1.0 / ratio.low)
        ),
    }
}

/// Writes the given mapping's part of the table.
pub fn text(out: &mut String, given: &Given, answer: &Answer<'_>) {
    let (own, advice) = (&given.advised, answer.advice);
    let nodes = names(answer.network, &own.candidate);
    wrap(
        out,
        "",
        &format!(
            "GIVEN {}: up to {} on each of {}: {}",
            given.name,
            idlewave_units::counted(own.candidate.ranks_per_node, "rank"),
            idlewave_units::counted(nodes.len() as u32, "node"),
            host_list(&nodes)
        ),
    );
    for line in lines(given, answer.network, advice) {
        wrap(out, "  ", &line);
    }
    out.push('\n');
}

/// The results, one per line.
pub fn lines(given: &Given, network: &Network, advice: &idlewave_place::Advice) -> Vec<String> {
    let own = &given.advised.estimate;
    let (best, default) = (&advice.rows[advice.best], &advice.rows[advice.default]);
    let mut lines = vec![
        format!(
            "predicted {}; {} takes {} of it",
            time_with_range(&own.seconds),
            limit(own, network),
            show::percent(own.limit_share)
        ),
        against(own, &best.estimate, "the placement to take"),
    ];
    if advice.best != advice.default {
        lines.push(against(own, &default.estimate, "the default"));
    }
    lines
}

/// The given mapping's part of the JSON.
pub fn as_json(given: &Given, answer: &Answer<'_>) -> Value {
    let own = &given.advised;
    let (best, default) = (
        &answer.advice.rows[answer.advice.best],
        &answer.advice.rows[answer.advice.default],
    );
    let ratio = |other: &Estimate| {
        let Predicted { value, low, high } = own.estimate.ratio(other);
        let significant = own.estimate.differs_from(other);
        json!({ "value": value, "low": low, "high": high, "significant": significant })
    };
    let ranks = own.candidate.places.iter().map(|place| {
        let node = answer.network.topology().name(Vertex::Node(place.node));
        json!({ "node": node, "domain": place.domain })
    });
    json!({
        "what": given.name,
        "ranks_per_node": own.candidate.ranks_per_node,
        "nodes": names(answer.network, &own.candidate),
        "ranks": ranks.collect::<Vec<_>>(),
        "seconds": interval(&own.estimate.seconds),
        "node_seconds": own.node_seconds,
        "limit": limit(&own.estimate, answer.network),
        "limit_share": own.estimate.limit_share,
        "over_best": ratio(&best.estimate),
        "over_default": ratio(&default.estimate),
    })
}
