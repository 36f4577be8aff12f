//! The controller's state of nodes and gangs: which are admitted, which wait for ranks, which have
//! ended, and whose turn it is. Pure: input comes with its time.

mod contexts;
#[cfg(test)]
mod contexts_tests;
mod gang;
mod job;
mod state;
#[cfg(test)]
mod tests;

pub use job::{DeskError, Job};
use job::{MOST_CPUS, MOST_NODES, bounded};

use crate::contexts::{Copying, DeviceKey, DeviceSpec};
use crate::control::{GangStatus, Observation, Stage};
use crate::parcel::{Mark, Seen, Spec};
use gang::Gang;
use idlewave_gang::GangId;
use idlewave_gang::matrix::{Demand, Matrix, MatrixError, Packing, RowId};
use idlewave_gang::policy::{Activity, Class, Decision, Policy, PolicyError, Settings};
use idlewave_gang::protocol::Slot;
use idlewave_sys::Uid;
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;

/// Site settings of admission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeskSettings {
    /// Slices and shares.
    pub policy: Settings,
    /// Rows of the matrix, that is, gangs that may share a CPU.
    pub rows: usize,
    /// How long all ranks must exist before the gang is switched: they may be in `MPI_Init`, which
    /// a freeze can hang for good.
    pub settle: Nanos,
    /// Whether turns of idle gangs go to others.
    pub yielding: bool,
    /// How a switch exchanges network contexts.
    pub copying: Copying,
}

/// A registered node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its host name.
    pub host: String,
    /// CPUs.
    pub cpus: u32,
    /// How it stops processes.
    pub freezer: String,
    /// Limitations.
    pub limits: Vec<String>,
    /// The version of the gangs that it has applied.
    pub version: u64,
}

/// The controller's state.
#[derive(Debug)]
pub struct Desk {
    settings: DeskSettings,
    nodes: BTreeMap<NodeId, NodeFacts>,
    gangs: BTreeMap<GangId, Gang>,
    matrix: Matrix,
    policy: Policy,
    version: u64,
    next: u32,
    draining: bool,
    devices: BTreeMap<u32, DeviceSpec>,
    next_device: u32,
    /// Key for the next multi-node device; random numbers come from outside.
    spare_key: Option<DeviceKey>,
}

impl Desk {
    /// An empty desk.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(settings: DeskSettings) -> Result<Desk, DeskError> {
        Ok(Desk {
            policy: Policy::new(settings.policy)?,
            matrix: Matrix::new(&[], settings.rows, Packing::Buddy),
            settings,
            nodes: BTreeMap::new(),
            gangs: BTreeMap::new(),
            version: 1,
            next: 1,
            draining: false,
            devices: BTreeMap::new(),
            next_device: 0,
            spare_key: None,
        })
    }

    /// Registers a node. False if its data are impossible, or if it came, or changed its CPUs,
    /// after gangs were placed: then it has to wait until the matrix is empty.
    pub fn hello(&mut self, node: NodeId, facts: NodeFacts) -> bool {
        if node.get() >= MOST_NODES || facts.cpus > MOST_CPUS {
            return false;
        }
        let same = self.nodes.get(&node).is_some_and(|n| n.cpus == facts.cpus);
        if !same && self.matrix.gangs().next().is_some() {
            return false;
        }
        self.nodes.insert(node, facts);
        if !same {
            let last = self.nodes.keys().map(|n| n.index() + 1).max().unwrap_or(0);
            let cpus = |i: usize| self.nodes.get(&NodeId::new(i as u32)).map_or(0, |n| n.cpus);
            let slots: Vec<u32> = (0..last).map(cpus).collect();
            self.matrix = Matrix::new(&slots, self.settings.rows, Packing::Buddy);
        }
        true
    }

    /// Nodes, by number.
    pub fn nodes(&self) -> &BTreeMap<NodeId, NodeFacts> {
        &self.nodes
    }
    /// The matrix.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
    /// Whether nothing new is accepted.
    pub fn draining(&self) -> bool {
        self.draining
    }
    /// The version of the gangs; it rises with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Accepts a job for switching.
    ///
    /// # Errors
    /// [`DeskError::Draining`], [`DeskError::Marked`], a weight of 0, and those of [`Job::fits`].
    pub fn submit(&mut self, job: Job, now: Nanos) -> Result<GangId, DeskError> {
        if self.draining {
            return Err(DeskError::Draining);
        }
        job.fits(self.gangs.values().map(|gang| gang.job.user))?;
        self.check_contexts(&job)?;
        let alive = |gang: &&Gang| !matches!(gang.stage, Stage::Ended);
        let twin = self
            .gangs
            .iter()
            .find(|(_, g)| alive(g) && g.job.mark == job.mark && g.job.user == job.user);
        if let Some((gang, _)) = twin {
            return Err(DeskError::Marked(gang.get()));
        }
        if job.weight == 0 {
            return Err(PolicyError::Weight(self.next).into());
        }
        let id = GangId::new(self.next);
        self.next += 1;
        self.gangs.insert(id, Gang::new(job, now));
        self.version += 1;
        Ok(id)
    }

    /// Cancels a gang on behalf of that user.
    ///
    /// # Errors
    /// [`DeskError::NoGang`], [`DeskError::OtherUser`]. Root may cancel all.
    pub fn cancel(&mut self, gang: u32, asked: Uid) -> Result<(), DeskError> {
        let id = GangId::new(gang);
        let Some(entry) = self.gangs.get_mut(&id) else {
            return Err(DeskError::NoGang(gang));
        };
        let theirs = entry.job.user;
        if asked != Uid::ROOT && asked != theirs {
            return Err(DeskError::OtherUser {
                gang,
                theirs,
                asked,
            });
        }
        entry.end = true;
        let to = match entry.stage {
            Stage::Running => Stage::Starting,
            other => other,
        };
        self.take_out(id, to);
        Ok(())
    }

    /// The submitter declares the gang over.
    pub fn over(&mut self, gang: GangId) {
        if self.gangs.remove(&gang).is_some() {
            self.leave_matrix(gang);
            self.sweep_devices();
            self.version += 1;
        }
    }

    /// Releases the gang of this mark on behalf of that user.
    ///
    /// # Errors
    /// [`DeskError::NoMark`], [`DeskError::OtherUser`]. Root may release all.
    pub fn release(&mut self, mark: &Mark, asked: Uid) -> Result<(), DeskError> {
        let of_mark = |(_, gang): &(&GangId, &Gang)| gang.job.mark == *mark;
        let Some((gang, theirs)) = self
            .gangs
            .iter()
            .rfind(of_mark)
            .map(|(id, gang)| (*id, gang.job.user))
        else {
            return Err(DeskError::NoMark(mark.clone()));
        };
        if asked != Uid::ROOT && asked != theirs {
            let gang = gang.get();
            return Err(DeskError::OtherUser {
                gang,
                theirs,
                asked,
            });
        }
        self.over(gang);
        Ok(())
    }

    /// Accepts nothing new, and switches nothing, until it is undone.
    pub fn drain(&mut self, on: bool) {
        self.draining = on;
    }

    /// A node's report.
    pub fn sight(&mut self, node: NodeId, version: u64, seen: Vec<Seen>) {
        if let Some(facts) = self.nodes.get_mut(&node) {
            facts.version = version;
        }
        for one in seen {
            if let Some(gang) = self.gangs.get_mut(&GangId::new(one.gang)) {
                gang.seen.insert(node, bounded(one));
                gang.judge();
                gang.forget_ranks();
            }
        }
    }

    /// The submitter's report on the ranks of a gang. A gang that is in MPI_Init (again) runs
    /// freely.
    pub fn observed(&mut self, id: GangId, initialised: Option<bool>, activity: Observation) {
        let Some(gang) = self.gangs.get_mut(&id) else {
            return;
        };
        gang.observe(initialised, activity);
        if initialised == Some(false) && gang.stage == Stage::Running {
            self.take_out(id, Stage::Starting);
        }
        self.judge_rows();
    }

    /// Whether all nodes have applied the current gangs.
    pub fn settled(&self) -> bool {
        self.nodes.values().all(|node| node.version == self.version)
    }

    /// Whether ranks are expected.
    pub fn eager(&self, now: Nanos) -> bool {
        self.gangs.values().any(|gang| gang.is_expected(now))
    }

    /// The gangs, for the agents.
    pub fn specs(&self) -> Vec<Spec> {
        let alive = self.gangs.iter().filter(|(_, g)| g.stage != Stage::Ended);
        alive.map(|(id, gang)| self.spec(*id, gang)).collect()
    }

    fn spec(&self, id: GangId, gang: &Gang) -> Spec {
        let rows = self
            .matrix
            .rows()
            .filter(|row| self.matrix.running(*row).contains(&id));
        Spec {
            gang: id.get(),
            user: gang.job.user.get(),
            mark: gang.job.mark.clone(),
            rows: rows.map(RowId::get).collect(),
            end: gang.end,
        }
    }

    /// Admits complete gangs, and registers ended ones, as far as is known; time alone changes
    /// neither.
    pub fn advance(&mut self, now: Nanos) {
        let ids: Vec<GangId> = self.gangs.keys().copied().collect();
        loop {
            let version = self.version;
            for id in &ids {
                self.advance_gang(*id, now);
            }
            // Gangs that have left the matrix made room for others.
            if self.version == version {
                return;
            }
        }
    }

    fn advance_gang(&mut self, id: GangId, now: Nanos) {
        let Some(gang) = self.gangs.get_mut(&id) else {
            return;
        };
        let processes: u32 = gang.seen.values().map(|seen| seen.processes).sum();
        gang.trouble = gang.troubles();
        if gang.stage == Stage::Waiting && processes > 0 {
            gang.stage = Stage::Starting;
        }
        match gang.stage {
            Stage::Starting | Stage::Running if processes == 0 && gang.comes_back() => {
                self.take_out(id, Stage::Waiting);
            }
            // New ranks must get through MPI_Init, and get their slots.
            Stage::Running if gang.has_grown() => {
                gang.forget_observation();
                self.take_out(id, Stage::Starting);
            }
            Stage::Starting | Stage::Running if processes == 0 => {
                gang.stage = Stage::Ended;
                self.leave_matrix(id);
                self.version += 1;
            }
            Stage::Starting if gang.complete(self.settings.settle) && !gang.end => {
                self.admit(id, now);
            }
            _ => {}
        }
    }

    fn admit(&mut self, id: GangId, now: Nanos) {
        let Some(gang) = self.gangs.get_mut(&id) else {
            return;
        };
        let demand = gang.demand(|node| self.nodes.get(&node).map_or(1, |facts| facts.cpus));
        match self.matrix.insert(id, &Demand::On(demand)) {
            Ok(_) => {
                gang.stage = Stage::Running;
                gang.admitted = gang.ranks();
                self.version += 1;
                self.update_rows(now);
            }
            Err(error @ MatrixError::Full { .. }) => gang.trouble = Some(format!("waits: {error}")),
            Err(error) => gang.trouble = Some(error.to_string()),
        }
    }

    fn take_out(&mut self, gang: GangId, to: Stage) {
        if let Some(entry) = self.gangs.get_mut(&gang) {
            entry.stage = to;
        }
        self.leave_matrix(gang);
        self.version += 1;
    }

    fn leave_matrix(&mut self, gang: GangId) {
        let before: Vec<RowId> = self.matrix.rows().collect();
        if self.matrix.remove(gang).is_err() {
            return;
        }
        self.matrix.compact();
        let after: Vec<RowId> = self.matrix.rows().collect();
        for row in before.into_iter().filter(|row| !after.contains(row)) {
            self.policy.remove(row);
        }
    }

    /// Updates the policy's rows.
    fn update_rows(&mut self, now: Nanos) {
        let rows: Vec<RowId> = self.matrix.rows().collect();
        for row in rows {
            let gangs = self.matrix.running(row);
            let jobs = || {
                gangs
                    .iter()
                    .filter_map(|gang| Some(&self.gangs.get(gang)?.job))
            };
            let weight = jobs().map(|job| job.weight).max().unwrap_or(1);
            let class = jobs()
                .map(|job| job.class)
                .min()
                .unwrap_or(Class::Production);
            // Weights are at least 1: `submit` checked this.
            let _ = self.policy.add(row, weight, class, now);
        }
    }

    /// A row had the CPUs for this long, until now.
    pub fn ran(&mut self, row: RowId, time: Nanos, now: Nanos) {
        self.policy.ran(row, time, now);
        for id in self.matrix.running(row) {
            if let Some(gang) = self.gangs.get_mut(&id) {
                gang.turns += time;
            }
        }
    }

    /// A switch took this long.
    pub fn switched(&mut self, cost: Nanos) {
        self.policy.switched(cost);
    }

    /// Whether there is anything to switch.
    pub fn has_turns(&self) -> bool {
        !self.lets_all_run() && self.matrix.rows().next().is_some()
    }

    /// Judges which rows can use a turn, and decides. `None` if there is nothing to switch: all
    /// run.
    pub fn decide(&mut self, now: Nanos) -> Option<Decision> {
        if !self.has_turns() {
            return None;
        }
        self.judge_rows();
        Some(self.policy.next(now))
    }

    /// Tells the policy what the gangs of each row can do; the best of them counts.
    fn judge_rows(&mut self) {
        for row in self.matrix.rows().collect::<Vec<_>>() {
            let gangs = self.matrix.running(row);
            let of = gangs.iter().filter_map(|gang| self.gangs.get(gang));
            let best = match self.settings.yielding {
                true => of.map(Gang::activity).max(),
                false => None,
            };
            self.policy.activity(row, best.unwrap_or(Activity::Active));
        }
    }

    /// Whether the row that has the CPUs still exists.
    pub fn has(&self, slot: Slot) -> bool {
        match slot {
            Slot::All => true,
            Slot::Gang(row) => self.matrix.rows().any(|r| r.get() == row.get()),
        }
    }

    /// Whether this gang exists.
    pub fn knows(&self, gang: GangId) -> bool {
        self.gangs.contains_key(&gang)
    }

    /// Gangs, for display.
    pub fn gangs(&self, now: Nanos) -> Vec<GangStatus> {
        let status = |(id, gang): (&GangId, &Gang)| GangStatus {
            gang: id.get(),
            name: gang.job.name.clone(),
            user: gang.job.user.get(),
            stage: gang.stage,
            interactive: gang.job.class == Class::Interactive,
            weight: gang.job.weight,
            ranks: gang.seen.values().map(|s| s.ranks).sum(),
            size: gang.size(),
            processes: gang.seen.values().map(|s| s.processes).sum(),
            nodes: gang
                .seen
                .iter()
                .filter(|(_, s)| s.processes > 0)
                .map(|(n, _)| *n)
                .collect(),
            row: self.matrix.home(*id).map(|home| home.row.get()),
            cpu: gang.cpu(),
            turns: gang.turns,
            age: now.saturating_sub(gang.since),
            idle: gang.idle(),
            context: gang.job.contexts,
            observed: gang.observed(),
            waits: gang.waits.clone(),
            ending: gang.end,
            trouble: gang.trouble.clone(),
        };
        self.gangs.iter().map(status).collect()
    }
}
