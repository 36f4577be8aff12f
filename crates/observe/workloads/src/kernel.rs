//! Work of several kinds, in steps: what a fixed quantum repeats.
//!
//! | kernel | a step | what it loads |
//! |---|---|---|
//! | Fibonacci | an addition that needs the one before | the clock rate alone |
//! | integer | a multiplication, a shift and an exclusive or that need those before | the integer units |
//! | FMA | a fused multiply-add in each of 32 independent chains | the floating-point units |
//! | stream | an element of the STREAM triad, 24 bytes | caches or memory, by the size of the arrays |
//!
//! The same steps are the same work on every CPU, with one exception: an x86-64 CPU without FMA
//! (before 2013) multiplies and adds instead. No kernel calls a function of the mathematics library.

use crate::fibonacci::Fibonacci;
use crate::triad::Triad;
use idlewave_run::WorkKernel;
use idlewave_units::Bytes;

/// Size of all arrays of the stream.
const USUAL_ARRAY: Bytes = Bytes::from_kib(64 << 10);
/// Chains of multiply-adds: 8 registers of 4 numbers, which is latency (4 cycles) times throughput
/// (2 a cycle) of current cores.
const CHAINS: usize = 32;
/// Factor and summand of a multiply-add. From any start, a chain tends to 1 and never to 0 or
/// infinity, where some CPUs are slower.
const FACTOR: f64 = 0.999_999;
const SUMMAND: f64 = 0.000_001;

/// Work in progress.
#[derive(Clone, Debug)]
pub enum Kernel {
    /// See [`Fibonacci`].
    Fibonacci(Fibonacci),
    /// See [`Integer`].
    Integer(Integer),
    /// See [`Fma`].
    Fma(Fma),
    /// See [`Triad`].
    Stream(Triad),
}

impl Kernel {
    /// Work that begins. `array`: the size of all arrays of [`WorkKernel::Stream`] together, 64 MiB
    /// if not given; all of it is touched, so that it lies near the CPU of the caller.
    pub fn new(kernel: WorkKernel, array: Option<Bytes>) -> Self {
        match kernel {
            WorkKernel::Fibonacci => Self::Fibonacci(Fibonacci::default()),
            WorkKernel::Integer => Self::Integer(Integer::default()),
            WorkKernel::Fma => Self::Fma(Fma::default()),
            WorkKernel::Stream => {
                Self::Stream(Triad::new(array.unwrap_or(USUAL_ARRAY).get() as usize))
            }
        }
    }

    /// Works. The choice of the kernel costs a branch that is always predicted.
    pub fn advance(&mut self, steps: u64) {
        match self {
            Self::Fibonacci(work) => work.advance(steps),
            Self::Integer(work) => work.advance(steps),
            Self::Fma(work) => work.advance(steps),
            Self::Stream(work) => work.advance(steps),
        }
    }

    /// Steps that take some ten microseconds on current CPUs.
    pub(crate) fn short(&self) -> u64 {
        match self {
            Self::Fibonacci(_) => 50_000,
            Self::Integer(_) | Self::Fma(_) | Self::Stream(_) => 10_000,
        }
    }
}

/// A chain of multiplications, shifts and exclusive ors, as generators of random numbers use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer(u64);

impl Default for Integer {
    fn default() -> Self {
        Self(1)
    }
}

impl Integer {
    /// Odd, so that no step loses information: the multiplier of Knuth's MMIX generator.
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
    const SHIFT: u32 = 29;

    /// Works.
    // Not inlined, for the reasons of Fibonacci.
    #[inline(never)]
    pub fn advance(&mut self, steps: u64) {
        let mut x = self.0;
        let mut left = steps;
        while left > 0 {
            x = x.wrapping_mul(Self::MULTIPLIER);
            x ^= x >> Self::SHIFT;
            left -= 1;
        }
        self.0 = x;
    }
}

/// Independent chains of multiply-adds.
#[derive(Clone, Debug, PartialEq)]
pub struct Fma {
    x: [f64; CHAINS],
    /// Whether the CPU fuses the two.
    fused: bool,
}

impl Default for Fma {
    fn default() -> Self {
        Self {
            x: std::array::from_fn(|chain| 1.0 + chain as f64),
            fused: has_fma(),
        }
    }
}

impl Fma {
    /// Works.
    pub fn advance(&mut self, steps: u64) {
        if self.fused {
            // SAFETY: the CPU has the instructions.
            unsafe { fused(&mut self.x, steps) }
        } else {
            apart(&mut self.x, steps);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma")
}

/// All other 64-bit CPUs that Linux runs on fuse them.
#[cfg(not(target_arch = "x86_64"))]
fn has_fma() -> bool {
    true
}

/// # Safety
/// The CPU has FMA.
// Without the target feature, mul_add would be a call of the mathematics library.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "fma"))]
#[inline(never)]
unsafe fn fused(x: &mut [f64; CHAINS], steps: u64) {
    chains(x, steps, |x| x.mul_add(FACTOR, SUMMAND));
}

#[inline(never)]
fn apart(x: &mut [f64; CHAINS], steps: u64) {
    chains(x, steps, |x| x * FACTOR + SUMMAND);
}

#[inline(always)]
fn chains(x: &mut [f64; CHAINS], steps: u64, step: impl Fn(f64) -> f64) {
    let mut now = *x;
    let mut left = steps;
    while left > 0 {
        for x in &mut now {
            *x = step(*x);
        }
        left -= 1;
    }
    *x = now;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integer_chain_is_that_of_wide_arithmetic() {
        let mut work = Integer::default();
        let mut x = 1_u128;
        for steps in [1, 2, 7, 990] {
            work.advance(steps);
            for _ in 0..steps {
                x = x * u128::from(Integer::MULTIPLIER) % (1 << 64);
                x ^= x >> 29;
            }
            assert_eq!(u128::from(work.0), x, "after {steps} more steps");
        }
    }

    #[test]
    fn chains_of_multiply_adds_are_rounded_once_where_they_are_fused() {
        let mut work = Fma::default();
        let mut expected: Vec<f64> = (1..=CHAINS).map(|n| n as f64).collect();
        // One of the two only: on a CPU without FMA there is nothing else to compare.
        let fused = work.fused;
        work.advance(300);
        work.advance(700);
        for x in &mut expected {
            for _ in 0..1_000 {
                *x = match fused {
                    // Not compiled for FMA: a call of the mathematics library.
                    true => x.mul_add(0.999_999, 0.000_001),
                    false => *x * 0.999_999 + 0.000_001,
                };
            }
        }
        assert_eq!(work.x.as_slice(), expected);
        let mut apart = Fma {
            fused: false,
            ..Fma::default()
        };
        apart.advance(1_000);
        let far = |a: f64, b: f64| (a - b).abs() > 1e-12 * a;
        assert!(!apart.x.iter().zip(&expected).any(|(&a, &b)| far(a, b)));
    }

    #[test]
    fn every_kernel_does_the_work_that_it_is_asked_for() {
        for kernel in WorkKernel::ALL {
            let mut work = Kernel::new(kernel, Some(Bytes::new(2_400)));
            let before = format!("{work:?}");
            work.advance(1);
            assert_ne!(format!("{work:?}"), before, "{kernel:?}");
            let after = format!("{work:?}");
            work.advance(0);
            assert_eq!(format!("{work:?}"), after, "{kernel:?}");
        }
    }
}
