//! Ranks of a run that shared CPUs. They took turns on them because of how the run was started;
//! this is not noise of the machine.

use crate::kernel::Kernels;
use crate::watch::Watch;
use idlewave_units::show::percent;
use idlewave_units::{Cpu, NodeId, Rank, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Ranks that wait for each other's CPUs for less than this share of their time do not count as
/// sharing: the kernel may put unbound ranks on one CPU briefly.
const LEAST_WAITED: f64 = 0.05;
/// A CPU on which ranks ran for less than this share of their time does not count as used.
const PASSED: f64 = 0.01;

/// Ranks of a node that waited for each other's CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    /// The node.
    pub node: NodeId,
    /// Its ranks.
    pub ranks: u32,
    /// CPUs on which they ran.
    pub cpus: u32,
    /// Share of their time during which they were ready to run while another rank had the CPU.
    pub waited: f64,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = if self.cpus == 1 { "CPU" } else { "CPUs" };
        write!(
            f,
            "{} of node {} shared {} {cpus}, and waited for each other for {} of their time",
            counted(self.ranks, "rank"),
            self.node,
            self.cpus,
            percent(self.waited)
        )
    }
}

#[derive(Default)]
struct OfNode {
    ranks: BTreeSet<Rank>,
    ran: BTreeMap<Cpu, u64>,
    time: u64,
    waited: u64,
}

/// The nodes whose ranks shared CPUs. Takes watched threads, each with the time for which other
/// ranks had its CPU while it was ready.
pub(crate) fn crowds<'a>(
    watched: impl Iterator<Item = (&'a Watch, u64)>,
    kernels: &Kernels,
) -> Vec<Crowd> {
    let mut nodes: BTreeMap<NodeId, OfNode> = BTreeMap::new();
    for (watch, waited) in watched {
        let Some(rank) = watch.rank else {
            continue;
        };
        let node = nodes.entry(watch.node).or_default();
        node.ranks.insert(rank);
        node.time += watch.end - watch.begin;
        node.waited += waited;
        let bursts = kernels
            .of(watch.node)
            .map_or(&[][..], |k| k.bursts_of(watch.pid));
        for burst in bursts {
            let (begin, end) = (burst.begin.max(watch.begin), burst.end.min(watch.end));
            *node.ran.entry(burst.cpu).or_default() += end.saturating_sub(begin);
        }
    }
    let shared = |(node, all): (NodeId, OfNode)| {
        let waited = all.waited as f64 / all.time.max(1) as f64;
        let ran: u64 = all.ran.values().sum();
        let used = all
            .ran
            .values()
            .filter(|&&ns| ns as f64 >= PASSED * ran as f64);
        (waited >= LEAST_WAITED && all.ranks.len() > 1).then(|| Crowd {
            node,
            ranks: all.ranks.len() as u32,
            cpus: used.count().max(1) as u32,
            waited,
        })
    };
    nodes.into_iter().filter_map(shared).collect()
}
