//! The STREAM triad: as many bytes through memory per operation as a loop can demand.
//!
//! Source: J. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance
//! Computers", 1995.

use std::hint::black_box;

/// Three arrays of one rank.
#[derive(Clone, Debug)]
pub struct Triad {
    to: Vec<f64>,
    from: [Vec<f64>; 2],
    /// The element that [`Triad::advance`] computes next.
    at: usize,
}

impl Triad {
    /// Arrays of `bytes` in total, at least one element each; touches all pages.
    pub fn new(bytes: usize) -> Self {
        let elements = (bytes / (3 * size_of::<f64>())).max(1);
        Self {
            to: vec![0.5; elements],
            from: [vec![1.0; elements], vec![2.0; elements]],
            at: 0,
        }
    }

    /// Total size of the arrays in bytes.
    pub fn bytes(&self) -> usize {
        3 * size_of::<f64>() * self.to.len()
    }

    /// Reads two arrays and writes one: `to = b + 3 c`.
    pub fn pass(&mut self) {
        self.at = 0;
        self.advance(self.to.len() as u64);
    }

    /// Computes the next elements, from the first again after the last.
    // Not inlined, for the reasons of Fibonacci.
    #[inline(never)]
    pub fn advance(&mut self, elements: u64) {
        let mut left = elements;
        while left > 0 {
            let from = self.at;
            let some = (self.to.len() - from).min(usize::try_from(left).unwrap_or(usize::MAX));
            let [b, c] = &self.from;
            let part = from..from + some;
            let from = b[part.clone()].iter().zip(&c[part.clone()]);
            for (to, (b, c)) in self.to[part.clone()].iter_mut().zip(from) {
                *to = b + 3.0 * c;
            }
            self.at = part.end % self.to.len();
            left -= some as u64;
        }
        // The compiler must assume that the array is read, so it cannot drop a pass.
        black_box(&mut self.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_computes_every_element() {
        let mut triad = Triad::new(2_400);
        assert_eq!(triad.bytes(), 2_400);
        triad.pass();
        assert_eq!(triad.to, [7.0; 100]);
    }

    #[test]
    fn elements_follow_each_other_around_the_array() {
        let mut triad = Triad::new(24 * 10);
        triad.from[0] = (0..10).map(f64::from).collect();
        triad.from[1] = (0..10).map(|i| f64::from(2 * i)).collect();
        let expected = |done: std::ops::Range<usize>| -> Vec<f64> {
            let of = |i| {
                if done.contains(&i) {
                    7.0 * i as f64
                } else {
                    0.5
                }
            };
            (0..10).map(of).collect()
        };
        triad.advance(7);
        assert_eq!(triad.to, expected(0..7));
        triad.to.fill(0.5);
        triad.advance(3);
        assert_eq!(triad.to, expected(7..10));
        triad.to.fill(0.5);
        triad.advance(5);
        assert_eq!(triad.to, expected(0..5));
        triad.to.fill(0.5);
        triad.advance(25);
        assert_eq!(triad.to, expected(0..10), "two and a half times around");
        assert_eq!(triad.at, 0);
    }
}
