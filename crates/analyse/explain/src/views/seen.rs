//! The stretch of time and the CPUs that a view saw.

use super::walk::Ran;
use idlewave_units::{Cpu, CpuSet, NodeId};
use std::collections::BTreeSet;

/// The stretch in which bursts were seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    begin: Option<u64>,
    end: u64,
    cpus: BTreeSet<(NodeId, Cpu)>,
}

impl Seen {
    /// Adds a burst, of which the part from `begin` to `end` lies in the scope.
    pub(super) fn add(&mut self, ran: &Ran, begin: u64, end: u64) {
        self.begin = Some(self.begin.map_or(begin, |b| b.min(begin)));
        self.end = self.end.max(end);
        self.cpus.insert((ran.node, ran.cpu));
    }

    /// From the first to the last burst, in nanoseconds.
    pub(super) fn watched(&self) -> u64 {
        self.begin.map_or(0, |begin| self.end.saturating_sub(begin))
    }

    /// The same, summed over all CPUs.
    pub(super) fn cpu_time(&self) -> u64 {
        self.watched().saturating_mul(self.cpus.len() as u64)
    }

    /// Numbers of the CPUs, of all nodes.
    pub(super) fn cpus(&self) -> CpuSet {
        self.cpus.iter().map(|(_, cpu)| *cpu).collect()
    }
}
