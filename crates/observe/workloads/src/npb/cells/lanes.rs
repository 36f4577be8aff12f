//! Numbers of several lines side by side: a register of the vector unit, or a few.

use std::ops::{Add, Mul, Neg, Sub};

/// One number of each of `L` lines.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub struct Lanes<const L: usize>(pub [f64; L]);

impl<const L: usize> Lanes<L> {
    pub const ZERO: Self = Self::all(0.0);

    /// The same number in all lanes.
    pub const fn all(value: f64) -> Self {
        Self([value; L])
    }

    /// The numbers at these places.
    #[inline(always)]
    pub fn gather(from: &[f64], at: [usize; L]) -> Self {
        let mut lanes = [0.0; L];
        for (lane, at) in lanes.iter_mut().zip(at) {
            *lane = from[at];
        }
        Self(lanes)
    }

    #[inline(always)]
    fn map(self, f: impl Fn(f64) -> f64) -> Self {
        let mut lanes = self.0;
        for lane in &mut lanes {
            *lane = f(*lane);
        }
        Self(lanes)
    }

    /// One over each.
    #[inline(always)]
    pub fn inverse(self) -> Self {
        self.map(|x| 1.0 / x)
    }

    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut lanes = self.0;
        for (lane, other) in lanes.iter_mut().zip(other.0) {
            *lane = f(*lane, other);
        }
        Self(lanes)
    }
}

impl<const L: usize> Add for Lanes<L> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
}

impl<const L: usize> Sub for Lanes<L> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }
}

impl<const L: usize> Mul for Lanes<L> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }
}

impl<const L: usize> Mul<f64> for Lanes<L> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, factor: f64) -> Self {
        self.map(|x| x * factor)
    }
}

impl<const L: usize> Neg for Lanes<L> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|x| -x)
    }
}
