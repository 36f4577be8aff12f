//! How often the interval of a slow-down contains the slow-down of a long run, over random programs
//! and models.
//!
//! `cargo run --release -p idlewave-simulate --example coverage -- [MODELS [SEED [RANK_STEPS]]]`: one line per model, then the share.
//! 93 to 97 % is right.

#[path = "../../tests/coverage/mod.rs"]
mod coverage;

use coverage::Trial;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |a| a.parse());
    let (models, seed, rank_steps) = (number(300)?, number(1)?, number(1_000_000)?);
    let mut held = 0;
    for index in 0..models {
        let trial = Trial::draw(seed, index as u32);
        let seen = trial.run(rank_steps)?;
        held += u64::from(seen.holds());
        println!("{index:>4} {seen} {}", trial.what);
    }
    println!(
        "{held} of {models}: {:.1} %",
        100.0 * held as f64 / models as f64
    );
    Ok(())
}
