//! FT: the heat equation on a periodic grid, solved by fast Fourier transforms in three dimensions
//! (RNR-94-007, section 2.4). Every iteration moves all data from every rank to every other.
//!
//! Numbers lie in memory with x fastest. A rank has planes: all x and y of some z. The transform
//! along z needs all z, so ranks exchange their data and then have all x and z of some y. That is
//! also how the Fourier coefficients stay: an iteration multiplies them by their decay, and
//! transforms the result back along z, exchanges, and transforms along y and x.
//!
//! The decay of a coefficient is a product of one factor for each dimension, so that no array of
//! them is kept: NPB reads one that is half as large as the coefficients.

mod checksums;
mod fft;

use super::class::Class;
use super::kernel::{Allowed, Check, Kernel};
use super::traffic::{Operation, Traffic};
use crate::WorkloadError;
use crate::randlc::Randlc;
use crate::stopwatch::Stopwatch;
use checksums::published;
use fft::{Complex, Direction, Fft};
use idlewave_fabric::{Fabric, Reduction};
use idlewave_units::{Bytes, Rank};
use std::f64::consts::PI;
use std::ops::Range;

const SEED: u64 = 314_159_265;
/// The diffusivity, alpha.
const DIFFUSIVITY: f64 = 1e-6;
/// Points in a checksum.
const SUMMED: usize = 1_024;
const TOLERANCE: f64 = 1e-12;

/// Points along x, y and z.
#[derive(Clone, Copy, Debug)]
struct Grid {
    x: usize,
    y: usize,
    z: usize,
}

impl Grid {
    const fn of(class: Class) -> Self {
        let (x, y, z) = class.of(&[
            (64, 64, 64),
            (128, 128, 32),
            (256, 256, 128),
            (512, 256, 256),
            (512, 512, 512),
            (2_048, 1_024, 1_024),
        ]);
        Self { x, y, z }
    }

    const fn points(self) -> usize {
        self.x * self.y * self.z
    }
}

/// The points of one rank.
#[derive(Debug)]
pub struct Ft {
    class: Class,
    grid: Grid,
    rank: usize,
    ranks: usize,
    x: Fft,
    y: Fft,
    z: Fft,
    /// Fourier coefficients at the start.
    coefficients: Vec<Complex>,
    /// What is transformed back.
    solution: Vec<Complex>,
    /// What other ranks send; unused by a single rank.
    received: Vec<Complex>,
    checksums: Vec<Complex>,
}

impl Ft {
    /// Puts the initial conditions where the coefficients will be: random numbers from 0 to 1.
    fn start(&mut self) {
        let numbers: &mut [f64] = bytemuck::cast_slice_mut(&mut self.coefficients);
        let before = self.rank * numbers.len();
        let mut random = Randlc::new(SEED).skip(before as u64);
        numbers.fill_with(|| random.next_unit());
    }

    /// The initial conditions and their coefficients.
    fn forward<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        watch.region("initial conditions");
        self.start();
        watch.region("fft x");
        self.x.along(&mut self.coefficients, Direction::Forward);
        watch.region("fft y");
        for plane in self.coefficients.chunks_mut(self.grid.x * self.grid.y) {
            self.y.across(plane, Direction::Forward);
        }
        if self.ranks > 1 {
            watch.region("transpose");
            let (planes, blocks) = (&mut self.coefficients, &mut self.solution);
            for_rows(self.grid, self.ranks, |plane, block| {
                blocks[block].copy_from_slice(&planes[plane]);
            });
            exchange(watch, blocks, planes)?;
        }
        watch.region("fft z");
        self.z.across(&mut self.coefficients, Direction::Forward);
        Ok(())
    }

    /// The coefficients of the solution at a time.
    fn evolve(&mut self, time: u32) {
        let factors = |length| factors(length, time);
        let (x, y, z) = (
            factors(self.grid.x),
            factors(self.grid.y),
            factors(self.grid.z),
        );
        let y = y.chunks(self.grid.y / self.ranks).nth(self.rank);
        let (y, x) = (y.unwrap_or_default(), &x);
        let rows = z.iter().flat_map(|z| y.iter().map(move |y| y * z));
        let from = self.coefficients.chunks_exact(x.len());
        let to = self.solution.chunks_exact_mut(x.len());
        for ((to, from), row) in to.zip(from).zip(rows) {
            for ((to, from), x) in to.iter_mut().zip(from).zip(x) {
                let factor = row * x;
                *to = from.map(|part| part * factor);
            }
        }
    }

    /// The solution from its coefficients.
    fn inverse<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        watch.region("fft z");
        self.z.across(&mut self.solution, Direction::Inverse);
        if self.ranks > 1 {
            watch.region("transpose");
            let (blocks, planes) = (&mut self.received, &mut self.solution);
            exchange(watch, planes, blocks)?;
            for_rows(self.grid, self.ranks, |plane, block| {
                planes[plane].copy_from_slice(&blocks[block]);
            });
        }
        watch.region("fft y");
        for plane in self.solution.chunks_mut(self.grid.x * self.grid.y) {
            self.y.across(plane, Direction::Inverse);
        }
        watch.region("fft x");
        self.x.along(&mut self.solution, Direction::Inverse);
        Ok(())
    }

    /// The sum of this rank's points among those that are summed.
    fn checksum(&self) -> Complex {
        let Grid { x, y, z } = self.grid;
        let planes = z / self.ranks;
        let own = self.rank * planes..(self.rank + 1) * planes;
        let mut sum = [0.0; 2];
        for j in 1..=SUMMED {
            let (at_x, at_y, at_z) = (j % x, 3 * j % y, 5 * j % z);
            if own.contains(&at_z) {
                let point = self.solution[((at_z - own.start) * y + at_y) * x + at_x];
                sum = [sum[0] + point[0], sum[1] + point[1]];
            }
        }
        sum.map(|part| part / self.grid.points() as f64)
    }
}

/// Decay of the coefficients along one dimension until a time.
fn factors(length: usize, time: u32) -> Vec<f64> {
    let factor = |i: usize| {
        // The upper half are the negative wave numbers.
        let wave = if i < length / 2 { i } else { length - i };
        (-4.0 * DIFFUSIVITY * PI * PI * (wave * wave) as f64 * f64::from(time)).exp()
    };
    (0..length).map(factor).collect()
}

/// Calls with every run of neighbouring numbers in the planes of a rank that is also one in the
/// blocks exchanged. A block has what a rank has of the planes of another: all x, some y, some z.
fn for_rows(grid: Grid, ranks: usize, mut copy: impl FnMut(Range<usize>, Range<usize>)) {
    let (planes, rows) = (grid.z / ranks, grid.x * grid.y / ranks);
    for plane in 0..planes {
        for rank in 0..ranks {
            let run = |place: usize| place * rows..(place + 1) * rows;
            copy(run(plane * ranks + rank), run(rank * planes + plane));
        }
    }
}

fn exchange<F: Fabric>(
    watch: &mut Stopwatch<'_, F>,
    send: &[Complex],
    receive: &mut [Complex],
) -> Result<(), WorkloadError> {
    watch.alltoall(
        bytemuck::cast_slice(send),
        bytemuck::cast_slice_mut(receive),
    )?;
    Ok(())
}

impl Kernel for Ft {
    const OPERATION: &'static str = "floating-point operations";

    fn allowed(class: Class) -> Allowed {
        let grid = Grid::of(class);
        Allowed::PowersOfTwo(grid.y.min(grid.z) as u32)
    }

    fn memory_per_rank(class: Class, ranks: u32) -> Bytes {
        let Grid { x, y, z } = Grid::of(class);
        // Several ranks need one more for what they receive, and a copy of what they send. Then
        // there are the decays.
        let arrays = if ranks > 1 { 4 } else { 2 };
        let points = Grid::of(class).points().div_ceil(ranks as usize);
        let lengths = x + y + z;
        let all = arrays * points * size_of::<Complex>()
            + Fft::bytes(lengths)
            + lengths * size_of::<f64>();
        Bytes::new(all as u64)
    }

    fn iterations(class: Class) -> u32 {
        published(class).len() as u32
    }

    fn operations(class: Class) -> u64 {
        let points = Grid::of(class).points() as f64;
        let log = points.ln();
        let each = 5.23518 + 7.21113 * log;
        let all = 14.8157 + 7.19641 * log + each * f64::from(Self::iterations(class));
        (points * all) as u64
    }

    fn traffic(class: Class, ranks: u32, _: Rank) -> Traffic {
        let pairs = u64::from(ranks).pow(2);
        let all = (Grid::of(class).points() * size_of::<Complex>()) as u64;
        let transpose = (ranks > 1).then_some(Operation::Alltoall {
            bytes_per_pair: Bytes::new(all / pairs),
        });
        let half = || std::iter::once(Operation::Compute(1));
        let all = || half().chain(transpose.clone()).chain(half());
        Traffic {
            before: all().collect(),
            // The checksum is a complex number.
            iteration: all().chain([Operation::sum(2)]).collect(),
            after: Vec::new(),
        }
    }

    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError> {
        let grid = Grid::of(class);
        let ranks = watch.size() as usize;
        let array = vec![[0.0; 2]; grid.points() / ranks];
        let mut ft = Self {
            class,
            grid,
            rank: watch.rank().get() as usize,
            ranks,
            x: Fft::new(grid.x),
            y: Fft::new(grid.y),
            z: Fft::new(grid.z),
            received: if ranks > 1 { array.clone() } else { Vec::new() },
            solution: array.clone(),
            coefficients: array,
            checksums: Vec::with_capacity(Self::iterations(class) as usize),
        };
        // The specification has all of the timed part but the iterations done once before. One
        // iteration more touches the memory of all arrays.
        ft.begin(watch)?;
        ft.iterate(watch, 1)?;
        ft.checksums.clear();
        Ok(ft)
    }

    fn begin<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        self.forward(watch)
    }

    fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        iteration: u32,
    ) -> Result<(), WorkloadError> {
        watch.region("evolve");
        self.evolve(iteration);
        self.inverse(watch)?;
        watch.region("checksum");
        let mut sum = self.checksum();
        watch.allreduce(&mut sum, Reduction::Sum)?;
        self.checksums.push(sum);
        Ok(())
    }

    fn checks<F: Fabric>(&mut self, _: &mut Stopwatch<'_, F>) -> Result<Vec<Check>, WorkloadError> {
        let pairs = self.checksums.iter().zip(published(self.class));
        let checks = pairs.zip(1..).flat_map(|((found, published), iteration)| {
            let parts = ["real", "imaginary"].into_iter().zip(found).zip(published);
            parts.map(move |((part, found), published)| Check {
                name: format!("the {part} part of the checksum of iteration {iteration}"),
                found: *found,
                published: *published,
                tolerance: TOLERANCE,
            })
        });
        Ok(checks.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_ranks;

    #[test]
    fn the_stated_memory_is_what_the_arrays_take() {
        for (class, ranks) in [(Class::S, 1), (Class::S, 2), (Class::S, 64), (Class::W, 32)] {
            let Grid { x, y, z } = Grid::of(class);
            let held = on_ranks(ranks, |fabric| {
                let mut watch = Stopwatch::start(fabric);
                let ft = Ft::new(class, &mut watch).expect("no rank fails");
                let arrays = [&ft.coefficients, &ft.solution, &ft.received];
                let arrays: usize = arrays.iter().map(|array| 16 * array.capacity()).sum();
                let buffers = [&ft.x, &ft.y, &ft.z].map(Fft::held);
                arrays + buffers.iter().sum::<usize>()
            });
            let points = Grid::of(class).points() / ranks as usize;
            // What an exchange copies, and the decays.
            let passing = usize::from(ranks > 1) * 16 * points + 8 * (x + y + z);
            let stated = Ft::memory_per_rank(class, ranks).get() as usize;
            for held in held {
                assert_eq!(held + passing, stated, "{class} on {ranks}");
            }
        }
    }

    #[test]
    fn operations_are_counted_as_published() {
        // 2^23 points: 14.8157 + 7.19641 ln 2^23 + 6 (5.23518 + 7.21113 ln 2^23) each.
        let mega = Ft::operations(Class::A) as f64 / 1e6;
        assert!((mega - 7_136.444).abs() < 0.001, "{mega}");
    }

    #[test]
    fn coefficients_decay_with_the_square_of_the_wave_number_of_either_sign() {
        let decay = factors(8, 3);
        let waves = [0.0, 1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0];
        for (found, wave) in decay.iter().zip(waves) {
            let expected = (-4e-6 * PI.powi(2) * wave * wave * 3.0_f64).exp();
            assert!((found - expected).abs() < 1e-15, "{wave}");
        }
    }
}
