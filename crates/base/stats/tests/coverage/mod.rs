//! How often the intervals of this crate hold the truth: data are drawn from known laws, again and
//! again.

use idlewave_stats::distributions::expected_max_normal;
use idlewave_stats::estimate::Estimate;
use idlewave_stats::extremes::Tailed;
use idlewave_stats::mean_power::{self, Window};
use idlewave_stats::pareto::{self, Pareto};
use idlewave_stats::quantiles::{median, quantile};
use idlewave_stats::random::SplitMix;
use idlewave_stats::special::ln_gamma;
use idlewave_stats::step_times::StepTimes;
use idlewave_stats::two_samples::difference;
use idlewave_stats::{blocks, core_tail, order, periodicity, power_law, rates};
use std::cell::Cell;
use std::f64::consts::{LN_2, TAU};

/// Intervals of the same data.
pub struct Case {
    /// The data.
    pub data: &'static str,
    /// What is estimated from them.
    pub intervals: &'static [Interval],
    /// Draws data and tells which of the intervals hold the truth; nothing of data that have none.
    holds: fn(&mut Draws) -> Vec<bool>,
    /// One in this many draws is made, since each takes long.
    pub one_in: u64,
}

/// An interval with the coverage that is expected of it.
pub struct Interval {
    /// What is estimated.
    pub name: &'static str,
    /// Least coverage, 0..=1.
    pub least: f64,
    /// Largest coverage, 0..=1.
    pub most: f64,
}

/// An interval that holds the truth in 94 to 96 % of all cases.
const fn nominal(name: &'static str) -> Interval {
    between(name, 0.94, 0.96)
}

const fn between(name: &'static str, least: f64, most: f64) -> Interval {
    Interval { name, least, most }
}

impl Case {
    /// How many times each interval holds the truth, and how many times there was one.
    pub fn held(&self, draws: u64, seed: u64) -> (Vec<u64>, u64) {
        let mut held = vec![0; self.intervals.len()];
        let mut all = 0;
        for draw in 0..draws.div_ceil(self.one_in) {
            let holds = (self.holds)(&mut Draws(SplitMix::new(seed ^ draw << 20)));
            all += u64::from(!holds.is_empty());
            for (held, holds) in held.iter_mut().zip(holds) {
                *held += u64::from(holds);
            }
        }
        (held, all)
    }
}

/// Random numbers of the laws that data are drawn from.
struct Draws(SplitMix);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }

    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// `n` values of this law, rounded to whole numbers.
    fn whole(&mut self, n: usize, law: impl Fn(&mut Self) -> f64) -> Vec<u64> {
        (0..n).map(|_| law(self).round() as u64).collect()
    }
}

/// All intervals of the crate.
pub const CASES: &[Case] = &[
    Case {
        data: "3 events expected",
        // With 0 events the bound is one-sided, with more the interval has two sides: at 3.0 to 3.7
        // events expected both exclude the truth in up to 5 and 2.5 %.
        intervals: &[between("rate", 0.93, 0.95)],
        holds: |draws| vec![poisson(draws, 3.0)],
        one_in: 1,
    },
    Case {
        data: "30 events expected",
        intervals: &[between("rate", 0.95, 0.97)],
        holds: |draws| vec![poisson(draws, 30.0)],
        one_in: 1,
    },
    Case {
        data: "1,000 events expected",
        intervals: &[nominal("rate")],
        holds: |draws| vec![poisson(draws, 1_000.0)],
        one_in: 1,
    },
    Case {
        data: "20 values",
        intervals: &[nominal("median")],
        holds: |draws| {
            let values = exponentials(draws, 20);
            vec![holds(&median(&values), SCALE * LN_2)]
        },
        one_in: 1,
    },
    Case {
        data: "1,000 values",
        // The number of values beyond the 99th percentile takes few values.
        intervals: &[nominal("median"), between("99th percentile", 0.96, 0.98)],
        holds: |draws| {
            let values = exponentials(draws, 1_000);
            vec![
                holds(&median(&values), SCALE * LN_2),
                holds(&quantile(&values, 0.99), SCALE * 100.0_f64.ln()),
            ]
        },
        one_in: 1,
    },
    Case {
        data: "20 blocks of 100 independent values",
        intervals: &[nominal("mean")],
        holds: |draws| {
            let values: Vec<f64> = (0..2_000).map(|_| draws.exponential()).collect();
            vec![block_mean(&values, 1.0)]
        },
        one_in: 1,
    },
    Case {
        data: "20 blocks of 100 values, correlated over 10",
        intervals: &[between("mean", 0.93, 0.95)],
        holds: |draws| {
            let keep = (-0.1_f64).exp();
            let mut value = draws.normal();
            let mut next = || {
                value = keep * value + (1.0 - keep * keep).sqrt() * draws.normal();
                5.0 + value
            };
            let values: Vec<f64> = (0..2_000).map(|_| next()).collect();
            vec![block_mean(&values, 5.0)]
        },
        one_in: 1,
    },
    Case {
        data: "20 blocks with 5 detours each",
        intervals: &[nominal("mean")],
        holds: |draws| {
            let detour = |draws: &mut Draws| match draws.uniform() < 0.05 {
                true => draws.exponential(),
                false => 0.0,
            };
            let values: Vec<f64> = (0..2_000).map(|_| detour(draws)).collect();
            vec![block_mean(&values, 0.05)]
        },
        one_in: 1,
    },
    Case {
        data: "8 ranks, 50 blocks of 10 steps",
        intervals: &[nominal("efficiency")],
        holds: |draws| vec![efficiency(draws, 500)],
        one_in: 1,
    },
    Case {
        data: "8 ranks, 12 steps",
        // So few steps do not show how skewed they are.
        intervals: &[between("efficiency", 0.91, 0.94)],
        holds: |draws| vec![efficiency(draws, 12)],
        one_in: 1,
    },
    Case {
        data: "1,000 steps, half of them in turn among 8 ranks",
        intervals: &[nominal("share of moves")],
        holds: |draws| {
            let rank = |step: u32, draws: &mut Draws| match draws.uniform() < 0.5 {
                true => step % 8,
                false => (8.0 * draws.uniform()) as u32,
            };
            let slowest: Vec<u32> = (0..1_000).map(|step| rank(step, draws)).collect();
            // Both steps in turn, or the same by chance.
            let truth = 0.25 + 0.75 / 8.0;
            vec![holds(&order::share(&slowest, 8, 1, 1), truth)]
        },
        one_in: 1,
    },
    Case {
        data: "9 points on a power law, each off by a tenth",
        intervals: &[nominal("exponent")],
        holds: |draws| {
            let point = |i: i32, draws: &mut Draws| {
                let x = 2.0_f64.powi(i);
                (x, x.sqrt() * (0.1 * draws.normal()).exp())
            };
            let points: Vec<(f64, f64)> = (0..9).map(|i| point(i, draws)).collect();
            vec![holds(&power_law::exponent(&points).expect("points"), 0.5)]
        },
        one_in: 1,
    },
    Case {
        data: "100 windows, cost by the square root of the rate, off by as much",
        intervals: &[nominal("exponent of means")],
        holds: |draws| {
            vec![by_rate(
                draws,
                100,
                |strikes, draws| strikes.sqrt() * draws.exponential(),
                0.5,
            )]
        },
        one_in: 1,
    },
    Case {
        data: "400 windows, cost by the square root of the rate, off by as much",
        intervals: &[nominal("exponent of means")],
        holds: |draws| {
            vec![by_rate(
                draws,
                400,
                |strikes, draws| strikes.sqrt() * draws.exponential(),
                0.5,
            )]
        },
        one_in: 1,
    },
    Case {
        data: "100 windows, cost the sum of exponential strikes",
        intervals: &[nominal("exponent of means")],
        holds: |draws| {
            let sum = |strikes: f64, draws: &mut Draws| {
                (0..strikes as u32).map(|_| draws.exponential()).sum()
            };
            vec![by_rate(draws, 100, sum, 1.0)]
        },
        one_in: 1,
    },
    Case {
        data: "50 blocks of 100 durations",
        intervals: &[
            nominal("mean of the core"),
            nominal("deviation of the core"),
            nominal("share of the tail"),
        ],
        holds: |draws| core(draws, 50),
        one_in: 1,
    },
    Case {
        data: "8 blocks of 100 durations",
        intervals: &[
            nominal("mean of the core"),
            nominal("deviation of the core"),
            nominal("share of the tail"),
        ],
        holds: |draws| core(draws, 8),
        one_in: 1,
    },
    Case {
        data: "50 values above a threshold, shape 0",
        intervals: &[nominal("shape of the tail"), nominal("scale of the tail")],
        holds: |draws| tail(draws, 50, 0.0),
        one_in: 1,
    },
    Case {
        data: "50 values above a threshold, shape 0.4",
        intervals: &[nominal("shape of the tail"), nominal("scale of the tail")],
        holds: |draws| tail(draws, 50, 0.4),
        one_in: 1,
    },
    Case {
        data: "500 values above a threshold, shape 0.4",
        intervals: &[nominal("shape of the tail"), nominal("scale of the tail")],
        holds: |draws| tail(draws, 500, 0.4),
        one_in: 1,
    },
    Case {
        data: "1,000 exponential values",
        intervals: MAXIMA,
        holds: |draws| maxima(draws, 1_000, Draws::exponential, harmonic),
        one_in: 10,
    },
    Case {
        data: "4,000 exponential values, 4 alike in a row",
        // The mean length of a row is itself uncertain.
        intervals: &[
            between("maximum of as many", 0.91, 0.95),
            between("maximum of 10 times as many", 0.91, 0.95),
            between("maximum of 100 times as many", 0.91, 0.95),
        ],
        holds: |draws| {
            let last = Cell::new((0, 0.0));
            let alike = |draws: &mut Draws| {
                let (drawn, mut value) = last.get();
                if drawn % 4 == 0 {
                    value = draws.exponential();
                }
                last.set((drawn + 1, value));
                value
            };
            maxima(draws, 4_000, alike, harmonic)
        },
        one_in: 20,
    },
    Case {
        data: "1,000 Pareto values, exponent 2.5",
        intervals: MAXIMA,
        holds: |draws| {
            let power = |draws: &mut Draws| draws.uniform().powf(-0.4);
            let expected = |n: u64| {
                let n = n as f64;
                (ln_gamma(0.6) + ln_gamma(n + 1.0) - ln_gamma(n + 0.6)).exp()
            };
            maxima(draws, 1_000, power, expected)
        },
        one_in: 10,
    },
    Case {
        data: "1,000 Gaussian values",
        // A tenth of so few is not yet a tail: it is too light, and the maximum too low.
        intervals: &[
            between("maximum of as many", 0.90, 0.94),
            between("maximum of 10 times as many", 0.89, 0.93),
            between("maximum of 100 times as many", 0.88, 0.92),
        ],
        holds: |draws| {
            let far = |draws: &mut Draws| 20.0 + draws.normal();
            maxima(draws, 1_000, far, |n| 20.0 + expected_max_normal(n))
        },
        one_in: 10,
    },
    Case {
        data: "20 and 20 blocks, Gaussian, one deviation apart",
        intervals: DIFFERENCE,
        // P(B > A) is that of a standard normal below 1 / sqrt(2).
        holds: |draws| differ(draws, [20, 20], Draws::normal, 1.0, 0.760_249_9),
        one_in: 1,
    },
    Case {
        data: "20 and 60 blocks, Gaussian, alike",
        intervals: DIFFERENCE,
        holds: |draws| differ(draws, [20, 60], Draws::normal, 0.0, 0.5),
        one_in: 1,
    },
    Case {
        data: "20 and 20 blocks, exponential, one deviation apart",
        intervals: DIFFERENCE,
        // 1 - exp(-1) / 2.
        holds: |draws| differ(draws, [20, 20], Draws::exponential, 1.0, 0.816_060_3),
        one_in: 1,
    },
    Case {
        data: "100 and 100 blocks, exponential, one deviation apart",
        intervals: DIFFERENCE,
        holds: |draws| differ(draws, [100, 100], Draws::exponential, 1.0, 0.816_060_3),
        one_in: 1,
    },
    Case {
        data: "20 and 20 blocks, whole numbers of 3 events expected",
        // Equal values: the ends of the shift are whole numbers, as is the shift.
        intervals: &[between("shift", 0.98, 1.0), nominal("superiority")],
        holds: |draws| {
            let number = |draws: &mut Draws| f64::from(events(draws, 3.0));
            differ(draws, [20, 20], number, 0.0, 0.5)
        },
        one_in: 1,
    },
    Case {
        data: "a comb of 120 events among 24 others",
        intervals: &[nominal("period"), nominal("phase")],
        holds: |draws| {
            let phase = draws.uniform();
            let mut times: Vec<u64> = (0..120)
                .map(|k| ((f64::from(k) + 1.0 + phase) * PERIOD + 500e3 * draws.normal()) as u64)
                .collect();
            times.extend((0..24).map(|_| (120.0 * PERIOD * draws.uniform()) as u64));
            comb(&times, phase * PERIOD)
        },
        one_in: 1,
    },
    Case {
        data: "120 gaps of a thread that sleeps",
        intervals: &[nominal("period")],
        holds: |draws| {
            let mut now = 0.0;
            let mut next = || {
                now += PERIOD + 1e6 * draws.normal();
                now as u64
            };
            let times: Vec<u64> = (0..=120).map(|_| next()).collect();
            vec![period(&times)]
        },
        one_in: 1,
    },
];

/// Two samples.
const DIFFERENCE: &[Interval] = &[nominal("shift"), nominal("superiority")];

/// Expected maxima beyond the values.
const MAXIMA: &[Interval] = &[
    nominal("maximum of as many"),
    nominal("maximum of 10 times as many"),
    nominal("maximum of 100 times as many"),
];

/// Mean of exponential data: so large that rounding to whole numbers does not show.
const SCALE: f64 = 1e9;

/// Period of events, in nanoseconds.
const PERIOD: f64 = 50e6;

fn within((low, high): (f64, f64), truth: f64) -> bool {
    low <= truth && truth <= high
}

fn holds(estimate: &Estimate, truth: f64) -> bool {
    within((estimate.low, estimate.high), truth)
}

fn harmonic(n: u64) -> f64 {
    (1..=n).map(|i| 1.0 / i as f64).sum()
}

fn exponentials(draws: &mut Draws, n: usize) -> Vec<u64> {
    draws.whole(n, |draws| SCALE * draws.exponential())
}

/// Number of events in a second.
fn events(draws: &mut Draws, rate: f64) -> u32 {
    let mut count = 0;
    let mut time = draws.exponential() / rate;
    while time < 1.0 {
        count += 1;
        time += draws.exponential() / rate;
    }
    count
}

/// Windows with 8 strikes on average, which cost this.
fn by_rate(
    draws: &mut Draws,
    windows: usize,
    cost: impl Fn(f64, &mut Draws) -> f64,
    exponent: f64,
) -> bool {
    let windows: Vec<Window> = (0..windows)
        .map(|_| {
            let rate = f64::from(events(draws, 8.0));
            let cost = cost(rate, draws);
            Window {
                rate,
                scale: 1.0,
                cost,
            }
        })
        .collect();
    holds(
        &mean_power::exponent(&windows).expect("rates differ"),
        exponent,
    )
}

fn poisson(draws: &mut Draws, rate: f64) -> bool {
    let count = events(draws, rate);
    holds(&rates::poisson(u64::from(count), 1.0), rate)
}

/// Shift and superiority of the second of two samples, whose law is that of the first moved by
/// `shift`.
fn differ(
    draws: &mut Draws,
    [n, m]: [usize; 2],
    law: impl Fn(&mut Draws) -> f64,
    shift: f64,
    superiority: f64,
) -> Vec<bool> {
    let a: Vec<f64> = (0..n).map(|_| law(draws)).collect();
    let b: Vec<f64> = (0..m).map(|_| law(draws) + shift).collect();
    let found = difference(&a, &b).expect("enough values");
    vec![
        holds(&found.shift, shift),
        holds(&found.superiority, superiority),
    ]
}

fn block_mean(values: &[f64], truth: f64) -> bool {
    let found = blocks::mean(values, blocks::BLOCKS);
    (found.mean - truth).abs() <= found.half_width
}

/// Eight ranks that compute for 1 ms and an exponential time of 0.1 ms.
fn efficiency(draws: &mut Draws, steps: usize) -> bool {
    const RANKS: usize = 8;
    let times = draws.whole(RANKS * steps, |draws| 1e6 + 1e5 * draws.exponential());
    let found = StepTimes::new(&times, RANKS).efficiency().expect("steps");
    within(
        (found.low, found.high),
        1.1 / (1.0 + 0.1 * harmonic(RANKS as u64)),
    )
}

fn core(draws: &mut Draws, blocks: usize) -> Vec<bool> {
    const CORE: core_tail::Core = core_tail::Core {
        mean: 10e6,
        deviation: 0.5e6,
        tail: 0.02,
    };
    let time = |draws: &mut Draws| match draws.uniform() < CORE.tail {
        true => 14e6 + 6e6 * draws.uniform(),
        false => CORE.mean + CORE.deviation * draws.normal(),
    };
    let values = draws.whole(100 * blocks, time);
    let mut sorted = values.clone();
    sorted.sort_unstable();
    let blocks: Vec<&[u64]> = values.chunks(100).collect();
    let fit = core_tail::fit(&blocks, &sorted).expect("values that vary");
    vec![
        within(fit.mean, CORE.mean),
        within(fit.deviation, CORE.deviation),
        within(fit.tail, CORE.tail),
    ]
}

/// Shape and scale of `n` values of a generalised Pareto law.
fn tail(draws: &mut Draws, n: usize, shape: f64) -> Vec<bool> {
    let law = Pareto {
        shape,
        scale: SCALE,
    };
    let exceedances: Vec<f64> = (0..n).map(|_| law.quantile(draws.uniform())).collect();
    let best = pareto::maximum_likelihood(&exceedances).expect("exceedances that differ");
    let likely = pareto::edge_of_likely(&exceedances, &best, 1.0);
    let holds = |of: fn(&Pareto) -> f64| {
        let least = likely.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = likely.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        within((least, most), of(&law))
    };
    vec![holds(|law| law.shape), holds(|law| law.scale)]
}

/// Maxima of as many values of `law` as are drawn, of ten and of a hundred times as many, given
/// their expectation by number.
fn maxima(
    draws: &mut Draws,
    values: usize,
    law: impl Fn(&mut Draws) -> f64,
    expected: impl Fn(u64) -> f64,
) -> Vec<bool> {
    let values = draws.whole(values, |draws| SCALE * law(draws));
    let mut sorted = values.clone();
    sorted.sort_unstable();
    let blocks: Vec<&[u64]> = values.chunks(values.len() / 50).collect();
    let Ok(tailed) = Tailed::fit(&sorted, &blocks, 1) else {
        return Vec::new();
    };
    let holds = |times: u64| {
        let n = times * values.len() as u64;
        let found = tailed.expected_maximum(n).expect("not too far");
        let high = found.high.unwrap_or(f64::INFINITY);
        within((found.low, high), SCALE * expected(n))
    };
    [1, 10, 100].map(holds).to_vec()
}

fn period(times: &[u64]) -> bool {
    let found = periodicity::periods(times);
    holds(&found.first().expect("a period").period, PERIOD)
}

/// Period and phase of a comb with a tooth at `tooth`. A comb whose events seem to wander, one in a
/// hundred, has no phase that could be wrong.
fn comb(times: &[u64], tooth: f64) -> Vec<bool> {
    let found = periodicity::periods(times);
    let found = found.first().expect("a period");
    let phase = found.phase.as_ref().is_none_or(|phase| {
        let next = (tooth - phase.reference_ns as f64).rem_euclid(PERIOD);
        // The interval may reach beyond the ends of a period.
        [-PERIOD, 0.0, PERIOD]
            .iter()
            .any(|turn| holds(&phase.offset, next + turn))
    });
    vec![holds(&found.period, PERIOD), phase]
}
