//! Power of a discrete Fourier transform, for the binned event periodogram alone.

use realfft::RealFftPlanner;
use std::cell::RefCell;

thread_local! {
    // Planning takes a third of a transform, and each thread transforms a few lengths many times.
    static PLANS: RefCell<RealFftPlanner<f64>> = RefCell::new(RealFftPlanner::new());
}

/// Power |X_j|^2 of the first half (`0..n/2`) of the discrete Fourier transform of the real
/// `values`, whose length n is made a power of two, at least 4, by appending zeros.
pub fn power(mut values: Vec<f64>) -> Vec<f64> {
    let n = values.len().next_power_of_two().max(4);
    values.resize(n, 0.0);
    let plan = PLANS.with_borrow_mut(|plans| plans.plan_fft_forward(n));
    let mut transform = plan.make_output_vec();
    let done = plan.process(&mut values, &mut transform);
    debug_assert!(done.is_ok(), "both lengths are the plan's");
    transform.iter().take(n / 2).map(|x| x.norm_sqr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use std::f64::consts::TAU;

    #[test]
    fn power_is_that_of_the_definition() {
        for n in [4_usize, 8, 64, 256] {
            let mut random = Random::new(n as u64);
            let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
            let got = power(values.clone());
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
