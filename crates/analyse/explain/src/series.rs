//! Evaluates a lockstep run: warm-up, step, computation, exchange, prediction.

use idlewave_run::findings::{Estimate, WarmUp};
use idlewave_run::{Coupling, WaitsFor};
use idlewave_stats::{blocks, maximum, quantiles, warm_up};
use idlewave_units::Nanos;
use serde::Serialize;

/// The times of one rank, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct RankTimes<'a> {
    /// Start of every iteration, and the end of the last one.
    pub begins: &'a [u64],
    /// End of every computation.
    pub arrivals: &'a [u64],
}

impl RankTimes<'_> {
    /// The number of iterations.
    pub fn iterations(&self) -> usize {
        self.arrivals.len().min(self.begins.len().saturating_sub(1))
    }
}

/// One lockstep run; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesFindings {
    /// Ranks that took part.
    pub ranks: u32,
    /// Ranks along each dimension, for neighbour exchange.
    pub sides: Vec<u32>,
    /// Iterations of every rank.
    pub iterations: u64,
    /// How long the run took to settle, on the slowest rank to do so.
    pub warm_up: WarmUp,
    /// Iterations omitted as warm-up.
    pub skipped: u64,
    /// Mean time of an iteration.
    pub step: Estimate,
    /// Median time of a computation, per rank.
    pub compute: Vec<Estimate>,
    /// Median time from the last arrival among those that a rank waits for to the end of its wait;
    /// without [`one_clock`](Self::one_clock), the median of the shortest wait of every iteration.
    pub exchange: Estimate,
    /// Whether the ranks share a clock, or their clocks agree far more closely than the exchange
    /// takes.
    pub one_clock: bool,
    /// A bound on the error between the clocks of two ranks; zero on one node.
    pub clock_error: Nanos,
    /// Median time that a rank waits.
    pub wait: Estimate,
    /// Expected maximum of the computation times, one of each rank.
    pub expected_compute: f64,
    /// Predicted step: expected maximum plus median exchange. `None` if the ranks do not wait for
    /// each other.
    pub predicted: Option<f64>,
    /// Predicted over measured step, minus 1.
    pub error: Option<f64>,
    /// What disturbances cost per iteration: mean step, less the computation of the slowest rank
    /// and the exchange (both medians). The interval adds those of all three.
    pub noise: Estimate,
    /// `noise` in multiples of the exchange; `None` if the exchange takes no measurable time.
    pub noise_to_exchange: Option<Estimate>,
    /// Speed-up per rank against the first run of a scaling series.
    pub efficiency: Option<Estimate>,
}

/// The iterations to omit: until the last rank has settled.
pub fn warm_up_of(records: &[RankTimes<'_>]) -> (WarmUp, usize) {
    let mut worst = WarmUp {
        settled_after: Some(Nanos::ZERO),
        ratio: 1.0,
    };
    let mut skip = 0;
    for record in records {
        let steps: Vec<u64> = record
            .begins
            .windows(2)
            .map(|w| w[1].saturating_sub(w[0]))
            .collect();
        let ends = record.begins.get(1..).unwrap_or(&[]);
        let verdict = warm_up::verdict(ends, &steps);
        match (verdict.settled_after, worst.settled_after) {
            (None, Some(_)) => worst = verdict,
            (Some(after), Some(most)) if after > most => {
                let begin = record.begins.first().copied().unwrap_or(0);
                skip = skip.max(record.begins.partition_point(|b| *b < begin + after.get()));
                worst = verdict;
            }
            _ => {}
        }
    }
    // A run that never settled has no distinct warm-up.
    if worst.settled_after.is_none() {
        skip = 0;
    }
    (worst, skip)
}

/// Times of several nodes give the exchange only if it is this many times longer than their error.
const FAR_ABOVE_ERROR: f64 = 10.0;

/// Findings from the records of all ranks, with times on one clock within `clock_error`. `None`
/// without an iteration that counts. If the error is not far below the exchange, the shortest wait
/// of an iteration, that of the last rank, stands for the exchange.
pub fn findings(
    records: &[RankTimes<'_>],
    coupling: Coupling,
    sides: &[u32],
    clock_error: Nanos,
) -> Option<SeriesFindings> {
    let ranks = records.len();
    let iterations = records.iter().map(RankTimes::iterations).min()?;
    let (warm_up, skipped) = warm_up_of(records);
    let kept = skipped..iterations;
    if kept.is_empty() {
        return None;
    }
    let waits = WaitsFor::new(coupling, sides, ranks);
    // Mean over the ranks, per iteration: in the long run no rank is faster than the others.
    let steps: Vec<f64> = kept
        .clone()
        .map(|k| {
            let sum: u64 = records
                .iter()
                .map(|r| r.begins[k + 1].saturating_sub(r.begins[k]))
                .sum();
            sum as f64 / ranks as f64
        })
        .collect();
    let mean = blocks::mean(&steps, blocks::BLOCKS);
    let mut computes: Vec<Vec<u64>> = Vec::with_capacity(ranks);
    let (mut exchanges, mut waited) = (Vec::new(), Vec::new());
    for (rank, record) in records.iter().enumerate() {
        let times = |k: usize| (record.begins[k], record.arrivals[k], record.begins[k + 1]);
        computes.push(
            kept.clone()
                .map(|k| times(k).1.saturating_sub(times(k).0))
                .collect(),
        );
        for k in kept.clone() {
            let (_, arrival, end) = times(k);
            waited.push(end.saturating_sub(arrival));
            let last = waits.of(rank).map(|r| records[r].arrivals[k]).max();
            exchanges.push(end.saturating_sub(last.unwrap_or(arrival)));
        }
    }
    let expected_compute = maximum::expected(&computes)?;
    let mut exchange = quantiles::median(&exchanges);
    let one_clock = exchange.value >= FAR_ABOVE_ERROR * clock_error.as_f64();
    if !one_clock {
        exchanges.clear();
        let wait = |r: &RankTimes<'_>, k: usize| r.begins[k + 1].saturating_sub(r.arrivals[k]);
        exchanges.extend(kept.map(|k| records.iter().map(|r| wait(r, k)).min().unwrap_or(0)));
        exchange = quantiles::median(&exchanges);
    }
    let step = Estimate {
        value: mean.mean,
        low: mean.mean - mean.half_width,
        high: mean.mean + mean.half_width,
        n: steps.len() as u64,
        method: "mean, batch means, 95 %".to_owned(),
    };
    let compute: Vec<Estimate> = computes.iter().map(|c| quantiles::median(c)).collect();
    let slowest = compute.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let noise = noise(&step, slowest?, &exchange);
    let noise_to_exchange = multiple(&noise, &exchange);
    let global = ranks == 1 || coupling != Coupling::Reduce;
    let predicted = global.then_some(expected_compute + exchange.value);
    Some(SeriesFindings {
        ranks: ranks as u32,
        sides: sides.to_vec(),
        iterations: iterations as u64,
        warm_up,
        skipped: skipped as u64,
        compute,
        wait: quantiles::median(&waited),
        exchange,
        one_clock,
        clock_error,
        expected_compute,
        predicted,
        error: predicted.map(|p| p / mean.mean - 1.0),
        efficiency: None,
        noise_to_exchange,
        noise,
        step,
    })
}

/// What a step takes beyond its undisturbed computation and exchange.
fn noise(step: &Estimate, compute: &Estimate, exchange: &Estimate) -> Estimate {
    Estimate {
        value: step.value - compute.value - exchange.value,
        low: step.low - compute.high - exchange.high,
        high: step.high - compute.low - exchange.low,
        n: step.n,
        method: "mean step less median computation and exchange, at least 95 %".to_owned(),
    }
}

/// `noise` in multiples of the exchange.
fn multiple(noise: &Estimate, exchange: &Estimate) -> Option<Estimate> {
    let least = exchange.low > 0.0;
    let ends = [exchange.low, exchange.high];
    let of = |noise: f64| ends.map(|exchange| noise / exchange);
    least.then(|| Estimate {
        value: noise.value / exchange.value,
        low: of(noise.low).into_iter().fold(f64::INFINITY, f64::min),
        high: of(noise.high).into_iter().fold(f64::NEG_INFINITY, f64::max),
        n: noise.n,
        method: "noise over exchange, at least 95 %".to_owned(),
    })
}

/// Efficiency of `now` against `first`; the work per rank shrinks with the ranks if it is
/// `divided`.
///
/// The relative half widths of both means add in quadrature, since the runs are independent.
pub fn efficiency(first: &SeriesFindings, now: &SeriesFindings, divided: bool) -> Estimate {
    let ratio = if divided {
        f64::from(first.ranks) / f64::from(now.ranks)
    } else {
        1.0
    };
    let value = first.step.value * ratio / now.step.value;
    let relative = |e: &Estimate| (e.high - e.value) / e.value;
    let half = match first.ranks == now.ranks {
        true => 0.0,
        false => value * relative(&first.step).hypot(relative(&now.step)),
    };
    Estimate {
        value,
        low: value - half,
        high: value + half,
        n: now.step.n,
        method: "ratio of means, propagated, 95 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of one rank.
    #[derive(Clone, Default)]
    struct RankRecord {
        begins: Vec<u64>,
        arrivals: Vec<u64>,
    }

    /// Findings on these records.
    fn of_records(
        records: &[RankRecord],
        coupling: Coupling,
        clock_error: Nanos,
    ) -> Option<SeriesFindings> {
        let times = |r: &'_ RankRecord| (r.begins.clone(), r.arrivals.clone());
        let owned: Vec<_> = records.iter().map(times).collect();
        let times = owned
            .iter()
            .map(|(begins, arrivals)| RankTimes { begins, arrivals });
        findings(&times.collect::<Vec<_>>(), coupling, &[], clock_error)
    }

    /// Ranks with these computations that wait for all, and 7 ns of exchange.
    fn barrier(work: &[&[u64]]) -> Vec<RankRecord> {
        let mut records = vec![RankRecord::default(); work.len()];
        let mut begin = 1_000;
        for k in 0..work[0].len() {
            let end = begin + 7 + work.iter().map(|w| w[k]).max().unwrap_or(0);
            for (record, w) in records.iter_mut().zip(work) {
                record.begins.push(begin);
                record.arrivals.push(begin + w[k]);
            }
            begin = end;
        }
        records.iter_mut().for_each(|r| r.begins.push(begin));
        records
    }

    #[test]
    fn step_exchange_and_prediction_are_hand_arithmetic() {
        let records = barrier(&[&[10, 20, 10, 20], &[10, 10, 20, 20]]);
        let found = of_records(&records, Coupling::Barrier, Nanos::ZERO).expect("iterations");
        assert_eq!((found.ranks, found.iterations, found.skipped), (2, 4, 0));
        // All four combinations of 10 and 20 once: steps of 17, 27, 27, 27.
        assert_eq!(found.step.value, 24.5);
        assert_eq!(found.exchange.value, 7.0);
        assert_eq!(found.expected_compute, 17.5);
        assert_eq!(found.predicted, Some(24.5));
        assert_eq!(found.error, Some(0.0));
        // Medians: 15 of computation, 7 of exchange.
        assert_eq!(found.noise.value, 2.5);
        let multiple = found.noise_to_exchange.expect("an exchange");
        assert_eq!(multiple.value, 2.5 / 7.0);
        assert!(multiple.low < 0.0 && 2.5 / 7.0 < multiple.high);
    }

    #[test]
    fn the_exchange_is_the_shortest_wait_where_the_clocks_are_too_coarse_for_it() {
        let mut records = barrier(&[&[10, 20, 10, 20], &[10, 10, 20, 20]]);
        // The last rendezvous ends early for the first rank.
        records[0].begins[4] -= 3;
        let of = |error| {
            let error = Nanos::from_nanos(error);
            of_records(&records, Coupling::Barrier, error).expect("iterations")
        };
        assert!(of(0).one_clock);
        let coarse = of(1);
        assert!(!coarse.one_clock);
        // The median of 7, 7, 7 and 4.
        assert_eq!((coarse.exchange.value, coarse.exchange.n), (7.0, 4));
        // The other clock is 1000 ns ahead, within the stated error.
        let other = &mut records[1];
        for time in other.begins.iter_mut().chain(&mut other.arrivals) {
            *time += 1_000;
        }
        let apart = of_records(&records, Coupling::Barrier, Nanos::from_nanos(1_000));
        assert_eq!(apart.expect("iterations").exchange.value, 7.0);
    }

    #[test]
    fn no_iteration_no_findings() {
        assert!(of_records(&[], Coupling::Barrier, Nanos::ZERO).is_none());
        assert!(of_records(&[RankRecord::default()], Coupling::Barrier, Nanos::ZERO).is_none());
    }

    #[test]
    fn the_warm_up_is_left_out_by_the_rule() {
        // 50 ms at 40 us per step, then a second at 20 us, of one rank.
        let mut record = RankRecord::default();
        let mut now = 5_000;
        for step in std::iter::repeat_n(40_000, 1_250).chain(std::iter::repeat_n(20_000, 50_000)) {
            record.begins.push(now);
            record.arrivals.push(now + step - 1_000);
            now += step;
        }
        record.begins.push(now);
        let found = of_records(&[record], Coupling::Neighbours, Nanos::ZERO).expect("iterations");
        assert!((1_250..1_600).contains(&found.skipped), "{}", found.skipped);
        assert_eq!(found.step.value, 20_000.0);
        assert_eq!(found.expected_compute, 19_000.0);
    }

    #[test]
    fn efficiency_is_one_at_the_base_and_divides_the_work() {
        let of = |work: &[&[u64]]| {
            of_records(&barrier(work), Coupling::Barrier, Nanos::ZERO).expect("steps")
        };
        let one = of(&[&[93, 93]]);
        let two = of(&[&[43, 43], &[43, 43]]);
        assert_eq!(efficiency(&one, &one, true).value, 1.0);
        assert_eq!(efficiency(&one, &two, true).value, 1.0);
        assert_eq!(efficiency(&one, &two, false).value, 2.0);
    }
}
