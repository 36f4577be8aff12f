//! Coordinates moves of processes between cgroups with freezes, so that no freeze has to wait.
//!
//! The kernel moves a process with `cgroup_mutex` held, and meanwhile waits for an RCU grace period
//! (`percpu_down_write` of `cgroup_threadgroup_rwsem`, kernel/cgroup/cgroup.c): milliseconds, or
//! seconds if others want all CPUs. `cgroup.freeze` of version 2 takes the same mutex, so freezing
//! and thawing wait for any move on the machine. Measured on two CPUs with 8 and 40 programs that
//! start others: a freeze during moves took up to 16 and 520 ms (n = 1120 and 3480), with version 1
//! and 8 programs up to 0.95 ms (n = 1177).

use crate::clock::{look_until, now, sleep_until};
use crate::error::FreezeError;
use crate::kind::Kind;
use idlewave_units::Nanos;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// No one is moving, and moving is allowed.
const FREE: u8 = 0;
/// A process is being moved.
const MOVING: u8 = 1;
/// Moving is not allowed.
const PAUSED: u8 = 2;

/// Interval at which a waiting mover polls.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// Makes moves by one thread and freezes by another mutually exclusive. This is not a lock: a
/// real-time thread must not wait for one that holds a lock but has no CPU.
#[derive(Debug)]
pub struct Moves {
    /// One of the values above. A move happens between the exchanges that start and end it (acquire
    /// and release), so a successful pause comes after the whole move.
    state: AtomicU8,
    /// A pause is waiting: no further move starts. Only a hint, so not ordered with anything else.
    wanted: AtomicBool,
    shares: bool,
}

impl Moves {
    /// For groups of that kind. Only version 2 has one kernel lock for both; otherwise both are
    /// always allowed.
    pub fn new(kind: Kind) -> Self {
        Self {
            state: AtomicU8::new(FREE),
            wanted: AtomicBool::new(false),
            shares: kind == Kind::V2,
        }
    }

    /// Prevents moves from now on. Waits, asleep, until a running move has ended. No effect if
    /// already paused.
    ///
    /// # Errors
    /// [`FreezeError::Moving`] if it has not ended within the limit: then moves are not paused.
    pub fn pause(&self, limit: Nanos) -> Result<(), FreezeError> {
        if !self.shares {
            return Ok(());
        }
        self.wanted.store(true, Ordering::Relaxed);
        let paused = look_until(now(), limit, || {
            Ok::<_, Infallible>((self.take(PAUSED) || self.is_paused()).then_some(()))
        });
        self.wanted.store(false, Ordering::Relaxed);
        match paused {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(FreezeError::Moving { limit }),
            Err(never) => match never {},
        }
    }

    /// Whether moves are paused.
    pub fn is_paused(&self) -> bool {
        self.state.load(Ordering::Acquire) == PAUSED
    }

    /// Allows moves again.
    pub fn resume(&self) {
        // No effect if not paused: a running move continues.
        let _ = self
            .state
            .compare_exchange(PAUSED, FREE, Ordering::Release, Ordering::Relaxed);
    }

    /// Runs a move as soon as moves are allowed; sleeps until then.
    pub fn go<T>(&self, moves: impl FnOnce() -> T) -> T {
        if !self.shares {
            return moves();
        }
        while self.wanted.load(Ordering::Relaxed) || !self.take(MOVING) {
            sleep_until(now() + LOOK_EVERY);
        }
        let moved = moves();
        self.state.store(FREE, Ordering::Release);
        moved
    }

    fn take(&self, what: u8) -> bool {
        self.state
            .compare_exchange(FREE, what, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

/// Does not coordinate anything.
impl Default for Moves {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(FREE),
            wanted: AtomicBool::new(false),
            shares: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const SHORT: Nanos = Nanos::from_millis(20);
    const LONG: Nanos = Nanos::from_secs(60);

    #[test]
    fn who_wants_to_pause_waits_for_a_move_and_not_for_long() {
        let moves = Moves::new(Kind::V2);
        let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
        std::thread::scope(|scope| {
            let moves = &moves;
            scope.spawn(move || {
                moves.go(|| {
                    begin.send(()).unwrap();
                    // An error means that the test has failed.
                    let _ = ended.recv();
                });
            });
            let end = end;
            begun.recv().unwrap();
            let refused = moves.pause(SHORT);
            assert!(matches!(refused, Err(FreezeError::Moving { limit }) if limit == SHORT));
            assert!(!moves.is_paused());
            // This does not end a move.
            moves.resume();
            moves.pause(Nanos::ZERO).unwrap_err();
            end.send(()).unwrap();
            moves.pause(LONG).unwrap();
            moves.pause(Nanos::ZERO).unwrap();
            assert!(moves.is_paused());
        });
    }

    #[test]
    fn who_wants_to_move_waits_as_long_as_it_is_paused() {
        let (moves, moved) = (Moves::new(Kind::V2), AtomicBool::new(false));
        moves.pause(Nanos::ZERO).unwrap();
        std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                moves.go(|| moved.store(true, Ordering::Relaxed));
                moves.go(|| ());
            });
            sleep_until(now() + SHORT);
            assert!(!moved.load(Ordering::Relaxed));
            moves.resume();
            mover.join().unwrap();
        });
        assert!(moved.load(Ordering::Relaxed));
    }

    #[test]
    fn who_moves_one_after_the_other_lets_others_pause_in_between() {
        let (moves, end) = (Moves::new(Kind::V2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    moves.go(|| sleep_until(now() + Nanos::from_millis(2)));
                }
            });
            let pauses = (0..5).map(|_| {
                // It is moving again by now.
                sleep_until(now() + Nanos::from_millis(5));
                let paused = moves.pause(LONG);
                moves.resume();
                paused.is_ok()
            });
            let all = pauses.fold(true, |all, paused| all & paused);
            end.store(true, Ordering::Relaxed);
            assert!(all);
        });
    }

    #[test]
    fn other_versions_wait_for_nobody() {
        for kind in [Kind::V1, Kind::Signals] {
            let moves = Moves::new(kind);
            moves.pause(Nanos::ZERO).unwrap();
            moves.go(|| moves.pause(Nanos::ZERO).unwrap());
        }
    }
}
