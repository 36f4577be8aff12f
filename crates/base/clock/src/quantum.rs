//! The actual step of a counter.
//!
//! A counter that "runs" at 2.6 GHz may advance by 26 counts at a time. With a threshold of a few
//! counts, every turn of a measuring loop would then count as noise.

use crate::Source;

/// Readings from which the quantum is determined.
const READINGS: usize = 16_384;
/// Steps longer than this many times the shortest are interruptions, or the time of the reading
/// itself.
const LONGEST: u64 = 64;
/// Steps that differ by at most this belong together: scaling by a fraction rounds either way.
const JITTER: u64 = 2;
/// Windows of [`read_time`], and readings in each.
const WINDOWS: usize = 51;
const WINDOW: usize = 512;

/// The step of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum {
    /// Counts by which it advances at a time, at least 1.
    pub counts: u64,
    /// Shortest difference above zero between two successive readings, in counts: a quantum or the
    /// time of a reading, whichever is longer.
    pub shortest: u64,
}

/// Reads the counter as fast as possible and determines its step; `None` if it does not advance.
pub fn quantum_of(source: impl Source) -> Option<Quantum> {
    let mut readings = vec![0_u64; READINGS];
    for reading in &mut readings {
        *reading = source.now();
    }
    let steps = readings.windows(2).map(|w| w[1].wrapping_sub(w[0]));
    quantum_of_steps(steps)
}

/// The common step of differences between readings: their greatest common divisor. If that is 1
/// because a fractional scale rounds up and down, it is the distance between the groups of steps.
/// If two readings in a row are equal, a step is longer than a reading, and the shortest difference
/// is the step.
fn quantum_of_steps(steps: impl Iterator<Item = u64>) -> Option<Quantum> {
    let mut steps: Vec<u64> = steps.collect();
    steps.sort_unstable();
    let zeros = steps.partition_point(|&s| s == 0);
    steps.drain(..zeros);
    let shortest = *steps.first()?;
    if zeros > 0 {
        return Some(Quantum {
            counts: shortest,
            shortest,
        });
    }
    steps.retain(|&s| s <= shortest.saturating_mul(LONGEST));
    let divisor = steps.iter().fold(0, |a, &b| greatest_common_divisor(a, b));
    let counts = if divisor > 1 {
        divisor
    } else {
        group_distance(&mut steps).unwrap_or(1)
    };
    Some(Quantum { counts, shortest })
}

/// Distance between neighbouring groups of steps, if all are equally far apart, and there are at
/// least three, or two at one and two steps.
fn group_distance(sorted: &mut Vec<u64>) -> Option<u64> {
    sorted.dedup();
    let mut centres: Vec<u64> = Vec::new();
    let mut group = vec![*sorted.first()?];
    for &step in &sorted[1..] {
        if step - group[group.len() - 1] > JITTER {
            centres.push(group[group.len() / 2]);
            group.clear();
        }
        group.push(step);
        if step - group[0] > JITTER {
            return None; // Any step occurs: it is a reading's own time that varies.
        }
    }
    centres.push(group[group.len() / 2]);
    let distances: Vec<u64> = centres.windows(2).map(|w| w[1] - w[0]).collect();
    let least = *distances.iter().min()?;
    let regular = |d: &u64| (d + JITTER) % least <= 2 * JITTER;
    let multiples = distances.len() >= 2 || centres[0].abs_diff(least) <= JITTER;
    let fits = multiples && least > 2 * JITTER && distances.iter().all(regular);
    fits.then_some(least)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Median time of one reading in counts, over windows of 512 readings.
pub fn read_time(source: impl Source) -> f64 {
    let mut windows: Vec<u64> = (0..WINDOWS)
        .map(|_| {
            let begin = source.now();
            for _ in 0..WINDOW {
                std::hint::black_box(source.now());
            }
            source.now().wrapping_sub(begin)
        })
        .collect();
    windows.sort_unstable();
    windows[WINDOWS / 2] as f64 / (WINDOW + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stepped(counts_per_reading: u64, scale: impl Fn(u64) -> u64) -> impl Iterator<Item = u64> {
        let readings: Vec<u64> = (0..5_000)
            .map(|i| scale(i * counts_per_reading + i % 7))
            .collect();
        readings
            .windows(2)
            .map(|w| w[1] - w[0])
            .collect::<Vec<_>>()
            .into_iter()
    }

    #[test]
    fn a_counter_that_steps_by_26_counts_has_a_quantum_of_26() {
        let quantum = quantum_of_steps(stepped(30, |t| t / 26 * 26)).map(|q| q.counts);
        assert_eq!(quantum, Some(26));
    }

    #[test]
    fn a_step_of_a_fraction_of_counts_is_rounded_to_whole_counts() {
        // 100 MHz scaled to 2.596 GHz: 25.96 counts a step, seen as 25 or 26.
        let quantum = quantum_of_steps(stepped(40, |t| {
            (t as f64 / 25.96).floor().mul_add(25.96, 0.0) as u64
        }));
        assert!(
            matches!(
                quantum,
                Some(Quantum {
                    counts: 25..=27,
                    ..
                })
            ),
            "{quantum:?}"
        );
    }

    #[test]
    fn a_counter_of_single_counts_has_a_quantum_of_one() {
        assert_eq!(
            quantum_of_steps([18, 19, 20, 21, 22, 40].into_iter()).map(|q| q.counts),
            Some(1)
        );
        assert_eq!(
            quantum_of_steps([18, 20, 22, 300].into_iter()).map(|q| q.counts),
            Some(2)
        );
    }

    #[test]
    fn a_counter_that_stands_still_has_none() {
        assert_eq!(quantum_of_steps([0, 0, 0].into_iter()), None);
    }
}
