//! The fixed work quantum on every CPU, read from the table without holding it.

use idlewave_run::tables::Quanta;
use idlewave_run::{PhaseKind, RunError, RunReader};
use idlewave_stats::levels::{Levels, Stays};
use idlewave_stats::series::{Series, Summary};
use idlewave_units::{Cpu, Nanos};
use std::collections::BTreeMap;

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
