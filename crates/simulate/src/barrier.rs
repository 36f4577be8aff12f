//! A barrier in every step: the step takes as long as its slowest rank, so only ranks that are struck matter.
//!
//! Cost: events alone. All ranks begin every step together, hence no state is carried from one step to the next.

use crate::noise::{BLOCK_RANKS, BLOCK_STEPS, NoiseField};

/// Longest disturbance of all ranks, step by step.
pub(crate) struct Barrier {
    ranks: usize,
    step: u64,
    /// Time lost so far by each rank-step of a block; all zero between blocks.
    lost: Vec<u64>,
    touched: Vec<u32>,
}

impl Barrier {
    pub(crate) fn new(ranks: usize) -> Self {
        let cells = BLOCK_RANKS.min(ranks) * BLOCK_STEPS as usize;
        Barrier {
            ranks,
            step: 0,
            lost: vec![0; cells],
            touched: Vec::new(),
        }
    }

    /// Takes [`BLOCK_STEPS`] steps; returns the longest disturbance of each, in nanoseconds.
    pub(crate) fn advance(&mut self, field: &NoiseField) -> [u64; BLOCK_STEPS as usize] {
        let mut longest = [0u64; BLOCK_STEPS as usize];
        for (block, first) in (0..self.ranks).step_by(BLOCK_RANKS).enumerate() {
            let width = BLOCK_RANKS.min(self.ranks - first);
            let (lost, touched) = (&mut self.lost, &mut self.touched);
            field.for_each(
                block,
                self.step,
                width * BLOCK_STEPS as usize,
                |cell, length| {
                    if lost[cell] == 0 {
                        touched.push(cell as u32);
                    }
                    lost[cell] = lost[cell].saturating_add(length);
                },
            );
            for cell in touched.drain(..) {
                let step = &mut longest[cell as usize / width];
                *step = (*step).max(lost[cell as usize]);
                lost[cell as usize] = 0;
            }
        }
        self.step += BLOCK_STEPS;
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::{LengthBin, NoiseSource, SourceKind};
    use idlewave_units::Nanos;

    #[test]
    fn every_step_is_as_long_as_the_most_disturbed_rank() {
        let source = |rate_per_s, length_ns| NoiseSource {
            kind: SourceKind::Task,
            name: "x".into(),
            rate_per_s,
            events: 1,
            watched: Nanos::from_secs(1),
            period: None,
            lengths: vec![LengthBin {
                length_ns,
                count: 1,
            }],
        };
        let sources = [source(20_000.0, 30), source(700.0, 500), source(9_000.0, 0)];
        let field = NoiseField::new(&sources, Nanos::from_micros(50), 2, |_| true);
        for ranks in [1, 5, BLOCK_RANKS + 3, 3 * BLOCK_RANKS] {
            let mut barrier = Barrier::new(ranks);
            for begin in [0, BLOCK_STEPS] {
                let mut all = vec![vec![0u64; ranks]; BLOCK_STEPS as usize];
                for (block, first) in (0..ranks).step_by(BLOCK_RANKS).enumerate() {
                    let width = BLOCK_RANKS.min(ranks - first);
                    field.for_each(
                        block,
                        begin,
                        width * BLOCK_STEPS as usize,
                        |cell, length| {
                            all[cell / width][first + cell % width] += length;
                        },
                    );
                }
                let longest = barrier.advance(&field);
                for (seen, step) in longest.iter().zip(&all) {
                    assert_eq!(Some(seen), step.iter().max());
                }
                assert!(longest.iter().any(|&l| l > 0));
            }
        }
    }
}
