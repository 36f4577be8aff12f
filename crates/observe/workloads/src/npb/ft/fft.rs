//! Discrete Fourier transforms of many lines whose length is a power of two: Stockham's algorithm,
//! which leaves the result in order, in passes of radix 4 and, if need be, one of radix 2 (C. Van
//! Loan, Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7).
//!
//! A few neighbouring lines are transformed at once, in buffers that stay in the cache: every step
//! does the same to each of them, in vector registers, and memory is read and written by whole
//! cache lines whichever way the lines run.

use std::f64::consts::TAU;

/// A complex number: real and imaginary part.
pub type Complex = [f64; 2];

/// Lines transformed at once: as many numbers as a cache line of 64 bytes holds.
pub const LANES: usize = 4;

/// One element of each line: real parts, imaginary parts.
type Row = [[f64; LANES]; 2];

/// The sign of the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// -1.
    Forward,
    /// 1. The result is not divided by the length.
    Inverse,
}

/// Transforms of one length.
#[derive(Debug)]
pub struct Fft {
    /// exp(-2 pi i k / length) for each k.
    roots: Vec<Complex>,
    rows: Vec<Row>,
    next: Vec<Row>,
}

impl Fft {
    /// Transforms of this length, a power of two.
    pub fn new(length: usize) -> Self {
        let root = |k: usize| {
            let (sin, cos) = (TAU * k as f64 / length as f64).sin_cos();
            [cos, -sin]
        };
        let rows = vec![Row::default(); length];
        Self {
            roots: (0..length).map(root).collect(),
            next: rows.clone(),
            rows,
        }
    }

    /// Bytes of its buffers for this length.
    pub const fn bytes(length: usize) -> usize {
        length * (size_of::<Complex>() + 2 * size_of::<Row>())
    }

    /// Transforms lines that lie one after the other; their number is a multiple of [`LANES`].
    pub fn along(&mut self, lines: &mut [Complex], direction: Direction) {
        let length = self.roots.len();
        let [re, im] = parts(direction);
        for block in lines.chunks_exact_mut(LANES * length) {
            for (lane, line) in block.chunks_exact(length).enumerate() {
                for (row, value) in self.rows.iter_mut().zip(line) {
                    row[re][lane] = value[0];
                    row[im][lane] = value[1];
                }
            }
            self.transform();
            for (lane, line) in block.chunks_exact_mut(length).enumerate() {
                for (row, value) in self.rows.iter().zip(line) {
                    *value = [row[re][lane], row[im][lane]];
                }
            }
        }
    }

    /// Transforms lines that lie side by side: first the first element of each, then the second of
    /// each, and so on. Their number is a multiple of [`LANES`].
    pub fn across(&mut self, lines: &mut [Complex], direction: Direction) {
        let blocks: &mut [[Complex; LANES]] = bytemuck::cast_slice_mut(lines);
        let width = blocks.len() / self.roots.len();
        let [re, im] = parts(direction);
        for first in 0..width {
            let all = blocks[first..].iter().step_by(width);
            for (row, block) in self.rows.iter_mut().zip(all) {
                row[re] = block.map(|value| value[0]);
                row[im] = block.map(|value| value[1]);
            }
            self.transform();
            let all = blocks[first..].iter_mut().step_by(width);
            for (row, block) in self.rows.iter().zip(all) {
                *block = std::array::from_fn(|lane| [row[re][lane], row[im][lane]]);
            }
        }
    }

    /// Transforms the rows, forward.
    fn transform(&mut self) {
        let length = self.roots.len();
        // The lines consist of `stride` interleaved parts of this length, still to transform.
        let (mut part, mut stride) = (length, 1);
        while part > 1 {
            match part {
                2 => {
                    pass2(&self.rows, &mut self.next);
                    part = 1;
                }
                _ => {
                    pass4(&self.rows, &mut self.next, stride, &self.roots);
                    part /= 4;
                    stride *= 4;
                }
            }
            std::mem::swap(&mut self.rows, &mut self.next);
        }
    }
}

/// Where real and imaginary parts are kept. The inverse transform is the forward one of numbers
/// whose parts are swapped, swapped back.
const fn parts(direction: Direction) -> [usize; 2] {
    match direction {
        Direction::Forward => [0, 1],
        Direction::Inverse => [1, 0],
    }
}

/// The last pass of lengths that are no power of four: both halves are interleaved parts of length
/// 2, whose roots are 1.
fn pass2(rows: &[Row], next: &mut [Row]) {
    let (a, b) = rows.split_at(rows.len() / 2);
    let (sums, differences) = next.split_at_mut(rows.len() / 2);
    let outputs = sums.iter_mut().zip(differences);
    for ((a, b), (sum, difference)) in a.iter().zip(b).zip(outputs) {
        *sum = add(a, b);
        *difference = subtract(a, b);
    }
}

/// A pass that turns `stride` interleaved parts into four times as many, a quarter as long.
fn pass4(rows: &[Row], next: &mut [Row], stride: usize, roots: &[Complex]) {
    let quarter = rows.len() / 4;
    let inputs = |i: usize| rows[i * quarter..][..quarter].chunks_exact(stride);
    let inputs = inputs(0).zip(inputs(1)).zip(inputs(2).zip(inputs(3)));
    let outputs = next.chunks_exact_mut(4 * stride);
    for (p, (((a, b), (c, d)), output)) in inputs.zip(outputs).enumerate() {
        let [w1, w2, w3] = [1, 2, 3].map(|i| roots[i * p * stride]);
        let (first, second) = output.split_at_mut(2 * stride);
        let (o0, o1) = first.split_at_mut(stride);
        let (o2, o3) = second.split_at_mut(stride);
        let (o0, o1, o2, o3) = (o0.iter_mut(), o1.iter_mut(), o2.iter_mut(), o3.iter_mut());
        let inputs = a.iter().zip(b).zip(c.iter().zip(d));
        let outputs = o0.zip(o1).zip(o2.zip(o3));
        for (((a, b), (c, d)), ((o0, o1), (o2, o3))) in inputs.zip(outputs) {
            let (ac, bd) = (add(a, c), add(b, d));
            let (a_c, b_d) = (subtract(a, c), rotate(subtract(b, d)));
            *o0 = add(&ac, &bd);
            *o1 = multiply(&add(&a_c, &b_d), w1);
            *o2 = multiply(&subtract(&ac, &bd), w2);
            *o3 = multiply(&subtract(&a_c, &b_d), w3);
        }
    }
}

#[inline(always)]
fn each(value: impl Fn(usize) -> f64) -> [f64; LANES] {
    std::array::from_fn(value)
}

#[inline(always)]
fn add(a: &Row, b: &Row) -> Row {
    [0, 1].map(|part| each(|i| a[part][i] + b[part][i]))
}

#[inline(always)]
fn subtract(a: &Row, b: &Row) -> Row {
    [0, 1].map(|part| each(|i| a[part][i] - b[part][i]))
}

/// Times -i.
#[inline(always)]
fn rotate(a: Row) -> Row {
    [a[1], a[0].map(|re| -re)]
}

#[inline(always)]
fn multiply(a: &Row, [re, im]: Complex) -> Row {
    [
        each(|i| a[0][i] * re - a[1][i] * im),
        each(|i| a[0][i] * im + a[1][i] * re),
    ]
}

#[cfg(test)]
impl Fft {
    /// Bytes that its buffers take.
    pub fn held(&self) -> usize {
        size_of::<Complex>() * self.roots.capacity()
            + size_of::<Row>() * (self.rows.capacity() + self.next.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum of the definition.
    fn by_definition(line: &[Complex], direction: Direction) -> Vec<Complex> {
        let sign = match direction {
            Direction::Forward => -1.0,
            Direction::Inverse => 1.0,
        };
        let element = |k: usize| {
            let term = |(j, x): (usize, &Complex)| {
                let angle = sign * TAU * ((j * k) % line.len()) as f64 / line.len() as f64;
                let (sin, cos) = angle.sin_cos();
                [x[0] * cos - x[1] * sin, x[0] * sin + x[1] * cos]
            };
            let terms = line.iter().enumerate().map(term);
            terms.fold([0.0; 2], |sum, x| [sum[0] + x[0], sum[1] + x[1]])
        };
        (0..line.len()).map(element).collect()
    }

    proptest! {
        #[test]
        fn lines_are_transformed_by_the_definition_whichever_way_they_run(
            bits in 0_u32..8,
            blocks in 1_usize..3,
            inverse: bool,
            seed in prop::collection::vec(-1.0..1.0, 2 * 128 * 2 * LANES),
        ) {
            let (length, count) = (1_usize << bits, blocks * LANES);
            let direction = if inverse { Direction::Inverse } else { Direction::Forward };
            let mut lines: Vec<Complex> = bytemuck::cast_slice(&seed)[..length * count].to_vec();
            let turned = (0..length * count).map(|i| lines[i % count * length + i / count]);
            let mut turned: Vec<Complex> = turned.collect();
            let expected: Vec<_> = lines
                .chunks(length)
                .flat_map(|line| by_definition(line, direction))
                .collect();
            let mut fft = Fft::new(length);
            fft.along(&mut lines, direction);
            fft.across(&mut turned, direction);
            for (i, (found, expected)) in lines.iter().zip(&expected).enumerate() {
                let across = turned[i % length * count + i / length];
                for part in 0..2 {
                    prop_assert!((found[part] - expected[part]).abs() < 1e-12);
                    prop_assert!((across[part] - expected[part]).abs() < 1e-12);
                }
            }
        }
    }
}
