//! A barrier in which ranks sleep, used where the number of active ranks changes.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Interval between checks for a failed rank.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct State {
    /// Arrivals since the world was created.
    arrived: u64,
    /// The highest number that any rank passed.
    highest: u64,
}

/// Where all ranks of a world meet.
#[derive(Debug, Default)]
pub struct Meeting {
    state: Mutex<State>,
    all_here: Condvar,
}

impl Meeting {
    /// Sleeps until `size` ranks have called it for the `nth` time, counted from 1, and returns the
    /// highest `number` that any of them ever passed. `None` once `failed` returns true.
    pub fn meet(&self, size: u32, nth: u64, number: u64, failed: impl Fn() -> bool) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        state.highest = state.highest.max(number);
        let wanted = u64::from(size) * nth;
        if state.arrived >= wanted {
            self.all_here.notify_all();
        }
        while state.arrived < wanted {
            if failed() {
                return None;
            }
            let waited = self.all_here.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(state.highest)
    }
}
