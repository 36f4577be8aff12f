//! Finding lanes and calls of a program when many are looked up in about the order of time.

use super::lanes::Program;
use idlewave_units::{Pid, Rank};

/// Finds calls by their starts, quickly if each is near the one found before it on its lane.
pub(super) struct CallFinder {
    /// Per lane, the call found last.
    last: Vec<u32>,
}

impl CallFinder {
    /// Calls on either side of the last one that are looked at before a binary search.
    const NEAR: u32 = 6;

    pub fn of(program: &Program) -> Self {
        Self {
            last: vec![0; program.lanes.len()],
        }
    }

    /// The call of a lane that began at this time.
    pub fn find(&mut self, program: &Program, lane: u32, begin: u64) -> Option<u32> {
        let calls = &program.lanes[lane as usize].calls;
        let last = &mut self.last[lane as usize];
        let from = last.saturating_sub(Self::NEAR);
        let to = (*last + Self::NEAR + 1).min(calls.len() as u32);
        let near = (from..to).find(|&i| calls[i as usize].begin == begin);
        let found = near.or_else(|| program.lanes[lane as usize].call_at(begin))?;
        *last = found;
        Some(found)
    }
}

/// Finds the lanes of rows, of which many from one thread follow each other.
pub(super) struct LaneFinder<'a> {
    program: &'a Program,
    last: Option<(Rank, Pid, Option<u32>)>,
}

impl<'a> LaneFinder<'a> {
    pub fn of(program: &'a Program) -> Self {
        Self {
            program,
            last: None,
        }
    }

    /// The lane of a thread of a rank.
    pub fn find(&mut self, rank: Rank, thread: Pid) -> Option<u32> {
        match self.last {
            Some((r, t, lane)) if (r, t) == (rank, thread) => lane,
            _ => {
                let lane = self.program.lane_of(rank, thread);
                self.last = Some((rank, thread, lane));
                lane
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_its_start_wherever_the_last_one_was() {
        let begin = |i: u32| 10 + 10 * u64::from(i);
        let spans: Vec<(u64, u64)> = (0..40).map(|i| (begin(i), begin(i) + 5)).collect();
        let program = Program::of_calls(&spans);
        for last in 0..40 {
            let mut calls = CallFinder::of(&program);
            for wanted in 0..40 {
                assert_eq!(calls.find(&program, 0, begin(last)), Some(last));
                assert_eq!(calls.find(&program, 0, begin(wanted)), Some(wanted));
                for none in [begin(wanted) - 1, begin(wanted) + 1, 0, 1_000] {
                    assert_eq!(calls.find(&program, 0, none), None);
                }
            }
        }
    }
}
