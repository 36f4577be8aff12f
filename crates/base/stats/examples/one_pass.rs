//! Samples per second and core of the one-pass estimators beside a plain sum over the same array.
//!
//! The floor: a sample is 16 bytes, its end and its duration, which is read once. It takes a bin (8
//! instructions and one counter that stays in the cache), a sum, and two selections of the quartiles
//! of its window, which touch every duration some four times: about 50 instructions, 10 to 15 ns.

use idlewave_stats::random::bits_at;
use idlewave_stats::series::Series;
use std::hint::black_box;
use std::time::Instant;

const SAMPLES: u64 = 10_000_000;
const ROUNDS: usize = 9;

fn main() {
    let mut now = 0;
    let sample = |i| {
        let detour = if bits_at(1, i) % 4_000 == 0 {
            20_000
        } else {
            0
        };
        now += 1_000 + bits_at(0, i) % 64 + detour;
        (now, 1_000 + bits_at(0, i) % 64 + detour)
    };
    let samples: Vec<(u64, u64)> = (0..SAMPLES).map(sample).collect();
    let span = samples.last().map_or(0, |s| s.0);
    let per_second = |work: &dyn Fn()| {
        let begin = Instant::now();
        work();
        SAMPLES as f64 / begin.elapsed().as_secs_f64()
    };
    let rounds = (0..ROUNDS).map(|_| {
        let sum = per_second(&|| {
            black_box(samples.iter().fold(0_u64, |sum, s| sum.wrapping_add(s.1)));
        });
        let one_pass = per_second(&|| {
            let mut series = Series::new(span);
            samples.iter().for_each(|s| series.push(s.0, s.1));
            black_box(series.finish());
        });
        [one_pass, sum, sum / one_pass]
    });
    let rounds: Vec<[f64; 3]> = rounds.collect();
    for (i, name) in [
        "one pass, per second",
        "sum, per second",
        "sum over one pass",
    ]
    .iter()
    .enumerate()
    {
        let mut seen: Vec<f64> = rounds.iter().map(|r| r[i]).collect();
        seen.sort_by(f64::total_cmp);
        println!(
            "{name}: {:.3e} ({:.3e} to {:.3e}, n = {ROUNDS})",
            seen[ROUNDS / 2],
            seen[0],
            seen[ROUNDS - 1]
        );
    }
}
