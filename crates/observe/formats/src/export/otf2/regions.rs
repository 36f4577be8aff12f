//! Names of regions, and what they are.

use crate::otf2;
use idlewave_run::tables::OperationClass;
use std::collections::HashMap;

/// What a region is: its role and paradigm in the headers of OTF2 3.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RegionKind {
    /// An MPI function.
    Mpi(OperationClass),
    /// Marked by the program, or a part of a step.
    Marked,
    /// What took the CPU from the thread.
    Taken,
}

/// A region.
pub(super) struct Region {
    pub name: String,
    pub kind: RegionKind,
}

/// The regions by number.
#[derive(Default)]
pub(super) struct Regions {
    pub all: Vec<Region>,
    ids: HashMap<(String, bool), u32>,
}

impl Regions {
    pub(super) fn id(&mut self, name: &str, kind: RegionKind) -> u32 {
        // Names of what takes a CPU are separate from names of the program.
        let key = (name.to_owned(), kind == RegionKind::Taken);
        let next = self.all.len() as u32;
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            self.all.push(Region {
                name: name.to_owned(),
                kind,
            });
        }
        id
    }
}

impl Region {
    /// OTF2_RegionRole.
    pub(super) fn role(&self) -> u8 {
        use OperationClass as Class;
        match self.kind {
            RegionKind::Marked => otf2::CODE,
            RegionKind::Taken => otf2::ARTIFICIAL,
            RegionKind::Mpi(_) if self.name == "MPI_Barrier" => otf2::BARRIER,
            RegionKind::Mpi(class) => match class {
                Class::Send | Class::Receive | Class::SendReceive | Class::Complete => {
                    otf2::POINT_TO_POINT
                }
                Class::FromRoot => otf2::ONE_TO_ALL,
                Class::ToRoot => otf2::ALL_TO_ONE,
                Class::AllToAll => otf2::ALL_TO_ALL,
                Class::Prefix | Class::Neighbour | Class::StartCollective => otf2::OTHER_COLLECTIVE,
                _ => otf2::FUNCTION,
            },
        }
    }

    /// OTF2_Paradigm.
    pub(super) fn paradigm(&self) -> u8 {
        match self.kind {
            RegionKind::Mpi(_) => otf2::MPI,
            RegionKind::Marked => otf2::USER,
            RegionKind::Taken => otf2::MEASUREMENT_SYSTEM,
        }
    }
}
