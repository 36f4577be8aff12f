//! Wake-ups. The kernel records up to two events for each: `sched_waking`, in the thread that wakes
//! another, and `sched_wakeup`, once the woken thread is runnable, perhaps in an interrupt on that
//! thread's CPU. The second stands in for the first where a trace has no `sched_waking` at all.
//!
//! Whether it has any is known only at the first one, so the rows before that are held back.

use idlewave_run::tables::{Wakeup, Wakeups};
use idlewave_run::{Ledger, Table};

/// The most rows held back. If there are this many before the first `sched_waking`, the trace is
/// taken to have none until one comes.
const MOST_HELD: usize = 1 << 16;

/// The event from which a wake-up is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownBy {
    /// `sched_waking`.
    Waking,
    /// `sched_wakeup_new`, before which no `sched_waking` comes.
    New,
    /// `sched_wakeup`.
    Wakeup,
}

/// Whether the trace has `sched_waking`.
#[derive(Debug)]
enum HasWaking {
    /// Not known yet: the rows so far.
    Open(Vec<(Wakeup, KnownBy)>),
    Yes,
    No,
}

/// Takes the wake-ups of all CPUs.
#[derive(Debug)]
pub(crate) struct Wakes {
    has_waking: HasWaking,
    /// Rows that stand in for a `sched_waking`.
    stand_ins: u64,
}

impl Default for Wakes {
    fn default() -> Self {
        Self {
            has_waking: HasWaking::Open(Vec::new()),
            stand_ins: 0,
        }
    }
}

impl Wakes {
    /// Takes a wake-up; rows that need not be held back go to `rows`.
    pub(crate) fn push(&mut self, wake: Wakeup, by: KnownBy, rows: &mut Wakeups) {
        if by == KnownBy::Waking {
            self.settle(HasWaking::Yes, rows);
        }
        if let HasWaking::Open(held) = &mut self.has_waking {
            held.push((wake, by));
            if held.len() >= MOST_HELD {
                self.settle(HasWaking::No, rows);
            }
            return;
        }
        self.pass(wake, by, rows);
    }

    /// The trace ends.
    pub(crate) fn end(&mut self, rows: &mut Wakeups) {
        self.settle(HasWaking::No, rows);
    }

    /// Passes on what was held back.
    fn settle(&mut self, has_waking: HasWaking, rows: &mut Wakeups) {
        if let HasWaking::Open(held) = std::mem::replace(&mut self.has_waking, has_waking) {
            for (wake, by) in held {
                self.pass(wake, by, rows);
            }
        }
    }

    fn pass(&mut self, wake: Wakeup, by: KnownBy, rows: &mut Wakeups) {
        let finished = by == KnownBy::Wakeup;
        match self.has_waking {
            HasWaking::Yes if finished => return,
            HasWaking::No if finished => self.stand_ins += 1,
            _ => {}
        }
        rows.push(wake);
    }

    /// Enters the number of stand-ins into the loss ledger.
    pub(crate) fn enter(&self, losses: &mut Ledger) {
        losses.enter(
            "wake-ups known from sched_wakeup only",
            self.stand_ins,
            "their waker may be the interrupt that finished them",
            "record sched_waking too",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use KnownBy::{New, Wakeup as Done, Waking};
    use idlewave_units::{Cpu, NodeId, Pid};

    /// Times of the rows, and how many stand in, after events at 0, 1, 2, ...
    fn rows(events: &[KnownBy]) -> (Vec<u64>, u64) {
        let (mut wakes, mut rows) = (Wakes::default(), Wakeups::default());
        for (time_ns, by) in (0..).zip(events) {
            let wake = Wakeup {
                node: NodeId::new(0),
                time_ns,
                cpu: Cpu::new(0),
                waker: Pid::new(1),
                pid: Pid::new(2),
                target_cpu: Cpu::new(0),
            };
            wakes.push(wake, *by, &mut rows);
        }
        wakes.end(&mut rows);
        (rows.time_ns.clone(), wakes.stand_ins)
    }

    #[test]
    fn finished_wake_ups_count_only_where_none_was_recorded_at_its_start() {
        assert_eq!(rows(&[Done, New, Done]), (vec![0, 1, 2], 2));
        // The `sched_wakeup` before the first `sched_waking` is dropped too.
        assert_eq!(rows(&[Done, New, Waking, Done, New]), (vec![1, 2, 4], 0));
        assert_eq!(rows(&[]), (vec![], 0));
    }

    #[test]
    fn rows_held_back_are_bounded() {
        let mut events = vec![Done; MOST_HELD];
        events.extend([Waking, Done]);
        let (rows, stand_ins) = rows(&events);
        let all = MOST_HELD as u64;
        // From the late `sched_waking` on, `sched_wakeup` no longer counts.
        assert_eq!((rows.len() as u64, stand_ins), (all + 1, all));
    }
}
