//! The processes of one gang on a node, and what stops them.

use crate::guard::Guard;
use crate::marked::Marked;
use crate::mover::{Changes, Making, Mover};
use crate::parcel::{Mark, Seen, Spec};
use idlewave_freeze::{Brake, FreezeError, Freezer, Group, clock};
use idlewave_gang::protocol::Slot;
use idlewave_gang_slurm::Step;
use idlewave_units::{Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// What brings processes under control. The groups are dropped before their guard.
#[derive(Debug)]
pub struct Tools {
    pub freezer: Freezer,
    pub mover: Mover,
    pub guard: Option<Guard>,
}

/// What stops processes.
#[derive(Debug)]
enum Hold {
    /// No process so far.
    Nothing,
    /// Signals, none of whose kernel operations blocks.
    Signals(Group),
    /// A cgroup of the mover's; without a brake it does not exist yet.
    Control {
        number: u64,
        brake: Option<Brake>,
        /// Whether it may be frozen.
        frozen: bool,
    },
}

/// Found processes of a gang here.
#[derive(Debug)]
struct Sought {
    current: BTreeMap<Pid, Marked>,
    launchers: BTreeMap<Pid, u64>,
}

/// A gang's processes here.
#[derive(Debug)]
pub struct Held {
    pub spec: Spec,
    hold: Hold,
    /// Processes under control, as found.
    pub inside: BTreeMap<Pid, Marked>,
    /// The processes under control once the mover has finished.
    moving: Option<Sought>,
    /// Found in the meantime.
    later: Option<Sought>,
    /// Found, but could not be brought under control; retried at the next look.
    unheld: Option<Sought>,
    /// Programs that start or serve ranks, with their start times: they are not in the group.
    launchers: BTreeMap<Pid, u64>,
    since: Nanos,
    /// CPU time that they have used, as last read by the scout.
    pub cpu: Nanos,
    others: u32,
    pub trouble: Option<String>,
    /// Whether it was looked for; otherwise it may have processes.
    looked: bool,
    /// Whether processes were ever found here.
    had: bool,
    pub told_end: Option<Nanos>,
}

impl Held {
    /// A gang that has not been looked for yet.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            hold: Hold::Nothing,
            inside: BTreeMap::new(),
            moving: None,
            later: None,
            unheld: None,
            launchers: BTreeMap::new(),
            since: clock::now(),
            cpu: Nanos::ZERO,
            others: 0,
            trouble: None,
            looked: false,
            had: false,
            told_end: None,
        }
    }

    pub fn is_in(&self, slot: Slot) -> bool {
        match slot {
            Slot::All => !self.spec.rows.is_empty(),
            Slot::Gang(row) => self.spec.rows.contains(&row.get()),
        }
    }

    /// The mover's number of its group.
    pub fn group(&self) -> Option<u64> {
        match self.hold {
            Hold::Control { number, .. } => Some(number),
            Hold::Nothing | Hold::Signals(_) => None,
        }
    }

    /// Whether processes of it are being moved.
    pub fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Whether its first processes are being moved, so that none is under control yet.
    pub fn is_coming(&self) -> bool {
        matches!(self.hold, Hold::Control { brake: None, .. })
    }

    pub fn freeze(&mut self, limit: Nanos) -> Result<(), FreezeError> {
        if self.spec.end {
            return Ok(());
        }
        match &mut self.hold {
            Hold::Nothing | Hold::Control { brake: None, .. } => Ok(()),
            Hold::Signals(group) => group.freeze(limit).map(|_| ()),
            Hold::Control {
                brake: Some(brake),
                frozen,
                ..
            } => {
                *frozen = true;
                brake.freeze(limit).map(|_| ())
            }
        }
    }

    /// Thaws its processes; to be called while nothing is moved.
    pub fn thaw(&mut self) -> Result<(), FreezeError> {
        match &mut self.hold {
            Hold::Nothing | Hold::Control { brake: None, .. } => Ok(()),
            Hold::Signals(group) => group.thaw().map(|_| ()),
            Hold::Control {
                brake: Some(brake),
                frozen,
                ..
            } => {
                brake.thaw()?;
                *frozen = false;
                Ok(())
            }
        }
    }

    /// Whether thawing would wait for a move.
    pub fn waits(&self) -> bool {
        matches!(self.hold, Hold::Control { frozen: true, .. })
    }

    /// All processes that are stopped with it.
    pub fn members(&mut self) -> Vec<Pid> {
        let members = match &mut self.hold {
            Hold::Nothing | Hold::Control { brake: None, .. } => return Vec::new(),
            Hold::Signals(group) => group.members(),
            Hold::Control {
                brake: Some(brake), ..
            } => brake.members(),
        };
        members.unwrap_or_default()
    }

    /// Brings found processes under control; true if they differ from before. Those that must be
    /// moved are under control later.
    pub fn take_in(&mut self, marked: &[Marked], tools: &mut Tools, now: Nanos) -> bool {
        self.looked = true;
        let user = self.spec.uid();
        let (own, others): (Vec<&Marked>, Vec<&Marked>) =
            marked.iter().partition(|process| process.user == user);
        self.others = others.len() as u32;
        let (launchers, current): (Vec<&Marked>, Vec<&Marked>) =
            own.into_iter().partition(|process| process.launcher);
        let sought = Sought {
            launchers: launchers.iter().map(|p| (p.pid, p.start)).collect(),
            current: current.iter().map(|p| (p.pid, **p)).collect(),
        };
        if self.moving.is_none() {
            return self.seek(sought, tools, now);
        }
        let fewer = self.lose(&sought);
        self.later = Some(sought);
        fewer
    }

    /// Forgets processes that no longer exist; true if there were any.
    fn lose(&mut self, sought: &Sought) -> bool {
        let before = self.inside.len();
        let there = |pid: &Pid, process: &mut Marked| {
            let now = sought.current.get(pid);
            now.is_some_and(|now| now.start == process.start)
        };
        self.inside.retain(there);
        self.inside.len() < before
    }

    /// Brings found processes under control; true if something has changed already.
    fn seek(&mut self, sought: Sought, tools: &mut Tools, now: Nanos) -> bool {
        self.unheld = None;
        if sought.current == self.inside && sought.launchers == self.launchers {
            return false;
        }
        let new = |p: &&Marked| self.inside.get(&p.pid).is_none_or(|b| b.start != p.start);
        let add = sought.current.values().filter(new).map(|p| p.pid);
        // Launchers that started in the group, like an srun in an sbatch script, serve other
        // processes and leave it.
        let launched = sought.launchers.iter();
        let let_go = launched.filter(|(pid, start)| self.launchers.get(pid) != Some(start));
        let changes = Changes {
            exempt: sought.launchers.keys().copied().collect(),
            add: add.collect(),
            let_go: let_go.map(|(pid, _)| *pid).collect(),
        };
        let nobody = matches!(self.hold, Hold::Nothing) || changes.let_go.is_empty();
        if changes.add.is_empty() && nobody {
            self.settle(sought, now);
            return true;
        }
        if let Err(error) = self.have_hold(&sought, tools) {
            self.fail(sought, &error);
            return true;
        }
        match &mut self.hold {
            Hold::Nothing => {}
            Hold::Signals(group) => match changes.carry_out(group) {
                Ok(()) => self.settle(sought, now),
                Err(error) => self.fail(sought, &error),
            },
            Hold::Control { number, .. } => {
                let making = Making {
                    freezer: tools.freezer.clone(),
                    user: self.spec.uid(),
                    watchdog: tools.guard.as_ref().map(|guard| guard.watchdog().clone()),
                };
                tools.mover.change(*number, making, changes);
                let fewer = self.lose(&sought);
                self.moving = Some(sought);
                return fewer;
            }
        }
        true
    }

    fn have_hold(&mut self, sought: &Sought, tools: &mut Tools) -> Result<(), FreezeError> {
        if !matches!(self.hold, Hold::Nothing) {
            return Ok(());
        }
        // Processes that Slurm tracks and limits by a cgroup stay in it.
        let tracked = sought.current.values().any(|process| process.tracked);
        self.hold = if tracked || tools.freezer == Freezer::Signals {
            let mut group = Group::create(&Freezer::Signals, self.spec.uid())?;
            if let Some(guard) = &tools.guard {
                group.guard(guard.watchdog())?;
            }
            Hold::Signals(group)
        } else {
            Hold::Control {
                number: tools.mover.number(),
                brake: None,
                frozen: false,
            }
        };
        Ok(())
    }

    /// Some found processes could not be brought under control.
    fn fail(&mut self, sought: Sought, error: &FreezeError) {
        self.trouble = Some(error.to_string());
        self.unheld = Some(sought);
    }

    /// The found processes are under control.
    fn settle(&mut self, sought: Sought, now: Nanos) {
        self.trouble = None;
        self.had |= !sought.current.is_empty();
        if !self.same_ranks(&sought.current) {
            self.since = now;
        }
        self.inside = sought.current;
        self.launchers = sought.launchers;
    }

    /// Applies a completed move: true if more is under control than before.
    pub fn moved(
        &mut self,
        brake: Option<Brake>,
        done: Result<(), FreezeError>,
        tools: &mut Tools,
        now: Nanos,
    ) -> bool {
        self.take_brake(brake);
        let Some(moving) = self.moving.take() else {
            return false;
        };
        let moved = done.is_ok();
        match done {
            Ok(()) => self.settle(moving, now),
            Err(error) => self.fail(moving, &error),
        }
        if let Some(later) = self.later.take() {
            self.lose(&later);
            self.seek(later, tools, now);
        }
        moved
    }

    /// Registers its group with another watchdog.
    pub fn guard(&mut self, tools: &Tools, guard: &Guard) {
        match &mut self.hold {
            Hold::Nothing => {}
            Hold::Signals(group) => {
                let guarded = group.guard(guard.watchdog());
                self.trouble = guarded.err().map(|error| error.to_string());
            }
            Hold::Control { number, .. } => tools.mover.guard(*number, guard.watchdog().clone()),
        }
    }

    /// Applies the result of registering its group with another watchdog.
    pub fn guarded(&mut self, brake: Option<Brake>, done: Result<(), FreezeError>) {
        self.take_brake(brake);
        self.trouble = done.err().map(|error| error.to_string());
    }

    fn take_brake(&mut self, new: Option<Brake>) {
        if let Hold::Control { brake, .. } = &mut self.hold {
            *brake = new;
        }
    }

    /// Whether it had processes here and has none; reported once.
    pub fn has_ended(&mut self) -> bool {
        let nobody = self.inside.is_empty() && self.unheld.is_none();
        let ended = self.had && nobody && self.moving.is_none();
        self.had &= !ended;
        ended
    }

    /// Whether the processes are the same as before. Of a Slurm job with ranks only the ranks
    /// count: its script may run one program after another beside them.
    fn same_ranks(&self, current: &BTreeMap<Pid, Marked>) -> bool {
        let before = ranks(&self.inside);
        match self.spec.mark {
            Mark::Slurm(_) if !before.is_empty() => before == ranks(current),
            _ => current == &self.inside,
        }
    }

    /// The report on it; `None` until it was looked for and its first processes are under control.
    pub fn seen(&self, now: Nanos) -> Option<Seen> {
        let known = self.looked && (self.moving.is_none() || !self.inside.is_empty());
        // A gang whose processes could not be brought under control has not ended.
        let there = self.unheld.as_ref().map_or(&self.inside, |s| &s.current);
        known.then(|| Seen {
            gang: self.spec.gang,
            processes: there.len() as u32,
            ranks: ranks(there).len() as u32,
            size: there.values().filter_map(|p| p.size).max(),
            steady: now.saturating_sub(self.since),
            cpu: self.cpu,
            others: self.others,
            trouble: self.trouble.clone(),
        })
    }
}

/// Ranks by step and number.
fn ranks(processes: &BTreeMap<Pid, Marked>) -> BTreeSet<(Option<Step>, u32)> {
    let processes = processes.values();
    processes
        .filter_map(|process| Some((process.step, process.rank?)))
        .collect()
}
