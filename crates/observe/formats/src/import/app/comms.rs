//! Communicators by the numbers that a trace gives them.

use idlewave_run::tables::{Communicator, Communicators, Table};
use idlewave_units::Rank;
use std::collections::HashMap;

/// Limit on communicators without members, so that the numbers in a trace cannot exhaust memory.
const MOST: u64 = 1 << 16;
/// Limit on members of all communicators together: a trace may name one group many times.
const MOST_MEMBERS: usize = 1 << 24;

/// The communicators of a trace, numbered densely in the order of their declaration.
#[derive(Default)]
pub(in crate::import) struct Comms {
    ids: HashMap<u64, u32>,
    /// The key of MPI_COMM_WORLD where the trace does not list its members.
    world: Option<u64>,
    /// Communicators that have no members.
    pub unlisted: u64,
    rows: Communicators,
}

impl Comms {
    /// Declares a communicator by the trace's number for it, unless it is known. The first one is
    /// MPI_COMM_WORLD.
    pub(in crate::import) fn declare(&mut self, key: u64, members: impl IntoIterator<Item = Rank>) {
        // One that is left out for lack of room gets its number at its first use.
        if self.rows.len() >= MOST_MEMBERS {
            return;
        }
        let Some(comm) = self.number(key) else {
            return;
        };
        for (member, rank) in (0..).zip(members) {
            self.rows.push(Communicator {
                comm,
                member,
                rank,
                key,
            });
        }
    }

    /// Declares the first communicator to be MPI_COMM_WORLD, with all ranks as members.
    pub(in crate::import) fn declare_world(&mut self, key: u64) {
        if self.ids.is_empty() {
            self.world = self.number(key).map(|_| key);
        }
    }

    /// A communicator's number in the run; `None` if there are too many without members.
    pub(in crate::import) fn of(&mut self, key: u64) -> Option<u32> {
        match self.ids.get(&key) {
            Some(&comm) => Some(comm),
            None if self.unlisted >= MOST => None,
            None => {
                self.unlisted += 1;
                self.number(key)
            }
        }
    }

    /// A new number; `None` if this communicator already has one.
    fn number(&mut self, key: u64) -> Option<u32> {
        let next = u32::try_from(self.ids.len()).ok()?;
        match self.ids.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => None,
            std::collections::hash_map::Entry::Vacant(place) => Some(*place.insert(next)),
        }
    }

    /// The table; `ranks` are all ranks of the program.
    pub(super) fn finish(mut self, ranks: impl Iterator<Item = Rank>) -> Communicators {
        if let Some(key) = self.world {
            for (member, rank) in (0..).zip(ranks) {
                self.rows.push(Communicator {
                    comm: 0,
                    member,
                    rank,
                    key,
                });
            }
        }
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communicators_that_are_only_used_are_numbered_up_to_a_limit() {
        let mut comms = Comms::default();
        comms.declare(7, [Rank::new(0)]);
        for key in 100..100 + MOST {
            assert_eq!(comms.of(key), Some((key - 99) as u32));
        }
        assert_eq!(comms.of(100 + MOST), None);
        assert_eq!([7, 100].map(|key| comms.of(key)), [Some(0), Some(1)]);
        assert_eq!(
            (comms.unlisted, comms.finish([].into_iter()).len()),
            (MOST, 1)
        );
    }
}
