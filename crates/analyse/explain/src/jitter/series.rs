//! Computations that all ranks repeat, as recorded in a run.

use crate::ExplainError;
use crate::watched::taking_part;
use idlewave_run::tables::{Marks, RegionKind, Regions};
use idlewave_run::{Manifest, PhaseKind, RunReader};
use std::collections::BTreeMap;

/// Fewer steps are not a series.
const LEAST_STEPS: usize = 2;
/// Marked regions analysed, those with the most time first.
const MOST_MARKS: usize = 8;

/// Durations of all ranks in all steps that all of them completed, step by step, in the order of
/// the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    pub phase: u32,
    pub name: String,
    pub ranks: usize,
    /// Nanoseconds.
    pub durations: Vec<u64>,
    /// When each began.
    pub begins: Vec<u64>,
}

/// Start and duration of one rank's steps.
type Lists = Vec<Vec<(u64, u64)>>;

impl Series {
    /// From the steps that all ranks have, starting with the first; `None` if there are too few.
    fn new(phase: u32, name: String, lists: Lists) -> Option<Self> {
        let steps = lists.iter().map(Vec::len).min()?;
        if steps < LEAST_STEPS {
            return None;
        }
        let all = || (0..steps).flat_map(|s| lists.iter().map(move |list| list[s]));
        Some(Self {
            phase,
            name,
            ranks: lists.len(),
            durations: all().map(|x| x.1).collect(),
            begins: all().map(|x| x.0).collect(),
        })
    }
}

/// The region that is analysed in a phase of this kind, and its name.
fn wanted(kind: &PhaseKind) -> Option<(RegionKind, String)> {
    match kind {
        PhaseKind::MolecularDynamics { .. } => Some((RegionKind::Force, "forces".to_owned())),
        PhaseKind::Lockstep { coupling, .. } => Some((
            RegionKind::Compute,
            format!("computation ({})", coupling.name()),
        )),
        PhaseKind::Detour { .. } | PhaseKind::FixedWork { .. } | PhaseKind::Recorded { .. } => None,
    }
}

/// All series of a run, in order of phases.
pub fn read(run: &RunReader) -> Result<Vec<Series>, ExplainError> {
    let manifest = run.manifest();
    let mut out = regions(run, manifest)?;
    let recorded = manifest
        .phases
        .iter()
        .position(|p| matches!(p.kind, PhaseKind::Recorded { .. }));
    if let Some(phase) = recorded {
        out.extend(marks(run, manifest.ranks.len(), phase as u32)?);
    }
    Ok(out)
}

fn regions(run: &RunReader, manifest: &Manifest) -> Result<Vec<Series>, ExplainError> {
    // A rank that took part but has no records leaves no step that all ranks have.
    let mut lists: Vec<Lists> = manifest
        .phases
        .iter()
        .map(|p| match p.kind {
            PhaseKind::Lockstep { ranks, .. } => taking_part(manifest, ranks),
            _ => taking_part(manifest, None),
        })
        .map(|ranks| vec![Vec::new(); ranks])
        .collect();
    let kinds: Vec<Option<RegionKind>> = manifest
        .phases
        .iter()
        .map(|p| wanted(&p.kind).map(|w| w.0))
        .collect();
    run.for_each::<Regions>(|r| {
        let phase = r.phase as usize;
        if kinds.get(phase) != Some(&Some(r.kind)) {
            return;
        }
        let Some(list) = lists[phase].get_mut(r.rank.index()) else {
            return;
        };
        // After a lost block, the rest of this rank's records cannot be used.
        if r.iteration == list.len() as u64 && r.begin_ns <= r.end_ns {
            list.push((r.begin_ns, r.end_ns - r.begin_ns));
        }
    })?;
    let named = manifest.phases.iter().zip(lists).enumerate();
    Ok(named
        .filter_map(|(i, (phase, lists))| {
            let name = wanted(&phase.kind)?.1;
            Series::new(i as u32, name, lists)
        })
        .collect())
}

/// Regions of one name that every rank marked; the k-th region of each rank is step k.
fn marks(run: &RunReader, ranks: usize, phase: u32) -> Result<Vec<Series>, ExplainError> {
    let mut by_name: BTreeMap<String, Lists> = BTreeMap::new();
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
    let mut all: Vec<Series> = by_name
        .into_iter()
        .filter_map(|(name, mut lists)| {
            lists.iter_mut().for_each(|l| l.sort_unstable());
            Series::new(phase, name, lists)
        })
        .collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.durations.iter().sum::<u64>()));
    all.truncate(MOST_MARKS);
    Ok(all)
}
