//! Blocks of nodes, as Slurm's block plugin describes them: a switch each, and one above them all.

use super::tree::{self, Parent};
use crate::read::ReadError;
use crate::topology::{Topology, free_name};
use std::collections::HashSet;

/// What is said where blocks were read.
pub(super) const NOTE: &str = "blocks say nothing of what joins them: each is taken as a switch, and one above them as what joins them";

/// Makes a topology of blocks, of which none lies in another.
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

/// Checks sizes of blocks, which change nothing here.
pub(super) fn check_sizes(line: usize, sizes: &str) -> Result<(), ReadError> {
    for size in sizes.split(',') {
        match size.trim().parse::<u32>() {
            Ok(1..) => {}
            _ => {
                let why = "the sizes of blocks are numbers of nodes, 1 or more";
                return Err(ReadError::line(line, size, why));
            }
        }
    }
    Ok(())
}
