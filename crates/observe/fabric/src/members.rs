//! Worlds made of some ranks of the whole world.

use crate::{Delivery, FabricError};
use idlewave_units::Rank;

/// The index of `own` in `members`, which were chosen from a world of `size` ranks; `None` if it is
/// not a member.
///
/// # Errors
/// The list is empty, or names a rank twice or one that does not exist. All ranks get the same
/// error.
pub fn place_among(members: &[Rank], own: Rank, size: u32) -> Result<Option<u32>, FabricError> {
    if members.is_empty() {
        let rank = Rank::new(0);
        return Err(FabricError::NoSuchRank { rank, size: 0 });
    }
    let mut seen = vec![false; size as usize];
    for &rank in members {
        match seen.get_mut(rank.get() as usize) {
            None => return Err(FabricError::NoSuchRank { rank, size }),
            Some(true) => return Err(FabricError::Twice { rank }),
            Some(seen) => *seen = true,
        }
    }
    let place = members.iter().position(|&rank| rank == own);
    Ok(place.map(|place| place as u32))
}

/// A world made of some ranks of the whole world.
pub struct Chosen {
    /// This rank's number in it.
    pub place: u32,
    /// Its ranks, as ranks of the whole world.
    pub members: Vec<Rank>,
}

impl Chosen {
    /// Translates a rank of the whole world to one of this world. `rank` is a member, since only
    /// members send.
    fn within(&self, rank: Rank) -> Rank {
        let place = self.members.iter().position(|&member| member == rank);
        place.map_or(rank, |place| Rank::new(place as u32))
    }

    /// Translates a rank among the participants (the chosen ranks, or all) to its rank in the whole
    /// world of `size` ranks.
    ///
    /// # Errors
    /// No participant has this rank.
    pub fn resolve(chosen: Option<&Self>, rank: Rank, size: u32) -> Result<Rank, FabricError> {
        let (found, size) = match chosen {
            Some(chosen) => {
                let found = chosen.members.get(rank.get() as usize).copied();
                (found, chosen.members.len() as u32)
            }
            None => ((rank.get() < size).then_some(rank), size),
        };
        found.ok_or(FabricError::NoSuchRank { rank, size })
    }

    /// The result of a receive, with the sender's rank translated to its rank among the
    /// participants.
    ///
    /// # Errors
    /// That of the receive.
    pub fn heard(
        chosen: Option<&Self>,
        result: Result<Delivery, FabricError>,
    ) -> Result<Delivery, FabricError> {
        let Some(chosen) = chosen else {
            return result;
        };
        match result {
            Ok(Delivery { from, data }) => Ok(Delivery {
                from: chosen.within(from),
                data,
            }),
            Err(FabricError::TooLong {
                from,
                length,
                capacity,
            }) => Err(FabricError::TooLong {
                from: chosen.within(from),
                length,
                capacity,
            }),
            other => other,
        }
    }
}
