//! Communicators, and ranks in them.

use super::survey::Survey;
use crate::export::{ExportError, Job};
use idlewave_run::tables::Communicators;
use idlewave_units::Rank;
use std::collections::{BTreeMap, HashMap};

/// The communicators of a run. Ranks that the run does not list are in none.
pub(super) struct Comms {
    /// By number: members in order, as places in the group of all ranks.
    pub members: BTreeMap<u32, Vec<u64>>,
    places: HashMap<(u32, Rank), u32>,
}

impl Comms {
    pub(super) fn of(job: &Job<'_>, survey: &Survey) -> Result<Self, ExportError> {
        let world: HashMap<Rank, u64> = survey.ranks.keys().copied().zip(0..).collect();
        let mut rows: BTreeMap<u32, Vec<(u32, Rank)>> = BTreeMap::new();
        job.run.for_each::<Communicators>(|row| {
            let members = rows.entry(row.comm).or_default();
            if world.contains_key(&row.rank) {
                members.push((row.member, row.rank));
            }
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
            let members = members.iter().map(|(_, rank)| world[rank]).collect();
            comms.members.insert(comm, members);
        }
        Ok(comms)
    }

    /// The rank in this communicator of a rank of MPI_COMM_WORLD.
    pub(super) fn place(&self, comm: u32, rank: Rank) -> Option<u32> {
        self.places.get(&(comm, rank)).copied()
    }
}
