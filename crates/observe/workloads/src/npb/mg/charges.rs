//! The right-hand side: charges of +1 where ten random numbers are largest, of -1 where they are
//! smallest, and 0 elsewhere. Cells take the numbers of one sequence in the order of the whole grid.

use super::field::Field;
use super::level::Level;
use crate::WorkloadError;
use crate::randlc::Randlc;
use crate::stopwatch::Stopwatch;
use bytemuck::{Pod, Zeroable};
use idlewave_fabric::Fabric;

const SEED: u64 = 314_159_265;
/// Charges of each sign.
const CHARGES: usize = 10;

/// A cell of the whole grid and its random number, signed so that charges go to the largest.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct Candidate {
    number: f64,
    cell: u64,
}

/// The best candidates, best first.
type Best = [Candidate; CHARGES];

/// Bytes that are gathered from this many ranks.
pub const fn bytes(ranks: u32) -> usize {
    ranks as usize * size_of::<[Best; 2]>()
}

fn worst() -> Best {
    let number = f64::NEG_INFINITY;
    [Candidate { number, cell: 0 }; CHARGES]
}

fn insert(best: &mut Best, new: Candidate) {
    let place = best.partition_point(|old| old.number >= new.number);
    if place < CHARGES {
        best[place..].rotate_right(1);
        best[place] = new;
    }
}

/// The best of the random numbers of a share: largest, and smallest with their sign changed.
fn candidates(level: &Level, edge: u64) -> [Best; 2] {
    let mut best = [worst(), worst()];
    for z in 0..level.cells[2] {
        for y in 0..level.cells[1] {
            let row = (level.before[2] + z) as u64 * edge + (level.before[1] + y) as u64;
            let first = row * edge + level.before[0] as u64;
            let mut random = Randlc::new(SEED).skip(first);
            for cell in first..first + level.cells[0] as u64 {
                let number = random.next_unit();
                for (best, number) in best.iter_mut().zip([number, -number]) {
                    if number > best[CHARGES - 1].number {
                        insert(best, Candidate { number, cell });
                    }
                }
            }
        }
    }
    best
}

/// Sets the charges of a share of the finest level, which has `edge` cells along each edge.
///
/// # Errors
/// Another rank failed.
pub fn set<F: Fabric>(
    watch: &mut Stopwatch<'_, F>,
    level: &Level,
    edge: u64,
    v: &mut Field,
) -> Result<(), WorkloadError> {
    v.clear();
    let own = candidates(level, edge);
    let mut all = vec![own; watch.size() as usize];
    watch.allgather(
        bytemuck::cast_slice(&own),
        bytemuck::cast_slice_mut(&mut all),
    )?;
    for (sign, charge) in [(0, 1.0), (1, -1.0)] {
        let mut best = worst();
        for of_rank in &all {
            of_rank[sign].iter().for_each(|&one| insert(&mut best, one));
        }
        for Candidate { cell, .. } in best {
            let place = [cell % edge, cell / edge % edge, cell / edge / edge];
            let own: [Option<usize>; 3] = std::array::from_fn(|axis| {
                let here = (place[axis] as usize).checked_sub(level.before[axis])?;
                (here < level.cells[axis]).then_some(here + 1)
            });
            if let [Some(x), Some(y), Some(z)] = own {
                v.row_mut(y, z)[x] = charge;
            }
        }
    }
    Ok(())
}
