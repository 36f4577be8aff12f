//! One gang in the controller's state.

use super::job::Job;
use crate::contexts::{ContextSeen, MOST_RANKS, Placed};
use crate::control::{Observation, Stage};
use crate::parcel::{Mark, Seen};
use idlewave_gang::policy::Activity;
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;

/// A gang whose processes use less than this share of its turns is idle.
const IDLE: f64 = 0.01;
/// Turns of at least this length show whether a gang is idle.
const EVIDENCE: Nanos = Nanos::from_millis(20);

/// How long after submission the first processes of a gang are expected at any moment.
const EXPECTED: Nanos = Nanos::from_secs(60);

/// How long all ranks must exist after MPI_Init was observed: their processes are found one by one.
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
    /// CPU time and turns at the last check.
    looked: (Nanos, Nanos),
    pub(super) turns: Nanos,
    /// Consecutive checks at which it had not used its turns.
    unused: u8,
    /// Ranks by node on admission.
    pub(super) admitted: BTreeMap<NodeId, u32>,
    /// By the calls of its ranks.
    observed: Option<Observation>,
    /// By what they wait for on their contexts.
    pub(super) at_rest: Option<Observation>,
    initialised: Option<bool>,
    /// Value of `turns` from which on the next evidence of idleness is counted.
    rested: Option<Nanos>,
    /// If it requested network contexts: their state, or why it has none.
    pub(super) contexts: Option<Contexts>,
    pub(super) refused: Option<String>,
    /// Its deadlocked ranks.
    pub(super) waits: Vec<String>,
}

/// The state of a gang's contexts.
#[derive(Clone, Debug, Default)]
pub(super) struct Contexts {
    pub(super) seen: BTreeMap<NodeId, ContextSeen>,
    pub(super) placed: Option<Placed>,
    /// Why it can never continue, if a node has lost its network.
    pub(super) lost: Option<String>,
}

impl Contexts {
    /// Whether all ranks are attached: then all nodes have the gang on its device, and the ranks
    /// have started up.
    pub(super) fn attached(&self) -> bool {
        let attached: u32 = self.seen.values().map(|seen| seen.attached).sum();
        let size = self.placed.as_ref().map(|placed| placed.nodes.len());
        size == Some(attached as usize)
    }

    /// The node of each rank, once all have arrived.
    pub(super) fn nodes(&self) -> Result<Option<Vec<u32>>, String> {
        let size = self.seen.values().filter_map(|seen| seen.size).max();
        let Some(size) = size.filter(|size| *size > 0) else {
            return Ok(None);
        };
        if size > MOST_RANKS {
            return Err(format!(
                "give {size} ranks network contexts: at most {MOST_RANKS} are supported"
            ));
        }
        let mut nodes = vec![None; size as usize];
        for (node, seen) in &self.seen {
            for rank in &seen.ranks {
                let Some(place) = nodes.get_mut(*rank as usize) else {
                    return Err(format!("place rank {rank}: the gang has {size} ranks"));
                };
                if let Some(other) = place.replace(node.get()) {
                    return Err(format!(
                        "place rank {rank}: it is on nodes {other} and {node}"
                    ));
                }
            }
        }
        Ok(nodes.into_iter().collect())
    }
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
            at_rest: None,
            initialised: None,
            rested: None,
        }
    }

    /// Whether it did not use its last turns: twice in a row, since the CPU time of a turn may have
    /// been counted at the previous check.
    pub(super) fn idle(&self) -> bool {
        self.unused >= 2
    }

    /// What its ranks do, by their calls or by what they wait for on their contexts: of the two,
    /// the one that says more. Ranks of an MPI library always seem to compute on their contexts.
    pub(super) fn observed(&self) -> Option<Observation> {
        match self.observed {
            None | Some(Observation::Progressing) => self.at_rest.or(self.observed),
            seen => seen,
        }
    }

    /// What it can do with a turn. Deadlocked ranks are frozen for good only if no other rank of
    /// the gang could move, and no loop of tests is involved, which might end after all. After
    /// MPI_Finalize a program may still compute.
    pub(super) fn activity(&self) -> Activity {
        match self.observed() {
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

    /// Takes a report on its ranks. Idleness counts only if they had turns in between: frozen ranks
    /// do nothing either.
    pub(super) fn observe(&mut self, initialised: Option<bool>, activity: Observation) {
        self.initialised = initialised;
        match activity {
            Observation::Idle => {
                let since = self.rested.replace(self.turns);
                let had = since.map(|since| self.turns.saturating_sub(since));
                match had {
                    Some(had) if had >= EVIDENCE => self.unused = self.unused.saturating_add(1),
                    // Turns are added up until they are long enough.
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

    /// Forgets that its ranks were past MPI_Init, as new ranks are not: until they are observed,
    /// the usual time applies.
    pub(super) fn forget_observation(&mut self) {
        self.initialised = None;
    }

    /// Whether processes of it may appear at any moment. Those of a Slurm job appear when its
    /// script starts them; those of a command that has started none within `EXPECTED` are found a
    /// little later.
    pub(super) fn is_expected(&self, now: Nanos) -> bool {
        match (self.stage, &self.job.mark) {
            (Stage::Waiting, Mark::Token(_)) => now.saturating_sub(self.since) < EXPECTED,
            (Stage::Starting, _) => true,
            (Stage::Waiting, Mark::Slurm(_)) | (Stage::Running | Stage::Ended, _) => false,
        }
    }

    /// Whether it may have processes again after having none: a Slurm job has successive steps
    /// until Slurm ends it.
    pub(super) fn comes_back(&self) -> bool {
        matches!(self.job.mark, Mark::Slurm(_)) && !self.end
    }

    /// Ranks by node.
    pub(super) fn ranks(&self) -> BTreeMap<NodeId, u32> {
        let ranks = self.seen.iter().filter(|(_, seen)| seen.ranks > 0);
        ranks.map(|(node, seen)| (*node, seen.ranks)).collect()
    }

    /// Whether there are ranks beyond those at its admission: its script has started a program, or
    /// another one.
    pub(super) fn has_grown(&self) -> bool {
        let admitted = |node| self.admitted.get(node).copied().unwrap_or(0);
        self.ranks()
            .iter()
            .any(|(node, ranks)| *ranks > admitted(node))
    }

    /// Once a program has ended and its script continues, the next program's ranks are new.
    pub(super) fn forget_ranks(&mut self) {
        if self.ranks().is_empty() {
            self.admitted.clear();
        }
    }

    pub(super) fn size(&self) -> Option<u32> {
        self.seen.values().filter_map(|seen| seen.size).max()
    }

    pub(super) fn cpu(&self) -> Nanos {
        // Agents may claim anything, so the sum may overflow.
        let add = |sum: u64, seen: &Seen| sum.saturating_add(seen.cpu.get());
        Nanos::from_nanos(self.seen.values().fold(0, add))
    }

    /// Whether all ranks have existed for long enough. A gang whose launcher gives no number of
    /// ranks is complete when its processes stay the same. A gang observed past MPI_Init has to
    /// wait only briefly, and one observed inside it is not complete.
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

    /// Problems reported by nodes.
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

    /// Slots on each node: one per rank, at most those of the node. A gang with network contexts
    /// has the network of its nodes to itself, and so all slots there.
    pub(super) fn demand(&self, cpus: impl Fn(NodeId) -> u32) -> Vec<(NodeId, u32)> {
        let slots = |node: &NodeId, seen: &Seen| {
            let wanted = if self.contexts.is_some() {
                u32::MAX
            } else if seen.ranks > 0 {
                seen.ranks
            } else {
                seen.processes
            };
            (*node, wanted.clamp(1, cpus(*node).max(1)))
        };
        let here = self.seen.iter().filter(|(_, seen)| seen.processes > 0);
        here.map(|(node, seen)| slots(node, seen)).collect()
    }

    /// Judges whether it used its turns since the last check, if they were long enough.
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
