//! A command line for Flux.
//!
//! Sources: flux-run(1) and flux-submit(1), `--nodes`, `--tasks-per-node`, `--requires`,
//! `--taskmap`; Flux RFC 34 (task map) and RFC 29 (host lists).

use super::order::{Order, by_name, places_by_name};
use super::{Assignment, fold_hostlist};
use idlewave_units::foreign::shell_line;

/// Options of the command line besides the placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluxOptions {
    /// "run" waits for the program, "submit" does not.
    pub submit: bool,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// The command line that starts the program in this placement.
///
/// Flux uses the nodes of a job in broker order, which is assumed to be the order of their names.
/// Nodes are allocated whole, since uneven rank counts require it. The command has a task map by
/// node unless block order or "cyclic:N" describes the placement.
pub fn flux_command(assignment: &Assignment, options: &FluxOptions) -> String {
    let nodes = assignment.nodes().len();
    let mut all = vec![
        "flux".to_owned(),
        if options.submit { "submit" } else { "run" }.to_owned(),
        format!("--nodes={nodes}"),
    ];
    // The two ways to give the number of tasks are mutually exclusive.
    let even = assignment.even();
    all.push(match even {
        Some(k) => format!("--tasks-per-node={k}"),
        None => format!("--ntasks={}", assignment.ranks().len()),
    });
    all.push("--exclusive".to_owned());
    let names = assignment.nodes().iter().map(|n| n.name.as_str());
    all.push(format!("--requires=host:{}", fold_hostlist(names)));
    match (Order::of(assignment), even) {
        (Order::Block, Some(_)) if by_name(assignment) => {}
        (Order::Cyclic, Some(_)) if by_name(assignment) => all.push("--taskmap=cyclic".to_owned()),
        (Order::Plane(size), Some(_)) if by_name(assignment) => {
            all.push(format!("--taskmap=cyclic:{size}"));
        }
        _ => all.push(format!("--taskmap=manual:{}", flux_taskmap(assignment))),
    }
    all.extend(options.command.iter().cloned());
    shell_line(&all)
}

/// The task map of RFC 34, by the index of each node in name order: blocks of [node, nodes, ranks
/// per node, repetitions].
pub fn flux_taskmap(assignment: &Assignment) -> String {
    let places = places_by_name(assignment);
    let of_ranks: Vec<usize> = assignment.ranks().iter().map(|s| places[s.node]).collect();
    let blocks = blocks(&of_ranks);
    let texts: Vec<String> = blocks
        .iter()
        .map(|b| format!("[{},{},{},{}]", b.node, b.nodes, b.ranks, b.repeat))
        .collect();
    format!("[{}]", texts.join(","))
}

#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) node: usize,
    pub(super) nodes: usize,
    pub(super) ranks: usize,
    pub(super) repeat: usize,
}

/// Finds runs of ranks on a node. Runs of equal length on consecutive nodes form a block; equal
/// consecutive blocks are repetitions.
pub(super) fn blocks(nodes: &[usize]) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    for run in nodes.chunk_by(|a, b| a == b) {
        let (node, ranks) = (run[0], run.len());
        match out.last_mut() {
            Some(last) if last.node + last.nodes == node && last.ranks == ranks => last.nodes += 1,
            _ => out.push(Block {
                node,
                nodes: 1,
                ranks,
                repeat: 1,
            }),
        }
    }
    out.chunk_by(|a, b| (a.node, a.nodes, a.ranks) == (b.node, b.nodes, b.ranks))
        .map(|same| Block {
            repeat: same.len(),
            ..same[0]
        })
        .collect()
}
