//! Rate and share of a source, with intervals.

use crate::arrivals::rounded;
use idlewave_stats::line::Joined;
use idlewave_stats::rates;
use idlewave_stats::resampling::{Resampler, interval, widened};

/// Number of time blocks that are resampled.
const BLOCKS: usize = 50;
/// With fewer events, resampling misses what might have occurred, so the rate's interval is used
/// too.
const FEW: u64 = 30;

/// A value with its 95 % interval: value, low, high.
pub type Estimate = [f64; 3];

/// Rate and share with their intervals.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Events per second of a line's time.
    pub rate: Estimate,
    /// Share of a line's time that is taken, before accounting for the speed that is kept.
    pub stolen: Estimate,
}

/// Rate and stolen share of the events of a line. The rate has the exact Poisson interval; if the
/// events are not `independent`, it is widened to the interval from resampling blocks of time. The
/// share has the interval from resampling.
pub fn shares(joined: &Joined, independent: bool, seed: u64) -> Shares {
    let n = joined.events.len() as u64;
    let seconds = joined.time as f64 / 1e9;
    let poisson = rates::poisson(n, seconds);
    let mut counts = vec![0_u64; BLOCKS];
    let mut taken = vec![0_u64; BLOCKS];
    for &[begin, length] in &joined.events {
        let at = (u128::from(begin) * BLOCKS as u128 / u128::from(joined.time)) as usize;
        counts[at.min(BLOCKS - 1)] += 1;
        taken[at.min(BLOCKS - 1)] += length;
    }
    let value = joined.stolen() as f64 / joined.time as f64;
    let mut resampler = Resampler::with_seed(BLOCKS, seed);
    let (mut rates, mut stolen) = (Vec::new(), Vec::new());
    for _ in 0..Resampler::TIMES {
        let (mut count, mut time) = (0, 0);
        for &block in resampler.draw() {
            count += counts[block];
            time += taken[block];
        }
        rates.push(count as f64 / seconds);
        stolen.push(time as f64 / joined.time as f64);
    }
    let mut rate = [poisson.value, poisson.low, poisson.high];
    let around = |draws: &mut Vec<f64>, value: f64| {
        let ends = interval(draws, value).unwrap_or((value, value));
        let (low, high) = widened(ends, value, BLOCKS);
        (low.max(0.0), high)
    };
    if !independent {
        let (low, high) = around(&mut rates, poisson.value);
        rate[1] = rate[1].min(low);
        rate[2] = rate[2].max(high);
    }
    let (mut low, mut high) = around(&mut stolen, value);
    if n > 0 && n < FEW {
        low = low.min(value * rate[1] / rate[0]);
        high = high.max(value * rate[2] / rate[0]);
    }
    Shares {
        rate,
        stolen: [value, low, high],
    }
}

impl Shares {
    /// Scaled to a part of the line: one CPU of several that share the events, or the part of the
    /// speed that an event takes.
    pub fn scaled(self, rate: f64, stolen: f64) -> Shares {
        Shares {
            rate: self.rate.map(|r| rounded(r * rate)),
            stolen: self.stolen.map(|s| rounded(s * stolen)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counts_and_sums_over_time_and_bursts_widen_the_rate() {
        let even = Joined {
            time: 2_000_000_000,
            events: (0..100).map(|i| [i * 20_000_000, 1_000]).collect(),
        };
        let found = shares(&even, true, 1);
        assert_eq!(found.rate[0], 50.0);
        assert!((found.stolen[0] - 5e-5).abs() < 1e-15);
        // Garwood's interval for 100 events is 81.4 to 121.6.
        assert!((found.rate[1] - 40.7).abs() < 0.05 && (found.rate[2] - 60.8).abs() < 0.05);
        // Every block has two events, so resampling finds no spread.
        assert!((found.stolen[2] - found.stolen[1]).abs() < 1e-12);
        let burst = Joined {
            time: 2_000_000_000,
            events: (0..100).map(|i| [i * 1_000, 1_000]).collect(),
        };
        let found = shares(&burst, false, 1);
        assert!(found.rate[1] < 10.0 && found.rate[2] > 120.0, "{found:?}");
        let alone = shares(&burst, true, 1);
        assert!((alone.rate[1] - 40.7).abs() < 0.05 && (alone.rate[2] - 60.8).abs() < 0.05);
        let half = found.scaled(0.5, 0.25);
        assert_eq!((half.rate[0], half.stolen[0]), (25.0, 1.25e-5));
    }

    #[test]
    fn few_events_have_the_interval_of_their_number() {
        let one = Joined {
            time: 1_000_000_000,
            events: vec![[5, 1_000_000]],
        };
        let found = shares(&one, true, 1);
        assert!(
            found.stolen[1] < 1e-4 && found.stolen[2] > 5e-3,
            "{found:?}"
        );
    }
}
