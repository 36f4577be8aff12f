//! The unit of work: iterative Fibonacci numbers.
//!
//! One step is one addition that needs the previous result. The work stays in registers, touches no
//! memory and cannot be vectorized, so its time shows only the speed of the CPU. Work is given in
//! steps, never in time: the same steps are the same work on every rank and in every run.

/// The running pair of Fibonacci numbers, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fibonacci {
    a: u64,
    b: u64,
}

impl Default for Fibonacci {
    fn default() -> Self {
        Self { a: 0, b: 1 }
    }
}

impl Fibonacci {
    /// Advances by `steps` numbers.
    // Not inlined, so that a step takes the same time in calibration and in use, and the compiler,
    // which does not see the count, cannot compute a result at compile time.
    #[inline(never)]
    pub fn advance(&mut self, steps: u64) {
        let Self { mut a, mut b } = *self;
        // No iterator: without optimization, each of its calls would be part of the step.
        let mut left = steps;
        while left > 0 {
            (a, b) = (b, a.wrapping_add(b));
            left -= 1;
        }
        *self = Self { a, b };
    }
    /// The current number, modulo 2^64.
    pub fn value(&self) -> u64 {
        self.a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_fibonacci_numbers() {
        let mut work = Fibonacci::default();
        let first: Vec<u64> = (0..10)
            .map(|_| {
                let v = work.value();
                work.advance(1);
                v
            })
            .collect();
        assert_eq!(first, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]);
        let mut at_once = Fibonacci::default();
        at_once.advance(90);
        assert_eq!(at_once.value(), 2_880_067_194_370_816_120);
    }

    #[test]
    fn work_in_pieces_is_the_same_work() {
        let (mut whole, mut pieces) = (Fibonacci::default(), Fibonacci::default());
        whole.advance(1_000);
        for steps in [1, 99, 400, 500] {
            pieces.advance(steps);
        }
        assert_eq!(whole, pieces);
    }
}
