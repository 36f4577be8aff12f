//! Published and hand-computed numbers that the estimators must return.

use idlewave_stats::blocks;
use idlewave_stats::distributions::{expected_max_normal, normal_quantile};
use idlewave_stats::exponential_fit::Tested;
use idlewave_stats::extremes::Tailed;
use idlewave_stats::levels;
use idlewave_stats::pareto::{Pareto, Tail, fit_above};
use idlewave_stats::quantiles::{median_of, quantile_of_sorted, ranks};
use idlewave_stats::random::SplitMix;
use idlewave_stats::rates;
use idlewave_stats::special::ln_gamma;
use idlewave_stats::step_times::StepTimes;
use idlewave_units::NoiseRatio;
use std::f64::consts::TAU;

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

fn close(got: f64, want: f64, absolute: f64) {
    assert!((got - want).abs() <= absolute, "{got} is not {want}");
}

/// `n` values that divide a distribution with this quantile function into equal parts.
fn evenly(n: usize, quantile: impl Fn(f64) -> f64) -> Vec<u64> {
    let at = |i: usize| quantile((i as f64 + 0.5) / n as f64).round() as u64;
    (0..n).map(at).collect()
}

/// `n` random values of this law in rising order.
fn drawn(n: usize, seed: u64, law: impl Fn(&mut SplitMix) -> f64) -> Vec<u64> {
    let mut random = SplitMix::new(seed);
    let mut values: Vec<u64> = (0..n).map(|_| law(&mut random).round() as u64).collect();
    values.sort_unstable();
    values
}

#[test]
fn a_tick_of_10_us_every_4_ms_slows_quanta_of_20_us_by_a_quarter_of_a_per_cent() {
    const PERIOD: u64 = 4_000_000;
    const LENGTH: u64 = 10_000;
    const QUANTUM: u64 = 20_000;
    let (mut now, mut tick) = (0, PERIOD / 2);
    let (mut ends, mut durations) = (Vec::new(), Vec::new());
    for _ in 0..100_000 {
        let mut end = now + QUANTUM;
        if tick < end {
            end += LENGTH;
            tick += PERIOD;
        }
        durations.push(end - now);
        ends.push(end);
        now = end;
    }
    let undisturbed = levels::segment(&ends, &durations).fastest().unwrap();
    assert_eq!(undisturbed, QUANTUM);
    let hit: Vec<&u64> = durations.iter().filter(|&&d| d > undisturbed).collect();
    assert!(hit.iter().all(|&&d| d == 30_000));
    // g / (P - L) = 0.5013 %.
    assert_eq!(hit.len(), 501);
    let values: Vec<f64> = durations.iter().map(|&d| d as f64).collect();
    let found = blocks::mean(&values, blocks::BLOCKS);
    let slowdown = found.mean / undisturbed as f64 - 1.0;
    close(slowdown, 0.002_506, 2e-6);
    let stolen = NoiseRatio::from_stolen_fraction(LENGTH as f64 / PERIOD as f64).unwrap();
    close(stolen.slowdown(), 0.002_506, 1e-6);
    close(found.half_width / undisturbed as f64, 0.0, 2e-5);
}

#[test]
fn stolen_fraction_and_slow_down_follow_from_each_other() {
    close(
        NoiseRatio::from_stolen_fraction(0.05).unwrap().slowdown(),
        0.052_63,
        5e-6,
    );
    close(
        NoiseRatio::from_slowdown(0.052_63)
            .unwrap()
            .stolen_fraction(),
        0.05,
        5e-6,
    );
}

#[test]
fn the_ranks_of_the_median_of_many_values_are_those_of_the_normal_limit() {
    for n in [10_000_u64, 100_000, 1_000_000, 10_000_000] {
        let got = ranks(n, 0.5);
        let half = 1.96 * (n as f64).sqrt();
        let low = ((n as f64 - half) / 2.0).floor() as u64;
        let high = (1.0 + (n as f64 + half) / 2.0).ceil() as u64;
        assert!(
            got.low.abs_diff(low) <= 1 && got.high.abs_diff(high) <= 1,
            "{n}: {got:?}"
        );
        close(got.coverage, 0.95, 2e-3);
    }
}

#[test]
fn no_event_in_30_000_seconds_leaves_a_rate_of_one_in_10_000() {
    close(rates::poisson(0, 3e4).high, 1e-4, 2e-7);
}

#[test]
fn robust_spreads_of_the_study_grow_with_its_tail_as_published() {
    // Share of the tail, 1.4826 MAD and p50 - p15.9, in ms. With 819,200 values their standard
    // errors are 0.0004 and 0.0005; the published ones have their own.
    for (tail, seed, deviation, below) in [
        (0.0, 1, 0.2893, 0.2898),
        (1e-4, 2, 0.2901, 0.2895),
        (1e-3, 3, 0.2905, 0.2900),
        (1e-2, 4, 0.2933, 0.2916),
        (5e-2, 5, 0.3088, 0.2994),
    ] {
        let sorted = drawn(819_200, seed, |random| match random.uniform() < tail {
            true => 150e6 + 71.5e6 * random.uniform(),
            false => {
                let radius = (-2.0 * random.uniform().ln()).sqrt();
                143.785e6 + 0.29e6 * radius * (TAU * random.uniform()).cos()
            }
        });
        let median = quantile_of_sorted(&sorted, 0.5).value;
        let off: Vec<f64> = sorted.iter().map(|&v| (v as f64 - median).abs()).collect();
        close(1.4826e-6 * median_of(&off).unwrap(), deviation, 0.0015);
        let lower = quantile_of_sorted(&sorted, 0.159).value;
        close(1e-6 * (median - lower), below, 0.0018);
    }
}

#[test]
fn efficiencies_of_the_study_are_its_mean_over_its_slowest_process() {
    // Two processes with the mean of 143.785 ms: 221.5 ms at most without hyper-threading, 164 with.
    for (slowest, published) in [(221_500, 0.649), (164_000, 0.877)] {
        let times = [2 * 143_785 - slowest, slowest];
        let found = StepTimes::new(&times, 2).efficiency().unwrap();
        close(found.value, published, 5e-4);
    }
}

#[test]
fn approximations_of_the_maximum_of_gaussians_are_as_good_as_published() {
    for n in [64_u64, 256, 1_024, 8_192, 65_536, 1_000_000] {
        let blom = normal_quantile((n as f64 - 0.375) / (n as f64 + 0.25));
        close(blom / expected_max_normal(n), 1.0, 0.005);
    }
    let bare = (2.0 * 8_192.0_f64.ln()).sqrt();
    let location = bare - (8_192.0_f64.ln().ln() + (2.0 * TAU).ln()) / (2.0 * bare);
    close(location + EULER / bare, 3.8241, 5e-5);
    close(
        (location + EULER / bare) / expected_max_normal(8_192),
        1.0,
        0.006,
    );
    close(bare / expected_max_normal(8_192), 1.12, 0.005);
}

#[test]
fn the_maximum_of_exponentials_is_the_harmonic_number() {
    const H_8192: f64 = 9.5882;
    let harmonic: f64 = (1..=8_192).map(|i| 1.0 / f64::from(i)).sum();
    close(harmonic, H_8192, 5e-5);
    // Measured: the mean over the maximum.
    let measured = evenly(819_200, |q| -1e9 * (-q).ln_1p());
    let efficiency = StepTimes::efficiency_at(&measured, 8_192).unwrap();
    close(efficiency * H_8192, 1.0, 0.005);
    // Extrapolated from half as many values.
    let few = evenly(4_096, |q| -1e9 * (-q).ln_1p());
    let tailed = Tailed::fit(&few, &[&few], 1).unwrap();
    let found = tailed.expected_maximum(8_192).unwrap();
    close(found.value / 1e9 / H_8192, 1.0, 0.02);
}

#[test]
fn the_maximum_of_pareto_values_grows_with_a_power_of_their_number() {
    let values = evenly(50_000, |q| 1e6 * (1.0 - q).powf(-1.0 / 2.5));
    let tailed = Tailed::fit(&values, &[&values], 1).unwrap();
    for n in [8_192_u64, 100_000, 1_000_000] {
        let published = (n as f64).powf(1.0 / 2.5) * ln_gamma(1.0 - 1.0 / 2.5).exp();
        let found = tailed.expected_maximum(n).unwrap();
        close(found.value / 1e6 / published, 1.0, 0.03);
    }
}

#[test]
fn the_tail_of_2000_exceedances_has_the_published_shape() {
    // Published: -0.008 for exponential values (0 is right), 0.363 for Pareto values with exponent
    // 2.5 (0.4 is right). Standard errors are 0.022 and 0.031, those of a difference 1.4 times that.
    let exponential = drawn(20_000, 1, |random| -1e6 * random.uniform().ln());
    let pareto = drawn(20_000, 2, |random| 1e6 * random.uniform().powf(-1.0 / 2.5));
    for (values, published, truth, error) in [
        (exponential, -0.008, 0.0, 0.022),
        (pareto, 0.363, 0.4, 0.031),
    ] {
        let tail = fit_above(&values, values[17_999], 1.0, 1).unwrap();
        assert_eq!(tail.exceedances, 2_000);
        close(tail.law.shape, published, 3.0 * 1.4 * error);
        assert!(tail.shape.0 < truth && truth < tail.shape.1, "{tail:?}");
        // The interval is that of the standard error.
        close(
            (tail.shape.1 - tail.shape.0) / (2.0 * 1.96 * error),
            1.0,
            0.1,
        );
    }
}

#[test]
fn the_level_that_is_exceeded_once_follows_from_the_tail() {
    let tail = |shape| Tail {
        threshold: 1_000,
        exceedances: 500,
        clusters: 1.0,
        law: Pareto {
            shape,
            scale: 100.0,
        },
        shape: (shape, shape),
        scale: (100.0, 100.0),
        goodness: Tested {
            statistic: 0.0,
            p: 1.0,
        },
    };
    // u + (scale / shape) [(M share)^shape - 1], with 500 of 10,000 values above u and M = 10^6.
    let heavy = 1_000.0 + 250.0 * (50_000.0_f64.powf(0.4) - 1.0);
    close(tail(0.4).level(1e6, 10_000), heavy, 1e-6);
    close(
        tail(0.0).level(1e6, 10_000),
        1_000.0 + 100.0 * 50_000.0_f64.ln(),
        1e-6,
    );
    // As common as an exceedance: the threshold.
    close(tail(0.4).level(20.0, 10_000), 1_000.0, 1e-9);
    close(tail(0.4).level(1.0, 10_000), 1_000.0, 1e-9);
}
