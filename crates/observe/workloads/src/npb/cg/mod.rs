//! CG, conjugate gradients: the smallest eigenvalue of a large sparse matrix, by inverse iteration
//! (RNR-94-007, section 2.2; class sizes of NPB 3.4). Every iteration solves a linear system with
//! 25 steps of the conjugate gradient method. Each step has a product with the matrix, whose partial
//! sums are added up along the rows of a grid of ranks and then exchanged with the transposed rank,
//! and two scalar products; all by messages between two ranks.

mod layout;
mod matrix;
#[cfg(test)]
mod tests;

use super::class::Class;
use super::kernel::{Allowed, Check, Kernel};
use super::traffic::{Operation, Traffic};
use crate::WorkloadError;
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Tag};
use idlewave_units::{Bytes, Rank};
use layout::Layout;
use matrix::{Definition, Matrix};

/// Steps of the conjugate gradient method per iteration.
const STEPS: u32 = 25;
const TOLERANCE: f64 = 1e-10;
const SCALARS: Tag = Tag(1);
const ROWS: Tag = Tag(2);
const TRANSPOSE: Tag = Tag(3);
/// Sums of a scalar product that are computed side by side.
const LANES: usize = 8;

impl Class {
    const fn definition(self) -> Definition {
        Definition {
            order: self.of(&[1_400, 7_000, 14_000, 75_000, 150_000, 1_500_000]),
            nonzeros: self.of(&[7, 8, 11, 13, 15, 21]),
            shift: self.of(&[10.0, 12.0, 20.0, 60.0, 110.0, 500.0]),
        }
    }

    /// The published eigenvalue.
    const fn zeta(self) -> f64 {
        self.of(&[
            8.597_177_507_864_8,
            10.362_595_087_124,
            17.130_235_054_029,
            22.712_745_482_631,
            28.973_605_592_845,
            52.514_532_105_794,
        ])
    }
}

/// The part of one rank.
#[derive(Debug)]
pub struct Cg {
    class: Class,
    layout: Layout,
    matrix: Matrix,
    /// The eigenvector so far.
    x: Vec<f64>,
    /// The solution of the linear system.
    z: Vec<f64>,
    /// The direction of search.
    p: Vec<f64>,
    /// The matrix times the direction.
    q: Vec<f64>,
    /// The residual.
    r: Vec<f64>,
    sums: RowSums,
    zeta: f64,
}

/// Sums of the block's rows.
#[derive(Debug)]
struct RowSums {
    own: Vec<f64>,
    /// Those of another rank.
    received: Vec<f64>,
}

impl Cg {
    fn empty(class: Class, rank: u32, ranks: u32) -> Self {
        let definition = class.definition();
        let layout = Layout::of(definition.order, rank, ranks);
        let zeros = || vec![0.0; layout.columns.len()];
        Self {
            class,
            matrix: Matrix::new(definition, &layout),
            x: zeros(),
            z: zeros(),
            p: zeros(),
            q: zeros(),
            r: zeros(),
            sums: RowSums {
                own: vec![0.0; layout.rows.len()],
                received: vec![0.0; layout.received()],
            },
            zeta: 0.0,
            layout,
        }
    }

    /// Solves `A z = x`, approximately; returns the norm of the residual.
    fn conj_grad<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<f64, WorkloadError> {
        watch.region("conj_grad");
        let Self {
            layout,
            matrix,
            x,
            z,
            p,
            q,
            r,
            sums,
            ..
        } = self;
        z.fill(0.0);
        r.copy_from_slice(x);
        p.copy_from_slice(x);
        let [mut rho] = layout.sum(watch, [dot(r, r)])?;
        for _ in 0..STEPS {
            matrix.times(p, &mut sums.own);
            layout.exchange(watch, sums, q)?;
            let [d] = layout.sum(watch, [dot(p, q)])?;
            let alpha = rho / d;
            for ((z, r), (p, q)) in z.iter_mut().zip(&mut *r).zip(p.iter().zip(&*q)) {
                *z += alpha * p;
                *r -= alpha * q;
            }
            let last = rho;
            [rho] = layout.sum(watch, [dot(r, r)])?;
            let beta = rho / last;
            for (p, r) in p.iter_mut().zip(&*r) {
                *p = r + beta * *p;
            }
        }
        matrix.times(z, &mut sums.own);
        layout.exchange(watch, sums, r)?;
        for (r, x) in r.iter_mut().zip(&*x) {
            *r = x - *r;
        }
        let [square] = layout.sum(watch, [dot(r, r)])?;
        Ok(square.sqrt())
    }

    /// One step of the inverse iteration; returns the norm of the linear system's residual.
    fn power_step<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<f64, WorkloadError> {
        let residual = self.conj_grad(watch)?;
        watch.region("zeta");
        let products = [dot(&self.x, &self.z), dot(&self.z, &self.z)];
        let [xz, zz] = self.layout.sum(watch, products)?;
        self.zeta = self.class.definition().shift + 1.0 / xz;
        let scale = 1.0 / zz.sqrt();
        for (x, z) in self.x.iter_mut().zip(&self.z) {
            *x = scale * z;
        }
        Ok(residual)
    }

    /// Bytes of its arrays.
    #[cfg(test)]
    fn held(&self) -> usize {
        let vectors = [&self.x, &self.z, &self.p, &self.q, &self.r];
        let vectors = vectors.iter().map(|v| v.capacity()).sum::<usize>();
        let sums = self.sums.own.capacity() + self.sums.received.capacity();
        self.matrix.held() + 8 * (vectors + sums)
    }
}

impl Layout {
    /// Row sums that are received at once.
    fn received(&self) -> usize {
        if self.partners().next().is_some() {
            self.own().len()
        } else {
            0
        }
    }

    /// Sums over all ranks of a grid row, which together hold all of a vector: the same on all
    /// ranks.
    fn sum<const N: usize, F: Fabric>(
        &self,
        watch: &mut Stopwatch<'_, F>,
        mut values: [f64; N],
    ) -> Result<[f64; N], WorkloadError> {
        for partner in self.partners() {
            let incoming = watch.post(partner, SCALARS, N)?;
            watch.send(partner, SCALARS, &values)?;
            let mut received = [0.0; N];
            watch.take(incoming, &mut received)?;
            watch.flush()?;
            add(&mut values, &received);
        }
        Ok(values)
    }

    /// Adds up the row sums of a grid row and gives each rank those of its columns.
    fn exchange<F: Fabric>(
        &self,
        watch: &mut Stopwatch<'_, F>,
        sums: &mut RowSums,
        columns: &mut [f64],
    ) -> Result<(), WorkloadError> {
        let own = self.own();
        for (partner, outgoing) in self.passed_on() {
            let incoming = watch.post(partner, ROWS, own.len())?;
            watch.send(partner, ROWS, &sums.own[outgoing])?;
            watch.take(incoming, &mut sums.received)?;
            watch.flush()?;
            add(&mut sums.own[own.clone()], &sums.received);
        }
        let partner = self.transposed();
        if partner == watch.rank() {
            columns.copy_from_slice(&sums.own[own]);
            return Ok(());
        }
        let incoming = watch.post(partner, TRANSPOSE, columns.len())?;
        watch.send(partner, TRANSPOSE, &sums.own[own])?;
        watch.take(incoming, columns)?;
        watch.flush()
    }

    /// The messages of [`sum`](Self::sum).
    fn messages_of_sum(&self, values: usize) -> impl Iterator<Item = Operation> + use<> {
        let partners = self.partners();
        partners.map(move |partner| Operation::swap(partner, values, values))
    }

    /// The messages of [`exchange`](Self::exchange).
    fn messages_of_exchange(&self, rank: Rank) -> impl Iterator<Item = Operation> {
        let own = self.own().len();
        let rows = self.passed_on();
        let rows = rows.map(move |(partner, rows)| Operation::swap(partner, rows.len(), own));
        let transposed = Some(self.transposed()).filter(|&partner| partner != rank);
        let columns = self.columns.len();
        rows.chain(transposed.map(|partner| Operation::swap(partner, own, columns)))
    }
}

fn add(to: &mut [f64], values: &[f64]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += value;
    }
}

/// The scalar product.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest: f64 = rest.map(|(a, b)| a * b).sum();
    let mut sums = [0.0; LANES];
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

impl Kernel for Cg {
    const OPERATION: &'static str = "floating-point operations";

    fn allowed(class: Class) -> Allowed {
        // Blocks of 20 x 20 and more.
        let most: u32 = class.of(&[1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 20, 1 << 20]);
        Allowed::PowersOfTwo(most)
    }

    fn memory_per_rank(class: Class, ranks: u32) -> Bytes {
        let definition = class.definition();
        // Rounded to what it can use; rank 0 has the largest block.
        let ranks = ranks.min(Self::allowed(class).most()).next_power_of_two();
        let layout = Layout::of(definition.order, 0, ranks);
        let (rows, columns) = (layout.rows.len(), layout.columns.len());
        // A message each way.
        let messages = 2 * layout.received();
        let vectors = 5 * columns + rows + layout.received() + messages;
        let starts = rows + 1;
        Bytes::new(8 * (vectors + starts) as u64 + 12 * definition.most_elements(&layout))
    }

    fn iterations(class: Class) -> u32 {
        class.of(&[15, 15, 15, 75, 75, 100])
    }

    fn operations(class: Class) -> u64 {
        let Definition {
            order, nonzeros, ..
        } = class.definition();
        let row = u64::from(nonzeros * (nonzeros + 1));
        let iteration = 3 + row + u64::from(STEPS) * (5 + row) + 3;
        2 * u64::from(Self::iterations(class)) * u64::from(order) * iteration
    }

    fn traffic(class: Class, ranks: u32, rank: Rank) -> Traffic {
        let Definition {
            order, nonzeros, ..
        } = class.definition();
        let layout = Layout::of(order, rank.get(), ranks);
        // Multiplications, as NPB counts them.
        let (rows, columns) = (layout.rows.len() as u64, layout.columns.len() as u64);
        let elements = u64::from(nonzeros * (nonzeros + 1)) * rows * columns / u64::from(order);
        let product = || {
            let exchange = layout.messages_of_exchange(rank);
            std::iter::once(Operation::Compute(elements)).chain(exchange)
        };
        let vectors = |count: u64| Operation::Compute(count * columns);
        let sum = |values: usize| layout.messages_of_sum(values);
        let step = product().chain([vectors(1)]).chain(sum(1));
        let step = step.chain([vectors(3)]).chain(sum(1)).chain([vectors(1)]);
        let begin = std::iter::once(vectors(1)).chain(sum(1));
        let steps = [Operation::Repeat(STEPS, step.collect())];
        let end = product().chain([vectors(1)]).chain(sum(1));
        let end = end.chain([vectors(2)]).chain(sum(2)).chain([vectors(1)]);
        Traffic {
            before: Vec::new(),
            iteration: begin.chain(steps).chain(end).collect(),
            after: Vec::new(),
        }
    }

    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError> {
        let mut cg = Self::empty(class, watch.rank().get(), watch.size());
        cg.x.fill(1.0);
        cg.power_step(watch)?;
        cg.x.fill(1.0);
        Ok(cg)
    }

    fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        _iteration: u32,
    ) -> Result<(), WorkloadError> {
        self.power_step(watch).map(|_| ())
    }

    fn checks<F: Fabric>(&mut self, _: &mut Stopwatch<'_, F>) -> Result<Vec<Check>, WorkloadError> {
        Ok(vec![Check {
            name: "the eigenvalue zeta".to_owned(),
            found: self.zeta,
            published: self.class.zeta(),
            tolerance: TOLERANCE,
        }])
    }
}
