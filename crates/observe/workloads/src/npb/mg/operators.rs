//! What happens to the cells of one share: the four operators of the V-cycle, and norms.
//!
//! All are weighted sums over the 27 cells around one, with a weight for each of the centre, the 6
//! cells across a face, the 12 across an edge and the 8 across a corner. Of the eight rows around a
//! row, the four across faces have their sum in `near` and the four across edges in `far`: both are
//! needed for three cells of the row, and computed once.

use super::field::Field;

/// Sums that are computed side by side.
const LANES: usize = 8;

/// Sums of the rows around a row.
#[derive(Debug)]
pub struct Lines {
    near: Vec<f64>,
    far: Vec<f64>,
}

impl Lines {
    /// Room for rows of this length.
    pub fn new(length: usize) -> Self {
        Self {
            near: vec![0.0; length],
            far: vec![0.0; length],
        }
    }

    /// Sums the four rows across faces and the four across edges.
    fn sum(&mut self, of: &Field, y: usize, z: usize) -> (&[f64], &[f64]) {
        let row = |y, z| of.row(y, z);
        let n = of.sides[0];
        let (near, far) = (&mut self.near[..n], &mut self.far[..n]);
        let (a, b, c, d) = (row(y - 1, z), row(y + 1, z), row(y, z - 1), row(y, z + 1));
        for x in 0..n {
            near[x] = a[x] + b[x] + c[x] + d[x];
        }
        let (a, b) = (row(y - 1, z - 1), row(y + 1, z - 1));
        let (c, d) = (row(y - 1, z + 1), row(y + 1, z + 1));
        for x in 0..n {
            far[x] = a[x] + b[x] + c[x] + d[x];
        }
        (near, far)
    }

    /// Bytes held.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        8 * (self.near.capacity() + self.far.capacity())
    }
}

/// Calls `each` for every row of own cells.
fn rows([_, ny, nz]: [usize; 3], mut each: impl FnMut(usize, usize)) {
    for z in 1..nz - 1 {
        for y in 1..ny - 1 {
            each(y, z);
        }
    }
}

/// Weights of the centre, of the cells across faces, across edges and across corners.
type Weights = [f64; 4];

/// Sets a row of `out` to `base` plus the weighted sums around it. `base` gets the value before and
/// the place in the row. What `out` holds of the border is lost.
#[inline(always)]
fn set_stencil(
    of: &Field,
    [y, z]: [usize; 2],
    w: Weights,
    lines: &mut Lines,
    out: &mut [f64],
    base: impl Fn(f64, usize) -> f64,
) {
    let n = out.len();
    let row = |y, z| &of.row(y, z)[..n];
    let centre = row(y, z);
    let (a, b, c, d) = (row(y - 1, z), row(y + 1, z), row(y, z - 1), row(y, z + 1));
    let (e, f) = (row(y - 1, z - 1), row(y + 1, z - 1));
    let (g, h) = (row(y - 1, z + 1), row(y + 1, z + 1));
    // What goes to the cells on the left and on the right.
    let beside = &mut lines.near[..n];
    for x in 0..n {
        let near = a[x] + b[x] + c[x] + d[x];
        let far = e[x] + f[x] + g[x] + h[x];
        out[x] = base(out[x], x) + (w[0] * centre[x] + w[1] * near + w[2] * far);
        beside[x] = w[1] * centre[x] + w[2] * near + w[3] * far;
    }
    for (out, beside) in out[1..].iter_mut().zip(beside.windows(3)) {
        *out += beside[0] + beside[2];
    }
}

/// Adds the smoother of the residual `r` to `u`: `c` are the weights of the centre, faces and edges
/// (corners have none). The border of `u` is lost.
pub fn smooth(r: &Field, u: &mut Field, c: [f64; 3], lines: &mut Lines) {
    let weights = [c[0], c[1], c[2], 0.0];
    rows(r.sides, |y, z| {
        set_stencil(r, [y, z], weights, lines, u.row_mut(y, z), |u, _| u);
    });
}

/// The discrete Laplacian with its sign changed.
const MINUS_LAPLACIAN: Weights = [8.0 / 3.0, 0.0, -1.0 / 6.0, -1.0 / 12.0];

/// The residual `r = v - A u`, with A the Laplacian. Without `v` it is `r` before. The border of `r`
/// is lost.
pub fn residual(u: &Field, v: Option<&Field>, r: &mut Field, lines: &mut Lines) {
    rows(u.sides, |y, z| {
        let (at, w, out) = ([y, z], MINUS_LAPLACIAN, r.row_mut(y, z));
        match v {
            Some(v) => {
                let v = &v.row(y, z)[..out.len()];
                set_stencil(u, at, w, lines, out, |_, x| v[x]);
            }
            None => set_stencil(u, at, w, lines, out, |r, _| r),
        }
    });
}

/// Restricts `fine` to the cells of `coarse`; `odd` is [`odd`](super::level::Level::odd) of the fine
/// level.
pub fn restrict(fine: &Field, coarse: &mut Field, odd: [usize; 3], lines: &mut Lines) {
    rows(coarse.sides, |y, z| {
        let (fine_y, fine_z) = (2 * y - odd[1], 2 * z - odd[2]);
        let (near, far) = lines.sum(fine, fine_y, fine_z);
        let from = 1 - odd[0];
        let centre = fine.row(fine_y, fine_z)[from..].windows(3).step_by(2);
        let near = near[from..].windows(3).step_by(2);
        let far = far[from..].windows(3).step_by(2);
        let out = &mut coarse.row_mut(y, z)[1..];
        for (out, ((centre, near), far)) in out.iter_mut().zip(centre.zip(near).zip(far)) {
            *out = 0.5 * centre[1]
                + 0.25 * (centre[0] + centre[2] + near[1])
                + 0.125 * (near[0] + near[2] + far[1])
                + 0.0625 * (far[0] + far[2]);
        }
    });
}

/// Adds `coarse`, interpolated linearly, to `fine`, border included; `odd` is that of the fine level.
pub fn interpolate(coarse: &Field, fine: &mut Field, odd: [usize; 3], lines: &mut Lines) {
    let [nx, ny, nz] = fine.sides;
    let length = coarse.sides[0];
    let row = |y: usize, z: usize| &coarse.row(y, z)[..length];
    for z in 0..nz {
        for y in 0..ny {
            let (twice_y, twice_z) = (y + odd[1], z + odd[2]);
            let (y0, z0) = (twice_y / 2, twice_z / 2);
            let (between_y, between_z) = (twice_y % 2, twice_z % 2);
            let (a, b) = (row(y0, z0), row(y0 + between_y, z0 + between_z));
            let line = &mut lines.near[..length];
            let line = match between_y + between_z {
                0 => a,
                1 => {
                    for x in 0..length {
                        line[x] = a[x] + b[x];
                    }
                    line
                }
                _ => {
                    let (c, d) = (row(y0 + 1, z0), row(y0, z0 + 1));
                    for x in 0..length {
                        line[x] = a[x] + b[x] + c[x] + d[x];
                    }
                    line
                }
            };
            let weight = 1.0 / (1 << (between_y + between_z)) as f64;
            let half = 0.5 * weight;
            let (head, body) = fine.row_mut(y, z)[..nx].split_at_mut(odd[0]);
            if let [head] = head {
                *head += half * (line[0] + line[1]);
            }
            let line = &line[odd[0]..];
            let mut pairs = body.chunks_exact_mut(2);
            for (out, line) in (&mut pairs).zip(line.windows(2)) {
                out[0] += weight * line[0];
                out[1] += half * (line[0] + line[1]);
            }
            if let ([out], Some(last)) = (pairs.into_remainder(), line.last()) {
                *out += weight * last;
            }
        }
    }
}

/// The sum of the squares of all own cells, and the largest absolute value.
pub fn norms(r: &Field) -> (f64, f64) {
    let n = r.sides[0] - 2;
    let mut squares = [0.0; LANES];
    let mut largest = [0.0; LANES];
    let mut add = |part: &[f64]| {
        for (value, (sum, largest)) in part.iter().zip(squares.iter_mut().zip(&mut largest)) {
            *sum += value * value;
            let size = value.abs();
            // A NaN shows in the sum.
            *largest = if size > *largest { size } else { *largest };
        }
    };
    rows(r.sides, |y, z| {
        let parts = r.row(y, z)[1..][..n].chunks_exact(LANES);
        add(parts.remainder());
        parts.for_each(&mut add);
    });
    let largest = largest.into_iter().fold(0.0, f64::max);
    (squares.iter().sum(), largest)
}
