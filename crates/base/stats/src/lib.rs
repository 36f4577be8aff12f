//! Estimators with intervals: quantiles, rates, histograms, speed levels, periodicity, laws of gaps
//! and tails.
//!
//! Pure functions of their input: no clock, no files; random numbers from seeds only; equal input
//! gives equal bytes. The run bundle stores their results. Every module states what it estimates,
//! its assumptions, the direction of its bias, and the source of the method.

pub mod blocks;
pub mod coincidences;
pub mod core_tail;
pub mod counts;
pub mod distributions;
pub mod estimate;
pub mod exponential_fit;
pub mod extremes;
pub mod histogram;
pub mod hypotheses;
pub mod levels;
pub mod line;
pub mod maximum;
pub mod mean_power;
pub mod order;
pub mod pareto;
pub mod peers;
pub mod periodicity;
pub mod power_law;
pub mod quantiles;
pub mod random;
pub mod rates;
pub mod relation;
pub mod resampling;
pub mod series;
pub mod special;
pub mod step_times;
pub mod two_samples;
pub mod warm_up;
pub mod windows;

mod change_points;
#[cfg(test)]
mod testing;
