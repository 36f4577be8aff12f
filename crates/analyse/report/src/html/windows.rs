//! The timeline's data: what ran where, a few steps around every listed late step.
//!
//! Reads the tables once, batch by batch. Of what overlaps a window it keeps only the longest
//! pieces, so the page stays small for any length of the run.

use super::pieces::{
    Gathered, Index, Piece, Pieces, SourceName, TaskName, Thread, cpu_name, offset, source_names,
    task_names,
};
use idlewave_run::findings::{Findings, LateFinding};
use idlewave_run::tables::{Bursts, Detours, Interrupts, RegionKind, Regions};
use idlewave_run::{RunError, RunReader};
use idlewave_units::{Cpu, NodeId, Pid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Steps shown before and after a late one.
const STEPS_AROUND: u64 = 3;
/// Ranks shown in a window: the last one and its neighbours by number.
const MAX_ROWS: usize = 24;
/// Pieces of one kind kept per window; the shortest are left out first.
const MAX_PIECES: usize = 600;

/// What is shown around one late step.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Window {
    /// Nanoseconds of CLOCK_MONOTONIC that offsets count from, as text: it may exceed 2^53.
    base: String,
    /// Length of the window.
    span: u64,
    /// The late step, as offsets.
    step: (i64, i64),
    /// Names of the CPUs, by row. CPUs of untraced nodes have none.
    cpus: Vec<String>,
    /// Row of the late rank's CPU.
    late_cpu: Option<u32>,
    /// Ranks, by row.
    ranks: Vec<u32>,
    bursts: Pieces,
    interrupts: Pieces,
    regions: Pieces,
    detours: Pieces,
    /// What the step is charged with, and where: rank by row, and index of the source in the
    /// findings.
    charged: Pieces,
}

impl Window {
    /// How long each rank communicated in an iteration, waiting included.
    pub(super) fn communicated(&self, iteration: u64) -> Vec<(u32, u64)> {
        let compute = u32::from(RegionKind::Compute.code());
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        let regions = &self.regions;
        for (i, &row) in regions.row.iter().enumerate() {
            if regions.what[i] != compute && regions.more[i] == iteration {
                *times.entry(self.ranks[row as usize]).or_default() += regions.len[i];
            }
        }
        times.into_iter().collect()
    }
}

impl Windows {
    /// The windows, in the order of the late steps.
    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }
}

/// All windows, in the order of `latest`, with the names they refer to.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Windows {
    windows: Vec<Window>,
    tasks: Vec<TaskName>,
    sources: Vec<SourceName>,
}

/// A window being filled.
struct Frame {
    begin: u64,
    end: u64,
    phase: u32,
    /// From node and CPU, and from rank, to row.
    cpus: BTreeMap<(NodeId, Cpu), u32>,
    late_cpu: Option<u32>,
    ranks: BTreeMap<u32, u32>,
    bursts: Gathered,
    interrupts: Gathered,
    regions: Gathered,
    detours: Gathered,
}

/// Reads the tables of the run once and fills a window for every late step in the findings.
pub(super) fn collect(run: &RunReader, findings: &Findings) -> Result<Windows, RunError> {
    let mut frames = frames(run, findings);
    if frames.is_empty() {
        return Ok(Windows::default());
    }
    let index = Index::new(frames.iter().map(|f| (f.begin, f.end)));
    let mut numbers: HashMap<Thread, u32> = HashMap::new();
    run.for_each::<Bursts>(|r| {
        if r.pid != Pid::IDLE {
            let next = numbers.len() as u32;
            let mut number = || *numbers.entry((r.node.get(), r.pid.get())).or_insert(next);
            let mut piece = |row| Piece {
                row,
                what: number(),
                begin: r.begin_ns,
                end: r.end_ns,
                more: r.end_reason.code().into(),
                certain: r.certain,
            };
            visit(&index, &mut frames, r.begin_ns, r.end_ns, |f| {
                let row = f.cpus.get(&(r.node, r.cpu)).copied();
                f.bursts.put(row.map(&mut piece));
            });
        }
    })?;
    run.for_each::<Interrupts>(|r| {
        let piece = |row| Piece {
            row,
            what: r.source,
            begin: r.begin_ns,
            end: r.end_ns,
            more: r.depth.into(),
            certain: r.certain,
        };
        visit(&index, &mut frames, r.begin_ns, r.end_ns, |f| {
            f.interrupts
                .put(f.cpus.get(&(r.node, r.cpu)).copied().map(piece));
        });
    })?;
    run.for_each::<Regions>(|r| {
        let piece = |row| Piece {
            row,
            what: r.kind.code().into(),
            begin: r.begin_ns,
            end: r.end_ns,
            more: r.iteration,
            certain: true,
        };
        visit(&index, &mut frames, r.begin_ns, r.end_ns, |f| {
            let row = f.ranks.get(&r.rank.get()).filter(|_| f.phase == r.phase);
            f.regions.put(row.copied().map(piece));
        });
    })?;
    run.for_each::<Detours>(|r| {
        let end = r.begin_ns.saturating_add(r.length.get());
        let piece = |row| Piece {
            row,
            what: 0,
            begin: r.begin_ns,
            end,
            more: 0,
            certain: true,
        };
        visit(&index, &mut frames, r.begin_ns, end, |f| {
            let row = r
                .rank
                .and_then(|k| f.ranks.get(&k.get()))
                .filter(|_| f.phase == r.phase);
            f.detours.put(row.copied().map(piece));
        });
    })?;
    name(run, findings, frames, numbers)
}

fn frames(run: &RunReader, findings: &Findings) -> Vec<Frame> {
    let sheets = &run.manifest().ranks;
    let mut frames = Vec::new();
    for late in &findings.latest {
        let known = findings.lockstep.iter().find(|l| l.phase == late.phase);
        let ranks = known
            .map_or(sheets.len() as u32, |l| l.ranks)
            .max(late.last_rank.get().saturating_add(1));
        let step = known.map_or(late.end_ns.saturating_sub(late.begin_ns), |l| l.step.get());
        let around = step.saturating_mul(STEPS_AROUND);
        let half = MAX_ROWS as u32 / 2;
        let first = late
            .last_rank
            .get()
            .saturating_sub(half)
            .min(ranks.saturating_sub(MAX_ROWS as u32));
        let shown: Vec<u32> = (first..ranks).take(MAX_ROWS).collect();
        let place_of = |rank: &u32| {
            let sheet = sheets.get(*rank as usize)?;
            let traced = !run.manifest().is_not_traced(sheet.node);
            sheet.cpu.filter(|_| traced).map(|cpu| (sheet.node, cpu))
        };
        let mut cpus: BTreeSet<(NodeId, Cpu)> = shown.iter().filter_map(place_of).collect();
        let late_cpu = place_of(&late.last_rank.get());
        cpus.extend(late_cpu);
        let cpus: BTreeMap<(NodeId, Cpu), u32> = cpus.into_iter().zip(0..).collect();
        frames.push(Frame {
            begin: late.begin_ns.saturating_sub(around),
            end: late.end_ns.saturating_add(around),
            phase: late.phase,
            late_cpu: late_cpu.and_then(|place| cpus.get(&place).copied()),
            cpus,
            ranks: shown.into_iter().zip(0..).collect(),
            bursts: Gathered::new(MAX_PIECES),
            interrupts: Gathered::new(MAX_PIECES),
            regions: Gathered::new(MAX_PIECES),
            detours: Gathered::new(MAX_PIECES),
        });
    }
    frames
}

/// The charged intervals of the ranks shown.
fn charged(frame: &Frame, late: &LateFinding) -> Pieces {
    let mut all = Gathered::new(MAX_PIECES);
    for stretch in &late.charged {
        let row = frame.ranks.get(&stretch.rank.get());
        all.put(row.map(|&row| Piece {
            row,
            what: stretch.source,
            begin: stretch.begin_ns,
            end: stretch.end_ns,
            more: 0,
            certain: true,
        }));
    }
    all.columns(frame.begin, None)
}

/// Calls `visit` with every frame that overlaps the interval.
fn visit(index: &Index, frames: &mut [Frame], begin: u64, end: u64, visit: impl FnMut(&mut Frame)) {
    if index.meets(begin, end) {
        let over = |f: &&mut Frame| begin < f.end && f.begin < end;
        frames.iter_mut().filter(over).for_each(visit);
    }
}

/// Renumbers threads and sources densely and looks up their names.
fn name(
    run: &RunReader,
    findings: &Findings,
    mut frames: Vec<Frame>,
    numbers: HashMap<Thread, u32>,
) -> Result<Windows, RunError> {
    for f in &mut frames {
        for kind in [
            &mut f.bursts,
            &mut f.interrupts,
            &mut f.regions,
            &mut f.detours,
        ] {
            kind.shorten();
        }
    }
    let shown = |of: fn(&Frame) -> &Gathered| -> BTreeSet<u32> {
        let pieces = frames.iter().flat_map(|f| &of(f).pieces);
        pieces.map(|p| p.what).collect()
    };
    let manifest = run.manifest();
    let (bursts, interrupts) = (shown(|f| &f.bursts), shown(|f| &f.interrupts));
    // By node and thread, regardless of which ran first.
    let mut threads: Vec<(Thread, u32)> = numbers.into_iter().collect();
    threads.retain(|(_, number)| bursts.contains(number));
    threads.sort_unstable();
    let place_of: BTreeMap<u32, u32> = threads.iter().map(|t| t.1).zip(0..).collect();
    let ids: BTreeMap<u32, u32> = interrupts.into_iter().zip(0..).collect();
    let windows = frames
        .into_iter()
        .zip(&findings.latest)
        .map(|(f, late)| Window {
            charged: charged(&f, late),
            base: f.begin.to_string(),
            span: f.end - f.begin,
            step: (offset(late.begin_ns, f.begin), offset(late.end_ns, f.begin)),
            bursts: f.bursts.columns(f.begin, Some(&place_of)),
            interrupts: f.interrupts.columns(f.begin, Some(&ids)),
            regions: f.regions.columns(f.begin, None),
            detours: f.detours.columns(f.begin, None),
            cpus: f
                .cpus
                .into_keys()
                .map(|place| cpu_name(manifest, place))
                .collect(),
            late_cpu: f.late_cpu,
            ranks: f.ranks.into_keys().collect(),
        })
        .collect();
    Ok(Windows {
        windows,
        tasks: task_names(run, threads.into_iter().map(|t| t.0))?,
        sources: source_names(run, &ids)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::same_number_on_two_nodes;
    use super::*;
    use crate::testing::bare_findings;
    use idlewave_units::{Nanos, Rank};

    #[test]
    fn threads_of_one_number_on_two_nodes_keep_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let run = same_number_on_two_nodes(dir.path());
        let mut findings = bare_findings();
        findings.latest = vec![LateFinding {
            phase: 0,
            iteration: 0,
            last_rank: Rank::new(1),
            cpu: Some(Cpu::new(0)),
            begin_ns: 50,
            end_ns: 250,
            lateness: Nanos::from_nanos(100),
            parts: Vec::new(),
            charged: Vec::new(),
        }];
        let all = collect(&run, &findings).unwrap();
        let bursts = &all.windows[0].bursts;
        let shown = bursts.row.iter().zip(&bursts.what);
        let shown: Vec<(u32, &str)> = shown
            .map(|(row, what)| (*row, all.tasks[*what as usize].name.as_str()))
            .collect();
        assert_eq!(shown, [(0, "backup"), (1, "monitor")]);
    }
}
