//! Message times of a row on a network with one bandwidth, and sums of such terms that fit measured
//! times best.

use super::table::{ContentionRow, Exchange};
use crate::described::{Description, Part, described};
use crate::error::NetworkError;
use crate::parameters::{Adapter, NetworkParameters};
use crate::play::play;
use crate::program::Program;
use crate::quantity::Quantity;
use crate::resources::{Network, Place};
use idlewave_simulate::collectives::{Algorithms, Kind, Library};
use idlewave_topology::{FatTree, NodeIndex, Routing, Topology};
use idlewave_units::BytesPerSecond;

/// Bytes of counters that the integer sort allreduces before each exchange.
const COUNTS: u64 = 4 * 1_029;

/// Where the messages of a row are slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Where {
    /// Adapters of this many bytes per second; within a node the assumed bandwidth.
    Adapters(f64),
    /// One link of this many bytes per second between two halves of the nodes, with such adapters.
    Halves { link: f64, adapters: f64 },
}

/// Seconds of a row's messages.
pub(super) fn transfers(
    row: &ContentionRow,
    exchange: &Exchange,
    library: Library,
    slow: Where,
) -> Result<f64, NetworkError> {
    let adapter = match slow {
        Where::Adapters(rate) | Where::Halves { adapters: rate, .. } => rate,
    };
    let mut parameters = NetworkParameters::assumed("a table", adapter);
    parameters.adapter = Adapter {
        out: Quantity::stated(adapter),
        into: Quantity::stated(adapter),
        both: None,
    };
    parameters.outside.bandwidth = Quantity::stated(adapter);
    let topology = match slow {
        Where::Halves { link, .. } if row.nodes > 1 => {
            let tree = Topology::fat_tree(FatTree {
                nodes_per_leaf: row.nodes.div_ceil(2),
                leaves: 2,
                spines: 1,
                cables_per_spine: 1,
                pods: None,
            })?;
            match BytesPerSecond::new(link) {
                Some(rate) => tree.with_uplink_capacity(rate),
                None => tree,
            }
        }
        _ => Topology::star(row.nodes as usize)?,
    };
    let network = Network::new(topology, parameters, Routing::Deterministic)?;
    let pairs = f64::from(row.ranks) * f64::from(row.ranks);
    let description = Description {
        ranks: row.ranks,
        phases: vec![
            Part::Collective(Kind::Allreduce, COUNTS),
            Part::Collective(Kind::Alltoall, 4),
            Part::Collective(Kind::Alltoallv, (exchange.bytes / pairs).round() as u64),
        ],
    };
    let algorithms = Algorithms::of_library(library);
    let schedule = described(&description, 1, &algorithms)
        .map_err(|error| NetworkError::Samples(error.to_string()))?;
    let program = Program::new(&schedule)?;
    let place = |rank: u32| Place {
        node: NodeIndex::new((rank / row.per_node) as usize),
        domain: 0,
    };
    let places: Vec<Place> = (0..row.ranks).map(place).collect();
    let stage = network.stage(&program, &places, 1)?;
    Ok(play(&program, &stage).makespan_ns() as f64 * 1e-9 * exchange.calls)
}

/// Non-negative factors for which the sums of the terms fit the times best, by relative errors.
/// `None` if no such factors exist.
///
/// There are few terms, so all subsets of non-zero ones are tried, each by its normal equations.
pub(super) fn factors(terms: &[Vec<f64>], times: &[f64]) -> Option<Vec<f64>> {
    let count = terms.first()?.len();
    let mut best: Option<(f64, Vec<f64>)> = None;
    for set in 1_u32..1 << count {
        let taken: Vec<usize> = (0..count).filter(|i| set >> i & 1 == 1).collect();
        if taken.len() > times.len() {
            continue;
        }
        let scaled: Vec<Vec<f64>> = terms
            .iter()
            .zip(times)
            .map(|(own, time)| taken.iter().map(|i| own[*i] / time).collect())
            .collect();
        let product = |i: usize, j: usize| scaled.iter().map(|row| row[i] * row[j]).sum::<f64>();
        let of = |i: usize| scaled.iter().map(|row| row[i]).sum::<f64>();
        let size = taken.len();
        let matrix: Vec<Vec<f64>> = (0..size)
            .map(|i| (0..size).map(|j| product(i, j)).collect())
            .collect();
        let Some(found) = solve(matrix, (0..size).map(of).collect()) else {
            continue;
        };
        if found
            .iter()
            .any(|factor| !factor.is_finite() || *factor < 0.0)
        {
            continue;
        }
        let sum = |row: &Vec<f64>| row.iter().zip(&found).map(|(a, b)| a * b).sum::<f64>();
        let error: f64 = scaled.iter().map(|row| (sum(row) - 1.0).powi(2)).sum();
        if best.as_ref().is_none_or(|(least, _)| error < least - 1e-12) {
            let mut all = vec![0.0; count];
            for (i, factor) in taken.into_iter().zip(found) {
                all[i] = factor;
            }
            best = Some((error, all));
        }
    }
    best.map(|(_, all)| all)
}

/// Gaussian elimination with pivoting; `None` if singular.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let size = right.len();
    for at in 0..size {
        let largest =
            (at..size).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))?;
        matrix.swap(at, largest);
        right.swap(at, largest);
        let pivot = matrix[at][at];
        if pivot.abs() < 1e-12 {
            return None;
        }
        for other in (0..size).filter(|other| *other != at) {
            let factor = matrix[other][at] / pivot;
            let row = matrix[at].clone();
            for (value, above) in matrix[other].iter_mut().zip(row) {
                *value -= factor * above;
            }
            right[other] -= factor * right[at];
        }
    }
    Some((0..size).map(|at| right[at] / matrix[at][at]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_a_sum_of_terms_give_its_factors() {
        let terms: Vec<Vec<f64>> = (1..6).map(|i| vec![1.0, f64::from(i * i)]).collect();
        let times: Vec<f64> = terms.iter().map(|t| 2.0 + 0.5 * t[1]).collect();
        let found = factors(&terms, &times).unwrap();
        assert!((found[0] - 2.0).abs() < 1e-9 && (found[1] - 0.5).abs() < 1e-9);
        // A negative time is impossible: the term is left out.
        let times: Vec<f64> = terms.iter().map(|t| 3.0 * t[1] - 1.0).collect();
        assert_eq!(factors(&terms, &times).unwrap()[0], 0.0);
        assert_eq!(factors(&[], &[]), None);
    }
}
