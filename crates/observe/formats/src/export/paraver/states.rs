//! States of threads, from their bursts and wake-ups in order of time.
//!
//! A thread runs from its switch-in to its switch-out. Then it is ready if it was preempted;
//! otherwise it is blocked until it is woken, and ready from then on.

use crate::export::ExportError;
use crate::export::paraver::late::Late;
use crate::export::paraver::objects::Objects;
use crate::export::paraver::record::Record;
use crate::export::paraver::turns::WAKEUP;
use crate::export::sorter::Sorter;
use crate::prv;
use idlewave_run::tables::EndReason;

/// Start of a thread's open state, and that state. `None` before its first wake-up or burst.
/// The state is `None` where there is none: after the thread's exit, and between bursts of an idle
/// thread.
type Open = Option<(u64, Option<u64>)>;

/// The states of all threads at one moment.
pub(super) struct States {
    open: Vec<Open>,
    is_idle: Vec<bool>,
    late: Late,
    /// The end of the trace.
    end: u64,
}

impl States {
    pub(super) fn new(objects: &Objects, late: Late, end: u64) -> Self {
        let mut is_idle = vec![false; objects.threads.len()];
        for &object in objects.idle.values() {
            is_idle[object as usize] = true;
        }
        Self {
            open: vec![None; objects.threads.len()],
            is_idle,
            late,
            end,
        }
    }

    /// Takes the next burst or wake-up.
    pub(super) fn take(
        &mut self,
        turn: &Record,
        to: &mut Sorter<Record>,
    ) -> Result<(), ExportError> {
        let (at, object) = (turn.object as usize, turn.object);
        if turn.kind == WAKEUP {
            return match self.open[at] {
                // Runs, or is ready already.
                Some((since, state)) if state == Some(prv::READY) || since > turn.time => Ok(()),
                open => {
                    self.open[at] = Some((turn.time, Some(prv::READY)));
                    close(object, open, turn.time, to)
                }
            };
        }
        let end = turn.a.max(turn.time);
        close(object, self.open[at].take(), turn.time, to)?;
        let idle = self.is_idle[at];
        let state = if idle { prv::IDLE } else { prv::RUNNING };
        if end > turn.time {
            to.push(Record::state(turn.time, end, object, state).on(turn.cpu))?;
        }
        to.push(Record::event(turn.time, object, prv::CPU, turn.cpu.into()).on(turn.cpu))?;
        to.push(Record::event(end, object, prv::CPU, 0).on(turn.cpu))?;
        let then = if idle { None } else { after(turn.b) };
        self.open[at] = Some((end, then));
        if !idle {
            self.late.ran(turn, end, to)?;
        }
        Ok(())
    }

    /// Ends all states with the trace.
    pub(super) fn finish(self, to: &mut Sorter<Record>) -> Result<(), ExportError> {
        for (object, open) in self.open.into_iter().enumerate() {
            close(object as u32, open, self.end, to)?;
        }
        Ok(())
    }
}

fn close(object: u32, open: Open, end: u64, to: &mut Sorter<Record>) -> Result<(), ExportError> {
    match open {
        Some((since, Some(state))) if since < end => {
            to.push(Record::state(since, end, object, state))
        }
        _ => Ok(()),
    }
}

/// The state of a thread after a burst that ended for the reason with this code.
fn after(reason: u64) -> Option<u64> {
    match u8::try_from(reason).ok().and_then(EndReason::from_code) {
        Some(EndReason::Preempted) => Some(prv::READY),
        Some(EndReason::Sleeping) => Some(prv::BLOCKED),
        Some(EndReason::Uninterruptible) => Some(prv::UNINTERRUPTIBLE),
        Some(EndReason::Stopped) => Some(prv::STOPPED),
        Some(EndReason::Exited) => None,
        Some(EndReason::Unknown) | None => Some(prv::UNKNOWN),
    }
}
