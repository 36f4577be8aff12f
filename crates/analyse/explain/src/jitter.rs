//! How much a computation that every rank repeats in every step varies, and what waiting for the
//! slowest rank costs.
//!
//! Such computations are the forces of the Lennard-Jones run, the computation of a lockstep run, an
//! iteration of a benchmark without its calls, the round trips of a ping-pong, and regions of one
//! name that all ranks of a recorded program marked. The analysis follows H. Watanabe's study of hyper-threading at scale; docs/jitter.md
//! explains it.

mod series;

use crate::ExplainError;
use crate::catalog::SourceId;
use crate::step_series::StepSeries;
use crate::watch::{Charger, Watch};
use idlewave_run::RunReader;
use idlewave_run::findings::{
    Estimate, JitterCore, JitterCulprit, JitterFindings, JitterMap, JitterOrder, JitterPattern,
    JitterPoint, JitterScale, JitterSlowest,
};
use idlewave_stats::core_tail::{self, Fit};
use idlewave_stats::extremes::{Tailed, Unknown};
use idlewave_stats::hypotheses::slow_ranks;
use idlewave_stats::order;
use idlewave_stats::step_times::{StepTimes, gaussian_efficiency, run_lengths, tail_share};
use idlewave_units::{Nanos, Rank};
pub use series::step_series;
use std::collections::BTreeMap;

/// Numbers of ranks for which efficiency is predicted, besides the run's own.
const SCALE: [u64; 5] = [64, 512, 4_096, 8_192, 65_536];
/// Cells of the map in each direction.
const CELLS: usize = 200;
/// Points of the distribution function: half of them evenly spaced in share, half in the tail on a
/// logarithmic scale.
const POINTS: usize = 120;
/// Seed of the tests whether a tail fits, and whether ranks are the slowest in some order.
const SEED: u64 = 1;
/// Outliers whose causes are determined, the longest ones.
const CHARGED: usize = 10_000;

/// Findings on one series, before the sources have their rows.
#[derive(Debug)]
pub struct Found {
    findings: JitterFindings,
    /// Per source: time taken in outliers, and outliers in which it took the most.
    taken: BTreeMap<SourceId, (u64, u64)>,
}

impl Found {
    /// Whether this source took time in outliers.
    pub fn names(&self, source: SourceId) -> bool {
        self.taken.contains_key(&source)
    }

    /// The findings, with sources by their rows in the table.
    pub fn finish(self, place: &BTreeMap<SourceId, u32>) -> JitterFindings {
        let mut findings = self.findings;
        findings.culprits = self
            .taken
            .into_iter()
            .filter_map(|(id, (time, steps))| {
                Some(JitterCulprit {
                    source: *place.get(&id)?,
                    time: Nanos::from_nanos(time),
                    steps,
                })
            })
            .collect();
        findings
            .culprits
            .sort_by_key(|c| (std::cmp::Reverse(c.time), c.source));
        findings
    }
}

/// Analyses all series of a run; `watches` are those of its ranks.
pub fn analyse(
    run: &RunReader,
    watches: &[Watch],
    charger: &mut Charger<'_>,
) -> Result<Vec<Found>, ExplainError> {
    let mut found = Vec::new();
    series::for_each(run, |series| {
        if let Some(findings) = findings(&series) {
            let usual = findings.median.get();
            let taken = match &findings.core {
                Some(core) => {
                    let from = core.outlier_from.get();
                    charge(run, &series, (usual, from), watches, charger)?
                }
                None => BTreeMap::new(),
            };
            found.push(Found { findings, taken });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Findings on a computation that each of `ranks` ranks repeats, without the kernel's view:
/// culprits are left out. `begins` and `durations` are nanoseconds, step by step, in the order of
/// the ranks.
///
/// `None` if there are fewer than two whole steps, if the lengths differ, or if all durations are
/// 0.
pub fn jitter_of(
    name: &str,
    ranks: usize,
    begins: Vec<u64>,
    durations: Vec<u64>,
) -> Option<JitterFindings> {
    let whole = ranks > 0 && durations.len() % ranks == 0 && durations.len() >= 2 * ranks;
    if !whole || begins.len() != durations.len() {
        return None;
    }
    findings(&StepSeries {
        phase: 0,
        name: name.to_owned(),
        ranks,
        durations,
        begins,
    })
}

/// Findings on a series alone; `None` if all its durations are 0.
fn findings(series: &StepSeries) -> Option<JitterFindings> {
    let times = StepTimes::new(&series.durations, series.ranks);
    let efficiency = times.efficiency()?;
    // A core without intervals is ignored: the steps are too few to give its uncertainty.
    let mut sorted = series.durations.clone();
    sorted.sort_unstable();
    let fit = core_tail::fit(&times.blocks(), &sorted).filter(|fit| fit.deviation.1.is_finite());
    let slowest = times.slowest();
    let mut counts = vec![0_u64; series.ranks];
    for &rank in &slowest {
        counts[rank as usize] += 1;
    }
    let runs = run_lengths(&slowest, series.ranks)?;
    let (at, &most) = series
        .durations
        .iter()
        .enumerate()
        .max_by_key(|&(i, d)| (d, std::cmp::Reverse(i)))?;
    let core = fit
        .as_ref()
        .map(|fit| core(fit, &times, &sorted, efficiency.value));
    let (scale, tail_shape) = scale(&times, &sorted, fit.as_ref());
    let steps_method = |what: &str| format!("{what}, 95 % interval by resampling blocks of steps");
    Some(JitterFindings {
        phase: series.phase,
        name: series.name.clone(),
        ranks: series.ranks as u32,
        steps: times.steps() as u64,
        median: Nanos::from_nanos(sorted[sorted.len() / 2]),
        slowest: JitterSlowest {
            duration: Nanos::from_nanos(most),
            rank: Rank::new((at % series.ranks) as u32),
            step: (at / series.ranks) as u64,
            begin_ns: series.begins[at],
            z: fit.as_ref().map(|fit| fit.core.z(most as f64)),
        },
        efficiency: Estimate {
            value: efficiency.value,
            low: efficiency.low,
            high: efficiency.high,
            n: times.steps() as u64,
            method: steps_method("sum of the steps' means over the sum of their maxima"),
        },
        scale,
        tail_shape,
        distribution: distribution(&sorted, fit.as_ref()),
        slow_ranks: slow_ranks(&counts).into_iter().map(Rank::new).collect(),
        slowest_counts: counts,
        run_length: runs.mean,
        run_length_by_chance: runs.by_chance,
        longest_run: runs.longest,
        order: order_of(&slowest, series.ranks),
        map: map(&slowest, series.ranks),
        culprits: Vec::new(),
        core,
    })
}

/// Efficiency at this run's number of ranks and at others, and the shape of the tail by which some
/// of them are extrapolated.
fn scale(
    times: &StepTimes<'_>,
    sorted: &[u64],
    fit: Option<&Fit>,
) -> (Vec<JitterScale>, Option<Estimate>) {
    let own = times.ranks() as u64;
    let mut scale: Vec<JitterScale> = std::iter::once(own)
        .chain(SCALE.into_iter().filter(|&ranks| ranks > own))
        .map(|ranks| JitterScale {
            ranks,
            gaussian: fit.map(|fit| gaussian_efficiency(&fit.core, ranks)),
            measured: StepTimes::efficiency_at(sorted, ranks),
            extrapolated: None,
            not_extrapolated: None,
        })
        .collect();
    if scale.iter().all(|point| point.measured.is_some()) {
        return (scale, None);
    }
    let tailed = Tailed::fit(sorted, &times.blocks(), SEED);
    for point in scale.iter_mut().filter(|point| point.measured.is_none()) {
        let found = tailed
            .as_ref()
            .map_err(|why| *why)
            .and_then(|tailed| beyond(tailed, sorted, point.ranks));
        match found {
            Ok(estimate) => point.extrapolated = Some(estimate),
            Err(why) => point.not_extrapolated = Some(why.to_string()),
        }
    }
    let shape = tailed.ok().map(|tailed| {
        let tail = tailed.tail();
        Estimate {
            value: tail.law.shape,
            low: tail.shape.0,
            high: tail.shape.1,
            n: tail.exceedances as u64,
            method: format!(
                "generalised Pareto law of durations above {} ns, 95 %, profile likelihood",
                tail.threshold
            ),
        }
    });
    (scale, shape)
}

/// Efficiency of more ranks than a tenth of the durations. The error of the mean is left out: it
/// rests on all durations, that of the maximum on the longest ones.
fn beyond(tailed: &Tailed<'_>, sorted: &[u64], ranks: u64) -> Result<Estimate, Unknown> {
    let maximum = tailed.expected_maximum(ranks)?;
    let n = sorted.len() as u64;
    let mean = sorted.iter().map(|&d| d as f64).sum::<f64>() / n as f64;
    Ok(Estimate {
        value: mean / maximum.value,
        low: maximum.high.map_or(0.0, |high| mean / high),
        high: (mean / maximum.low).min(1.0),
        n,
        method: "mean over expected maximum, extrapolated by a generalised Pareto tail, 95 %, profile likelihood".to_owned(),
    })
}

fn core(fit: &Fit, times: &StepTimes<'_>, sorted: &[u64], efficiency: f64) -> JitterCore {
    let n = sorted.len() as u64;
    let outlier_z = core_tail::outlier_limit(n);
    let from = (fit.core.mean + outlier_z * fit.core.deviation)
        .ceil()
        .max(0.0) as u64;
    let without = times
        .efficiency_below(from.saturating_sub(1))
        .map_or(efficiency, |e| e.value);
    let method = "(1 - tail) times a Gaussian, fitted to the distribution function below median + 3 MAD; 95 % interval by \
                  resampling blocks of steps";
    let estimate = |value: f64, (low, high): (f64, f64)| Estimate {
        value,
        low,
        high,
        n,
        method: method.to_owned(),
    };
    JitterCore {
        mean: estimate(fit.core.mean, fit.mean),
        deviation: estimate(fit.core.deviation, fit.deviation),
        tail: estimate(fit.core.tail, fit.tail),
        misfit: fit.misfit,
        outlier_z,
        outlier_from: Nanos::from_nanos(from),
        outliers: (sorted.len() - sorted.partition_point(|&d| d < from)) as u64,
        efficiency_without_outliers: without,
        outlier_share: tail_share(efficiency, without),
    }
}

/// Points of the distribution function, denser in the tail.
fn distribution(sorted: &[u64], fit: Option<&Fit>) -> Vec<JitterPoint> {
    let n = sorted.len();
    let half = POINTS / 2;
    let mut places: Vec<usize> = (0..half).map(|k| k * n / half).collect();
    // The k-th largest, k from n down to 1 in equal ratios.
    places.extend((0..=half).map(|k| {
        let left = (n as f64).powf(1.0 - k as f64 / half as f64);
        n - (left.round() as usize).clamp(1, n)
    }));
    places.sort_unstable();
    let mut points: Vec<JitterPoint> = places
        .into_iter()
        .map(|i| JitterPoint {
            duration: Nanos::from_nanos(sorted[i]),
            count: sorted.partition_point(|&d| d <= sorted[i]) as u64,
            fitted: fit.map(|fit| fit.core.cdf(sorted[i] as f64)),
        })
        .collect();
    points.dedup_by_key(|p| p.duration);
    points
}

fn order_of(slowest: &[u32], ranks: usize) -> Option<JitterOrder> {
    let found = order::order(slowest, ranks, SEED)?;
    let pattern = |found: order::Pattern| JitterPattern {
        lag: found.lag as u64,
        shift: found.shift,
        share: found.share,
        by_chance: found.by_chance,
        p: found.p,
    };
    Some(JitterOrder {
        steps: found.steps as u64,
        lags: found.lags as u64,
        moves: found.moves.map(pattern),
        returns: pattern(found.returns),
    })
}

fn map(slowest: &[u32], ranks: usize) -> JitterMap {
    let steps_per_column = slowest.len().div_ceil(CELLS).max(1);
    let ranks_per_row = ranks.div_ceil(CELLS).max(1);
    let mut cells: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (step, &rank) in slowest.iter().enumerate() {
        let column = (step / steps_per_column) as u32;
        let row = rank / ranks_per_row as u32;
        *cells.entry((column, row)).or_default() += 1;
    }
    JitterMap {
        steps_per_column: steps_per_column as u64,
        ranks_per_row: ranks_per_row as u32,
        cells: cells.into_iter().map(|((c, r), n)| (c, r, n)).collect(),
    }
}

/// What was taken from the slowest rank in every step whose slowest duration is `from` or more. On
/// an untraced node it is the excess over the `usual` duration.
fn charge(
    run: &RunReader,
    series: &StepSeries,
    (usual, from): (u64, u64),
    watches: &[Watch],
    charger: &mut Charger<'_>,
) -> Result<BTreeMap<SourceId, (u64, u64)>, ExplainError> {
    let times = StepTimes::new(&series.durations, series.ranks);
    // A series may consist of several phases.
    let watches: Vec<&Watch> = watches.iter().filter(|w| w.rank.is_some()).collect();
    let mut outliers: Vec<usize> = times
        .slowest()
        .iter()
        .enumerate()
        .map(|(step, &rank)| step * series.ranks + rank as usize)
        .filter(|&i| series.durations[i] >= from)
        .collect();
    outliers.sort_by_key(|&i| (std::cmp::Reverse(series.durations[i]), i));
    outliers.truncate(CHARGED);
    let mut taken: BTreeMap<SourceId, (u64, u64)> = BTreeMap::new();
    let mut charges = Vec::new();
    let stretches = series::stretches(run, series, &outliers)?;
    for i in outliers {
        let rank = Rank::new((i % series.ranks) as u32);
        let begin = series.begins[i];
        // The turn of a way that this step belongs to, or the phase itself.
        let mine = |w: &Watch| {
            let within = (w.begin..w.end).contains(&begin);
            (within, w.phase == series.phase)
        };
        let of_rank = watches.iter().filter(|w| w.rank == Some(rank));
        let known = of_rank.filter(|w| mine(w) != (false, false));
        let Some(watch) = known.min_by_key(|w| std::cmp::Reverse(mine(w))) else {
            continue;
        };
        charges.clear();
        for &(begin, end) in stretches.get(&i).into_iter().flatten() {
            charger.charges(watch, begin, end, &mut charges);
        }
        let mut here: BTreeMap<SourceId, u64> = BTreeMap::new();
        for c in &charges {
            *here.entry(c.source).or_default() += c.length();
        }
        if charger.kernels.are_blind(watch.node) {
            let beyond = series.durations[i].saturating_sub(usual);
            here.insert(charger.unexplained(Some(watch)), beyond);
        }
        for (&source, &time) in &here {
            taken.entry(source).or_default().0 += time;
        }
        let most = here
            .into_iter()
            .max_by_key(|&(id, t)| (t, std::cmp::Reverse(id)));
        if let Some((source, _)) = most {
            taken.entry(source).or_default().1 += 1;
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests;
