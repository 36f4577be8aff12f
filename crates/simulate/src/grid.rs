//! The engine: all ranks of a ring or torus, step after step.
//!
//! Work and communication are the same for all ranks and for the wait for oneself, so they move every time alike and drop
//! out: what is kept is the deviation from the undisturbed run, d(i, k+1) = max over i and its neighbours of (d(j, k) + noise(j, k)).

use crate::kernel::{Time, line_step, torus_step};
use crate::noise::{BLOCK_RANKS, BLOCK_STEPS, NoiseField, Walk};
use crate::shape::Shape;

/// Ranks of a ring that are taken through many steps while they stay in the cache.
const TILE_RANKS: usize = 8 * BLOCK_RANKS;
/// Most steps that such a tile takes at once; it overlaps its neighbours by as many ranks on each side.
const TILE_STEPS: u64 = 4 * BLOCK_STEPS;
/// Fewer steps than this are taken in smaller strides, so that there are enough of them to average.
const FEW_STEPS: u64 = 8 * TILE_STEPS;

/// A deviation left the range of the number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

/// Deviations of all ranks.
pub(crate) struct Grid<T> {
    shape: Shape,
    now: Vec<T>,
    next: Vec<T>,
    /// What was subtracted from all deviations.
    base: i64,
    /// Steps done; continues over a change of size, so that no noise is drawn twice.
    step: u64,
    tile_steps: u64,
    walks: Vec<Walk>,
}

impl<T: Time> Grid<T> {
    /// All ranks in step.
    pub(crate) fn new(shape: Shape) -> Self {
        let ranks = shape.ranks();
        Grid {
            shape,
            now: vec![T::default(); ranks],
            next: vec![T::default(); ranks],
            base: 0,
            step: 0,
            tile_steps: TILE_STEPS,
            walks: Vec::new(),
        }
    }

    /// The same state repeated periodically on a larger grid: locally it is as disturbed as it will be.
    pub(crate) fn enlarged(self, shape: Shape) -> Self {
        let old = self.shape;
        let mut large = Grid::new(shape);
        for z in 0..shape.z {
            for y in 0..shape.y {
                let from = (z % old.z * old.y + y % old.y) * old.x;
                let to = (z * shape.y + y) * shape.x;
                for (x, cell) in large.now[to..to + shape.x].iter_mut().enumerate() {
                    *cell = self.now[from + x % old.x];
                }
            }
        }
        large.base = self.base;
        large.step = self.step;
        large
    }

    /// Chooses the stride for a run of so many steps; results do not depend on it.
    pub(crate) fn prepare(&mut self, steps: u64) {
        self.tile_steps = if steps < FEW_STEPS {
            BLOCK_STEPS
        } else {
            TILE_STEPS
        };
    }

    /// Steps of one [`Grid::advance`].
    pub(crate) fn stride(&self) -> u64 {
        if self.tiled() {
            self.tile_steps
        } else {
            BLOCK_STEPS
        }
    }

    fn tiled(&self) -> bool {
        self.shape.y * self.shape.z == 1 && self.shape.x > TILE_RANKS
    }

    /// Takes all ranks [`Grid::stride`] steps further; returns the sum of their deviations in nanoseconds.
    pub(crate) fn advance(&mut self, field: &NoiseField) -> Result<i128, Overflow> {
        if self.tiled() {
            self.advance_tiles(field);
        } else {
            self.advance_whole(field);
        }
        self.step += self.stride();
        let first = self.now[0];
        let (mut sum, mut low, mut high) = (0i128, first, first);
        for chunk in self.now.chunks(4096) {
            let mut part = 0i64;
            for &d in chunk {
                part = part.wrapping_add(d.wide());
                low = low.min(d);
                high = high.max(d);
            }
            sum += i128::from(part);
        }
        // Sums saturate at MAX and a maximum keeps it: had there been an overflow, it would still be there.
        if high == T::MAX {
            return Err(Overflow);
        }
        sum += i128::from(self.base) * self.now.len() as i128;
        if high.wide() > T::MAX.wide() / 2 {
            for d in &mut self.now {
                *d = T::narrow(d.wide() - low.wide());
            }
            self.base += low.wide();
        }
        Ok(sum)
    }

    fn advance_whole(&mut self, field: &NoiseField) {
        let ranks = self.now.len();
        self.walks.clear();
        for (block, first) in (0..ranks).step_by(BLOCK_RANKS).enumerate() {
            let width = BLOCK_RANKS.min(ranks - first);
            field.enter(block, width, self.step, &mut self.walks, first as i64);
        }
        for _ in 0..BLOCK_STEPS {
            for walk in &mut self.walks {
                field.step(walk, |rank, length| {
                    let d = &mut self.now[rank as usize];
                    *d = d.later(length);
                });
            }
            torus_step(self.shape, &self.now, &mut self.next);
            std::mem::swap(&mut self.now, &mut self.next);
        }
    }

    fn advance_tiles(&mut self, field: &NoiseField) {
        let ranks = self.now.len();
        let mut tile = Tile {
            halo: 0,
            now: Vec::new(),
            next: Vec::new(),
        };
        for first in (0..ranks).step_by(TILE_RANKS) {
            let width = TILE_RANKS.min(ranks - first);
            tile.load(&self.now, first, width, self.tile_steps as usize);
            for step in (self.step..self.step + self.tile_steps).step_by(BLOCK_STEPS as usize) {
                self.walks.clear();
                tile.enter(field, ranks, first, width, step, &mut self.walks);
                tile.advance(field, &mut self.walks);
            }
            self.next[first..first + width].copy_from_slice(&tile.now[..width]);
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }
}

/// A stretch of a ring with the ranks on both sides that reach into it; it loses one on each side with every step.
struct Tile<T> {
    halo: usize,
    now: Vec<T>,
    next: Vec<T>,
}

impl<T: Time> Tile<T> {
    fn load(&mut self, ring: &[T], first: usize, width: usize, halo: usize) {
        let ranks = ring.len();
        self.halo = halo;
        self.now.clear();
        let mut at = (first + ranks - self.halo) % ranks;
        let mut left = width + 2 * self.halo;
        while left > 0 {
            let n = left.min(ranks - at);
            self.now.extend_from_slice(&ring[at..at + n]);
            left -= n;
            at = (at + n) % ranks;
        }
    }

    /// The walks of all blocks that touch what is left of the tile, each placed where it lies in the tile.
    fn enter(
        &self,
        field: &NoiseField,
        ranks: usize,
        first: usize,
        width: usize,
        step: u64,
        walks: &mut Vec<Walk>,
    ) {
        let begin = first as i64 - self.halo as i64;
        let end = (first + width + self.halo) as i64;
        let mut at = begin;
        while at < end {
            let rank = at.rem_euclid(ranks as i64) as usize;
            let block = rank / BLOCK_RANKS;
            let block_width = BLOCK_RANKS.min(ranks - block * BLOCK_RANKS);
            let block_begin = at - (rank - block * BLOCK_RANKS) as i64;
            field.enter(block, block_width, step, walks, block_begin - begin);
            at = block_begin + block_width as i64;
        }
    }

    fn advance(&mut self, field: &NoiseField, walks: &mut [Walk]) {
        for done in 0..BLOCK_STEPS as i64 {
            for walk in walks.iter_mut() {
                field.step(walk, |at, length| {
                    if let Some(d) = usize::try_from(at - done)
                        .ok()
                        .and_then(|i| self.now.get_mut(i))
                    {
                        *d = d.later(length);
                    }
                });
            }
            self.next.resize(self.now.len() - 2, T::default());
            line_step(&self.now, &mut self.next);
            std::mem::swap(&mut self.now, &mut self.next);
            self.halo -= 1;
        }
    }
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
