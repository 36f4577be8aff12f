//! The sparse matrix: a weighted sum of outer products of random sparse vectors, whose eigenvalues
//! are known in their order of magnitude (RNR-94-007, section 2.2).
//!
//! With `x_i` the i-th vector, the matrix is the sum of `w_i x_i x_i^T` plus a multiple of the
//! identity; the weights `w_i` fall geometrically from 1 to [`CONDITION`]. A vector has a given number
//! of elements at random places, and 0.5 at place i. Every rank draws all vectors and keeps what
//! concerns its block.

use super::layout::Layout;
use crate::randlc::Randlc;

/// Reciprocal of the condition number.
const CONDITION: f64 = 0.1;
const SEED: u64 = 314_159_265;

/// What defines the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Rows.
    pub order: u32,
    /// Elements of a vector at random places.
    pub nonzeros: u32,
    /// What is subtracted from the diagonal.
    pub shift: f64,
}

/// One rank's block of the matrix, by rows.
#[derive(Debug)]
pub struct Matrix {
    /// Where rows begin, and the end of the last.
    starts: Vec<usize>,
    /// The column of each element, counted from the block's first; ascending in each row.
    columns: Vec<u32>,
    values: Vec<f64>,
    /// Columns of the block.
    width: usize,
}

/// The random vectors, one after the other.
struct Vectors {
    random: Randlc,
    definition: Definition,
    /// Places and elements of the last one.
    vector: Vec<(u32, f64)>,
}

impl Vectors {
    fn new(definition: Definition) -> Self {
        Self {
            // The specification uses one number up before the first vector.
            random: Randlc::new(SEED).skip(1),
            definition,
            vector: Vec::new(),
        }
    }

    fn next(&mut self, number: u32) -> &[(u32, f64)] {
        let Definition {
            order, nonzeros, ..
        } = self.definition;
        let range = f64::from(order.next_power_of_two());
        self.vector.clear();
        while self.vector.len() < nonzeros as usize {
            let element = self.random.next_unit();
            let place = (range * self.random.next_unit()) as u32;
            if place < order && self.vector.iter().all(|&(other, _)| other != place) {
                self.vector.push((place, element));
            }
        }
        match self.vector.iter_mut().find(|(place, _)| *place == number) {
            Some((_, element)) => *element = 0.5,
            None => self.vector.push((number, 0.5)),
        }
        &self.vector
    }
}

impl Definition {
    /// Elements of a block that are stored, about: the mean over all blocks of this size and four
    /// standard deviations, or all there can be.
    pub fn most_elements(&self, layout: &Layout) -> u64 {
        let (n, k) = (f64::from(self.order), f64::from(self.nonzeros));
        let (rows, columns) = (layout.rows.len() as f64, layout.columns.len() as f64);
        let all = k * (k + 1.0) * n;
        let mean = all * (rows / n) * (columns / n);
        // A vector hits a block several times or not at all.
        let spread = (mean * (k + 1.0)).sqrt();
        (mean + 4.0 * spread).min(all).ceil() as u64 + rows.min(columns) as u64
    }
}

impl Matrix {
    /// The block of a rank.
    pub fn new(definition: Definition, layout: &Layout) -> Self {
        let mut matrix = Self::with_room(definition, layout);
        let mut ends = matrix.starts.clone();
        let mut vectors = Vectors::new(definition);
        let (rows, columns) = (&layout.rows, &layout.columns);
        // The first element of a row is its diagonal element, if that is in the block.
        for row in rows.clone().filter(|row| columns.contains(row)) {
            let at = &mut ends[(row - rows.start) as usize];
            matrix.columns[*at] = row - columns.start;
            *at += 1;
        }
        let mut weight = 1.0;
        let ratio = CONDITION.powf(1.0 / f64::from(definition.order));
        for number in 0..definition.order {
            let vector = vectors.next(number);
            for &(column, value) in vector.iter().filter(|(place, _)| columns.contains(place)) {
                let scaled = weight * value;
                for &(row, value) in vector.iter().filter(|(place, _)| rows.contains(place)) {
                    let of_row = (row - rows.start) as usize;
                    if row == column {
                        matrix.values[matrix.starts[of_row]] += value * scaled;
                        continue;
                    }
                    let at = &mut ends[of_row];
                    matrix.columns[*at] = column - columns.start;
                    matrix.values[*at] = value * scaled;
                    *at += 1;
                }
            }
            weight *= ratio;
        }
        for row in rows.clone().filter(|row| columns.contains(row)) {
            let at = matrix.starts[(row - rows.start) as usize];
            matrix.values[at] += CONDITION - definition.shift;
        }
        matrix.merge();
        matrix
    }

    /// Zeros, as many in each row as products fall into it.
    fn with_room(definition: Definition, layout: &Layout) -> Self {
        let (rows, columns) = (&layout.rows, &layout.columns);
        let mut starts = vec![0; rows.len() + 1];
        let mut vectors = Vectors::new(definition);
        for number in 0..definition.order {
            let vector = vectors.next(number);
            let across = vector.iter().filter(|(place, _)| columns.contains(place));
            let across = across.count();
            for (row, _) in vector.iter().filter(|(place, _)| rows.contains(place)) {
                let diagonal = usize::from(columns.contains(row));
                starts[(row - rows.start) as usize + 1] += across - diagonal;
            }
        }
        for row in rows.clone() {
            let of_row = (row - rows.start) as usize;
            starts[of_row + 1] += starts[of_row] + usize::from(columns.contains(&row));
        }
        let elements = starts.last().copied().unwrap_or(0);
        Self {
            columns: vec![0; elements],
            values: vec![0.0; elements],
            starts,
            width: columns.len(),
        }
    }

    /// Sorts each row by column and adds up what has the same place.
    fn merge(&mut self) {
        let (mut end, mut begin) = (0, 0);
        let mut row = Vec::new();
        for next in &mut self.starts[1..] {
            let old = begin..*next;
            begin = *next;
            row.clear();
            row.extend(old.map(|at| (self.columns[at], self.values[at])));
            // Stable: equal places are added in the order of the vectors.
            row.sort_by_key(|&(column, _)| column);
            let first = end;
            for &(column, value) in &row {
                if end > first && self.columns[end - 1] == column {
                    self.values[end - 1] += value;
                } else {
                    (self.columns[end], self.values[end]) = (column, value);
                    end += 1;
                }
            }
            *next = end;
        }
        self.columns.truncate(end);
        self.values.truncate(end);
    }

    /// Multiplies the block with its part of a vector.
    ///
    /// # Panics
    /// If the lengths are not those of the block.
    pub fn times(&self, vector: &[f64], product: &mut [f64]) {
        assert_eq!(vector.len(), self.width);
        assert_eq!(product.len() + 1, self.starts.len());
        for (bounds, sum) in self.starts.windows(2).zip(product) {
            let row = bounds[0]..bounds[1];
            let elements = self.values[row.clone()].iter().zip(&self.columns[row]);
            // One sum: with several side by side, the end of a row costs more than they save.
            *sum = elements
                .map(|(value, &column)| value * vector[column as usize])
                .sum();
        }
    }

    /// Elements that it has room for.
    #[cfg(test)]
    pub fn elements(&self) -> usize {
        self.values.capacity()
    }

    /// Bytes of its arrays.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        8 * (self.starts.capacity() + self.values.capacity()) + 4 * self.columns.capacity()
    }
}
