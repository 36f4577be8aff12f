//! Every continuation of a small program.

use super::machine::{Machine, Step};
use std::collections::HashSet;

impl Machine<'_> {
    /// By rank: whether it moves in any continuation. `None`: more than `limit` states are
    /// reachable.
    pub fn can_move(&self, limit: usize) -> Option<Vec<bool>> {
        let ranks = self.program.ranks.len();
        let mut moves = vec![false; ranks];
        let mut seen = HashSet::from([self.position.clone()]);
        let mut open = vec![self.clone()];
        while let Some(machine) = open.pop() {
            for step in machine.steps() {
                if let Step::Begin(rank) | Step::End(rank, _) = step {
                    moves[rank] = true;
                }
                let mut next = machine.clone();
                next.take(step);
                if seen.insert(next.position.clone()) {
                    open.push(next);
                }
            }
            if (0..ranks).all(|rank| moves[rank] || self.exited(rank)) {
                break;
            }
            if seen.len() > limit {
                return None;
            }
        }
        Some(moves)
    }
}
