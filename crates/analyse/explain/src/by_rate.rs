//! What a step costs where noise struck more rarely or more often, in one lockstep run.
//!
//! The run is cut into windows of successive steps. A window's rate is the number of strikes on all
//! ranks in it, each rank's own iterations counted, per rank and step (not over its time, which grows
//! with what strikes cost); its cost is the mean excess of its links of the chain over the undisturbed step. What slow levels add is left out, and
//! the mean excess of links in which no rank was struck is subtracted. Windows are short, so that by
//! chance alone their rates differ.
//!
//! Assumptions: windows are independent, and a strike costs nothing after its window. Windows with
//! more strikes may have longer ones: the exponent is that of the cost in mean lengths of the window's
//! own strikes, the groups are as measured. Source: docs/method.md, "The square-root law".

use crate::steps::{RankSeries, Step};
use idlewave_run::findings::{Estimate, MeasuredRate, MeasuredRates};
use idlewave_stats::distributions::student_quantile;
use idlewave_stats::mean_power::{self, Window};
use idlewave_units::Nanos;

/// Strikes of a window, on average.
const STRIKES: f64 = 8.0;
/// Least steps of a window.
const LEAST_STEPS: usize = 16;
/// Most windows; beyond, they are longer.
const MOST_WINDOWS: usize = 10_000;
/// Groups of windows.
const GROUPS: usize = 5;
/// A group of fewer windows is not shown.
const LEAST_OF_GROUP: usize = 8;
/// Fewer steps without a strike do not show the background.
const LEAST_QUIET: usize = 100;

/// Start and length of strikes on one rank, nanoseconds.
pub type Strikes = Vec<(u64, u64)>;

/// A run: what its ranks did, and what struck them.
pub struct Struck<'a> {
    /// Start and arrival of every iteration, by rank.
    pub series: &'a [RankSeries],
    /// The chain of last arrivals, one link per iteration.
    pub chain: &'a [Step],
    /// Excess of every link of the chain over the undisturbed step, without what slow levels add,
    /// nanoseconds.
    pub excess: &'a [f64],
    /// What struck each rank.
    pub strikes: &'a [&'a Strikes],
    /// Undisturbed computation.
    pub work: Nanos,
}

/// Strikes on all ranks: their number, and the time that they took.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    count: u64,
    time: u64,
}

/// What the run shows; `None` without a strike.
pub fn by_rate(run: &Struck<'_>) -> Option<MeasuredRates> {
    let steps = run.chain.len();
    let taken = taken(run);
    let count: u64 = taken.iter().map(|t| t.count).sum();
    if count == 0 || run.series.is_empty() {
        return None;
    }
    let length = (STRIKES * steps as f64 / count as f64).ceil() as usize;
    let length = length.max(LEAST_STEPS).max(steps.div_ceil(MOST_WINDOWS));
    let background = background(run, &taken);
    let (first, last) = (run.chain.first()?, run.chain.last()?);
    // From strikes on all ranks and steps to those on one rank in an undisturbed computation.
    let each = run.series.len() as f64 * (last.end - first.begin).max(1) as f64 / steps as f64;
    let unit = run.work.as_f64() / each;
    let mut windows: Vec<(Taken, Window)> = (0..steps / length)
        .map(|w| w * length..(w + 1) * length)
        .map(|range| {
            let in_it = taken[range.clone()].iter();
            let in_it = in_it.fold(Taken::default(), |all, t| Taken {
                count: all.count + t.count,
                time: all.time + t.time,
            });
            let excess: f64 = run.excess[range.clone()].iter().sum();
            let window = Window {
                rate: in_it.count as f64 / range.len() as f64 * unit,
                scale: match in_it.count {
                    0 => 1.0,
                    n => (in_it.time as f64 / n as f64).max(1.0),
                },
                cost: excess / range.len() as f64 - background.unwrap_or(0.0),
            };
            (in_it, window)
        })
        .collect();
    let all: Vec<Window> = windows.iter().map(|(_, window)| *window).collect();
    let (exponent, unknown) = match mean_power::exponent(&all) {
        Ok(exponent) => (Some(exponent), None),
        Err(why) => (None, Some(why.to_string())),
    };
    windows.sort_by(|a, b| a.1.rate.total_cmp(&b.1.rate));
    Some(MeasuredRates {
        windows: all.len() as u64,
        steps: length as u64,
        background,
        groups: groups(&windows),
        exponent,
        unknown,
    })
}

/// What struck all ranks, per iteration: each rank's own, from its arrival before to this one.
fn taken(run: &Struck<'_>) -> Vec<Taken> {
    let mut all = vec![Taken::default(); run.chain.len()];
    for (series, strikes) in run.series.iter().zip(run.strikes) {
        let begin = series.begin.first().copied().unwrap_or(0);
        for &(at, length) in strikes.iter().filter(|s| s.0 >= begin) {
            let iteration = series.arrival.partition_point(|&arrival| arrival <= at);
            if let Some(taken) = all.get_mut(iteration) {
                taken.count += 1;
                taken.time += length;
            }
        }
    }
    all
}

/// Mean excess of links in which no rank was struck, nor in the iteration before.
fn background(run: &Struck<'_>, taken: &[Taken]) -> Option<f64> {
    let quiet = (1..taken.len()).filter(|&k| taken[k].count == 0 && taken[k - 1].count == 0);
    let quiet: Vec<f64> = quiet.map(|k| run.excess[k]).collect();
    (quiet.len() >= LEAST_QUIET).then(|| quiet.iter().sum::<f64>() / quiet.len() as f64)
}

/// Groups of equal size, by rate; windows of one rate are in one group.
fn groups(windows: &[(Taken, Window)]) -> Vec<MeasuredRate> {
    let mut out = Vec::new();
    let mut from = 0;
    for group in 1..=GROUPS {
        let mut to = group * windows.len() / GROUPS;
        while to > from && to < windows.len() && windows[to].0.count == windows[to - 1].0.count {
            to += 1;
        }
        if to < from + LEAST_OF_GROUP {
            continue;
        }
        out.extend(one_group(&windows[from..to]));
        from = to;
    }
    out
}

fn one_group(windows: &[(Taken, Window)]) -> Option<MeasuredRate> {
    let n = windows.len() as f64;
    let count: u64 = windows.iter().map(|(t, _)| t.count).sum();
    let taken: u64 = windows.iter().map(|(t, _)| t.time).sum();
    let mean = windows.iter().map(|(_, w)| w.cost).sum::<f64>() / n;
    let squares = windows.iter().map(|(_, w)| (w.cost - mean).powi(2));
    let half = student_quantile(0.975, n - 1.0) * (squares.sum::<f64>() / (n - 1.0) / n).sqrt();
    half.is_finite().then(|| MeasuredRate {
        strikes: windows.iter().map(|(_, w)| w.rate).sum::<f64>() / n,
        length: (count > 0).then(|| taken as f64 / count as f64),
        extra: Estimate {
            value: mean,
            low: mean - half,
            high: mean + half,
            n: windows.len() as u64,
            method: "mean over windows, Student's t, 95 %".to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Rank;

    /// Windows of 160 steps of 1000 ns on two ranks. Window w has 1 to 15 strikes, each of `length`
    /// nanoseconds by their number; its first step, which is struck, is longer by `extra` of it.
    fn made(length: impl Fn(u64) -> u64, extra: impl Fn(f64) -> f64) -> MeasuredRates {
        const WINDOW: u64 = 160;
        let mut series = vec![RankSeries::default(); 2];
        let mut strikes = vec![Vec::new(); 2];
        let (mut chain, mut excess) = (Vec::new(), Vec::new());
        let mut now = 1_000_000;
        for w in 0..330_u64 {
            let count = 1 + w * 7 % 15;
            // As often more as less than the law says.
            let off = if w / 15 % 2 == 0 { 0.7 } else { 1.3 };
            for k in 0..WINDOW {
                // A step without strikes is 3 ns longer than usual.
                let more = match k == 0 {
                    true => 3.0 + off * extra(count as f64),
                    false => 3.0,
                };
                let end = now + 1_000 + more.round() as u64;
                for rank in &mut series {
                    rank.begin.push(now);
                    rank.arrival.push(end);
                }
                if k < count {
                    strikes[(k % 2) as usize].push((now + 500, length(count)));
                }
                chain.push(Step {
                    iteration: chain.len() as u64,
                    rank: Rank::new(0),
                    released_by: Rank::new(0),
                    begin: now,
                    end,
                });
                excess.push(more);
                now = end;
            }
        }
        let strikes: Vec<&Strikes> = strikes.iter().collect();
        let run = Struck {
            series: &series,
            chain: &chain,
            excess: &excess,
            strikes: &strikes,
            work: Nanos::from_nanos(900),
        };
        by_rate(&run).expect("strikes")
    }

    fn exponent(found: &MeasuredRates) -> (f64, f64, f64) {
        let e = found.exponent.as_ref().expect("rates differ");
        (e.low, e.value, e.high)
    }

    #[test]
    fn a_cost_by_the_square_root_of_the_rate_has_exponent_one_half() {
        let found = made(|_| 700, |strikes| 5_000.0 * strikes.sqrt());
        // 8 strikes per window on average.
        assert_eq!((found.steps, found.windows), (160, 330));
        let (low, value, high) = exponent(&found);
        assert!(
            (value - 0.5).abs() < 0.02 && low <= 0.5 && 0.5 <= high,
            "{found:?}"
        );
        let costs: Vec<f64> = found.groups.iter().map(|g| g.extra.value).collect();
        assert!(costs.len() == 5 && costs.is_sorted(), "{costs:?}");
        assert!((found.background.expect("quiet steps") - 3.0).abs() < 0.1);
        let of = |g: &MeasuredRate| g.extra.value / g.strikes.sqrt();
        for group in &found.groups {
            assert!(
                (of(group) / of(&found.groups[4]) - 1.0).abs() < 0.05,
                "{group:?}"
            );
            assert_eq!(group.length, Some(700.0));
        }
        // 8 strikes in a window of 160 steps of two ranks, of which a step is computation for 0.83.
        let middle = found.groups.iter().map(|g| g.strikes).sum::<f64>() / 5.0;
        assert!(
            (middle / (8.0 / 320.0 * 0.83) - 1.0).abs() < 0.1,
            "{middle}"
        );
    }

    #[test]
    fn a_cost_in_proportion_to_the_rate_has_exponent_one() {
        let (low, value, high) = exponent(&made(|_| 700, |strikes| 2_000.0 * strikes));
        assert!(
            (value - 1.0).abs() < 0.05 && low <= value && value <= high,
            "{value}"
        );
    }

    #[test]
    fn longer_strikes_where_there_are_more_do_not_change_the_exponent() {
        let found = made(|n| 100 * n, |strikes| 500.0 * strikes * strikes.sqrt());
        let (_, value, _) = exponent(&found);
        assert!((value - 0.5).abs() < 0.02, "{value}");
        let lengths: Vec<f64> = found.groups.iter().filter_map(|g| g.length).collect();
        assert!(
            lengths.is_sorted() && lengths[4] > 2.0 * lengths[0],
            "{lengths:?}"
        );
    }

    #[test]
    fn without_strikes_nothing_is_said() {
        let series = [RankSeries {
            begin: vec![0, 10],
            arrival: vec![9, 19],
        }];
        let chain = crate::steps::chain(
            &series,
            &idlewave_run::WaitsFor::new(idlewave_run::Coupling::Barrier, &[], 1),
        );
        let run = Struck {
            series: &series,
            chain: &chain,
            excess: &[0.0, 0.0],
            strikes: &[&Vec::new()],
            work: Nanos::from_nanos(9),
        };
        assert_eq!(by_rate(&run), None);
    }
}
