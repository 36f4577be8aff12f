//! The fixed work quantum on every CPU, read from the table without holding it.

use idlewave_run::findings::TimeStretch;
use idlewave_run::tables::Quanta;
use idlewave_run::{PhaseKind, RunError, RunReader};
use idlewave_stats::levels::{Levels, Stays};
use idlewave_stats::series::{Series, Summary};
use idlewave_stats::windows::Window;
use idlewave_units::{Cpu, Nanos};
use std::collections::BTreeMap;

/// Stretches of durations over time at most.
const STRETCHES: usize = 400;

/// The quanta of one phase on one CPU.
#[derive(Debug)]
pub struct Work {
    /// What one pass tells of them.
    pub summary: Summary,
    /// Their speed levels.
    pub levels: Levels,
}

impl Work {
    /// From the start of the first quantum to the end of the last.
    pub fn span(&self) -> Nanos {
        let windows = &self.summary.windows;
        let ends = windows.first().zip(windows.last());
        Nanos::from_nanos(ends.map_or(0, |(first, last)| last.end.saturating_sub(first.begin)))
    }

    /// Durations over time; successive windows are merged, so that there are few enough.
    pub fn over_time(&self) -> Vec<TimeStretch> {
        stretches(&self.summary.windows)
    }
}

/// The quanta of every phase of fixed work and every CPU. The table is read once, and again if the
/// speed of a CPU switched.
///
/// # Errors
/// The table cannot be read.
pub fn fixed_work(run: &RunReader) -> Result<BTreeMap<(u32, Cpu), Work>, RunError> {
    let phases = &run.manifest().phases;
    let span = |phase: u32| {
        let phase = phases.get(phase as usize)?;
        let fixed = matches!(phase.kind, PhaseKind::FixedWork { .. });
        fixed.then(|| phase.end_ns.saturating_sub(phase.begin_ns))
    };
    let mut open: BTreeMap<(u32, Cpu), Series> = BTreeMap::new();
    each(run, |key, end, duration| {
        if let Some(series) = open.get_mut(&key) {
            series.push(end, duration);
        } else if let Some(span) = span(key.0) {
            open.entry(key)
                .or_insert(Series::new(span))
                .push(end, duration);
        }
    })?;
    let summaries: Vec<_> = open.into_iter().map(|(k, s)| (k, s.finish())).collect();
    let stays = summaries.iter().map(|(k, s)| (*k, Stays::of(&s.windows)));
    let mut stays: BTreeMap<(u32, Cpu), Stays> = stays.collect();
    if stays.values().any(Stays::has_switches) {
        each(run, |key, end, duration| {
            if let Some(stays) = stays.get_mut(&key) {
                stays.push(end, duration);
            }
        })?;
    }
    let all = summaries.into_iter().zip(stays.into_values());
    Ok(all
        .map(|((key, summary), stays)| {
            let levels = stays.finish();
            (key, Work { summary, levels })
        })
        .collect())
}

fn stretches(windows: &[Window]) -> Vec<TimeStretch> {
    let begin = windows.first().map_or(0, |w| w.begin);
    let each = windows.len().div_ceil(STRETCHES).max(1);
    let merged = windows.chunks(each).map(|some| {
        let mut medians: Vec<u64> = some.iter().map(|w| w.median).collect();
        let middle = medians.len() / 2;
        let median = *medians.select_nth_unstable(middle).1;
        let lower = some.iter().fold(median, |l, w| l.min(w.quartiles[0]));
        let upper = some.iter().fold(median, |u, w| u.max(w.quartiles[2]));
        TimeStretch {
            begin: Nanos::from_nanos(some[0].begin.saturating_sub(begin)),
            lower: Nanos::from_nanos(lower),
            median: Nanos::from_nanos(median),
            upper: Nanos::from_nanos(upper),
        }
    });
    merged.collect()
}

/// Calls `see` with phase and CPU, end and duration of every quantum.
fn each(run: &RunReader, mut see: impl FnMut((u32, Cpu), u64, u64)) -> Result<(), RunError> {
    run.for_each::<Quanta>(|q| {
        let duration = q.duration.get();
        see(
            (q.phase, q.cpu),
            q.begin_ns.saturating_add(duration),
            duration,
        );
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_stats::windows::windows;

    #[test]
    fn any_number_of_windows_gives_at_most_400_stretches_that_hide_no_slow_one() {
        // Windows of 5 ms with five quanta each; in every hundredth window, all are twice as long.
        let length = |i: usize| {
            if i / 5 % 100 == 50 {
                2_000_000
            } else {
                1_000_000
            }
        };
        let durations: Vec<u64> = (0..15_000).map(length).collect();
        let mut now = 7_000;
        let ends: Vec<u64> = durations
            .iter()
            .map(|d| {
                now += d;
                now
            })
            .collect();
        let all = windows(&ends, &durations);
        assert!(all.len() > 2_900);
        let found = stretches(&all);
        assert!((350..=400).contains(&found.len()), "{}", found.len());
        assert_eq!(found[0].begin, Nanos::ZERO);
        assert!(found.windows(2).all(|w| w[0].begin < w[1].begin));
        assert!(
            found
                .iter()
                .all(|s| s.median.get() == 1_000_000 && s.lower == s.median)
        );
        let slow = found.iter().filter(|s| s.upper.get() == 2_000_000);
        assert!((28..=32).contains(&slow.count()));
        // A short series keeps its windows.
        let few = stretches(&all[..100]);
        assert_eq!(few.len(), 100);
        assert_eq!(few[50].median.get(), 2_000_000);
        assert!(stretches(&[]).is_empty());
    }
}
