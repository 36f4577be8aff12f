//! What the ranks of gangs waited for each time their gang was frozen and drained on all nodes, at
//! the end of its turn. Nothing is in flight then, so the waits of all ranks are the state of the
//! gang.

use crate::contexts::{Waiting, What};
use idlewave_fabric::netctx::device::{Awaited, Doing};
use std::collections::BTreeMap;

/// The state of a gang.
#[derive(Debug, Default)]
struct Look {
    epoch: u64,
    /// By rank: what it waits for, and since when.
    ranks: BTreeMap<u32, (What, u64)>,
}

/// Observations of the gangs of a node.
#[derive(Debug, Default)]
pub struct Looks {
    /// Those of a switch that may still be aborted: perhaps not all nodes were frozen at the same
    /// time.
    taken: Vec<(u32, Vec<(u32, Doing)>)>,
    gangs: BTreeMap<u32, Look>,
}

impl Looks {
    /// The gangs are frozen and drained here.
    pub fn take(&mut self, gangs: Vec<(u32, Vec<(u32, Doing)>)>) {
        self.taken = gangs;
    }

    /// All nodes were ready: the last observation held everywhere at one time.
    pub fn confirm(&mut self, epoch: u64) {
        for (gang, doing) in std::mem::take(&mut self.taken) {
            let look = self.gangs.entry(gang).or_default();
            let before = std::mem::take(&mut look.ranks);
            look.epoch = epoch;
            for (rank, doing) in doing {
                let what = match doing {
                    Doing::Computing => continue,
                    Doing::Waits(Awaited::Receive { from, tag }) => What::Receive { from, tag },
                    Doing::Waits(Awaited::Send { to, tag }) => What::Send { to, tag },
                    Doing::Left => What::Left,
                };
                let since = before.get(&rank).filter(|(same, _)| *same == what);
                let since = since.map_or(epoch, |(_, since)| *since);
                look.ranks.insert(rank, (what, since));
            }
        }
    }

    /// Everything runs, perhaps only here: earlier observations do not cover switches that this
    /// node missed.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Removes a gang.
    pub fn remove(&mut self, gang: u32) {
        self.gangs.remove(&gang);
        self.taken.retain(|(of, _)| *of != gang);
    }

    /// The last switch at which a gang was examined, and the ranks that waited.
    pub fn of(&self, gang: u32) -> (Option<u64>, Vec<Waiting>) {
        let Some(look) = self.gangs.get(&gang) else {
            return (None, Vec::new());
        };
        let waiting = |(rank, (what, since)): (&u32, &(What, u64))| Waiting {
            rank: *rank,
            since: *since,
            what: *what,
        };
        (Some(look.epoch), look.ranks.iter().map(waiting).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Doing = Doing::Waits(Awaited::Receive {
        from: Some(1),
        tag: 7,
    });

    #[test]
    fn a_rank_waits_since_the_first_switch_at_which_it_waited_for_the_same() {
        let mut looks = Looks::default();
        let mut look = |epoch, doing| {
            looks.take(vec![(3, vec![(0, doing), (1, Doing::Left)])]);
            looks.confirm(epoch);
            let (looked, waits) = looks.of(3);
            assert_eq!(looked, Some(epoch));
            let of = |rank| waits.iter().find(|w| w.rank == rank).map(|w| w.since);
            (of(0), of(1))
        };
        assert_eq!(look(5, Doing::Computing), (None, Some(5)));
        assert_eq!(look(6, WAITS), (Some(6), Some(5)));
        assert_eq!(look(8, WAITS), (Some(6), Some(5)));
        let other = Doing::Waits(Awaited::Send { to: 1, tag: 7 });
        assert_eq!(look(9, other), (Some(9), Some(5)));
        assert_eq!(look(10, WAITS), (Some(10), Some(5)));
    }

    #[test]
    fn an_aborted_switch_and_one_that_was_missed_say_nothing() {
        let mut looks = Looks::default();
        looks.take(vec![(3, vec![(0, WAITS)])]);
        assert_eq!(looks.of(3), (None, Vec::new()));
        looks.take(Vec::new());
        looks.confirm(4);
        assert_eq!(looks.of(3), (None, Vec::new()));
        looks.take(vec![(3, vec![(0, WAITS)])]);
        looks.confirm(5);
        assert_eq!(looks.of(3).0, Some(5));
        looks.forget();
        assert_eq!(looks.of(3).0, None);
    }
}
