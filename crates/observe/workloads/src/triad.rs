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
}

impl Triad {
    /// Arrays of `bytes` in total, at least one element each; touches all pages.
    pub fn new(bytes: usize) -> Self {
        let elements = (bytes / (3 * size_of::<f64>())).max(1);
        Self {
            to: vec![0.5; elements],
            from: [vec![1.0; elements], vec![2.0; elements]],
        }
    }

    /// Total size of the arrays in bytes.
    pub fn bytes(&self) -> usize {
        3 * size_of::<f64>() * self.to.len()
    }

    /// Reads two arrays and writes one: `to = b + 3 c`.
    pub fn pass(&mut self) {
        let [b, c] = &self.from;
        for ((to, b), c) in self.to.iter_mut().zip(b).zip(c) {
            *to = b + 3.0 * c;
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
}
