//! How often the intervals of this crate hold the truth.
//!
//! `cargo run --release -p idlewave-stats --example interval_coverage -- [DRAWS [SEED [WORD]]]`: one line
//! per interval whose data or name contain the word: found coverage with its own 95 % interval, and
//! what is expected.

#[path = "../tests/coverage/mod.rs"]
mod coverage;

use idlewave_stats::distributions::normal_quantile;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |a| a.parse());
    let (draws, seed) = (number(2_000)?, number(1)?);
    let word = std::env::args().nth(3).unwrap_or_default();
    println!("| interval of | data | draws | holds the truth | expected |\n|---|---|---|---|---|");
    for case in coverage::CASES {
        let named = case.intervals.iter().any(|i| i.name.contains(&word));
        if !named && !case.data.contains(&word) {
            continue;
        }
        let (held, draws) = case.held(draws, seed);
        for (interval, held) in case.intervals.iter().zip(held) {
            let [low, high] = wilson(held, draws).map(|share| 100.0 * share);
            println!(
                "| {} | {} | {draws} | {:.1} % ({low:.1} to {high:.1}) | {:.0} to {:.0} % |",
                interval.name,
                case.data,
                100.0 * held as f64 / draws as f64,
                100.0 * interval.least,
                100.0 * interval.most,
            );
        }
    }
    Ok(())
}

/// The 95 % interval of a share (Wilson).
fn wilson(held: u64, draws: u64) -> [f64; 2] {
    let (n, z) = (draws as f64, normal_quantile(0.975));
    let share = held as f64 / n;
    let spread = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    [-spread, spread].map(|off| (share + z * z / (2.0 * n) + off) / (1.0 + z * z / n))
}
