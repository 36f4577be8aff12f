//! Joins starts and completions of the point-to-point operations of one process.
//!
//! Rows leave in the order in which they were posted, so that messages between the same two ranks
//! with the same tag can be matched by order. An operation that stays open would hold back all
//! later ones: when more than [`MOST_HELD`] wait, completed ones overtake it.

use idlewave_run::tables::Transfer;
use idlewave_units::{Bytes, Rank};
use std::collections::{HashMap, HashSet, VecDeque};

/// Most rows of a process that are held back, beyond the open ones.
const MOST_HELD: usize = 1 << 16;
/// Most completions kept whose start has not been seen yet: the start arrives a moment later,
/// through another thread's ring.
const MOST_EARLY: usize = 1 << 16;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    /// Start and end of the call that completed it.
    pub wait_ns: u64,
    pub completed_ns: u64,
    pub peer: Option<Rank>,
    pub tag: Option<i32>,
    /// `None` if unknown.
    pub bytes: Option<Bytes>,
    pub cancelled: bool,
    /// The request was freed before the operation ended, so its end is unknown.
    pub freed: bool,
}

enum Slot {
    Open(Transfer),
    Done(Transfer),
    /// Cancelled: no row.
    Gone,
}

/// The operations of one process.
#[derive(Default)]
pub(super) struct Join {
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    first: u64,
    /// Slots of open requests.
    open: HashMap<u64, u64>,
    early: HashMap<u64, Completion>,
    /// Open requests that are not messages but collectives.
    others: HashSet<u64>,
    /// Number of slots from which on completed operations overtake open ones.
    limit: usize,
    /// Operations that were cancelled.
    pub cancelled: u64,
    /// Operations whose request was freed before their end.
    pub freed: u64,
    /// Completions whose start was never seen.
    pub unknown: u64,
}

impl Join {
    /// Adds an operation started and completed by the same call.
    pub fn whole(&mut self, row: Transfer) {
        self.slots.push_back(Slot::Done(row));
    }

    /// Adds an operation started with a request.
    pub fn start(&mut self, request: u64, row: Transfer) {
        let slot = match self.early.remove(&request) {
            Some(end) => self.ended(row, &end),
            None => {
                self.open
                    .insert(request, self.first + self.slots.len() as u64);
                Slot::Open(row)
            }
        };
        self.slots.push_back(slot);
    }

    /// Adds a request that is not a message.
    pub fn start_other(&mut self, request: u64) {
        if self.early.remove(&request).is_none() {
            self.others.insert(request);
        }
    }

    /// Notes that a request was completed.
    pub fn complete(&mut self, request: u64, end: Completion) {
        if self.others.remove(&request) {
            return;
        }
        let Some(number) = self.open.remove(&request) else {
            if self.early.len() >= MOST_EARLY {
                self.unknown += self.early.len() as u64;
                self.early.clear();
            }
            self.early.insert(request, end);
            return;
        };
        let at = number.checked_sub(self.first).map(|at| at as usize);
        let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) else {
            return;
        };
        if let Slot::Open(row) = std::mem::replace(slot, Slot::Gone) {
            let ended = self.ended(row, &end);
            if let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) {
                *slot = ended;
            }
        }
    }

    fn ended(&mut self, mut row: Transfer, end: &Completion) -> Slot {
        if end.cancelled {
            self.cancelled += 1;
            return Slot::Gone;
        }
        if end.freed {
            // It is still a message: without its row, all later messages would be matched with the
            // wrong counterparts.
            self.freed += 1;
            return Slot::Done(row);
        }
        row.wait_ns = Some(end.wait_ns);
        row.completed_ns = Some(end.completed_ns);
        if row.direction == idlewave_run::tables::Direction::Receive {
            row.peer = end.peer;
            row.tag = end.tag.unwrap_or(row.tag);
            row.bytes = end.bytes;
        }
        Slot::Done(row)
    }

    /// Emits complete rows.
    pub fn flush<E>(&mut self, mut emit: impl FnMut(Transfer) -> Result<(), E>) -> Result<(), E> {
        while let Some(Slot::Done(_) | Slot::Gone) = self.slots.front() {
            self.first += 1;
            if let Some(Slot::Done(row)) = self.slots.pop_front() {
                emit(row)?;
            }
        }
        if self.slots.len() > MOST_HELD.max(self.limit) {
            let slots = std::mem::take(&mut self.slots);
            let mut moved = HashMap::new();
            let before = self.first;
            for (at, slot) in slots.into_iter().enumerate() {
                match slot {
                    Slot::Open(row) => {
                        moved.insert(before + at as u64, self.first + self.slots.len() as u64);
                        self.slots.push_back(Slot::Open(row));
                    }
                    Slot::Done(row) => emit(row)?,
                    Slot::Gone => {}
                }
            }
            for number in self.open.values_mut() {
                *number = moved.get(number).copied().unwrap_or(*number);
            }
            self.limit = 2 * self.slots.len();
        }
        Ok(())
    }

    /// Emits all remaining rows, open ones with empty cells.
    pub fn finish<E>(&mut self, mut emit: impl FnMut(Transfer) -> Result<(), E>) -> Result<(), E> {
        self.unknown += self.early.len() as u64;
        self.early.clear();
        self.open.clear();
        self.first += self.slots.len() as u64;
        for slot in std::mem::take(&mut self.slots) {
            match slot {
                Slot::Open(row) | Slot::Done(row) => emit(row)?,
                Slot::Gone => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::tables::Direction;
    use idlewave_units::Pid;
    use std::convert::Infallible;

    fn row(tag: i32) -> Transfer {
        Transfer {
            rank: Rank::new(0),
            thread: Pid::new(1),
            direction: Direction::Receive,
            comm: 0,
            peer: None,
            tag,
            bytes: None,
            posted_ns: 0,
            wait_ns: None,
            completed_ns: None,
        }
    }

    fn end(tag: i32) -> Completion {
        Completion {
            wait_ns: 5,
            completed_ns: 6,
            peer: Some(Rank::new(3)),
            tag: Some(tag),
            bytes: Some(Bytes::new(8)),
            cancelled: false,
            freed: false,
        }
    }

    fn flushed(join: &mut Join, all: bool) -> Vec<i32> {
        let mut tags = Vec::new();
        let mut emit = |row: Transfer| -> Result<(), Infallible> {
            tags.push(row.tag);
            Ok(())
        };
        let Ok(()) = if all {
            join.finish(&mut emit)
        } else {
            join.flush(&mut emit)
        };
        tags
    }

    #[test]
    fn rows_leave_in_the_order_in_which_they_were_posted() {
        let mut join = Join::default();
        join.start(1, row(-1));
        join.start(2, row(-1));
        join.whole(row(30));
        assert_eq!(flushed(&mut join, false), [0; 0]);
        join.complete(2, end(20));
        assert_eq!(flushed(&mut join, false), [0; 0]);
        join.complete(1, end(10));
        assert_eq!(flushed(&mut join, false), [10, 20, 30]);
    }

    #[test]
    fn a_completion_may_be_seen_before_its_start() {
        let mut join = Join::default();
        join.complete(7, end(10));
        join.start(7, row(-1));
        assert_eq!(flushed(&mut join, false), [10]);
        join.complete(8, end(10));
        assert_eq!(flushed(&mut join, true), [0; 0]);
        assert_eq!(join.unknown, 1);
    }

    #[test]
    fn what_was_cancelled_is_counted_and_what_stays_open_has_empty_cells() {
        let mut join = Join::default();
        join.start(1, row(-1));
        join.start(2, row(-2));
        let cancelled = Completion {
            cancelled: true,
            ..end(0)
        };
        join.complete(1, cancelled);
        assert_eq!(flushed(&mut join, true), [-2]);
        assert_eq!((join.cancelled, join.unknown), (1, 0));
    }

    #[test]
    fn what_was_freed_keeps_its_place_with_empty_cells() {
        let mut join = Join::default();
        let freed = Completion {
            freed: true,
            ..end(0)
        };
        join.start(1, row(10));
        join.complete(1, freed);
        join.complete(2, freed);
        join.start(2, row(20));
        let mut rows = Vec::new();
        let Ok(()) = join.flush(|row| -> Result<(), Infallible> {
            rows.push((row.tag, row.wait_ns, row.completed_ns));
            Ok(())
        });
        assert_eq!(rows, [(10, None, None), (20, None, None)]);
        assert_eq!((join.freed, join.cancelled, join.unknown), (2, 0, 0));
    }

    #[test]
    fn an_operation_that_stays_open_does_not_hold_everything_back() {
        let mut join = Join::default();
        join.start(0, row(-7));
        for n in 0..2 * MOST_HELD {
            join.start(n as u64 + 1, row(-1));
            join.complete(n as u64 + 1, end(n as i32));
            let out = flushed(&mut join, false).len();
            assert!(out == 0 || out > MOST_HELD / 2, "{out}");
            assert!(join.slots.len() <= MOST_HELD + 1);
        }
        join.complete(0, end(99));
        let rest = flushed(&mut join, false);
        assert_eq!(rest.first(), Some(&99));
        assert!(rest[1..].windows(2).all(|w| w[1] == w[0] + 1));
    }
}
