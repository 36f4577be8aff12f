//! Exhaustive search for small programs, the reference for the heuristics.

use crate::error::PlaceError;
use crate::loads::{Loads, Objective, unit};
use crate::slots::of_domains;
use crate::traffic::Traffic;
use crate::ways::Ways;
use idlewave_network::{Network, NetworkError, Place, Program};
use idlewave_topology::NodeIndex;

/// The best of all placements.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The place of each rank, in the first optimum.
    pub places: Vec<Place>,
    /// Its objective in seconds, like
    /// [`Candidate::bound_seconds`](crate::Candidate::bound_seconds).
    pub bound_seconds: f64,
    /// Number of placements scored.
    pub tried: u64,
}

struct Every<'t, 'n> {
    traffic: &'t Traffic,
    ways: Ways<'n>,
    /// Sites with their free slots.
    sites: Vec<(u32, u32)>,
    at: Vec<u32>,
    best: Option<(Objective, Vec<u32>)>,
    tried: u64,
    limit: u64,
}

/// Scores all assignments of ranks to memory domains of these nodes with at most this many ranks on
/// each node. Every assignment is scored from scratch. Slots of the same domain are equivalent and
/// count once.
///
/// # Errors
/// More assignments than `limit`, fewer slots than ranks, or nodes that are not connected.
pub fn exhaustive(
    network: &Network,
    program: &Program,
    nodes: &[NodeIndex],
    per_node: u32,
    measured_with: u32,
    limit: u64,
) -> Result<Optimum, PlaceError> {
    let traffic = Traffic::new(program);
    let ranks = program.ranks();
    let ways = Ways::new(network, unit(network, &traffic), ranks, measured_with);
    let mut sites = Vec::new();
    for &node in nodes {
        if node.get() >= network.topology().nodes().len() {
            let (index, count) = (node.get(), network.topology().nodes().len());
            return Err(PlaceError::NoSuchNode { index, count });
        }
        let first = ways.site(Place { node, domain: 0 });
        sites.extend((first..).zip(of_domains(per_node, ways.cores(node))));
    }
    let mut every = Every {
        traffic: &traffic,
        ways,
        sites,
        at: Vec::with_capacity(ranks as usize),
        best: None,
        tried: 0,
        limit,
    };
    every.place_next()?;
    match every.best {
        Some((objective, at)) => Ok(Optimum {
            bound_seconds: objective.bound as f64 * every.ways.unit(),
            places: at.into_iter().map(|s| every.ways.place(s)).collect(),
            tried: every.tried,
        }),
        None => Err(PlaceError::TooFewNodes {
            ranks,
            per_node,
            nodes: nodes.len(),
            // All nodes were tried, whatever part they belong to.
            parts: 1,
        }),
    }
}

impl Every<'_, '_> {
    fn place_next(&mut self) -> Result<(), PlaceError> {
        if self.at.len() == self.traffic.ranks() as usize {
            return self.judge();
        }
        for site in 0..self.sites.len() {
            if self.sites[site].1 > 0 {
                self.sites[site].1 -= 1;
                self.at.push(self.sites[site].0);
                self.place_next()?;
                self.at.pop();
                self.sites[site].1 += 1;
            }
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<(), PlaceError> {
        if self.tried == self.limit {
            return Err(PlaceError::TooMany { limit: self.limit });
        }
        self.tried += 1;
        let objective = self.objective()?;
        if self.best.as_ref().is_none_or(|best| objective < best.0) {
            self.best = Some((objective, self.at.clone()));
        }
        Ok(())
    }

    fn objective(&mut self) -> Result<Objective, NetworkError> {
        Ok(Loads::new(self.traffic, &mut self.ways, self.at.clone())?.objective())
    }
}

#[cfg(test)]
#[path = "exhaustive_tests.rs"]
mod tests;
