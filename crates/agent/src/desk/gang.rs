//! One gang, as the nodes see it.

use super::{EVIDENCE, Gang, IDLE, NodeFacts};
use crate::control::Stage;
use crate::parcel::{Mark, Seen};
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;

impl Gang {
    /// Whether processes of it may show up any moment. A Slurm job's come when its script wants them.
    pub(super) fn is_expected(&self) -> bool {
        match (self.stage, &self.job.mark) {
            (Stage::Starting, _) | (Stage::Waiting, Mark::Token(_)) => true,
            (Stage::Waiting, Mark::Slurm(_)) | (Stage::Running | Stage::Ended, _) => false,
        }
    }

    /// Whether it may have processes again when it has none: a Slurm job has steps one after the other, until Slurm says that it is over.
    pub(super) fn comes_back(&self) -> bool {
        matches!(self.job.mark, Mark::Slurm(_)) && !self.end
    }

    /// Ranks by node.
    pub(super) fn ranks(&self) -> BTreeMap<NodeId, u32> {
        let ranks = self.seen.iter().filter(|(_, seen)| seen.ranks > 0);
        ranks.map(|(node, seen)| (*node, seen.ranks)).collect()
    }

    /// Whether there are ranks that it was not admitted with: its script has started a program, or another one.
    pub(super) fn has_grown(&self) -> bool {
        let admitted = |node| self.admitted.get(node).copied().unwrap_or(0);
        self.ranks()
            .iter()
            .any(|(node, ranks)| *ranks > admitted(node))
    }

    /// A program has ended whose script goes on: the next one's ranks are new.
    pub(super) fn forget_ranks(&mut self) {
        if self.ranks().is_empty() {
            self.admitted.clear();
        }
    }

    pub(super) fn size(&self) -> Option<u32> {
        self.seen.values().filter_map(|seen| seen.size).max()
    }

    pub(super) fn cpu(&self) -> Nanos {
        // What agents claim need not be true, and may be too much together.
        let add = |sum: u64, seen: &Seen| sum.saturating_add(seen.cpu.get());
        Nanos::from_nanos(self.seen.values().fold(0, add))
    }

    /// Whether all ranks are there and have been for a while. A gang whose launcher tells no number of ranks is complete when its processes stay the same.
    pub(super) fn complete(&self, settle: Nanos) -> bool {
        let here = || self.seen.values().filter(|seen| seen.processes > 0);
        let ranks: u32 = here().map(|seen| seen.ranks).sum();
        let all = self.size().is_none_or(|size| ranks >= size);
        let steady = here().all(|seen| seen.steady >= settle && seen.trouble.is_none());
        all && steady && here().next().is_some()
    }

    /// Slots on each node: one for each rank, and not more than the node has.
    pub(super) fn demand(&self, nodes: &BTreeMap<NodeId, NodeFacts>) -> Vec<(NodeId, u32)> {
        let slots = |node: &NodeId, seen: &Seen| {
            let wanted = if seen.ranks > 0 {
                seen.ranks
            } else {
                seen.processes
            };
            (
                *node,
                wanted.clamp(1, nodes.get(node).map_or(1, |n| n.cpus.max(1))),
            )
        };
        let here = self.seen.iter().filter(|(_, seen)| seen.processes > 0);
        here.map(|(node, seen)| slots(node, seen)).collect()
    }

    /// Judges whether it used its turns since the last look, if they are long enough to tell. Twice without a use and it is
    /// idle: what a turn used may have been counted in the look before.
    pub(super) fn judge(&mut self) {
        let (cpu, turns) = (self.cpu(), self.turns);
        let turned = turns.saturating_sub(self.looked.1);
        if turned < EVIDENCE {
            return;
        }
        let used = cpu.saturating_sub(self.looked.0);
        self.looked = (cpu, turns);
        self.unused = match used.as_f64() < IDLE * turned.as_f64() {
            true => self.unused.saturating_add(1),
            false => 0,
        };
        self.idle = self.unused >= 2;
    }
}
