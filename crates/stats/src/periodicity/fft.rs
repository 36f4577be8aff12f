//! Fast Fourier transform of length 2^k, for the binned event periodogram alone.
//!
//! Reference: Cooley and Tukey, Math. Comput. 19 (1965) 297.

use std::f64::consts::TAU;

/// Power |X_j|^2 of the first half (`0..n/2`) of the discrete Fourier transform of the real
/// `values`, whose length n is made a power of two, at least 4, by appending zeros.
pub fn power(values: &[f64]) -> Vec<f64> {
    // Two real values make one complex one; the transform of half the length is then untangled.
    let n = values.len().next_power_of_two().max(4);
    let half = n / 2;
    let mut data: Vec<(f64, f64)> = (0..half)
        .map(|i| {
            let at = |j: usize| values.get(j).copied().unwrap_or(0.0);
            (at(2 * i), at(2 * i + 1))
        })
        .collect();
    let roots: Vec<(f64, f64)> = (0..half)
        .map(|i| {
            let (sin, cos) = (-TAU * i as f64 / n as f64).sin_cos();
            (cos, sin)
        })
        .collect();
    transform(&mut data, &roots);
    (0..half)
        .map(|j| {
            let a = data[j];
            let b = data[(half - j) % half];
            let even = (0.5 * (a.0 + b.0), 0.5 * (a.1 - b.1));
            let odd = (0.5 * (a.1 + b.1), -0.5 * (a.0 - b.0));
            let (cos, sin) = roots[j];
            let re = even.0 + odd.0 * cos - odd.1 * sin;
            let im = even.1 + odd.0 * sin + odd.1 * cos;
            re * re + im * im
        })
        .collect()
}

/// In-place transform of length m = `data.len()`; `roots[i]` is e^(-2 pi i sqrt(-1) / 2m).
fn transform(data: &mut [(f64, f64)], roots: &[(f64, f64)]) {
    let m = data.len();
    let shift = usize::BITS - m.trailing_zeros();
    for i in 0..m {
        let j = i.reverse_bits() >> shift;
        if i < j {
            data.swap(i, j);
        }
    }
    let mut length = 2;
    while length <= m {
        let stride = 2 * m / length;
        for block in data.chunks_exact_mut(length) {
            let (low, high) = block.split_at_mut(length / 2);
            for (i, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let (cos, sin) = roots[i * stride];
                let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                *b = (a.0 - turned.0, a.1 - turned.1);
                *a = (a.0 + turned.0, a.1 + turned.1);
            }
        }
        length *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn power_is_that_of_the_definition() {
        for n in [4_usize, 8, 64, 256] {
            let mut random = Random::new(n as u64);
            let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
            let got = power(&values);
            assert_eq!(got.len(), n / 2);
            for (j, got) in got.iter().enumerate() {
                let (mut re, mut im) = (0.0, 0.0);
                for (i, value) in values.iter().enumerate() {
                    let (sin, cos) = (TAU * (i * j) as f64 / n as f64).sin_cos();
                    re += value * cos;
                    im += value * sin;
                }
                assert!(
                    (got - re * re - im * im).abs() < 1e-9 * n as f64,
                    "n {n}, j {j}"
                );
            }
        }
    }
}
