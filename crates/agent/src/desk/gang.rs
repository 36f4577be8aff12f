//! One gang, as the controller knows it.

use super::contexts::Contexts;
use super::{Job, NodeFacts};
use crate::control::{Observation, Stage};
use crate::parcel::{Mark, Seen};
use idlewave_gang::policy::Activity;
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;

/// A gang whose processes use less than this part of its turns is idle.
const IDLE: f64 = 0.01;
/// Turns of this length tell whether a gang is idle.
const EVIDENCE: Nanos = Nanos::from_millis(20);

/// How long all ranks have to be there that were seen to be past MPI_Init: their processes are found one by one.
const INITIALISED: Nanos = Nanos::from_millis(50);

/// A gang.
#[derive(Clone, Debug)]
pub(super) struct Gang {
    pub(super) job: Job,
    pub(super) stage: Stage,
    pub(super) seen: BTreeMap<NodeId, Seen>,
    pub(super) since: Nanos,
    pub(super) end: bool,
    pub(super) trouble: Option<String>,
    /// CPU time and turns at the last look.
    looked: (Nanos, Nanos),
    pub(super) turns: Nanos,
    /// Looks one after the other at which it had not used its turns.
    unused: u8,
    /// Ranks by node when it was admitted.
    pub(super) admitted: BTreeMap<NodeId, u32>,
    pub(super) observed: Option<Observation>,
    initialised: Option<bool>,
    /// Turns that it had had when its ranks were last said to do nothing.
    rested: Option<Nanos>,
    /// If it asked for network contexts: what is known of them, and why it has none.
    pub(super) contexts: Option<Contexts>,
    pub(super) refused: Option<String>,
    /// Who of them waits for whom for ever.
    pub(super) waits: Vec<String>,
}

impl Gang {
    pub(super) fn new(job: Job, now: Nanos) -> Self {
        Self {
            contexts: job.contexts.map(|_| Contexts::default()),
            refused: None,
            waits: Vec::new(),
            job,
            stage: Stage::Waiting,
            seen: BTreeMap::new(),
            since: now,
            end: false,
            trouble: None,
            looked: (Nanos::ZERO, Nanos::ZERO),
            turns: Nanos::ZERO,
            unused: 0,
            admitted: BTreeMap::new(),
            observed: None,
            initialised: None,
            rested: None,
        }
    }

    /// Whether it had no use for its last turns: twice in a row, since what a turn used may have been counted in the look before.
    pub(super) fn idle(&self) -> bool {
        self.unused >= 2
    }

    /// What it can do with a turn. Ranks that wait for each other are frozen for good only if nobody else of the gang could move, and if no loop of
    /// tests is among them, which might end after all. After MPI_Finalize a program may compute as ever.
    pub(super) fn activity(&self) -> Activity {
        match self.observed {
            Some(Observation::Deadlocked {
                all: true, polling, ..
            }) => match polling {
                false => Activity::Dead,
                true => Activity::Idle,
            },
            _ if self.idle() => Activity::Idle,
            _ => Activity::Active,
        }
    }

    /// Takes over what was seen of its ranks. That they did nothing counts if they had turns meanwhile: frozen ones do nothing either.
    pub(super) fn observe(&mut self, initialised: Option<bool>, activity: Observation) {
        self.initialised = initialised;
        match activity {
            Observation::Idle => {
                let since = self.rested.replace(self.turns);
                let had = since.map(|since| self.turns.saturating_sub(since));
                match had {
                    Some(had) if had >= EVIDENCE => self.unused = self.unused.saturating_add(1),
                    // Turns are added up until they tell something.
                    Some(_) => self.rested = since,
                    None => {}
                }
            }
            _ => {
                self.rested = None;
                self.unused = 0;
            }
        }
        self.observed = Some(activity);
    }

    /// That its ranks were past MPI_Init says nothing of new ones: until they are looked at, they are there for as long as the rule says.
    pub(super) fn forget_observation(&mut self) {
        self.initialised = None;
    }

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
    /// One whose ranks were seen to be past MPI_Init need not wait for long, and one that is in it waits.
    pub(super) fn complete(&self, settle: Nanos) -> bool {
        let attached = self.contexts.as_ref().map(Contexts::attached);
        let settle = match attached.or(self.initialised) {
            None => settle,
            Some(true) => settle.min(INITIALISED),
            Some(false) => return false,
        };
        let here = || self.seen.values().filter(|seen| seen.processes > 0);
        let ranks: u32 = here().map(|seen| seen.ranks).sum();
        let all = self.size().is_none_or(|size| ranks >= size);
        let steady = here().all(|seen| seen.steady >= settle && seen.trouble.is_none());
        all && steady && here().next().is_some()
    }

    /// What is wrong with it, as nodes say.
    pub(super) fn troubles(&self) -> Option<String> {
        let contexts = || {
            self.contexts
                .iter()
                .flat_map(|contexts| contexts.seen.values())
        };
        let failed = || contexts().any(|seen| seen.failed);
        let lost = || self.contexts.as_ref().and_then(|c| c.lost.clone());
        let of_contexts = || contexts().find_map(|seen| seen.trouble.clone());
        let seen = self.seen.values().find_map(|seen| seen.trouble.clone());
        let seen = seen.or_else(|| self.refused.clone()).or_else(of_contexts);
        let seen = seen.or_else(lost);
        seen.or_else(|| failed().then(|| "one of its ranks failed or died".to_owned()))
    }

    /// Slots on each node: one for each rank, and not more than the node has. A gang with network contexts has the network of its nodes to
    /// itself, and so all slots there.
    pub(super) fn demand(&self, nodes: &BTreeMap<NodeId, NodeFacts>) -> Vec<(NodeId, u32)> {
        let slots = |node: &NodeId, seen: &Seen| {
            let wanted = if self.contexts.is_some() {
                u32::MAX
            } else if seen.ranks > 0 {
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

    /// Judges whether it used its turns since the last look, if they are long enough to tell.
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
    }
}
