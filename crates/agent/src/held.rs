//! The gangs of a node: which processes they have here, and which of them run.

use crate::guard::Guard;
use crate::marked::Marked;
use crate::parcel::{Mark, Seen, Spec};
use crate::scout::Found;
use idlewave_freeze::{FreezeError, Freezer, Group, Watchdog, clock};
use idlewave_gang::GangId;
use idlewave_gang::protocol::Slot;
use idlewave_slurm::Step;
use idlewave_units::{Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// A gang's processes here.
#[derive(Debug)]
struct Held {
    spec: Spec,
    group: Option<Group>,
    /// Those that were put into the group, as they were seen.
    inside: BTreeMap<Pid, Marked>,
    /// Programs that start or serve ranks, with their starts: they are not in the group.
    launchers: BTreeMap<Pid, u64>,
    since: Nanos,
    /// CPU time that they have used, as the scout read it last.
    cpu: Nanos,
    others: u32,
    trouble: Option<String>,
    /// Whether it was looked for: what was not is not known to have no processes.
    looked: bool,
    /// Whether processes were ever seen here.
    had: bool,
    told_end: Option<Nanos>,
}

/// All gangs of a node.
#[derive(Debug)]
pub struct Gangs {
    freezer: Freezer,
    guard: Option<Guard>,
    held: BTreeMap<GangId, Held>,
    /// Who may run now; `None` while a switch has frozen everything.
    runs: Option<Slot>,
    limit: Nanos,
}

/// From being asked to end to being killed.
const GRACE: Nanos = Nanos::from_secs(5);

impl Gangs {
    /// None yet. A freeze that is not confirmed within `limit` has failed. What `guard` watches thaws when this process dies.
    pub fn new(freezer: Freezer, guard: Option<Guard>, limit: Nanos) -> Self {
        Self {
            freezer,
            guard,
            held: BTreeMap::new(),
            runs: Some(Slot::All),
            limit,
        }
    }

    /// Takes over what gangs there are. Those that are not named any more are thawed and let go; those that are named
    /// run, or not, as the row that has the CPUs says.
    pub fn set(&mut self, specs: &[Spec]) {
        // Dropping a group thaws it and sends its processes home. A controller that started again counts gangs anew: another
        // gang of the same number is not this one.
        self.held.retain(|gang, held| {
            let named = specs.iter().find(|spec| spec.id() == *gang);
            named.is_some_and(|spec| spec.mark == held.spec.mark && spec.user == held.spec.user)
        });
        for spec in specs {
            let held = self.held.entry(spec.id()).or_insert_with(|| Held {
                spec: spec.clone(),
                group: None,
                inside: BTreeMap::new(),
                launchers: BTreeMap::new(),
                since: clock::now(),
                cpu: Nanos::ZERO,
                others: 0,
                trouble: None,
                looked: false,
                had: false,
                told_end: None,
            });
            held.spec = spec.clone();
        }
        self.keep();
        self.end();
    }

    /// Has the groups watched again if who watched them has ended; true if that is done now.
    pub fn mend(&mut self, now: Nanos) -> bool {
        let Some(guard) = &mut self.guard else {
            return false;
        };
        if !guard.renew(now) {
            return false;
        }
        for held in self.held.values_mut() {
            let group = held.group.as_mut();
            let guarded = group.map_or(Ok(()), |group| group.guard(guard.watchdog()));
            held.trouble = guarded.err().map(|error| error.to_string());
        }
        self.keep();
        true
    }

    /// Whether it is waited for another one to watch.
    pub fn mending(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_coming)
    }

    /// All gangs that are known.
    pub fn specs(&self) -> Vec<Spec> {
        self.held.values().map(|held| held.spec.clone()).collect()
    }

    /// Puts what was found into the groups, and says which gangs have ended here: had processes, and have none.
    pub fn sighted(&mut self, found: &Found, now: Nanos) -> Vec<GangId> {
        let (mut ended, mut changed) = (Vec::new(), false);
        for (gang, held) in &mut self.held {
            let Some(marked) = found.get(gang) else {
                continue;
            };
            held.looked = true;
            changed |= held.take_in(
                marked,
                &self.freezer,
                self.guard.as_ref().map(Guard::watchdog),
                now,
            );
            if held.had && held.inside.is_empty() {
                held.had = false;
                ended.push(*gang);
            }
        }
        if changed {
            self.keep();
        }
        self.end();
        ended
    }

    /// Takes over what CPU time processes have used.
    pub fn measured(&mut self, cpu: &BTreeMap<Pid, Nanos>) {
        for held in self.held.values_mut() {
            let times = held.inside.keys().filter_map(|pid| cpu.get(pid));
            held.cpu = times.fold(Nanos::ZERO, |sum, time| sum + *time);
        }
    }

    /// The processes of each gang here, ranks first.
    pub fn members(&self) -> BTreeMap<GangId, Vec<Pid>> {
        let of = |held: &Held| {
            let (ranks, others): (Vec<&Marked>, Vec<&Marked>) =
                held.inside.values().partition(|p| p.rank.is_some());
            ranks.into_iter().chain(others).map(|p| p.pid).collect()
        };
        self.held
            .iter()
            .map(|(gang, held)| (*gang, of(held)))
            .collect()
    }

    /// What is seen of each gang that was looked for.
    pub fn seen(&self, now: Nanos) -> Vec<Seen> {
        let looked = self.held.values().filter(|held| held.looked);
        looked.map(|held| held.seen(now)).collect()
    }

    /// Freezes a row, or everything that is under control.
    ///
    /// # Errors
    /// The first gang that did not freeze; some may be frozen.
    pub fn freeze(&mut self, slot: Slot) -> Result<(), FreezeError> {
        self.runs = None;
        for held in self.held.values_mut().filter(|held| held.is_in(slot)) {
            held.freeze(self.limit)?;
        }
        Ok(())
    }

    /// Lets a row run, or everything.
    ///
    /// # Errors
    /// The first gang that did not thaw; all others were thawed.
    pub fn thaw(&mut self, slot: Slot) -> Result<(), FreezeError> {
        self.runs = Some(slot);
        let mut failed = Ok(());
        for held in self.held.values_mut() {
            if slot == Slot::All || held.is_in(slot) {
                failed = failed.and(held.thaw());
            }
        }
        failed
    }

    /// Makes what runs agree with who may run, after gangs have come or changed their rows.
    fn keep(&mut self) {
        for held in self.held.values_mut() {
            let may = match self.runs {
                // A row that was not frozen for this switch keeps what it has; the thaw at its end puts it right.
                None => continue,
                Some(Slot::All) => true,
                Some(slot) => held.spec.rows.is_empty() || held.is_in(slot),
            };
            let done = if may {
                held.thaw()
            } else {
                held.freeze(self.limit)
            };
            if let Err(error) = done {
                held.trouble = Some(error.to_string());
            }
        }
    }

    /// Ends the processes of gangs that are to end: asks them first, and kills them after a while.
    fn end(&mut self) {
        let now = clock::now();
        for held in self.held.values_mut().filter(|held| held.spec.end) {
            let signal = match held.told_end {
                None => libc::SIGTERM,
                Some(told) if now > told + GRACE => libc::SIGKILL,
                Some(_) => continue,
            };
            held.told_end = Some(now);
            if held.thaw().is_err() {
                continue;
            }
            let members = held.group.as_mut().and_then(|group| group.members().ok());
            for pid in members.unwrap_or_default() {
                if let Ok(pid) = libc::pid_t::try_from(pid.get()) {
                    // SAFETY: numbers only. They were members of the group a moment ago.
                    unsafe { libc::kill(pid, signal) };
                }
            }
        }
    }
}

impl Held {
    fn is_in(&self, slot: Slot) -> bool {
        match slot {
            Slot::All => !self.spec.rows.is_empty(),
            Slot::Gang(row) => self.spec.rows.contains(&row.get()),
        }
    }

    fn freeze(&mut self, limit: Nanos) -> Result<(), FreezeError> {
        match self.group.as_mut().filter(|_| !self.spec.end) {
            Some(group) => group.freeze(limit).map(|_| ()),
            None => Ok(()),
        }
    }

    fn thaw(&mut self) -> Result<(), FreezeError> {
        match &mut self.group {
            Some(group) => group.thaw().map(|_| ()),
            None => Ok(()),
        }
    }

    /// Takes what was found under control; true if it was not the same before.
    fn take_in(
        &mut self,
        marked: &[Marked],
        freezer: &Freezer,
        watchdog: Option<&Watchdog>,
        now: Nanos,
    ) -> bool {
        let user = self.spec.uid();
        let (own, others): (Vec<&Marked>, Vec<&Marked>) =
            marked.iter().partition(|process| process.user == user);
        self.others = others.len() as u32;
        let (launchers, current): (Vec<&Marked>, Vec<&Marked>) =
            own.into_iter().partition(|process| process.launcher);
        let launchers: BTreeMap<Pid, u64> = launchers.iter().map(|p| (p.pid, p.start)).collect();
        let current: BTreeMap<Pid, Marked> = current.iter().map(|p| (p.pid, **p)).collect();
        if current == self.inside && launchers == self.launchers {
            return false;
        }
        let new = current
            .values()
            .filter(|p| !self.inside.contains_key(&p.pid));
        let new: Vec<Marked> = new.copied().collect();
        let done = self
            .add(&new, &launchers, freezer, watchdog)
            .and_then(|()| self.let_go(&launchers));
        if let Err(error) = done {
            self.trouble = Some(error.to_string());
            return true;
        }
        self.trouble = None;
        self.had |= !current.is_empty();
        if !self.same_ranks(&current) {
            self.since = now;
        }
        self.inside = current;
        true
    }

    /// Whether all is there that was there. The script of a Slurm job may run one program after the other beside the ranks.
    fn same_ranks(&self, current: &BTreeMap<Pid, Marked>) -> bool {
        let before = ranks(&self.inside);
        match self.spec.mark {
            Mark::Slurm(_) if !before.is_empty() => before == ranks(current),
            _ => current == &self.inside,
        }
    }

    /// Launchers that were born in the group, as an srun in the script of sbatch is, answer to others and leave it.
    fn let_go(&mut self, launchers: &BTreeMap<Pid, u64>) -> Result<(), FreezeError> {
        if let Some(group) = &mut self.group {
            for (pid, start) in launchers {
                if self.launchers.get(pid) != Some(start) {
                    group.let_go(*pid)?;
                }
            }
        }
        self.launchers.clone_from(launchers);
        Ok(())
    }

    fn add(
        &mut self,
        new: &[Marked],
        launchers: &BTreeMap<Pid, u64>,
        freezer: &Freezer,
        watchdog: Option<&Watchdog>,
    ) -> Result<(), FreezeError> {
        if new.is_empty() {
            return Ok(());
        }
        if self.group.is_none() {
            // What Slurm tracks and limits by a control group stays in it.
            let freezer = match new.iter().any(|process| process.tracked) {
                true => &Freezer::Signals,
                false => freezer,
            };
            let mut group = Group::create(freezer, self.spec.uid())?;
            if let Some(watchdog) = watchdog {
                group.guard(watchdog)?;
            }
            self.group = Some(group);
        }
        let Some(group) = &mut self.group else {
            return Ok(());
        };
        // Before their parents and children are added.
        for pid in launchers.keys() {
            group.exempt(*pid);
        }
        for process in new {
            match group.add(process.pid) {
                // It has ended meanwhile: the next look will not find it.
                Ok(_) | Err(FreezeError::NoProcess(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn seen(&self, now: Nanos) -> Seen {
        Seen {
            gang: self.spec.gang,
            processes: self.inside.len() as u32,
            ranks: ranks(&self.inside).len() as u32,
            size: self.inside.values().filter_map(|p| p.size).max(),
            steady: now.saturating_sub(self.since),
            cpu: self.cpu,
            others: self.others,
            trouble: self.trouble.clone(),
        }
    }
}

/// Ranks by step and number.
fn ranks(processes: &BTreeMap<Pid, Marked>) -> BTreeSet<(Option<Step>, u32)> {
    let processes = processes.values();
    processes
        .filter_map(|process| Some((process.step, process.rank?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::Mark;
    use crate::testing::{Ended, sleep};
    use idlewave_freeze::Uid;

    fn spec(token: &str, user: Uid) -> Spec {
        Spec {
            gang: 1,
            user: user.get(),
            mark: Mark::Token(token.to_owned()),
            rows: vec![1],
            end: false,
        }
    }

    fn state(pid: Pid) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after = stat.rsplit_once(") ").unwrap().1;
        after.chars().next().unwrap()
    }

    fn held(gangs: &mut Gangs, user: Uid) -> Ended {
        let process = sleep(&[]);
        let marked = Marked {
            pid: process.pid(),
            start: 0,
            launcher: false,
            rank: None,
            size: None,
            user,
            step: None,
            tracked: false,
        };
        let found = Found::from([(GangId::new(1), vec![marked])]);
        assert!(gangs.sighted(&found, clock::now()).is_empty());
        process
    }

    #[test]
    fn what_was_not_looked_for_is_not_told_to_have_no_processes() {
        let mut gangs = Gangs::new(Freezer::Signals, None, Nanos::from_secs(5));
        gangs.set(&[spec("one", Uid::own())]);
        assert!(gangs.seen(clock::now()).is_empty());
        let _process = held(&mut gangs, Uid::own());
        assert_eq!(gangs.seen(clock::now())[0].processes, 1);
    }

    #[test]
    fn another_gang_of_the_same_number_does_not_hold_its_processes() {
        let mut gangs = Gangs::new(Freezer::Signals, None, Nanos::from_secs(5));
        let row = Slot::Gang(GangId::new(1));
        gangs.set(&[spec("one", Uid::own())]);
        let process = held(&mut gangs, Uid::own());
        gangs.freeze(row).unwrap();
        assert_eq!(state(process.pid()), 'T');
        // As a controller says that was started again, and counts from one.
        gangs.set(&[spec("another", Uid::own())]);
        assert_ne!(state(process.pid()), 'T');
        gangs.freeze(row).unwrap();
        assert_ne!(state(process.pid()), 'T');
        assert!(gangs.seen(clock::now()).is_empty());
    }

    #[test]
    fn processes_of_other_users_are_counted_and_left_alone() {
        let mut gangs = Gangs::new(Freezer::Signals, None, Nanos::from_secs(5));
        gangs.set(&[spec("one", Uid::own())]);
        let process = held(&mut gangs, Uid::new(Uid::own().get() + 1));
        gangs.freeze(Slot::Gang(GangId::new(1))).unwrap();
        assert_ne!(state(process.pid()), 'T');
        let seen = gangs.seen(clock::now());
        assert_eq!((seen[0].processes, seen[0].others), (0, 1));
    }
}
