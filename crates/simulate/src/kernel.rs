//! The maximum over a rank and its neighbours, for all ranks of a line, a ring or a torus.
//!
//! Pure streaming: 4 bytes read and 4 written per rank-step (12 with the write-allocate of a cache that does not hold the
//! array), everything else hits the first level. That traffic is the floor of a rank-step.

use crate::shape::Shape;

/// A number type for times: signed nanoseconds relative to some instant.
pub(crate) trait Time: Copy + Ord + Default + Send + Sync {
    /// What saturated sums become: its presence means overflow.
    const MAX: Self;
    /// This time later by `length` nanoseconds, or `MAX`.
    fn later(self, length: u64) -> Self;
    /// Exact widening.
    fn wide(self) -> i64;
    /// `wide` must have come from this type or be less.
    fn narrow(wide: i64) -> Self;
}

impl Time for i32 {
    const MAX: Self = i32::MAX;
    #[inline(always)]
    fn later(self, length: u64) -> Self {
        self.saturating_add_unsigned(u32::try_from(length).unwrap_or(u32::MAX))
    }
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self)
    }
    #[inline(always)]
    fn narrow(wide: i64) -> Self {
        wide as i32
    }
}

impl Time for i64 {
    const MAX: Self = i64::MAX;
    #[inline(always)]
    fn later(self, length: u64) -> Self {
        self.saturating_add_unsigned(length)
    }
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
    #[inline(always)]
    fn narrow(wide: i64) -> Self {
        wide
    }
}

/// `out[i] = max(line[i], line[i + 1], line[i + 2])`; `line` is two longer than `out`.
#[inline(always)]
fn line_body<T: Time>(line: &[T], out: &mut [T]) {
    let n = out.len();
    let (left, middle, right) = (&line[..n], &line[1..n + 1], &line[2..n + 2]);
    for i in 0..n {
        out[i] = left[i].max(middle[i]).max(right[i]);
    }
}

/// One step on a torus or ring; a side of length 1 or 2 counts its neighbours as they are: itself, or one twice.
#[inline(always)]
fn torus_body<T: Time>(shape: Shape, now: &[T], next: &mut [T]) {
    let Shape {
        x: nx,
        y: ny,
        z: nz,
    } = shape;
    if ny * nz == 1 {
        // A ring: all but the two ends that meet are a line.
        if nx > 2 {
            line_body(now, &mut next[1..nx - 1]);
        }
        next[0] = now[0].max(now[nx - 1]).max(now[1 % nx]);
        next[nx - 1] = now[nx - 1].max(now[(2 * nx - 2) % nx]).max(now[0]);
        return;
    }
    let plane = nx * ny;
    let row = |z: usize, y: usize| {
        let begin = z * plane + y * nx;
        begin..begin + nx
    };
    for z in 0..nz {
        let (below, above) = ((z + nz - 1) % nz, (z + 1) % nz);
        for y in 0..ny {
            let own = &now[row(z, y)];
            let front = &now[row(z, (y + ny - 1) % ny)];
            let back = &now[row(z, (y + 1) % ny)];
            let out = &mut next[row(z, y)];
            if nz == 1 {
                for x in 0..nx {
                    out[x] = own[x].max(front[x]).max(back[x]);
                }
            } else {
                let (low, high) = (&now[row(below, y)], &now[row(above, y)]);
                for x in 0..nx {
                    out[x] = own[x].max(front[x]).max(back[x]).max(low[x].max(high[x]));
                }
            }
            for (o, (left, right)) in out[1..].iter_mut().zip(own.iter().zip(own.iter().skip(2))) {
                *o = (*o).max(*left).max(*right);
            }
            out[0] = out[0].max(own[nx - 1]).max(own[1 % nx]);
            out[nx - 1] = out[nx - 1].max(own[(2 * nx - 2) % nx]).max(own[0]);
        }
    }
}

macro_rules! dispatch {
    ($name:ident, $body:ident, $wide:ident, ($($arg:ident: $type:ty),*)) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        unsafe fn $wide<T: Time>($($arg: $type),*) {
            $body($($arg),*);
        }

        /// The same with the widest instructions of this machine: integers, so the result is the same.
        pub(crate) fn $name<T: Time>($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the only requirement of the function is AVX2, which was just seen to be there.
                return unsafe { $wide($($arg),*) };
            }
            $body($($arg),*);
        }
    };
}

dispatch!(line_step, line_body, line_avx2, (line: &[T], out: &mut [T]));
dispatch!(torus_step, torus_body, torus_avx2, (shape: Shape, now: &[T], next: &mut [T]));
