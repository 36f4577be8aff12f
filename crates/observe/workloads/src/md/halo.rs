//! What ranks send each other: ghosts of particles near a side, and particles that left their box.
//!
//! Exchanges go dimension by dimension, so that what must cross an edge or a corner is forwarded. A
//! rank that is its own neighbour copies.

use super::grid::{Grid, Side};
use super::lattice::box_of;
use super::particles::{Particle, Particles, Vector};
use crate::WorkloadError;
use idlewave_fabric::{Fabric, Tag};
use std::ops::Range;

const COUNT: u32 = 16;
const GHOSTS: u32 = 24;
const LEAVING: u32 = 32;

fn tag(base: u32, dimension: usize, side: Side) -> Tag {
    Tag(base + 2 * dimension as u32 + (side == Side::High) as u32)
}

/// Ghosts sent across one side and those received across the other.
#[derive(Clone, Debug)]
struct Transfer {
    dimension: usize,
    side: Side,
    /// Indices of the copied particles: owned ones, or ghosts of earlier dimensions.
    copied: Vec<u32>,
    /// Added to the coordinate along the dimension.
    shift: f64,
    /// Indices of the received ghosts.
    received: Range<usize>,
}

/// The box of one rank in the periodic system, and its exchanges.
#[derive(Clone, Debug)]
pub struct Halo {
    pub grid: Grid,
    /// Edges of the whole system.
    pub length: Vector,
    /// Low corner of the rank's box.
    pub low: Vector,
    pub high: Vector,
    transfers: Vec<Transfer>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

fn put<'a>(bytes: &mut Vec<u8>, positions: impl Iterator<Item = &'a Vector>, d: usize, shift: f64) {
    bytes.clear();
    for position in positions {
        let mut moved = *position;
        moved[d] += shift;
        bytes.extend_from_slice(bytemuck::bytes_of(&moved));
    }
}

/// The values in `bytes`, which may be unaligned.
fn get<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> impl Iterator<Item = T> + '_ {
    bytes
        .chunks_exact(size_of::<T>())
        .map(bytemuck::pod_read_unaligned)
}

impl Halo {
    pub fn new(grid: Grid, length: Vector) -> Self {
        let edge = |offset: u32| {
            [0, 1, 2]
                .map(|d| f64::from(grid.index(d) + offset) * length[d] / f64::from(grid.boxes(d)))
        };
        Self {
            grid,
            length,
            low: edge(0),
            high: edge(1),
            transfers: Vec::new(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
        }
    }

    /// Sends `outgoing` across a side and fills `incoming` from the opposite one, with `expected`
    /// bytes.
    fn swap<F: Fabric>(
        &mut self,
        fabric: &mut F,
        (dimension, side): (usize, Side),
        base: u32,
        expected: usize,
    ) -> Result<(), WorkloadError> {
        let (to, from) = (
            self.grid.neighbour(dimension, side),
            self.grid.neighbour(dimension, side.opposite()),
        );
        let (sent, delivery) = fabric.send_receive(
            to,
            std::mem::take(&mut self.outgoing),
            from,
            tag(base, dimension, side),
            expected,
            std::mem::take(&mut self.incoming),
            &mut || (),
        )?;
        self.outgoing = sent;
        self.incoming = delivery.data;
        Ok(())
    }

    /// Like [`swap`](Self::swap), but the receiver does not know the length in advance.
    fn swap_unknown<F: Fabric>(
        &mut self,
        fabric: &mut F,
        over: (usize, Side),
        base: u32,
    ) -> Result<(), WorkloadError> {
        let data = std::mem::take(&mut self.outgoing);
        self.outgoing = (data.len() as u64).to_le_bytes().to_vec();
        self.swap(fabric, over, COUNT, 8)?;
        let expected = get::<u64>(&self.incoming).next().unwrap_or(0);
        self.outgoing = data;
        self.swap(fabric, over, base, expected as usize)
    }

    /// Puts every owned particle back into the period and sends those outside the box to the
    /// neighbours. There must be no ghosts.
    ///
    /// # Errors
    /// A particle flew beyond the next box, or another rank failed.
    pub fn migrate<F: Fabric>(
        &mut self,
        fabric: &mut F,
        particles: &mut Particles,
    ) -> Result<(), WorkloadError> {
        for position in &mut particles.positions {
            for (x, &length) in position.iter_mut().zip(&self.length) {
                *x = wrapped(*x, length).ok_or(WorkloadError::Unstable)?;
            }
        }
        for d in 0..3 {
            let (grid, length) = (self.grid, self.length[d]);
            let boxes = grid.boxes(d);
            if boxes == 1 {
                continue;
            }
            for side in Side::BOTH {
                let beyond = grid.index_beyond(d, side);
                // With two boxes both sides lead to the same rank: everything goes over the first.
                let leaves = |p: &Vector| {
                    let index = box_of(&grid, d, p[d], length);
                    index != grid.index(d) && index == beyond
                };
                let mut outgoing = std::mem::take(&mut self.outgoing);
                outgoing.clear();
                particles.take_out(leaves, |p: Particle| {
                    outgoing.extend_from_slice(bytemuck::bytes_of(&p));
                });
                self.outgoing = outgoing;
                self.swap_unknown(fabric, (d, side), LEAVING)?;
                get(&self.incoming).for_each(|p| particles.push(p));
            }
            let strayed = |p: &Vector| box_of(&grid, d, p[d], length) != grid.index(d);
            if particles.positions.iter().any(strayed) {
                return Err(WorkloadError::Unstable);
            }
        }
        Ok(())
    }

    /// Creates the ghosts: copies of everything within `reach` of a side of the box. There must be
    /// none yet.
    pub fn build<F: Fabric>(
        &mut self,
        fabric: &mut F,
        positions: &mut Vec<Vector>,
        reach: f64,
    ) -> Result<(), WorkloadError> {
        self.transfers.clear();
        for d in 0..3 {
            let candidates = positions.len();
            for side in Side::BOTH {
                let (low, high) = (self.low[d] + reach, self.high[d] - reach);
                let near = |p: &Vector| match side {
                    Side::Low => p[d] < low,
                    Side::High => p[d] >= high,
                };
                let copied: Vec<u32> = (0..candidates as u32)
                    .filter(|&i| near(&positions[i as usize]))
                    .collect();
                let shift = match (self.grid.at_border(d, side), side) {
                    (false, _) => 0.0,
                    (true, Side::Low) => self.length[d],
                    (true, Side::High) => -self.length[d],
                };
                put(
                    &mut self.outgoing,
                    copied.iter().map(|&i| &positions[i as usize]),
                    d,
                    shift,
                );
                if self.grid.boxes(d) == 1 {
                    std::mem::swap(&mut self.outgoing, &mut self.incoming);
                } else {
                    self.swap_unknown(fabric, (d, side), GHOSTS)?;
                }
                let begin = positions.len();
                positions.extend(get::<Vector>(&self.incoming));
                self.transfers.push(Transfer {
                    dimension: d,
                    side,
                    copied,
                    shift,
                    received: begin..positions.len(),
                });
            }
        }
        Ok(())
    }

    /// Moves the ghosts to the current positions of their originals.
    pub fn refresh<F: Fabric>(
        &mut self,
        fabric: &mut F,
        positions: &mut [Vector],
    ) -> Result<(), WorkloadError> {
        let transfers = std::mem::take(&mut self.transfers);
        for t in &transfers {
            put(
                &mut self.outgoing,
                t.copied.iter().map(|&i| &positions[i as usize]),
                t.dimension,
                t.shift,
            );
            if self.grid.boxes(t.dimension) == 1 {
                std::mem::swap(&mut self.outgoing, &mut self.incoming);
            } else {
                let expected = t.received.len() * size_of::<Vector>();
                self.swap(fabric, (t.dimension, t.side), GHOSTS, expected)?;
            }
            let ghosts = &mut positions[t.received.clone()];
            ghosts
                .iter_mut()
                .zip(get(&self.incoming))
                .for_each(|(ghost, now)| *ghost = now);
        }
        self.transfers = transfers;
        Ok(())
    }
}

/// `x` wrapped into 0 to `length`; `None` if it is NaN or more than a period away.
fn wrapped(x: f64, length: f64) -> Option<f64> {
    let moved = if x < 0.0 {
        x + length
    } else if x >= length {
        x - length
    } else {
        x
    };
    // For a tiny negative `x` the sum rounds to `length` itself.
    let moved = if moved == length { 0.0 } else { moved };
    (0.0..length).contains(&moved).then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinate_is_wrapped_into_the_period_and_a_wild_one_refused() {
        assert_eq!(wrapped(-1.0, 10.0), Some(9.0));
        assert_eq!(wrapped(10.0, 10.0), Some(0.0));
        assert_eq!(wrapped(-1e-300, 10.0), Some(0.0));
        assert_eq!(wrapped(9.5, 10.0), Some(9.5));
        assert_eq!(wrapped(20.5, 10.0), None);
        assert_eq!(wrapped(f64::NAN, 10.0), None);
    }
}
