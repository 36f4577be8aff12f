//! Computations that all ranks repeat, as recorded in a run.

use crate::ExplainError;
use crate::step_series::StepSeries;
use crate::turns;
use crate::watched::ranks_of;
use idlewave_run::tables::{Marks, RegionKind, Regions};
use idlewave_run::{PhaseKind, RunReader};
use idlewave_units::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer steps are not a series.
const LEAST_STEPS: usize = 2;
/// Marked regions analysed, those with the most time first.
const MOST_MARKS: usize = 8;

/// Sizes of the messages whose round trips are analysed: the latency, a usual message, and one that
/// is all bandwidth.
const PING_PONG: [u64; 3] = [0, 1 << 10, 1 << 20];

/// The steps of every rank. Columns of their own: each is freed when it has been brought into the
/// order of the steps.
struct Lists {
    begins: Vec<Vec<u64>>,
    durations: Vec<Vec<u64>>,
}

impl Lists {
    /// Without any step.
    fn new(ranks: usize) -> Self {
        Self {
            begins: vec![Vec::new(); ranks],
            durations: vec![Vec::new(); ranks],
        }
    }

    /// The next step of a rank.
    fn push(&mut self, rank: usize, begin: u64, duration: u64) {
        self.begins[rank].push(begin);
        self.durations[rank].push(duration);
    }

    /// More of a rank's last step.
    fn add(&mut self, rank: usize, duration: u64) {
        if let Some(last) = self.durations[rank].last_mut() {
            *last += duration;
        }
    }

    /// The steps that all ranks have, starting with the first; `None` if there are too few.
    fn series(self, phase: u32, name: String) -> Option<StepSeries> {
        let ranks = self.begins.len();
        let steps = self.begins.iter().map(Vec::len).min()?;
        if steps < LEAST_STEPS {
            return None;
        }
        let by_step = |column: Vec<Vec<u64>>| -> Vec<u64> {
            let values = (0..steps).flat_map(|s| column.iter().map(move |list| list[s]));
            let mut all = Vec::with_capacity(steps * ranks);
            all.extend(values);
            all
        };
        Some(StepSeries {
            phase,
            name,
            ranks,
            durations: by_step(self.durations),
            begins: by_step(self.begins),
        })
    }
}

/// The region that is analysed in a phase of this kind, and its name.
fn wanted(kind: &PhaseKind) -> Option<(RegionKind, String)> {
    match kind {
        PhaseKind::MolecularDynamics { .. } => Some((RegionKind::Force, "forces".to_owned())),
        // The turns of a way are one series.
        PhaseKind::Lockstep { turn: Some(_), .. } => None,
        PhaseKind::Lockstep { coupling, .. } => Some((
            RegionKind::Compute,
            format!("computation ({})", coupling.name()),
        )),
        PhaseKind::Benchmark(sheet) => Some((
            RegionKind::Compute,
            format!("computation ({})", sheet.benchmark),
        )),
        PhaseKind::PingPong { bytes, .. } if PING_PONG.contains(bytes) => Some((
            RegionKind::RoundTrip,
            format!("round trips of {}", counted(*bytes, "byte")),
        )),
        PhaseKind::PingPong { .. }
        | PhaseKind::Scaling(_)
        | PhaseKind::Detour { .. }
        | PhaseKind::FixedWork { .. }
        | PhaseKind::FixedTime { .. }
        | PhaseKind::Recorded { .. } => None,
    }
}

/// Calls `each` with every series of a run, in order of phases; ways that took turns come next. One
/// phase, or way, is in memory at a time.
pub fn for_each(
    run: &RunReader,
    mut each: impl FnMut(StepSeries) -> Result<(), ExplainError>,
) -> Result<(), ExplainError> {
    let manifest = run.manifest();
    for (number, phase) in manifest.phases.iter().enumerate() {
        if let Some((region, name)) = wanted(&phase.kind) {
            // A rank that took part but has no records leaves no step that all ranks have.
            let ranks = match phase.kind {
                // Those that begin.
                PhaseKind::PingPong { pairs, .. } => manifest.ranks.len().min(pairs as usize),
                _ => ranks_of(manifest, &phase.kind),
            };
            let steps = regions(run, number as u32, region, ranks)?;
            if let Some(series) = steps.series(number as u32, name) {
                each(series)?;
            }
        }
    }
    turns::for_each_way(run, &mut each)?;
    let recorded = manifest
        .phases
        .iter()
        .position(|p| matches!(p.kind, PhaseKind::Recorded { .. }));
    if let Some(phase) = recorded {
        marks(run, manifest.ranks.len(), phase as u32)?
            .into_iter()
            .try_for_each(each)?;
    }
    Ok(())
}

/// The computations of a run that all ranks repeat, without their begins.
///
/// # Errors
/// A table cannot be read.
pub fn step_series(run: &RunReader) -> Result<Vec<StepSeries>, ExplainError> {
    let mut all = Vec::new();
    for_each(run, |mut series| {
        series.begins = Vec::new();
        all.push(series);
        Ok(())
    })?;
    Ok(all)
}

/// The steps of the first `ranks` ranks in a phase.
fn regions(
    run: &RunReader,
    phase: u32,
    region: RegionKind,
    ranks: usize,
) -> Result<Lists, ExplainError> {
    let mut lists = Lists::new(ranks);
    run.for_each::<Regions>(|r| {
        if r.phase != phase || r.kind != region {
            return;
        }
        let rank = r.rank.index();
        // After a lost block, the rest of this rank's records cannot be used.
        let Some(next) = lists.begins.get(rank).map(|list| list.len() as u64) else {
            return;
        };
        if r.begin_ns > r.end_ns {
            return;
        }
        let length = r.end_ns - r.begin_ns;
        if next == r.iteration {
            lists.push(rank, r.begin_ns, length);
        } else if r.iteration.checked_add(1) == Some(next) {
            // Computations of benchmarks are in several stretches.
            lists.add(rank, length);
        }
    })?;
    Ok(lists)
}

/// Begins and ends of the stretches of these computations, by their places in the series.
pub fn stretches(
    run: &RunReader,
    series: &StepSeries,
    places: &[usize],
) -> Result<BTreeMap<usize, Vec<(u64, u64)>>, ExplainError> {
    let mut found: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    let phase = run.manifest().phases.get(series.phase as usize);
    if !phase.is_some_and(|phase| matches!(phase.kind, PhaseKind::Benchmark(_))) {
        let whole = |&i: &usize| (series.begins[i], series.begins[i] + series.durations[i]);
        found.extend(places.iter().map(|i| (*i, vec![whole(i)])));
        return Ok(found);
    }
    let wanted: BTreeSet<usize> = places.iter().copied().collect();
    run.for_each::<Regions>(|r| {
        let step = usize::try_from(r.iteration).unwrap_or(usize::MAX);
        let place = step
            .saturating_mul(series.ranks)
            .saturating_add(r.rank.index());
        let of_series = r.phase == series.phase && r.rank.index() < series.ranks;
        if of_series && r.kind == RegionKind::Compute && wanted.contains(&place) {
            found.entry(place).or_default().push((r.begin_ns, r.end_ns));
        }
    })?;
    Ok(found)
}

/// Regions of one name that every rank marked; the k-th region of each rank is step k.
fn marks(run: &RunReader, ranks: usize, phase: u32) -> Result<Vec<StepSeries>, ExplainError> {
    let mut by_name: BTreeMap<String, Vec<Vec<(u64, u64)>>> = BTreeMap::new();
    run.for_each::<Marks>(|m| {
        let (Some(rank), Some(end)) = (m.rank, m.end_ns) else {
            return;
        };
        // A point has no length.
        if rank.index() < ranks && end > m.begin_ns {
            let lists = by_name
                .entry(m.name)
                .or_insert_with(|| vec![Vec::new(); ranks]);
            lists[rank.index()].push((m.begin_ns, end - m.begin_ns));
        }
    })?;
    let mut all: Vec<StepSeries> = by_name
        .into_iter()
        .filter_map(|(name, mut of_ranks)| {
            let mut lists = Lists::new(ranks);
            for (rank, regions) in of_ranks.iter_mut().enumerate() {
                regions.sort_unstable();
                for &(begin, duration) in regions.iter() {
                    lists.push(rank, begin, duration);
                }
            }
            lists.series(phase, name)
        })
        .collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.durations.iter().sum::<u64>()));
    all.truncate(MOST_MARKS);
    Ok(all)
}
