//! Work lost on a CPU, from the fixed time quantum.
//!
//! Definition: a quantum's rate is its units over its time. The reference is the rate on the fastest
//! speed level, as for the fixed work quantum: the median of its windows, not the most, which one lucky
//! quantum decides. Work lost is 1 - units / (reference x time), over all quanta together, so that
//! neither the whole number of units nor a late end of a quantum adds or hides anything. It is the
//! share f that belongs to a slow-down s of the fixed work quantum: s = f / (1 - f).
//!
//! Bias: work is lost to slow levels as well. A CPU that is slow throughout loses nothing.
//!
//! Source: Sottile and Minnich, CLUSTER 2004.

use idlewave_run::findings::{Estimate, FixedTimeFindings, Periodicity, WorkStretch};
use idlewave_run::tables::Quanta;
use idlewave_run::{RunError, RunReader, WorkKernel};
use idlewave_stats::{blocks, levels, periodicity, quantiles};
use idlewave_units::{Cpu, Nanos};
use std::collections::BTreeMap;

/// Stretches of time of which the work is kept, at most: more than a plot has room for.
const STRETCHES: u64 = 400;
/// A quantum has lost work if it lacks so many robust standard deviations, and so many units.
const DEVIATIONS: f64 = 5.0;
const UNITS: f64 = 2.0;
/// How many times the median a long loss has lost.
const LONG: f64 = 3.0;
/// Relative distance within which two periods are the same.
const SAME: f64 = 0.01;
/// Turns of a circle by which the unknown moments of losses within their quanta follow each other:
/// the golden ratio, which fills an interval most evenly.
const TURN: f64 = 0.618_033_988_749_895;

/// A fixed time quantum, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub begin: u64,
    pub duration: u64,
    pub units: u64,
}

impl Counted {
    /// Units per nanosecond.
    fn rate(&self) -> f64 {
        self.units as f64 / self.duration.max(1) as f64
    }

    /// Time that it lacks at a rate, in nanoseconds.
    fn missing(&self, rate: f64) -> f64 {
        self.duration as f64 - self.units as f64 / rate
    }
}

/// The quanta of every phase of fixed time and every CPU, in order of time.
pub fn fixed_times(run: &RunReader) -> Result<BTreeMap<(u32, Cpu), Vec<Counted>>, RunError> {
    let mut all: BTreeMap<(u32, Cpu), Vec<Counted>> = BTreeMap::new();
    run.for_each::<Quanta>(|q| {
        if let Some(units) = q.units {
            all.entry((q.phase, q.cpu)).or_default().push(Counted {
                begin: q.begin_ns,
                duration: q.duration.get(),
                units,
            });
        }
    })?;
    Ok(all)
}

/// What quanta in order of time show, whatever their work was; `None` without any.
pub fn fixed_time_findings(interval: Nanos, quanta: &[Counted]) -> Option<FixedTimeFindings> {
    let most = quanta
        .iter()
        .map(|q| q.units)
        .max()
        .filter(|most| *most > 0)?;
    let (first, last) = (quanta.first()?, quanta.last()?);
    let rate = undisturbed(interval, quanta, most)?;
    let mut units: Vec<u64> = quanta.iter().map(|q| q.units).collect();
    units.sort_unstable();
    let missing: Vec<f64> = quanta.iter().map(|q| q.missing(rate)).collect();
    let largest = missing.iter().copied().fold(0.0, f64::max);
    let span = [first.begin, last.begin.saturating_add(last.duration)];
    Some(FixedTimeFindings {
        interval,
        work_steps: 0,
        kernel: WorkKernel::default(),
        array: None,
        count: quanta.len() as u64,
        reference: rate * interval.as_f64(),
        most,
        median: units[units.len() / 2],
        overrun: quanta
            .iter()
            .filter(|q| q.duration >= 2 * interval.get())
            .count() as u64,
        lost: lost(quanta, rate, span),
        largest: Nanos::from_nanos(largest.round() as u64),
        periods: periods(interval, quanta, &missing, 1.0 / rate),
        work: stretches(quanta, rate, span),
    })
}

/// Units per nanosecond on the fastest speed level.
fn undisturbed(interval: Nanos, quanta: &[Counted], most: u64) -> Option<f64> {
    // Of a short rest after an overrun, the whole number of units tells little.
    let whole = quanta
        .iter()
        .filter(|q| q.units > 0 && q.duration >= interval.get() / 2);
    // The time that each would have taken for the same work.
    let same = |q: &Counted| (most as f64 / q.rate()).round() as u64;
    let of = |q: &Counted| (q.begin.saturating_add(q.duration), same(q));
    let (ends, times): (Vec<u64>, Vec<u64>) = whole.map(of).unzip();
    let fastest = levels::segment(&ends, &times).fastest();
    let fastest = fastest.or_else(|| times.iter().copied().min())?;
    Some(most as f64 / fastest.max(1) as f64)
}

/// Share of work lost, with an interval over blocks of time.
fn lost(quanta: &[Counted], rate: f64, span: [u64; 2]) -> Estimate {
    let sums = by_time(quanta, span, blocks::BLOCKS as u64);
    let share = |[units, time]: [f64; 2]| 1.0 - units / (rate * time).max(f64::MIN_POSITIVE);
    let parts: Vec<f64> = sums
        .iter()
        .filter(|s| s[1] > 0.0)
        .map(|s| share(*s))
        .collect();
    let total = sums.iter().fold([0.0; 2], |[a, b], s| [a + s[0], b + s[1]]);
    let value = share(total).max(0.0);
    let half = blocks::mean(&parts, blocks::BLOCKS).half_width;
    Estimate {
        value,
        low: (value - half).max(0.0),
        high: (value + half).min(1.0),
        n: quanta.len() as u64,
        method: format!(
            "1 - work / (rate on the fastest level x time); 95 % interval over {} blocks",
            parts.len()
        ),
    }
}

/// Units and time of the quanta that begin in each of `n` equal parts of a time.
fn by_time(quanta: &[Counted], [begin, end]: [u64; 2], n: u64) -> Vec<[f64; 2]> {
    let mut sums = vec![[0.0; 2]; n as usize];
    for q in quanta {
        let sum = &mut sums[part(q, begin, end, n)];
        sum[0] += q.units as f64;
        sum[1] += q.duration as f64;
    }
    sums
}

fn part(q: &Counted, begin: u64, end: u64, n: u64) -> usize {
    let span = u128::from(end.saturating_sub(begin).max(1));
    let at = u128::from(q.begin.saturating_sub(begin)) * u128::from(n) / span;
    at.min(u128::from(n - 1)) as usize
}

/// Periods at which work is lost: of all losses, and of the long ones alone, which many short ones of
/// another period would hide. Successive quanta that lost work are one loss. Within its quantum, the
/// moment of a loss is not known: it is put anywhere, and periods below two intervals are not looked
/// at.
fn periods(interval: Nanos, quanta: &[Counted], missing: &[f64], unit: f64) -> Vec<Periodicity> {
    let losses = losses(quanta, missing, unit);
    let lengths: Vec<f64> = losses.iter().map(|l| l.1).collect();
    let long = LONG * quantiles::median_of(&lengths).unwrap_or_default();
    let of = |least: f64| {
        let longer = losses.iter().filter(|l| l.1 >= least).enumerate();
        let times = longer.map(|(i, (begin, _))| {
            let at = (i as f64 * TURN).fract() * interval.as_f64();
            begin.saturating_add(at as u64)
        });
        periodicity::periods(&times.collect::<Vec<u64>>())
    };
    let mut found = of(long);
    for period in of(0.0) {
        let same = |f: &Periodicity| (f.period.value / period.period.value - 1.0).abs() < SAME;
        if !found.iter().any(same) {
            found.push(period);
        }
    }
    found.retain(|p| p.period.value >= 2.0 * interval.as_f64());
    found.sort_by(|a, b| b.power.total_cmp(&a.power));
    found
}

/// Start of the first quantum and time lost, of each loss.
fn losses(quanta: &[Counted], missing: &[f64], unit: f64) -> Vec<(u64, f64)> {
    let Some(centre) = quantiles::median_of(missing) else {
        return Vec::new();
    };
    let off: Vec<f64> = missing.iter().map(|m| (m - centre).abs()).collect();
    let deviation = 1.482_6 * quantiles::median_of(&off).unwrap_or_default();
    let least = centre + (DEVIATIONS * deviation).max(UNITS * unit);
    let mut losses: Vec<(u64, f64)> = Vec::new();
    let mut goes_on = false;
    for (q, &missing) in quanta.iter().zip(missing) {
        match losses.last_mut().filter(|_| goes_on && missing > least) {
            Some(last) => last.1 += missing,
            None if missing > least => losses.push((q.begin, missing)),
            None => {}
        }
        goes_on = missing > least;
    }
    losses
}

fn stretches(quanta: &[Counted], rate: f64, [begin, end]: [u64; 2]) -> Vec<WorkStretch> {
    let n = STRETCHES.min(quanta.len() as u64);
    let mut least = vec![f64::INFINITY; n as usize];
    for q in quanta {
        let least = &mut least[part(q, begin, end, n)];
        *least = least.min(q.rate() / rate);
    }
    let width = end.saturating_sub(begin) as f64 / n as f64;
    let sums = by_time(quanta, [begin, end], n);
    let all = sums.iter().zip(least).enumerate();
    all.filter(|(_, (sum, _))| sum[1] > 0.0)
        .map(|(i, (sum, least))| WorkStretch {
            begin: Nanos::from_nanos((i as f64 * width) as u64),
            mean: sum[0] / sum[1] / rate,
            least,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five seconds of quanta of 100 us as the loop makes them, with units of 500 ns; interruptions of
    /// some length begin every period, both in nanoseconds.
    fn measured(interruptions: &[(u64, u64)]) -> Vec<Counted> {
        let mut now = 0_u64;
        let mut next: Vec<u64> = interruptions
            .iter()
            .map(|(_, period)| 333_333 + period / 3)
            .collect();
        let mut quanta = Vec::new();
        while now < 5_000_000_000 {
            let (begin, end) = (now, (now / 100_000 + 1) * 100_000);
            let mut units = 0;
            while now < end {
                now += 500;
                for ((length, period), next) in interruptions.iter().zip(&mut next) {
                    while now > *next {
                        now += length;
                        *next += period;
                    }
                }
                units += 1;
            }
            quanta.push(Counted {
                begin,
                duration: now - begin,
                units,
            });
        }
        quanta
    }

    fn found(interruptions: &[(u64, u64)]) -> FixedTimeFindings {
        let quanta = measured(interruptions);
        fixed_time_findings(Nanos::from_micros(100), &quanta).expect("quanta")
    }

    #[test]
    fn a_rare_long_loss_among_frequent_short_ones_has_its_own_period() {
        let seen = found(&[(15_000, 4_000_000), (500_000, 10_000_000)]);
        let has = |period: f64| {
            let near = |p: &Periodicity| (p.period.value / period - 1.0).abs() < 1e-3;
            seen.periods.iter().any(near)
        };
        assert!(has(10e6), "{:?}", seen.periods);
        let share = 15.0 / 4_000.0 + 0.05;
        assert!(
            (seen.lost.value / share - 1.0).abs() < 0.02,
            "{:?}",
            seen.lost
        );
    }

    #[test]
    fn an_undisturbed_cpu_loses_nothing() {
        let quiet = found(&[]);
        assert_eq!((quiet.reference, quiet.most), (200.0, 200));
        assert_eq!((quiet.lost.value, quiet.overrun), (0.0, 0));
        assert!(quiet.periods.is_empty(), "{:?}", quiet.periods);
        assert!(quiet.work.iter().all(|w| w.mean == 1.0 && w.least == 1.0));
    }

    #[test]
    fn what_is_lost_and_how_often_is_what_was_taken() {
        for (length, period) in [
            (20_000, 4_000_000),
            (50_000, 99_900_000),
            (2_000_000, 10_000_000),
        ] {
            let seen = found(&[(length, period)]);
            let share = length as f64 / period as f64;
            assert!((seen.reference - 200.0).abs() < 0.3, "{seen:?}");
            assert!(
                (seen.lost.value / share - 1.0).abs() < 0.02,
                "{}",
                seen.lost.value
            );
            assert!(
                seen.lost.low <= share + 1e-6 && share - 1e-6 <= seen.lost.high,
                "{:?}",
                seen.lost
            );
            let comb = seen.periods.first().expect("a period");
            assert!(
                (comb.period.value / period as f64 - 1.0).abs() < 1e-3,
                "{comb:?}"
            );
            assert_eq!(seen.overrun > 0, length >= 200_000);
            assert!(
                seen.largest.get().abs_diff(length) <= 1_000,
                "{}",
                seen.largest
            );
        }
    }

    #[test]
    fn quanta_without_work_are_no_findings() {
        assert!(fixed_time_findings(Nanos::from_micros(100), &[]).is_none());
    }
}
