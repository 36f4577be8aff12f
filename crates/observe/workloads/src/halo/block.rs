//! The cells of one rank, with a border one cell wide that belongs to the neighbours.

use super::Halo;
use super::wave::Wave;
use idlewave_stats::random::mix;

/// The cells at two successive steps.
#[derive(Debug)]
pub struct Block {
    cells: [usize; 3],
    /// Position of the first own cell in the whole grid.
    origin: [u64; 3],
    /// Cells along each edge of the whole grid.
    edges: [u64; 3],
    now: Vec<f64>,
    next: Vec<f64>,
}

impl Block {
    pub fn new(halo: &Halo, ranks: u32, rank: u32) -> Self {
        let (sides, place) = (halo.sides(ranks), halo.place(ranks, rank));
        let per = halo.cells.map(u64::from);
        let cells = halo.cells.map(|c| c as usize);
        let length = cells.iter().map(|c| c + 2).product();
        Self {
            cells,
            origin: std::array::from_fn(|d| per[d] * u64::from(place[d])),
            edges: std::array::from_fn(|d| per[d] * u64::from(sides[d])),
            now: vec![0.0; length],
            next: vec![0.0; length],
        }
    }

    /// Distance in memory to the next cell along each dimension.
    fn strides(&self) -> [usize; 3] {
        let [_, y, z] = self.cells;
        [(y + 2) * (z + 2), z + 2, 1]
    }

    /// The index of a cell, counted from the border's corner: the first own cell is `[1, 1, 1]`.
    fn index(&self, [x, y, z]: [usize; 3]) -> usize {
        let [a, b, _] = self.strides();
        x * a + y * b + z
    }

    /// Calls `each` with the index of every own cell and its position in the whole grid.
    fn each_cell(&self, mut each: impl FnMut(usize, [u64; 3])) {
        let [nx, ny, nz] = self.cells;
        let [ox, oy, oz] = self.origin;
        for x in 0..nx {
            for y in 0..ny {
                let row = self.index([x + 1, y + 1, 1]);
                for z in 0..nz {
                    each(row + z, [ox + x as u64, oy + y as u64, oz + z as u64]);
                }
            }
        }
    }

    /// Sets all own cells to the wave.
    pub fn set(&mut self, wave: &Wave) {
        let mut now = std::mem::take(&mut self.now);
        self.each_cell(|index, cell| now[index] = wave.at(cell));
        self.now = now;
    }

    /// The largest absolute value of an own cell.
    pub fn largest(&self) -> f64 {
        let mut largest = 0.0_f64;
        self.each_cell(|index, _| largest = largest.max(self.now[index].abs()));
        largest
    }

    /// The largest deviation of an own cell from `left` times the wave.
    pub fn distance(&self, wave: &Wave, left: f64) -> f64 {
        let mut largest = 0.0_f64;
        self.each_cell(|index, cell| {
            let off = (self.now[index] - left * wave.at(cell)).abs();
            // NaN is infinitely far off.
            largest = if off.is_nan() {
                f64::INFINITY
            } else {
                largest.max(off)
            };
        });
        largest
    }

    /// Checksum of all own cells and their positions; checksums of several blocks add up, modulo
    /// 2^64.
    pub fn checksum(&self) -> u64 {
        let mut sum = 0_u64;
        let [_, ey, ez] = self.edges;
        self.each_cell(|index, [x, y, z]| {
            let place = (x * ey + y) * ez + z;
            sum = sum.wrapping_add(mix(self.now[index].to_bits() ^ mix(place)));
        });
        sum
    }

    /// The index of the first cell of a plane across a dimension, and length and stride along the
    /// plane's two directions.
    fn plane(&self, dimension: usize, layer: usize) -> (usize, [(usize, usize); 2]) {
        let strides = self.strides();
        let mut corner = [1; 3];
        corner[dimension] = layer;
        let [a, b] = match dimension {
            0 => [1, 2],
            1 => [0, 2],
            _ => [0, 1],
        };
        let along = |d: usize| (self.cells[d], strides[d]);
        (self.index(corner), [along(a), along(b)])
    }

    fn each_of_plane(&self, dimension: usize, layer: usize, mut each: impl FnMut(usize)) {
        let (corner, [(n, step), (m, inner)]) = self.plane(dimension, layer);
        for i in 0..n {
            for k in 0..m {
                each(corner + i * step + k * inner);
            }
        }
    }

    /// Appends the own cells of a face.
    pub fn put_face(&self, dimension: usize, upwards: bool, bytes: &mut Vec<u8>) {
        let layer = if upwards { self.cells[dimension] } else { 1 };
        self.each_of_plane(dimension, layer, |index| {
            bytes.extend_from_slice(&self.now[index].to_le_bytes());
        });
    }

    /// Fills the border beyond a face.
    pub fn take_face(&mut self, dimension: usize, upwards: bool, bytes: &[u8]) {
        let layer = if upwards {
            self.cells[dimension] + 1
        } else {
            0
        };
        let mut now = std::mem::take(&mut self.now);
        let mut values = bytes.chunks_exact(8);
        self.each_of_plane(dimension, layer, |index| {
            if let Some(Ok(raw)) = values.next().map(<[u8; 8]>::try_from) {
                now[index] = f64::from_le_bytes(raw);
            }
        });
        self.now = now;
    }

    /// Fills both borders across a dimension from the block's own opposite faces, for a periodic
    /// dimension with one rank.
    pub fn wrap(&mut self, dimension: usize) {
        let last = self.cells[dimension];
        let step = self.strides()[dimension];
        let mut now = std::mem::take(&mut self.now);
        self.each_of_plane(dimension, 0, |index| {
            now[index] = now[index + last * step];
            now[index + (last + 1) * step] = now[index + step];
        });
        self.now = now;
    }

    /// Replaces every own cell by the mean of its six neighbours.
    pub fn sweep(&mut self) {
        let [nx, ny, nz] = self.cells;
        let [a, b, _] = self.strides();
        for x in 1..=nx {
            for y in 1..=ny {
                let row = self.index([x, y, 1]);
                let now = |from: usize| &self.now[from..from + nz];
                let (behind, ahead) = (now(row - a), now(row + a));
                let (left, right) = (now(row - b), now(row + b));
                let (below, above) = (now(row - 1), now(row + 1));
                let target = &mut self.next[row..row + nz];
                for z in 0..nz {
                    let sum =
                        ((behind[z] + ahead[z]) + (left[z] + right[z])) + (below[z] + above[z]);
                    target[z] = sum * (1.0 / 6.0);
                }
            }
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }

    /// The largest change of an own cell in the last sweep.
    pub fn change(&self) -> f64 {
        let mut largest = 0.0_f64;
        self.each_cell(|index, _| {
            largest = largest.max((self.now[index] - self.next[index]).abs())
        });
        largest
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        8 * (self.now.capacity() + self.next.capacity())
    }

    /// Changes one own cell.
    #[cfg(test)]
    pub fn spoil(&mut self) {
        let index = self.index([1, 1, 1]);
        self.now[index] += 1e-9;
    }
}
