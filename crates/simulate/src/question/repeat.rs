//! How often a simulation is repeated, and the interval of what comes out.

use idlewave_stats::distributions::student_quantile;

/// How much is done for an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Chooses the random numbers.
    pub seed: u64,
    /// Replications at least, from 2 on.
    pub least: u32,
    /// Replications at most.
    pub most: u32,
    /// It is enough when the half-width of the interval is this share of the slow-down, above 0.
    pub precision: f64,
}

/// Slow-downs below this need no interval that is narrower than it: nobody acts on a part in ten thousand.
const NOTHING: f64 = 1e-4;

impl Effort {
    /// Replications to do next; `None` if it is enough. It depends on what came out alone and never on time.
    pub(super) fn next_batch(&self, done: u32, steps: &Sample, quiet_step_ns: f64) -> Option<u32> {
        if done == 0 {
            return Some(self.least.max(2).min(self.most.max(2)));
        }
        let slowdown = steps.map(|ns| ns / quiet_step_ns - 1.0).interval();
        let enough = done >= self.most || self.is_precise(&slowdown);
        (!enough).then(|| done.min(self.most - done))
    }

    /// Whether an interval is narrow enough.
    pub(super) fn is_precise(&self, slowdown: &Interval) -> bool {
        slowdown.half_width() <= self.precision * slowdown.mean.abs().max(NOTHING / self.precision)
    }
}

/// A mean over replications with its 95 % interval (Student's t).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half of the width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Of a share, which is nowhere outside of 0..=1.
    pub(super) fn of_share(self) -> Interval {
        Interval {
            low: self.low.max(0.0),
            high: self.high.min(1.0),
            ..self
        }
    }
}

/// One number of each replication.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample(Vec<f64>);

impl Sample {
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Sample {
        Sample(self.0.iter().map(|&v| f(v)).collect())
    }

    /// Differences to another sample of the same replications.
    pub fn less(&self, other: &Sample) -> Sample {
        let pairs = self.0.iter().zip(&other.0);
        Sample(pairs.map(|(a, b)| a - b).collect())
    }

    /// Of 2 values and more.
    pub fn interval(&self) -> Interval {
        let n = self.0.len() as f64;
        let mean = self.0.iter().sum::<f64>() / n;
        let variance = self.0.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = student_quantile(0.975, n - 1.0) * (variance / n).sqrt();
        Interval {
            mean,
            low: mean - half,
            high: mean + half,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_three_values_is_that_of_the_tables() {
        let interval = Sample(vec![1.0, 2.0, 3.0]).interval();
        assert_eq!(interval.mean, 2.0);
        // t(0.975, 2) = 4.3027, standard error 1 / sqrt(3).
        assert!((interval.half_width() - 4.3027 / 3_f64.sqrt()).abs() < 1e-3);
        assert!((interval.low + interval.half_width() - 2.0).abs() < 1e-12);
        let share = Sample(vec![0.01, 0.5, 0.99]).interval().of_share();
        assert_eq!((share.low, share.high), (0.0, 1.0));
    }

    #[test]
    fn replications_go_on_until_the_interval_is_narrow_or_all_are_done() {
        let effort = Effort {
            seed: 1,
            least: 4,
            most: 10,
            precision: 0.05,
        };
        let spread = Sample(vec![100.0, 200.0, 300.0, 400.0]);
        let narrow = Sample(vec![200.0, 201.0, 200.0, 201.0]);
        let nothing = Sample(vec![100.0, 100.001, 100.0, 100.0]);
        assert_eq!(effort.next_batch(0, &Sample::default(), 100.0), Some(4));
        assert_eq!(effort.next_batch(4, &spread, 100.0), Some(4));
        assert_eq!(effort.next_batch(8, &spread, 100.0), Some(2));
        assert_eq!(effort.next_batch(10, &spread, 100.0), None);
        assert_eq!(effort.next_batch(4, &narrow, 100.0), None);
        assert_eq!(effort.next_batch(4, &nothing, 100.0), None);
    }
}
