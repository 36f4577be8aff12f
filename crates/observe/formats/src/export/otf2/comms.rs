//! Communicators, and ranks in them.

use crate::export::ExportError;
use idlewave_run::RunReader;
use idlewave_run::tables::Communicators;
use idlewave_units::Rank;
use std::collections::{BTreeMap, HashMap};

/// The communicators of a run.
pub(super) struct Comms {
    /// Members in order, by number.
    pub members: BTreeMap<u32, Vec<Rank>>,
    places: HashMap<(u32, Rank), u32>,
}

impl Comms {
    pub(super) fn of(run: &RunReader) -> Result<Self, ExportError> {
        let mut rows: BTreeMap<u32, Vec<(u32, Rank)>> = BTreeMap::new();
        run.for_each::<Communicators>(|row| {
            let members = rows.entry(row.comm).or_default();
            members.push((row.member, row.rank));
        })?;
        let mut comms = Self {
            members: BTreeMap::new(),
            places: HashMap::new(),
        };
        for (comm, mut members) in rows {
            members.sort_unstable();
            for (place, (_, rank)) in (0..).zip(&members) {
                comms.places.insert((comm, *rank), place);
            }
            let members = members.into_iter().map(|(_, rank)| rank).collect();
            comms.members.insert(comm, members);
        }
        Ok(comms)
    }

    /// The rank in a communicator of a rank of MPI_COMM_WORLD.
    pub(super) fn place(&self, comm: u32, rank: Rank) -> Option<u32> {
        self.places.get(&(comm, rank)).copied()
    }
}
