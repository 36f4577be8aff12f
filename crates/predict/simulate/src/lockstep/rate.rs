//! The mean length of a step after the warm-up.

use super::engine::Lockstep;
use super::error::LockstepError;
use crate::blocks::block_mean;

/// Least number of parts into which the steps are divided.
const PARTS: u64 = 80;

/// Mean time of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// Mean over steps and ranks, in nanoseconds.
    pub mean_ns: f64,
    /// Half-width of its 95 % interval, in nanoseconds.
    pub half_width_ns: f64,
    /// Number of steps averaged.
    pub steps: u64,
    /// Number of steps left out before them as warm-up.
    pub warm_up: u64,
}

impl Lockstep<'_> {
    /// Takes this many steps, at least 80, and averages them without their warm-up.
    ///
    /// The warm-up is chosen by the marginal standard error rule, at most half of the steps (White,
    /// "An effective truncation heuristic for bias reduction in simulation output", Simulation 69
    /// (1997) 323). A run that is already warm is averaged whole or nearly so.
    ///
    /// # Errors
    /// Fewer than 80 steps; times beyond 36 years.
    pub fn mean_step(&mut self, steps: u64) -> Result<StepTime, LockstepError> {
        if steps < PARTS {
            return Err(LockstepError::TooFewSteps {
                steps,
                least: PARTS,
            });
        }
        let stride = steps / PARTS;
        // The remainder goes first, where it is soonest forgotten.
        let rest = steps - stride * PARTS;
        self.advance(rest)?;
        let mut parts = Vec::with_capacity(PARTS as usize);
        let mut last = self.sum();
        for _ in 0..PARTS {
            self.advance(stride)?;
            let sum = self.sum();
            parts.push((sum - last) as f64 / self.ranks() as f64 / stride as f64);
            last = sum;
        }
        let cut = warm_up(&parts);
        let mean = block_mean(&parts[cut..]).expect("at least half of the parts are left");
        Ok(StepTime {
            mean_ns: mean.mean,
            half_width_ns: mean.half_width,
            steps: (PARTS - cut as u64) * stride,
            warm_up: rest + cut as u64 * stride,
        })
    }
}

/// Number of parts to leave out for the smallest standard error of the mean of the rest; at most
/// half of them.
fn warm_up(parts: &[f64]) -> usize {
    let error = |cut: usize| {
        let rest = &parts[cut..];
        let n = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / n;
        rest.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n * n)
    };
    (0..=parts.len() / 2)
        .min_by(|&a, &b| error(a).total_cmp(&error(b)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_at_the_beginning_is_cut_off_and_a_flat_series_is_kept() {
        let flat: Vec<f64> = (0..80).map(|i| f64::from(i * 37 % 11)).collect();
        assert!(warm_up(&flat) <= 4);
        let mut rising = flat.clone();
        for (i, x) in rising.iter_mut().take(17).enumerate() {
            *x -= 100.0 - 5.0 * i as f64;
        }
        assert!(
            (15..=20).contains(&warm_up(&rising)),
            "{}",
            warm_up(&rising)
        );
        assert_eq!(warm_up(&[1.0; 80]), 0);
        let all: Vec<f64> = (0..80).map(f64::from).collect();
        assert_eq!(warm_up(&all), 40);
    }
}
