//! Maps the number that identifies a communicator to all its members to a dense number in this
//! bundle.

use idlewave_run::tables::{Communicator, Communicators};
use idlewave_run::{RunError, TableWriter};
use idlewave_units::Rank;
use std::collections::HashMap;

/// Numbers communicators in order of appearance, and writes each one's members once.
pub(super) struct Book {
    world: Option<u64>,
    /// The next number.
    next: u32,
    numbers: HashMap<u64, Entry>,
    table: TableWriter<Communicators>,
}

struct Entry {
    comm: u32,
    /// Members written so far.
    written: u32,
}

impl Book {
    pub fn new(table: TableWriter<Communicators>) -> Self {
        Self {
            world: None,
            next: 1,
            numbers: HashMap::new(),
            table,
        }
    }

    /// The communicator's number; 0 for MPI_COMM_WORLD, the first one whose members any rank shows.
    pub fn number(&mut self, key: u64) -> u32 {
        self.entry(key).comm
    }

    fn entry(&mut self, key: u64) -> &mut Entry {
        let next = &mut self.next;
        let is_world = self.world == Some(key);
        self.numbers.entry(key).or_insert_with(|| {
            let comm = if is_world { 0 } else { *next };
            *next += u32::from(!is_world);
            Entry { comm, written: 0 }
        })
    }

    /// Adds members of a communicator of `total` members, from `first` on.
    pub fn members(
        &mut self,
        key: u64,
        total: u32,
        first: u32,
        ranks: &[Option<u32>],
    ) -> Result<(), RunError> {
        if self.world.is_none() && !self.numbers.contains_key(&key) {
            self.world = Some(key);
        }
        let entry = self.entry(key);
        if entry.written != first {
            // Another member or thread has listed these.
            return Ok(());
        }
        let comm = entry.comm;
        entry.written = total.min(first.saturating_add(ranks.len() as u32));
        for (member, rank) in (first..total).zip(ranks) {
            // `None` is a process outside MPI_COMM_WORLD; the ledger lists it.
            if let Some(rank) = rank.map(Rank::new) {
                self.table.push(Communicator {
                    comm,
                    member,
                    rank,
                    key,
                })?;
            }
        }
        Ok(())
    }

    pub fn into_table(self) -> TableWriter<Communicators> {
        self.table
    }
}
