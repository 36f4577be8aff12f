//! How detours and speed depend on how many CPUs are busy: several detour loops, each on more CPUs
//! than the one before.
//!
//! Assumptions: the CPUs that are not busy are idle. Rates and shares are those of all busy CPUs
//! together; the interval of the share takes the CPUs as independent, and is too narrow if one
//! disturbance strikes several.

use crate::ExplainError;
use crate::cpu_noise::stolen;
use idlewave_run::findings::{Estimate, LoadPoint, LoadSweep};
use idlewave_run::tables::{Detours, Quanta};
use idlewave_run::{DetourLoop, PhaseKind, RunReader};
use idlewave_stats::{quantiles, rates};
use idlewave_units::{Cpu, CpuSet};
use std::collections::BTreeMap;

/// Start and length of detours, per phase and CPU.
type Seen = BTreeMap<(u32, Cpu), Vec<(u64, u64)>>;

/// The sweep; `None` if the run has none.
pub fn load_sweep(run: &RunReader) -> Result<Option<LoadSweep>, ExplainError> {
    let phases = &run.manifest().phases;
    let mut nodes = phases.iter().filter_map(|p| p.kind.measured_node());
    let node = nodes.next();
    if nodes.any(|other| Some(other) != node) {
        return Ok(None);
    }
    let loops = (0_u32..)
        .zip(phases)
        .filter_map(|(index, phase)| match &phase.kind {
            PhaseKind::Detour { loops, .. } => Some((index, loops.as_slice())),
            _ => None,
        });
    let loops: Vec<(u32, &[DetourLoop])> = loops.collect();
    let grows = loops.windows(2).all(|w| w[0].1.len() < w[1].1.len());
    let first = loops.first().and_then(|(_, loops)| loops.first());
    let Some(first) = first.filter(|_| grows && loops.len() > 1).map(|l| l.cpu) else {
        return Ok(None);
    };
    let mut seen = Seen::new();
    run.for_each::<Detours>(|d| {
        let detour = (d.begin_ns, d.length.get());
        seen.entry((d.phase, d.cpu)).or_default().push(detour);
    })?;
    let mut work: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    run.for_each::<Quanta>(|q| {
        if q.cpu == first {
            work.entry(q.phase).or_default().push(q.duration.get());
        }
    })?;
    let points = loops.iter().map(|&(index, loops)| {
        // The work that follows the loops is done on the same CPUs.
        let work = work.get(&(index + 1)).map(Vec::as_slice);
        point(index, loops, &seen, work)
    });
    let points = points.collect();
    let last = loops.last().map_or(0, |(index, _)| *index);
    let lengths = |chosen: &dyn Fn(Cpu) -> bool| {
        let of = seen
            .iter()
            .filter(|((phase, cpu), _)| *phase == last && chosen(*cpu));
        median(of.flat_map(|(_, detours)| detours))
    };
    Ok(Some(LoadSweep {
        first,
        points,
        length_of_first: lengths(&|cpu| cpu == first),
        length_of_others: lengths(&|cpu| cpu != first),
    }))
}

fn point(index: u32, loops: &[DetourLoop], seen: &Seen, work: Option<&[u64]>) -> LoadPoint {
    let none = Vec::new();
    let of = |l: &DetourLoop| seen.get(&(index, l.cpu)).unwrap_or(&none);
    let watched = |l: &DetourLoop| l.watched();
    let shares: Vec<Estimate> = loops.iter().map(|l| stolen(l, of(l), watched(l))).collect();
    let n = shares.len().max(1) as f64;
    let value = shares.iter().map(|s| s.value).sum::<f64>() / n;
    let half = |s: &Estimate| ((s.high - s.low) / 2.0).powi(2);
    let half = shares.iter().map(half).sum::<f64>().sqrt() / n;
    let count: u64 = loops.iter().map(|l| of(l).len() as u64 + l.not_kept).sum();
    let seconds: f64 = loops.iter().map(|l| watched(l).as_secs_f64()).sum();
    LoadPoint {
        busy: loops.len() as u32,
        cpus: loops.iter().map(|l| l.cpu).collect::<CpuSet>(),
        stolen: Estimate {
            value,
            low: (value - half).max(0.0),
            high: (value + half).min(1.0),
            n: count,
            method: "mean over the busy CPUs; 95 % interval from theirs".to_owned(),
        },
        rate: rates::poisson(count, seconds),
        length: median(loops.iter().flat_map(of)),
        work: work.map(quantiles::median).filter(|m| m.n > 0),
    }
}

fn median<'a>(detours: impl Iterator<Item = &'a (u64, u64)>) -> Option<Estimate> {
    let lengths: Vec<u64> = detours.map(|d| d.1).collect();
    Some(quantiles::median(&lengths)).filter(|median| median.n > 0)
}
