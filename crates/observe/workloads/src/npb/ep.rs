//! EP, embarrassingly parallel: pairs of Gaussian deviates by the polar method, counted by the
//! square annulus they fall into (RNR-94-007, section 2.2). Ranks share one sequence of random
//! numbers and meet only at the end, in three sums.
//!
//! The specification has no iterations; here an iteration is an equal share of the sequence.

use super::class::Class;
use super::kernel::{Allowed, Check, Kernel};
use super::traffic::{Operation, Traffic};
use crate::WorkloadError;
use crate::randlc::Randlc;
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Reduction};
use idlewave_units::{Bytes, Rank};
use std::ops::Range;

const SEED: u64 = 271_828_183;
const ITERATIONS: u32 = 64;
const ANNULI: usize = 10;
/// Pairs that are worked on at once. What is known of them stays in the first-level cache.
const CHUNK: usize = 1 << 9;
const TOLERANCE: f64 = 1e-8;
/// Published sums of the first and of the second deviates.
const SUMS: [[f64; 2]; Class::ALL.len()] = [
    [-3_247.834_652_034_74, -6_958.407_078_382_297],
    [-2_863.319_731_645_753, -6_320.053_679_109_499],
    [-4_295.875_165_629_892, -15_807.325_736_784_31],
    [40_338.155_424_414_98, -26_606.691_928_092_35],
    [47_643.679_279_953_74, -80_840.729_880_437_31],
    [198_248.120_094_659_3, -102_059.663_636_176_9],
];

/// The deviates of one rank.
#[derive(Debug)]
pub struct Ep {
    class: Class,
    rank: u32,
    ranks: u32,
    pairs: Vec<[f64; 2]>,
    /// Of each pair, its squared distance from the origin.
    squares: Vec<f64>,
    /// Its logarithm, and later the larger of the two deviates.
    others: Vec<f64>,
    sums: [f64; 2],
    annuli: [f64; ANNULI],
}

impl Class {
    const fn pairs(self) -> u64 {
        1 << self.of(&[24, 25, 28, 30, 32, 36])
    }
}

impl Ep {
    /// Adds the deviates of these pairs.
    fn add(&mut self, pairs: Range<u64>) {
        let mut random = Randlc::new(SEED).skip(2 * pairs.start);
        let mut left = pairs.end - pairs.start;
        while left > 0 {
            let now = left.min(CHUNK as u64) as usize;
            left -= now as u64;
            self.add_chunk(&mut random, now);
        }
    }

    /// Adds the deviates of the next pairs, at most [`CHUNK`]. Each loop does little, so that the
    /// compiler can use vector instructions, and the CPU has no branch to guess.
    fn add_chunk(&mut self, random: &mut Randlc, count: usize) {
        let mut inside = 0;
        for _ in 0..count {
            let pair = [0, 1].map(|_| 2.0 * random.next_unit() - 1.0);
            let square = pair[0] * pair[0] + pair[1] * pair[1];
            // The next pair replaces one outside the circle.
            self.pairs[inside] = pair;
            self.squares[inside] = square;
            inside += usize::from(square <= 1.0);
        }
        let pairs = &mut self.pairs[..inside];
        let squares = &self.squares[..inside];
        let others = &mut self.others[..inside];
        for (logarithm, square) in others.iter_mut().zip(squares) {
            *logarithm = square.ln();
        }
        for ((pair, square), other) in pairs.iter_mut().zip(squares).zip(others.iter_mut()) {
            let scale = (-2.0 * *other / square).sqrt();
            *pair = pair.map(|number| scale * number);
            *other = pair[0].abs().max(pair[1].abs());
        }
        for ([x, y], largest) in pairs.iter().zip(others) {
            // Below 10: 2^36 pairs have no larger deviate.
            self.annuli[*largest as i32 as usize] += 1.0;
            self.sums[0] += x;
            self.sums[1] += y;
        }
    }
}

impl Kernel for Ep {
    const OPERATION: &'static str = "random numbers";

    fn allowed(_: Class) -> Allowed {
        Allowed::Any(1 << 16)
    }

    fn memory_per_rank(_: Class, _: u32) -> Bytes {
        Bytes::new((32 * CHUNK) as u64)
    }

    fn iterations(_: Class) -> u32 {
        ITERATIONS
    }

    fn operations(class: Class) -> u64 {
        2 * class.pairs()
    }

    fn traffic(_: Class, _: u32, _: Rank) -> Traffic {
        Traffic {
            before: Vec::new(),
            iteration: vec![Operation::Compute(1)],
            after: [1, 1, ANNULI].map(Operation::sum).to_vec(),
        }
    }

    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError> {
        Ok(Self {
            class,
            rank: watch.rank().get(),
            ranks: watch.size(),
            pairs: vec![[0.0; 2]; CHUNK],
            squares: vec![0.0; CHUNK],
            others: vec![0.0; CHUNK],
            sums: [0.0; 2],
            annuli: [0.0; ANNULI],
        })
    }

    fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        iteration: u32,
    ) -> Result<(), WorkloadError> {
        watch.region("deviates");
        let share = self.class.pairs() / u64::from(ITERATIONS);
        let first = share * u64::from(iteration - 1);
        let bound = |rank: u32| first + share * u64::from(rank) / u64::from(self.ranks);
        self.add(bound(self.rank)..bound(self.rank + 1));
        Ok(())
    }

    fn end<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        watch.region("sums");
        let [x, y] = &mut self.sums;
        watch.allreduce(std::slice::from_mut(x), Reduction::Sum)?;
        watch.allreduce(std::slice::from_mut(y), Reduction::Sum)?;
        watch.allreduce(&mut self.annuli, Reduction::Sum)?;
        Ok(())
    }

    fn checks<F: Fabric>(&mut self, _: &mut Stopwatch<'_, F>) -> Result<Vec<Check>, WorkloadError> {
        let published = self.class.of(&SUMS);
        let check = |i: usize, name: &str| Check {
            name: format!("the sum of the {name} deviates"),
            found: self.sums[i],
            published: published[i],
            tolerance: TOLERANCE,
        };
        Ok(vec![check(0, "first"), check(1, "second")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_ranks;

    #[test]
    fn as_many_pairs_are_in_each_annulus_as_published() {
        let published = [
            6_140_517, 5_865_300, 1_100_361, 68_546, 1_648, 17, 0, 0, 0, 0,
        ];
        assert_eq!(published.iter().sum::<u32>(), 13_176_389);
        let found = on_ranks(3, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let mut ep = Ep::new(Class::S, &mut watch)?;
            for iteration in 1..=ITERATIONS {
                ep.iterate(&mut watch, iteration)?;
            }
            ep.end(&mut watch)?;
            Ok::<_, WorkloadError>(ep.annuli)
        });
        for annuli in found {
            assert_eq!(annuli.expect("no rank fails"), published.map(f64::from));
        }
    }

    #[test]
    fn operations_are_counted_as_published() {
        // Random numbers, two per pair.
        assert_eq!(Ep::operations(Class::A), 1 << 29);
    }
}
