//! The gangs of a node: their processes here, and which of them run.

mod one;
#[cfg(test)]
mod tests;

use crate::guard::Guard;
use crate::marked::Marked;
use crate::mover::{Done, Mover};
use crate::parcel::{Seen, Spec};
use crate::scout::Found;
use idlewave_freeze::{FreezeError, Freezer, Moves, clock};
use idlewave_gang::GangId;
use idlewave_gang::protocol::Slot;
use idlewave_sys::process::{Signal, send};
use idlewave_units::{Nanos, Pid};
use one::{Held, Tools};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// All gangs of a node.
#[derive(Debug)]
pub struct Gangs {
    held: BTreeMap<GangId, Held>,
    tools: Tools,
    /// No process is moved while gangs are frozen or thawed.
    moves: Arc<Moves>,
    /// The slot that may run now; `None` while a switch has frozen everything.
    runs: Option<Slot>,
    /// The running processes may not match the slot, because something was being moved.
    owed: bool,
    limit: Nanos,
    /// The watchdog has thawed everything, and this was not reported yet.
    thawn: bool,
}

/// An agent that freezes must renew this lease, or the watchdog thaws. It is as long as the
/// controller's lease, after which an agent that receives nothing thaws everything.
const LEASE: Nanos = Nanos::from_secs(1);
/// Interval of renewal; three renewals may be late.
pub const RENEW: Nanos = Nanos::from_millis(200);
/// Time between SIGTERM and SIGKILL.
const GRACE: Nanos = Nanos::from_secs(5);
/// How long to wait for a move to end if the work can also be done later. Most moves take 6 ms with
/// eight programs on two CPUs.
const BRIEFLY: Nanos = Nanos::from_millis(20);

impl Gangs {
    /// No gangs yet. A freeze that is not confirmed within `limit` has failed. `guard` thaws when
    /// this process dies.
    ///
    /// # Errors
    /// No thread for slow kernel operations, or no socket pair to it.
    pub fn new(freezer: Freezer, guard: Option<Guard>, limit: Nanos) -> io::Result<Self> {
        Self::with(freezer, guard, limit, || ())
    }

    /// Like [`Gangs::new`]; `before` is called before anything is moved.
    pub(crate) fn with(
        freezer: Freezer,
        guard: Option<Guard>,
        limit: Nanos,
        before: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let moves = Arc::new(Moves::new(freezer.kind()));
        let mover = Mover::start(Arc::clone(&moves), before)?;
        let tools = Tools {
            freezer,
            mover,
            guard,
        };
        Ok(Self {
            held: BTreeMap::new(),
            tools,
            moves,
            runs: Some(Slot::All),
            owed: false,
            limit,
            thawn: false,
        })
    }

    /// Sets the gangs. Removed ones are thawed and released; the others run or not, according to
    /// the row that has the CPUs.
    pub fn set(&mut self, specs: &[Spec]) {
        // A restarted controller numbers gangs from the start: another gang with the same number is
        // not this one.
        let stays = |gang: &GangId, held: &Held| {
            let named = specs.iter().find(|spec| spec.id() == *gang);
            named.is_some_and(|spec| spec.mark == held.spec.mark && spec.user == held.spec.user)
        };
        let gone = self.held.iter().filter(|(gang, held)| !stays(gang, held));
        let gone: Vec<GangId> = gone.map(|(gang, _)| *gang).collect();
        self.let_go(&gone);
        for spec in specs {
            let held = self.held.entry(spec.id());
            held.or_insert_with(|| Held::new(spec.clone())).spec = spec.clone();
        }
        self.put_right();
    }

    /// Thaws gangs, at once if that does not block, and has their processes moved back.
    fn let_go(&mut self, gone: &[GangId]) {
        let mut gone: Vec<Held> = gone.iter().filter_map(|g| self.held.remove(g)).collect();
        if gone.iter().any(Held::waits) {
            // The mover thaws them too, eventually.
            let _ = self.paused(BRIEFLY, |_| {
                for held in &mut gone {
                    let _ = held.thaw();
                }
            });
        }
        for group in gone.iter().filter_map(Held::group) {
            self.tools.mover.remove(group);
        }
        // Dropping a signal group thaws it.
    }

    /// Registers the groups with a new watchdog if theirs has ended; true if that is done, or
    /// ordered, now.
    pub fn mend(&mut self, now: Nanos) -> bool {
        let Some(mut guard) = self.tools.guard.take() else {
            return false;
        };
        let another = guard.renew(now);
        if another {
            for held in self.held.values_mut() {
                held.guard(&self.tools, &guard);
            }
        }
        self.tools.guard = Some(guard);
        if another {
            self.put_right();
        }
        another
    }

    /// Renews the watchdog's lease.
    pub fn renew(&mut self) {
        if let Some(guard) = &self.tools.guard {
            self.thawn |= guard.promise(LEASE);
        }
    }

    /// Whether this process was stalled for so long that the watchdog thawed everything; reported
    /// once.
    pub fn take_thawn(&mut self) -> bool {
        std::mem::take(&mut self.thawn)
    }

    /// Whether a new watchdog is awaited.
    pub fn mending(&self) -> bool {
        self.tools.guard.as_ref().is_some_and(Guard::is_coming)
    }

    /// All known gangs.
    pub fn specs(&self) -> Vec<Spec> {
        self.held.values().map(|held| held.spec.clone()).collect()
    }

    /// Puts found processes into the groups, and returns the gangs that have ended here: those that
    /// had processes and now have none.
    pub fn sighted(&mut self, found: &Found, now: Nanos) -> Vec<GangId> {
        let (mut ended, mut changed) = (Vec::new(), self.owed);
        for (gang, held) in &mut self.held {
            let Some(marked) = found.get(gang) else {
                continue;
            };
            changed |= held.take_in(marked, &mut self.tools, now) || held.spec.end;
            if held.has_ended() {
                ended.push(*gang);
            }
        }
        if changed {
            self.put_right();
        }
        ended
    }

    /// Applies completed moves; true if more is under control than before, so that another look
    /// would report something new.
    pub fn moved(&mut self, now: Nanos) -> bool {
        let mut more = false;
        for done in self.tools.mover.take() {
            let (Done::Changed(group, ..) | Done::Guarded(group, ..)) = &done else {
                continue;
            };
            let mut all = self.held.values_mut();
            // If the gang is gone by now, its group is removed next.
            let Some(held) = all.find(|held| held.group() == Some(*group)) else {
                continue;
            };
            match done {
                Done::Changed(_, brake, done) => {
                    more |= held.moved(brake, done, &mut self.tools, now);
                }
                Done::Guarded(_, brake, done) => held.guarded(brake, done),
                Done::Removed => {}
            }
        }
        self.put_right();
        more
    }

    /// Whether processes of a gang are being moved, so that not all found ones are under control.
    pub fn is_moving(&self, gang: GangId) -> bool {
        self.held.get(&gang).is_some_and(Held::is_moving)
    }

    /// Becomes readable when a move has completed.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.tools.mover.socket()
    }

    /// Updates the CPU time of processes.
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

    /// Reports on each gang that was looked for.
    pub fn seen(&self, now: Nanos) -> Vec<Seen> {
        let seen = self.held.values().filter_map(|held| held.seen(now));
        seen.collect()
    }

    /// Freezes a row, or everything under control. Until the next thaw nothing is moved.
    ///
    /// # Errors
    /// The first gang that did not freeze; some may be frozen. [`FreezeError::Moving`]: none is.
    pub fn freeze(&mut self, slot: Slot) -> Result<(), FreezeError> {
        self.runs = None;
        self.moves.pause(self.limit)?;
        let wanted = self.held.values_mut().filter(|held| held.is_in(slot));
        for held in wanted {
            held.freeze(self.limit)?;
            // Several slow freezes in a row are not a stall.
            if let Some(guard) = &self.tools.guard {
                self.thawn |= guard.promise(LEASE);
            }
        }
        match self.thawn {
            // What had been frozen runs again.
            true => Err(FreezeError::LeaseOver),
            false => Ok(()),
        }
    }

    /// Thaws a row, or everything.
    ///
    /// # Errors
    /// The first gang that did not thaw; all others were thawed. [`FreezeError::Moving`] if that
    /// would wait for a move.
    pub fn thaw(&mut self, slot: Slot) -> Result<(), FreezeError> {
        self.runs = Some(slot);
        let is_in = |held: &&mut Held| slot == Slot::All || held.is_in(slot);
        let mut wanted: Vec<&mut Held> = self.held.values_mut().filter(is_in).collect();
        let waits = wanted.iter().any(|held| held.waits());
        let limit = if waits { BRIEFLY } else { Nanos::ZERO };
        let paused = self.moves.pause(limit);
        // If moves could not be paused, only signal groups are thawed: the others are not frozen,
        // or this fails.
        wanted.retain(|held| paused.is_ok() || held.group().is_none());
        let mut failed = if waits { paused } else { Ok(()) };
        for held in wanted {
            failed = failed.and(held.thaw());
        }
        self.moves.resume();
        failed
    }

    /// Runs `act` while nothing is moved, if that is possible within `limit`.
    fn paused<T>(
        &mut self,
        limit: Nanos,
        act: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, FreezeError> {
        let before = self.moves.is_paused();
        self.moves.pause(limit)?;
        let done = act(self);
        if !before {
            self.moves.resume();
        }
        Ok(done)
    }

    /// Makes the running processes match the slot, and kills ending gangs; later, if something is
    /// being moved.
    fn put_right(&mut self) {
        let done = self.paused(BRIEFLY, |gangs| {
            gangs.keep();
            gangs.end();
        });
        self.owed = done.is_err();
    }

    /// Makes the running processes match the slot after gangs have come or changed rows.
    fn keep(&mut self) {
        // A row that was not frozen for this switch keeps its state; the thaw at the end corrects
        // it.
        let Some(runs) = self.runs else {
            return;
        };
        for held in self.held.values_mut() {
            let may = match runs {
                Slot::All => true,
                slot => held.spec.rows.is_empty() || held.is_in(slot),
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

    /// Ends the processes of ending gangs: SIGTERM first, SIGKILL after a while.
    fn end(&mut self) {
        let now = clock::now();
        let ending = |held: &&mut Held| held.spec.end && !held.is_coming();
        for held in self.held.values_mut().filter(ending) {
            let signal = match held.told_end {
                None => Signal::TERM,
                Some(told) if now > told + GRACE => Signal::KILL,
                Some(_) => continue,
            };
            held.told_end = Some(now);
            if held.thaw().is_err() {
                continue;
            }
            for pid in held.members() {
                // They were members of the group a moment ago. A process that has ended since needs
                // no signal.
                let _ = send(pid, signal);
            }
        }
    }
}
