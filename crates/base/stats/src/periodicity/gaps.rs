//! Regular gaps: evidence for events that recur a fixed time after the previous one. A task that
//! sleeps 50 ms and then works for a while keeps no phase, so the periodogram loses it, but its
//! gaps are still alike.
//!
//! Definition: for gaps between an event and the next, the one after that, up to the fourth, the
//! value g is sought with the most gaps within +-w of it (w = 1, 3, 10, 20 %) compared with those
//! within +-3 w. Any smooth distribution of gaps has a third of the latter in the former; the
//! evidence is -ln of the binomial tail, divided by the lag because overlapping gaps depend on each
//! other.

use super::spectrum::ALPHA;
use crate::distributions::ln_binomial_upper_tail;
use crate::estimate::{Estimate, Periodicity};
use crate::quantiles::quantile_of_sorted;

/// The widest is for gaps to the next event only, since sums of random gaps have a broad maximum
/// themselves.
const HALF_WIDTHS: [f64; 4] = [0.01, 0.03, 0.1, 0.2];
const LAGS: usize = 4;
/// Larger numbers of gaps are thinned.
const MOST_GAPS: usize = 20_000;
/// A longer lag must explain this much more of the events.
const BETTER: f64 = 0.1;

/// The period that the gaps of `times` (nanoseconds, in rising order) show most clearly.
pub fn regular_gap(times: &[u64]) -> Option<Periodicity> {
    let span = times.last()? - times.first()?;
    let mean_gap = span as f64 / (times.len() - 1).max(1) as f64;
    let mut found: Option<Periodicity> = None;
    for lag in 1..=LAGS {
        let Some(next) = at_lag(times, lag, 0.5 * mean_gap) else {
            continue;
        };
        let better = found.as_ref().is_none_or(|f| {
            // The sum of regular gaps is regular, too.
            let times = next.period.value / f.period.value;
            let multiple = times > 1.5 && (times / times.round() - 1.0).abs() < 0.05;
            !multiple && next.share > f.share + BETTER
        });
        if better {
            found = Some(next);
        }
    }
    found
}

fn at_lag(times: &[u64], lag: usize, shortest: f64) -> Option<Periodicity> {
    let step = times.len().div_ceil(MOST_GAPS).max(1);
    let mut gaps: Vec<u64> = (lag..times.len())
        .step_by(step)
        .map(|i| times[i] - times[i - lag])
        .collect();
    gaps.sort_unstable();
    let n = gaps.len();
    if n < 8 {
        return None;
    }
    let mut best = (0.0, 0, 0.0);
    let widths = &HALF_WIDTHS[..if lag == 1 { 4 } else { 3 }];
    for &w in widths {
        let mut edges = [0_usize; 4];
        for (i, &gap) in gaps.iter().enumerate() {
            if (gap as f64) < shortest || (i > 0 && gaps[i - 1] == gap) {
                continue;
            }
            let counts = counts(&gaps, gap as f64, w, &mut edges);
            let score = divergence(counts.0, counts.1);
            if score > best.0 {
                best = (score, gap, w);
            }
        }
    }
    let (_, gap, w) = best;
    let near = |g: u64| {
        let low = (g as f64 * (1.0 - w)).ceil() as u64;
        let high = (g as f64 * (1.0 + w)).floor() as u64;
        gaps.partition_point(|&x| x < low)..gaps.partition_point(|&x| x <= high)
    };
    let (inner, all) = counts(&gaps, gap as f64, w, &mut [0; 4]);
    if inner < 6 {
        return None;
    }
    let evidence = -ln_binomial_upper_tail(inner as u64, all as u64, 1.0 / 3.0) / lag as f64;
    let trials = (n * HALF_WIDTHS.len() * LAGS) as f64;
    let power = evidence / (trials / ALPHA).ln();
    if power <= 1.0 {
        return None;
    }
    let estimate = quantile_of_sorted(&gaps[near(gap)], 0.5);
    let share = (inner as f64 - 0.5 * (all - inner) as f64).max(0.0) / n as f64;
    let method = "median gap, order statistics, 95 %".to_owned();
    Some(Periodicity {
        period: Estimate { method, ..estimate },
        share: share.min(1.0),
        power,
        phase: None,
    })
}

/// Gaps within `gap` +- w and within `gap` +- 3 w; `edges` move upwards with `gap`.
fn counts(gaps: &[u64], gap: f64, w: f64, edges: &mut [usize; 4]) -> (usize, usize) {
    let limits = [1.0 - 3.0 * w, 1.0 - w, 1.0 + w, 1.0 + 3.0 * w];
    for (edge, (side, limit)) in edges.iter_mut().zip(limits.iter().enumerate()) {
        let limit = gap * limit;
        let before = |g: u64| {
            if side < 2 {
                (g as f64) < limit
            } else {
                g as f64 <= limit
            }
        };
        while *edge < gaps.len() && before(gaps[*edge]) {
            *edge += 1;
        }
    }
    (edges[2] - edges[1], edges[3] - edges[0])
}

/// About -ln of the binomial tail of `inner` among `all` with probability 1/3 (Chernoff's bound).
fn divergence(inner: usize, all: usize) -> f64 {
    let (k, n) = (inner as f64, all as f64);
    if 3.0 * k <= n {
        return 0.0;
    }
    let rest = n - k;
    let outer = if rest > 0.0 {
        rest * (1.5 * rest / n).ln()
    } else {
        0.0
    };
    k * (3.0 * k / n).ln() + outer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn sleeper(n: usize, sleep: f64, jitter: f64, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut now = 1e9;
        (0..n)
            .map(|_| {
                now += sleep + jitter * random.normal();
                now as u64
            })
            .collect()
    }

    #[test]
    fn relative_sleeps_are_found_from_a_dozen_events_on() {
        for n in [20, 200, 2000] {
            let found = regular_gap(&sleeper(n, 50e6, 1e6, n as u64)).expect("a period");
            assert!((found.period.value / 50e6 - 1.0).abs() < 0.02, "{found:?}");
            assert!(found.share > 0.8, "{found:?}");
        }
    }

    #[test]
    fn two_events_in_each_period_are_one_period() {
        let starts = sleeper(300, 50e6, 1e6, 5);
        let mut times: Vec<u64> = starts.iter().flat_map(|&t| [t, t + 10_000_000]).collect();
        times.sort_unstable();
        let found = regular_gap(&times).expect("a period");
        assert!((found.period.value / 50e6 - 1.0).abs() < 0.005, "{found:?}");
    }

    #[test]
    fn random_events_have_no_regular_gap() {
        let mut random = Random::new(8);
        for n in [10, 50, 1000, 30_000] {
            let cases = if n > 1000 { 10 } else { 200 };
            let found = (0..cases)
                .filter(|_| regular_gap(&random.events(n, 20_000_000_000)).is_some())
                .count();
            assert!(found <= 1, "{found} of {cases} at n = {n}");
        }
    }
}
