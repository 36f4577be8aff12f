//! The ranks of a world within the world.

use crate::FabricError;
use idlewave_units::Rank;

/// The place of `own` in `members`, of a world of `size` ranks; `None` if it is not among them.
///
/// # Errors
/// The list is empty, or names a rank that does not exist or one twice: the same on all ranks.
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
