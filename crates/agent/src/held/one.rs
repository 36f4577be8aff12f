//! The processes of one gang on a node, and what stops them.

use super::Tools;
use crate::guard::Guard;
use crate::marked::Marked;
use crate::mover::{Changes, Making};
use crate::parcel::{Mark, Seen, Spec};
use idlewave_freeze::{Brake, FreezeError, Freezer, Group, clock};
use idlewave_gang::protocol::Slot;
use idlewave_slurm::Step;
use idlewave_units::{Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// What stops processes.
#[derive(Debug)]
enum Hold {
    /// None was there yet.
    Nothing,
    /// Signals: nothing of that waits in the kernel.
    Signals(Group),
    /// A control group of the mover's; without a brake it is not there yet.
    Control {
        number: u64,
        brake: Option<Brake>,
        /// It may be frozen.
        frozen: bool,
    },
}

/// What a gang has here, as it was seen.
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
    /// Those that are under control, as they were seen.
    pub inside: BTreeMap<Pid, Marked>,
    /// What they will be when the mover has done what it was told.
    moving: Option<Sought>,
    /// What was seen meanwhile.
    later: Option<Sought>,
    /// Programs that start or serve ranks, with their starts: they are not in the group.
    launchers: BTreeMap<Pid, u64>,
    since: Nanos,
    /// CPU time that they have used, as the scout read it last.
    pub cpu: Nanos,
    others: u32,
    pub trouble: Option<String>,
    /// Whether it was looked for: what was not is not known to have no processes.
    looked: bool,
    /// Whether processes were ever seen here.
    had: bool,
    pub told_end: Option<Nanos>,
}

impl Held {
    /// Not looked for yet.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            hold: Hold::Nothing,
            inside: BTreeMap::new(),
            moving: None,
            later: None,
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

    /// The group that the mover has for it.
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

    /// Whether its first processes are being moved, so that none is there yet that could be told anything.
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

    /// Lets them run on, while nothing is moved.
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

    /// Whether letting them run on would wait for what is being moved.
    pub fn waits(&self) -> bool {
        matches!(self.hold, Hold::Control { frozen: true, .. })
    }

    /// Everybody who is stopped with it.
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

    /// Takes what was found under control; true if that is not the same as before. What has to be moved is under control later.
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

    /// What is not there any more is not under control; true if there is something of that kind.
    fn lose(&mut self, sought: &Sought) -> bool {
        let before = self.inside.len();
        let there = |pid: &Pid, process: &mut Marked| {
            let now = sought.current.get(pid);
            now.is_some_and(|now| now.start == process.start)
        };
        self.inside.retain(there);
        self.inside.len() < before
    }

    /// Sees to it that what was found comes under control; true if something has changed already.
    fn seek(&mut self, sought: Sought, tools: &mut Tools, now: Nanos) -> bool {
        if sought.current == self.inside && sought.launchers == self.launchers {
            return false;
        }
        let new = |p: &&Marked| self.inside.get(&p.pid).is_none_or(|b| b.start != p.start);
        let add = sought.current.values().filter(new).map(|p| p.pid);
        // Launchers that were born in the group, as an srun in the script of sbatch is, answer to others and leave it.
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
            self.trouble = Some(error.to_string());
            return true;
        }
        match &mut self.hold {
            Hold::Nothing => {}
            Hold::Signals(group) => match changes.carry_out(group) {
                Ok(()) => self.settle(sought, now),
                Err(error) => self.trouble = Some(error.to_string()),
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
        // What Slurm tracks and limits by a control group stays in it.
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

    /// What was found is under control.
    fn settle(&mut self, sought: Sought, now: Nanos) {
        self.trouble = None;
        self.had |= !sought.current.is_empty();
        if !self.same_ranks(&sought.current) {
            self.since = now;
        }
        self.inside = sought.current;
        self.launchers = sought.launchers;
    }

    /// What the mover has done: true if more is under control than before.
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
            Err(error) => self.trouble = Some(error.to_string()),
        }
        if let Some(later) = self.later.take() {
            self.lose(&later);
            self.seek(later, tools, now);
        }
        moved
    }

    /// Has its group watched by another watchdog.
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

    /// Its group is watched, or not.
    pub fn guarded(&mut self, brake: Option<Brake>, done: Result<(), FreezeError>) {
        self.take_brake(brake);
        self.trouble = done.err().map(|error| error.to_string());
    }

    fn take_brake(&mut self, new: Option<Brake>) {
        if let Hold::Control { brake, .. } = &mut self.hold {
            *brake = new;
        }
    }

    /// Whether it had processes here and has none, which is told once.
    pub fn has_ended(&mut self) -> bool {
        let ended = self.had && self.inside.is_empty() && self.moving.is_none();
        self.had &= !ended;
        ended
    }

    /// Whether all is there that was there. The script of a Slurm job may run one program after the other beside the ranks.
    fn same_ranks(&self, current: &BTreeMap<Pid, Marked>) -> bool {
        let before = ranks(&self.inside);
        match self.spec.mark {
            Mark::Slurm(_) if !before.is_empty() => before == ranks(current),
            _ => current == &self.inside,
        }
    }

    /// What is seen of it here; `None` if it is not known, or will be when those that have come are under control.
    pub fn seen(&self, now: Nanos) -> Option<Seen> {
        let known = self.looked && (self.moving.is_none() || !self.inside.is_empty());
        known.then(|| Seen {
            gang: self.spec.gang,
            processes: self.inside.len() as u32,
            ranks: ranks(&self.inside).len() as u32,
            size: self.inside.values().filter_map(|p| p.size).max(),
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
