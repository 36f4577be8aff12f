//! Blocks of nodes, as Slurm's block plugin describes them: a switch for each, and one above all.

use super::tree::{self, Parent};
use crate::read::ReadError;
use crate::topology::{Topology, free_name};
use std::collections::HashSet;

/// The note after reading blocks.
pub(super) const NOTE: &str =
    "blocks do not say what connects them: each counts as a switch, below one common switch";

/// Builds a topology of disjoint blocks.
pub(super) fn topology(mut blocks: Vec<Parent>) -> Result<Topology, ReadError> {
    if blocks.len() > 1 {
        let names: HashSet<&str> = blocks.iter().map(|b| b.name.as_str()).collect();
        let name = free_name("blocks", |name| names.contains(name));
        let listed: Vec<&str> = blocks.iter().map(|b| b.name.as_str()).collect();
        let above = Parent {
            name,
            line: blocks.last().map_or(1, |b| b.line),
            switches: listed.join(","),
            ..Parent::default()
        };
        blocks.push(above);
    }
    tree::topology(&blocks)
}

/// Checks the sizes of blocks, which are otherwise ignored.
pub(super) fn check_sizes(line: usize, sizes: &str) -> Result<(), ReadError> {
    for size in sizes.split(',') {
        match size.trim().parse::<u32>() {
            Ok(1..) => {}
            _ => {
                let why = "block sizes must be numbers of nodes, 1 or more";
                return Err(ReadError::line(line, size, why));
            }
        }
    }
    Ok(())
}
