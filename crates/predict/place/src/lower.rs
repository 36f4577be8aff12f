//! Lower bounds on the time of any placement: they limit how far a placement is from the best
//! possible one.

use crate::traffic::Traffic;
use idlewave_network::{Least, Message, Network, Program};
use idlewave_topology::{NodeIndex, Vertex};

/// The least time of every placement of a program, seconds. [`seconds`](Self::seconds) is the
/// larger of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowerBound {
    /// The longest chain of operations and messages, each message on the cheaper of a route within
    /// a node and an exclusive one between two nodes.
    pub chain_seconds: f64,
    /// Traffic that must leave or enter nodes, over the capacity of their cables.
    pub volume_seconds: f64,
}

impl LowerBound {
    /// No placement is faster.
    pub fn seconds(&self) -> f64 {
        self.chain_seconds.max(self.volume_seconds)
    }
}

/// Capacity of all cables of a node, out and in, bytes per second.
fn cables(network: &Network, nodes: &[NodeIndex]) -> [Vec<f64>; 2] {
    let mut both = [0, 1].map(|_| vec![0.0; network.topology().nodes().len()]);
    for (resource, &capacity) in network.resources().iter().zip(network.capacity()) {
        if let idlewave_network::Resource::Link(link) = resource {
            let link = network.topology().links()[link.get()];
            for (side, end) in [link.from, link.to].into_iter().enumerate() {
                if let Vertex::Node(node) = end {
                    both[side][node.get()] += capacity;
                }
            }
        }
    }
    both.map(|all| nodes.iter().map(|n| all[n.get()]).collect())
}

/// Sum of the `count` largest numbers.
fn largest(mut numbers: Vec<f64>, count: usize) -> f64 {
    numbers.sort_unstable_by(|a, b| b.total_cmp(a));
    numbers.iter().take(count).sum()
}

/// A lower bound on the time of every placement of the program on `count` of these nodes, with at
/// most `per_node` ranks on each.
///
/// **Chain.** [`Program::least_ns`] is a bound for every stage whose computations, overheads,
/// latencies and transfers are not below those that it is given. A rank computes with between r and
/// `per_node` ranks on its node, where r = ranks - (`count` - 1) `per_node`, or 1 if that is less:
/// the other nodes cannot hold more. So no rank's slow-down is below the least slow-down for these
/// rank counts. A message within a node has the latency of such messages and moves no faster than a
/// single one does, nor faster than memory. A message between nodes has at least the latency of one
/// switch and moves no faster than the fastest node's cables. Each message gets the lower latency
/// and the shorter transfer of the two, or those of the only kind that is possible.
///
/// **Volume.** A rank has at most `per_node` - 1 other ranks on its node, so what it sends to all
/// but its heaviest `per_node` - 1 partners must leave the node. In a time T the cables out of a
/// node move at most T times their capacity; the cables of all nodes in use move at most T times
/// the sum of the `count` largest capacities. Everything that must leave does so within T. Hence T
/// is at least the sum of this traffic over all ranks, divided by that sum of capacities. The same
/// holds for what ranks receive and the cables into nodes.
///
/// Both hold for [`play`](idlewave_network::play) on the stage of any such placement. Neither
/// accounts for ranks that cannot both have their partners next to them, for switches, or for
/// messages that wait for each other's bandwidth.
pub fn lower_bound(
    network: &Network,
    program: &Program,
    nodes: &[NodeIndex],
    per_node: u32,
    count: usize,
    measured_with: u32,
) -> LowerBound {
    let caps = cables(network, nodes);
    LowerBound {
        chain_seconds: chain(network, program, per_node, count, measured_with, &caps),
        volume_seconds: volume(program, per_node, count, caps),
    }
}

fn chain(
    network: &Network,
    program: &Program,
    per_node: u32,
    count: usize,
    measured_with: u32,
    caps: &[Vec<f64>; 2],
) -> f64 {
    let p = network.parameters();
    let elsewhere = (count.max(1) - 1) as u64 * u64::from(per_node);
    let fewest = u64::from(program.ranks()).saturating_sub(elsewhere).max(1);
    let fewest = fewest.min(u64::from(per_node)) as u32;
    let slow = (fewest..=per_node).map(|k| p.slow_down(k).value);
    let fastest = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    let between = p
        .outside
        .bandwidth
        .value
        .min(fastest(&caps[0]))
        .min(fastest(&caps[1]));
    let within = p.inside.bandwidth.value.min(p.memory.value);
    let latencies = (
        p.inside.latency_ns.value.round(),
        p.outside.latency_ns.value.round(),
    );
    let message = |message: &Message| {
        let inside = per_node > 1 || message.from == message.to;
        let outside = count > 1 && message.from != message.to;
        let (bandwidth, latency) = match (inside, outside) {
            (true, false) => (within, latencies.0),
            (false, true) => (between, latencies.1),
            _ => (within.max(between), latencies.0.min(latencies.1)),
        };
        // Rounding of many parts must not make the bound too large.
        let transfer = message.bytes as f64 * 1e9 / bandwidth * (1.0 - 1e-9);
        (transfer as u64, latency as u64)
    };
    let least = Least {
        slow_down: slow.fold(f64::INFINITY, f64::min) / p.slow_down(measured_with.max(1)).value,
        overhead_ns: p.overhead_ns.value.round() as u64,
        eager_limit: p.eager_limit,
    };
    program.least_ns(least, message) as f64 * 1e-9
}

fn volume(program: &Program, per_node: u32, count: usize, caps: [Vec<f64>; 2]) -> f64 {
    let traffic = Traffic::new(program);
    let mut must = [0_u64; 2];
    let mut bytes: Vec<u64> = Vec::new();
    for rank in 0..traffic.ranks() {
        for (side, sum) in must.iter_mut().enumerate() {
            bytes.clear();
            bytes.extend(
                traffic
                    .partners(rank)
                    .map(|(_, out, into)| [out, into][side]),
            );
            bytes.sort_unstable_by_key(|&b| std::cmp::Reverse(b));
            *sum += bytes.iter().skip(per_node.max(1) as usize - 1).sum::<u64>();
        }
    }
    let seconds = caps.into_iter().zip(must).map(|(caps, bytes)| match bytes {
        0 => 0.0,
        // A replay counts whole nanoseconds and neglects a millionth of a byte.
        bytes => (bytes as f64 / largest(caps, count) * (1.0 - 1e-9) - 1e-9).max(0.0),
    });
    seconds.fold(0.0, f64::max)
}

#[cfg(test)]
#[path = "lower_tests.rs"]
mod tests;
