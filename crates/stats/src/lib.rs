//! Estimators with intervals: quantiles, rates, histograms, speed levels, periodicity, laws of gaps and of tails.
//!
//! Pure functions of their input: no clock, no files; random numbers by seed only; equal input gives equal bytes.
//! They come after the run bundle and before explanation and rendering. Every module says what it
//! estimates, what it assumes, in which direction it is biased, and where the method comes from.

pub mod blocks;
pub mod coincidences;
pub mod core_tail;
pub mod counts;
pub mod distributions;
pub mod exponential_fit;
pub mod histogram;
pub mod levels;
pub mod maximum;
pub mod pareto;
pub mod periodicity;
pub mod quantiles;
pub mod random;
pub mod rates;
pub mod resampling;
pub mod special;
pub mod step_times;
pub mod tests;
pub mod warm_up;

mod change_points;
#[cfg(test)]
mod testing;
mod windows;
