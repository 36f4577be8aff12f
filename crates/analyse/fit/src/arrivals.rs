//! The law of arrivals, chosen by evidence in the order periodic, Poisson, trace.

use crate::periodic::Comb;
use idlewave_noise::{Arrivals, GoodnessOfFit};
use idlewave_stats::counts::{correlation_time, dispersion, in_windows};
use idlewave_stats::exponential_fit::{Tested, exponential};
use idlewave_stats::line::Joined;
use idlewave_units::Nanos;
use idlewave_units::show::percent;
use idlewave_units::{counted, grouped};

/// Fewer events cannot be distinguished from a Poisson process.
pub const LEAST: usize = 8;
/// A law is rejected below this probability.
pub const LEVEL: f64 = 0.01;
/// Distributions closer than this are equal for this purpose, even if a hundred thousand events
/// make the test reject.
const CLOSE: f64 = 0.03;
/// Counts with less dispersion than this still count as a Poisson process.
const DISPERSION: f64 = 1.5;
/// Maximum number of windows whose counts are compared.
const WINDOWS: usize = 50;
/// Least mean number of events per window.
const PER_WINDOW: usize = 5;
/// A block of a trace lasts at least `BLOCK_TIMES` correlation times and `BLOCK_GAPS` mean gaps.
const BLOCK_TIMES: f64 = 20.0;
const BLOCK_GAPS: f64 = 20.0;
/// Least number of blocks in a trace; with fewer it is repeated as a whole.
const BLOCKS: f64 = 10.0;
/// Maximum number of events kept from a trace.
const KEPT: usize = 20_000;

/// A law of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// On a comb.
    Periodic(Comb),
    /// Random.
    Poisson,
    /// As recorded, in blocks.
    Trace {
        /// Length of a block in nanoseconds; `None` for the whole recording.
        block_ns: Option<u64>,
    },
}

/// The law with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The law.
    pub law: Law,
    /// Tests.
    pub tests: Vec<GoodnessOfFit>,
    /// Probability of the data under the law; `None` for a trace, or with too few events.
    pub p: Option<f64>,
    /// The reason, as a sentence without the full stop.
    pub why: String,
}

/// A test in the form of the model. A probability below the resolution of any test here is 0.
pub fn test(what: impl Into<String>, test: &str, found: Tested) -> GoodnessOfFit {
    const KNOWN: f64 = 1e-12;
    GoodnessOfFit {
        what: what.into(),
        test: test.to_owned(),
        statistic: rounded(found.statistic),
        p: if found.p < KNOWN {
            0.0
        } else {
            rounded(found.p)
        },
    }
}

/// Rounded to six digits, more than any test or interval here provides.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    let factor = 10_f64.powi(digits.clamp(-300, 300));
    (value * factor).round() / factor
}

/// Chooses the law of events; `comb` is that of the joined lines, if they have one.
pub fn choose(comb: Option<Comb>, joined: &Joined) -> Chosen {
    let n = joined.events.len();
    let mut tests = Vec::new();
    let mut gaps: Vec<f64> = joined.gaps().into_iter().map(|g| g as f64).collect();
    gaps.sort_by(f64::total_cmp);
    let of_gaps = exponential(&gaps);
    if let Some(found) = of_gaps {
        let name = "Kolmogorov-Smirnov, Lilliefors";
        tests.push(test("gaps are exponential", name, found));
    }
    if n < LEAST {
        return Chosen {
            law: Law::Poisson,
            tests,
            p: None,
            why: format!("random is assumed, as there are fewer than {LEAST} events"),
        };
    }
    if let Some(comb) = comb {
        let what = "lateness on the comb is even";
        tests.push(test(what, "Kolmogorov-Smirnov", comb.lateness));
        let struck = comb.struck.len() as f64 / comb.teeth.max(1) as f64;
        let why = format!(
            "{} of the teeth of a comb of {} are struck",
            percent(struck),
            Nanos::from_nanos(comb.period.round() as u64)
        );
        return Chosen {
            p: Some(comb.lateness.p),
            law: Law::Periodic(comb),
            tests,
            why,
        };
    }
    let windows = (n / PER_WINDOW).clamp(2, WINDOWS);
    let begins = || joined.events.iter().map(|e| e[0]);
    let of_counts = dispersion(&in_windows(begins(), joined.time, windows));
    if let Some(found) = of_counts {
        let what = "counts vary no more than a Poisson process's";
        tests.push(test(what, "index of dispersion, chi-squared", found));
    }
    let like =
        |t: Option<Tested>, close: f64| t.is_none_or(|t| t.p >= LEVEL || t.statistic <= close);
    if like(of_gaps, CLOSE) && like(of_counts, DISPERSION) {
        let p = match (of_gaps, of_counts) {
            (Some(a), Some(b)) => Some(a.p.min(b.p)),
            (a, b) => a.or(b).map(|t| t.p),
        };
        return Chosen {
            law: Law::Poisson,
            tests,
            p,
            why: "gaps and counts are those of a Poisson process".to_owned(),
        };
    }
    let fine = (n / PER_WINDOW).clamp(16, 4_096);
    let width = joined.time as f64 / fine as f64;
    let memory = width * correlation_time(&in_windows(begins(), joined.time, fine));
    let block = (BLOCK_TIMES * memory).max(BLOCK_GAPS * joined.time as f64 / n as f64);
    let block_ns = (block * BLOCKS <= joined.time as f64).then_some(block.ceil() as u64);
    let blocks = match block_ns {
        Some(ns) => format!(
            "replayed in blocks of {}, {BLOCK_TIMES:.0} times their memory or {BLOCK_GAPS:.0} gaps",
            Nanos::from_nanos(ns)
        ),
        None => "replayed as a whole: blocks would be longer than a tenth of it".to_owned(),
    };
    let because = match like(of_gaps, CLOSE) {
        true => "counts vary more than at random",
        false => "gaps are not exponential and there is no comb",
    };
    Chosen {
        law: Law::Trace { block_ns },
        tests,
        p: None,
        why: format!("{because}; {blocks}"),
    }
}

/// A trace of the joined events. If there are too many, it keeps only some blocks, and a note says
/// what was left out.
pub fn trace(joined: &Joined, block_ns: Option<u64>) -> (Arrivals, Option<String>) {
    let all = joined.events.len();
    if all <= KEPT {
        let arrivals = Arrivals::Trace {
            watched_ns: joined.time,
            block_ns,
            events: joined.events.clone(),
        };
        return (arrivals, None);
    }
    // Spread over the watched time, so that slow changes stay in the trace. However many events
    // there are, at least one block is kept.
    let most = (joined.time as u128 * KEPT as u128 / all as u128 / 2) as u64;
    let block = block_ns.unwrap_or(joined.time / 20).min(most).max(1);
    let blocks = (joined.time / block).max(1);
    let share = |block: u64| block as u128 * KEPT as u128 / all as u128;
    let mut events = Vec::new();
    let mut kept = 0;
    for number in (0..blocks).filter(|&n| share(n + 1) > share(n)) {
        let begin = number * block;
        let from = joined.events.partition_point(|e| e[0] < begin);
        let to = joined.events.partition_point(|e| e[0] < begin + block);
        events.extend(
            joined.events[from..to]
                .iter()
                .map(|e| [kept * block + (e[0] - begin), e[1]]),
        );
        kept += 1;
    }
    let said = format!(
        "the trace keeps {} of {all}, in {kept} of {blocks} blocks",
        grouped(events.len() as u64),
        all = counted(all, "event")
    );
    let arrivals = Arrivals::Trace {
        watched_ns: kept * block,
        block_ns: Some(block),
        events,
    };
    (arrivals, Some(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_more_even_than_random_ones_are_not_taken_for_them() {
        let mut random = idlewave_stats::random::SplitMix::new(1);
        let mut gap = |parts: u32| -> u64 {
            let sum: f64 = (0..parts).map(|_| -random.uniform().ln()).sum();
            (1e6 * sum / f64::from(parts)) as u64
        };
        let mut joined = |parts: u32| {
            let mut time = 0;
            let events = (0..2_000).map(|_| {
                time += gap(parts);
                [time, 1]
            });
            let events = events.collect();
            Joined {
                time: time + 1,
                events,
            }
        };
        assert_eq!(choose(None, &joined(1)).law, Law::Poisson);
        // Each gap is the mean of two exponential draws: a distance of 0.1.
        let chosen = choose(None, &joined(2));
        assert!(matches!(chosen.law, Law::Trace { .. }), "{chosen:?}");
    }

    #[test]
    fn a_long_trace_keeps_whole_blocks_from_begin_to_end_and_says_so() {
        let joined = Joined {
            time: 100_000_000,
            events: (0..100_000).map(|i| [i * 1_000 + 7, i]).collect(),
        };
        let (arrivals, said) = trace(&joined, Some(1_000_000));
        let Arrivals::Trace {
            watched_ns,
            block_ns,
            events,
        } = arrivals
        else {
            panic!("{arrivals:?}");
        };
        assert_eq!((watched_ns, block_ns), (20_000_000, Some(1_000_000)));
        assert_eq!(events.len(), 20_000);
        assert_eq!(events[1_000], [1_000_007, 9_000]);
        assert!(said.unwrap().contains("20,000 of 100,000 events"));
        // So many that a block of the requested length would hold more than are kept.
        for block in [None, Some(50_000_000)] {
            let very_many = Joined {
                time: 500_000_000,
                events: (0..500_000).map(|i| [i * 1_000, 1]).collect(),
            };
            let (arrivals, _) = trace(&very_many, block);
            let Arrivals::Trace {
                watched_ns, events, ..
            } = arrivals
            else {
                panic!("{arrivals:?}");
            };
            assert!(
                (KEPT / 2..=KEPT).contains(&events.len()),
                "{}",
                events.len()
            );
            let rate = events.len() as f64 / watched_ns as f64;
            assert!((rate * 1_000.0 - 1.0).abs() < 1e-3, "{rate}");
        }
        let short = Joined {
            time: 10,
            events: vec![[1, 2]],
        };
        assert_eq!(trace(&short, None).1, None);
    }
}
