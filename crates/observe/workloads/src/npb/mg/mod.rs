//! MG, multigrid: V-cycles for a Poisson equation with periodic borders (RNR-94-007, section 2.2;
//! class sizes of NPB 3.4). Ranks hold blocks of a cubic grid and exchange their borders on every
//! level: large messages on fine levels, many small ones on coarse levels, where ranks without cells
//! wait.
//!
//! Regions have the names that NPB gives its timers.

mod charges;
mod exchange;
mod field;
mod level;
mod operators;
#[cfg(test)]
mod tests;

use super::class::Class;
use super::kernel::{Allowed, Check, Kernel};
use super::traffic::{Operation, Traffic};
use crate::WorkloadError;
use crate::stopwatch::Stopwatch;
use exchange::Planes;
use field::Field;
use idlewave_fabric::{Fabric, Reduction};
use idlewave_units::{Bytes, Rank};
use level::Level;
use operators::Lines;

const TOLERANCE: f64 = 1e-8;

impl Class {
    /// Logarithm to base two of the grid's edge.
    const fn levels(self) -> u32 {
        self.of(&[5, 7, 8, 8, 9, 10])
    }

    /// Weights of the smoother's centre, faces and edges.
    const fn smoother(self) -> [f64; 3] {
        match self {
            Self::S | Self::W | Self::A => [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0],
            Self::B | Self::C | Self::D => [-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0],
        }
    }

    /// The published norm of the residual.
    const fn residual_norm(self) -> f64 {
        self.of(&[
            5.307_707_005_734e-5,
            6.467_329_375_339e-6,
            2.433_365_309_069e-6,
            1.800_564_401_355e-6,
            5.706_732_285_74e-7,
            1.583_275_060_44e-10,
        ])
    }
}

/// Tenths of a nanosecond per cell of the level that an operator computes, in one run of class A on one
/// core of a virtual machine: only their ratios matter.
mod cost {
    pub const RESTRICT: u64 = 109;
    pub const INTERPOLATE: u64 = 16;
    pub const RESIDUAL: u64 = 34;
    pub const SMOOTH: u64 = 29;
}

/// The share of one rank, levels in ascending order.
#[derive(Debug)]
pub struct Mg {
    class: Class,
    levels: Vec<Level>,
    /// The solution; corrections to it on coarser levels.
    u: Vec<Field>,
    /// The residual.
    r: Vec<Field>,
    /// The right-hand side.
    v: Field,
    lines: Lines,
    planes: Planes,
    norm: f64,
}

impl Mg {
    fn empty(class: Class, rank: u32, ranks: u32) -> Self {
        let levels = Level::all(class.levels(), rank, ranks);
        let finest = levels[levels.len() - 1].cells;
        let of = |needed: bool, level: &Level| match needed {
            true => Field::new(level.cells),
            false => Field::default(),
        };
        // Values of a level are needed where the next finer one has cells.
        let next = levels.iter().skip(1).chain(levels.last());
        Self {
            class,
            u: levels
                .iter()
                .zip(next)
                .map(|(l, next)| of(next.is_active(), l))
                .collect(),
            r: levels
                .iter()
                .map(|level| of(level.is_active(), level))
                .collect(),
            v: Field::new(finest),
            lines: Lines::new(finest[0] + 2),
            planes: Planes::new(plane(finest, ranks)),
            norm: 0.0,
            levels,
        }
    }

    /// From the residual to a better solution.
    fn v_cycle<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        let Self {
            class,
            levels,
            u,
            r,
            v,
            lines,
            planes,
            ..
        } = self;
        let finest = levels.len() - 1;
        for k in (0..finest).rev().filter(|&k| levels[k].is_active()) {
            watch.region("rprj3");
            let (coarse, fine) = r.split_at_mut(k + 1);
            operators::restrict(&fine[0], &mut coarse[k], levels[k + 1].odd, lines);
            planes.exchange(watch, &levels[k], &mut r[k])?;
        }
        for k in (0..=finest).filter(|&k| levels[k].is_active()) {
            if k < finest {
                u[k].clear();
            }
            if k > 0 {
                watch.region("comm3");
                planes.wake(watch, &levels[k - 1], &mut u[k - 1])?;
                watch.region("interp");
                let (coarse, fine) = u.split_at_mut(k);
                operators::interpolate(&coarse[k - 1], &mut fine[0], levels[k].odd, lines);
                watch.region("resid");
                operators::residual(&u[k], (k == finest).then_some(&*v), &mut r[k], lines);
                planes.exchange(watch, &levels[k], &mut r[k])?;
            }
            watch.region("psinv");
            operators::smooth(&r[k], &mut u[k], class.smoother(), lines);
            planes.exchange(watch, &levels[k], &mut u[k])?;
        }
        Ok(())
    }

    /// The residual on the finest level.
    fn residual<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        watch.region("resid");
        let finest = self.levels.len() - 1;
        let r = &mut self.r[finest];
        operators::residual(&self.u[finest], Some(&self.v), r, &mut self.lines);
        self.planes.exchange(watch, &self.levels[finest], r)
    }

    /// The root mean square of the residual, and its largest absolute value.
    fn norms<F: Fabric>(&self, watch: &mut Stopwatch<'_, F>) -> Result<(f64, f64), WorkloadError> {
        watch.region("norm2");
        let (mut sum, mut largest) = operators::norms(&self.r[self.levels.len() - 1]);
        watch.allreduce(std::slice::from_mut(&mut largest), Reduction::Max)?;
        watch.allreduce(std::slice::from_mut(&mut sum), Reduction::Sum)?;
        let cells = (1_u64 << (3 * self.class.levels())) as f64;
        Ok(((sum / cells).sqrt(), largest))
    }

    /// Bytes of its arrays.
    #[cfg(test)]
    fn held(&self) -> usize {
        let fields = self.u.iter().chain(&self.r).chain([&self.v]);
        fields.map(Field::held).sum::<usize>() + self.lines.held() + self.planes.held()
    }
}

/// Cells of the largest plane that a rank sends.
fn plane(cells: [usize; 3], ranks: u32) -> usize {
    if ranks == 1 {
        return 0;
    }
    let [x, y, z] = cells.map(|cells| cells + 2);
    (x * y).max(y * z).max(z * x)
}

impl Kernel for Mg {
    const OPERATION: &'static str = "floating-point operations";

    fn allowed(class: Class) -> Allowed {
        // Blocks of 2 x 2 x 2 cells, or larger.
        Allowed::PowersOfTwo(1 << (3 * (class.levels() - 1)))
    }

    fn memory_per_rank(class: Class, ranks: u32) -> Bytes {
        // Rounded to what it can use.
        let ranks = ranks.min(Self::allowed(class).most()).next_power_of_two();
        // The last rank has cells on all levels.
        let levels = Level::all(class.levels(), ranks - 1, ranks);
        let field = |level: &Level| level.cells.map(|cells| cells + 2).iter().product::<usize>();
        let finest = &levels[levels.len() - 1];
        let fields = 2 * levels.iter().map(field).sum::<usize>() + field(finest);
        let lines = 2 * (finest.cells[0] + 2);
        // One being packed and one being unpacked; two messages each way.
        let planes = (2 + 4) * plane(finest.cells, ranks);
        let arrays = 8 * (fields + lines + planes);
        Bytes::new((arrays + charges::bytes(ranks)) as u64)
    }

    fn iterations(class: Class) -> u32 {
        class.of(&[4, 4, 4, 20, 20, 50])
    }

    fn operations(class: Class) -> u64 {
        58 * u64::from(Self::iterations(class)) * (1 << (3 * class.levels()))
    }

    fn traffic(class: Class, ranks: u32, rank: Rank) -> Traffic {
        let levels = Level::all(class.levels(), rank.get(), ranks);
        let finest = levels.len() - 1;
        let work = |cost: u64, k: usize| {
            let cells = levels[k].cells.iter().product::<usize>();
            Operation::Compute(cost * cells as u64)
        };
        let exchange = |k: usize| exchange::exchanges(&levels[k]);
        let active = (0..=finest).filter(|&k| levels[k].is_active());
        let mut cycle = Vec::new();
        for k in active.clone().filter(|&k| k < finest).rev() {
            cycle.push(work(cost::RESTRICT, k));
            cycle.extend(exchange(k));
        }
        for k in active {
            if k > 0 {
                cycle.extend(exchange::wakings(&levels[k - 1]));
                cycle.push(work(cost::INTERPOLATE + cost::RESIDUAL, k));
                cycle.extend(exchange(k));
            }
            cycle.push(work(cost::SMOOTH, k));
            cycle.extend(exchange(k));
        }
        let residual = || std::iter::once(work(cost::RESIDUAL, finest)).chain(exchange(finest));
        let norms = || [Operation::sum(1), Operation::sum(1)];
        Traffic {
            before: residual().chain(norms()).collect(),
            iteration: cycle.into_iter().chain(residual()).collect(),
            after: norms().to_vec(),
        }
    }

    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError> {
        let mut mg = Self::empty(class, watch.rank().get(), watch.size());
        let finest = mg.levels.len() - 1;
        charges::set(watch, &mg.levels[finest], 1 << class.levels(), &mut mg.v)?;
        mg.begin(watch)?;
        mg.iterate(watch, 1)?;
        mg.u[finest].clear();
        Ok(mg)
    }

    fn begin<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        self.residual(watch)?;
        self.norms(watch).map(|_| ())
    }

    fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        _iteration: u32,
    ) -> Result<(), WorkloadError> {
        self.v_cycle(watch)?;
        self.residual(watch)
    }

    fn end<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        (self.norm, _) = self.norms(watch)?;
        Ok(())
    }

    fn checks<F: Fabric>(&mut self, _: &mut Stopwatch<'_, F>) -> Result<Vec<Check>, WorkloadError> {
        Ok(vec![Check {
            name: "the norm of the residual".to_owned(),
            found: self.norm,
            published: self.class.residual_norm(),
            tolerance: TOLERANCE,
        }])
    }
}
