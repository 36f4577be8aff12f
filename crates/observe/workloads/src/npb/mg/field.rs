//! Values of a share's cells and of a border one cell wide around them.

/// Values on one level. The first axis is contiguous in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field {
    /// Cells along each axis, with the border.
    pub sides: [usize; 3],
    values: Vec<f64>,
}

impl Field {
    /// Zeros, for a share of this size.
    pub fn new(cells: [usize; 3]) -> Self {
        let sides = cells.map(|cells| cells + 2);
        Self {
            sides,
            values: vec![0.0; sides.iter().product()],
        }
    }

    /// Sets all to zero.
    pub fn clear(&mut self) {
        self.values.fill(0.0);
    }

    /// Cells along the first axis.
    pub fn row(&self, y: usize, z: usize) -> &[f64] {
        let [nx, ny, _] = self.sides;
        &self.values[(z * ny + y) * nx..][..nx]
    }

    /// See [`row`](Self::row).
    pub fn row_mut(&mut self, y: usize, z: usize) -> &mut [f64] {
        let [nx, ny, _] = self.sides;
        &mut self.values[(z * ny + y) * nx..][..nx]
    }

    /// Where rows of a plane across an axis are, as ranges of y and z, and of x in each. The border
    /// of the axes from `bordered` on is left out.
    fn plane(&self, axis: usize, layer: usize, bordered: usize) -> [std::ops::Range<usize>; 3] {
        std::array::from_fn(|other| match other {
            other if other == axis => layer..layer + 1,
            other if other < bordered => 0..self.sides[other],
            other => 1..self.sides[other] - 1,
        })
    }

    /// Number of cells of a plane of a share of this size; see [`put`](Self::put).
    pub fn plane_cells(cells: [usize; 3], axis: usize, bordered: usize) -> usize {
        let sides = (0..3).map(|other| match other {
            other if other == axis => 1,
            other if other < bordered => cells[other] + 2,
            other => cells[other],
        });
        sides.product()
    }

    /// Copies a plane out, without the border of the axes from `bordered` on.
    pub fn put(&self, axis: usize, layer: usize, bordered: usize, out: &mut [f64]) {
        let [xs, ys, zs] = self.plane(axis, layer, bordered);
        let mut parts = out.chunks_exact_mut(xs.len());
        for z in zs {
            for (y, part) in ys.clone().zip(&mut parts) {
                part.copy_from_slice(&self.row(y, z)[xs.clone()]);
            }
        }
    }

    /// Copies a plane in; see [`put`](Self::put).
    pub fn take(&mut self, axis: usize, layer: usize, bordered: usize, from: &[f64]) {
        let [xs, ys, zs] = self.plane(axis, layer, bordered);
        let mut parts = from.chunks_exact(xs.len());
        for z in zs {
            for (y, part) in ys.clone().zip(&mut parts) {
                self.row_mut(y, z)[xs.clone()].copy_from_slice(part);
            }
        }
    }

    /// Fills the border across an axis from the opposite cells of the same share.
    pub fn wrap(&mut self, axis: usize) {
        let [nx, ny, nz] = self.sides;
        match axis {
            0 => {
                for z in 1..nz - 1 {
                    for y in 1..ny - 1 {
                        let row = self.row_mut(y, z);
                        (row[0], row[nx - 1]) = (row[nx - 2], row[1]);
                    }
                }
            }
            1 => {
                for plane in self.values.chunks_exact_mut(nx * ny).skip(1).take(nz - 2) {
                    plane.copy_within((ny - 2) * nx..(ny - 1) * nx, 0);
                    plane.copy_within(nx..2 * nx, (ny - 1) * nx);
                }
            }
            _ => {
                let plane = nx * ny;
                self.values
                    .copy_within((nz - 2) * plane..(nz - 1) * plane, 0);
                self.values.copy_within(plane..2 * plane, (nz - 1) * plane);
            }
        }
    }

    /// Bytes of the values.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        8 * self.values.capacity()
    }
}
