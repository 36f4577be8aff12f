//! The timeline's data: what ran where, in a few steps around every late step that is listed.
//!
//! The tables are read once, batch by batch; only what overlaps a window is kept, and of that only the
//! longest pieces, so that the page stays small whatever the length of the run.

use super::pieces::{
    Gathered, Index, Piece, Pieces, SourceName, TaskName, offset, source_names, task_names,
};
use idlewave_run::findings::{Findings, LateFinding};
use idlewave_run::tables::{Bursts, Detours, Interrupts, Regions};
use idlewave_run::{RunError, RunReader};
use idlewave_units::{Cpu, NodeId, Pid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
    /// The late step, offsets.
    step: (i64, i64),
    /// Names of the CPUs, by row. Those of nodes that were not traced have none.
    cpus: Vec<String>,
    /// Row of the late rank's CPU.
    late_cpu: Option<u32>,
    /// Ranks, by row.
    ranks: Vec<u32>,
    bursts: Pieces,
    interrupts: Pieces,
    regions: Pieces,
    detours: Pieces,
    /// What the step is charged with, where it was: rank by row, and index of the source in the findings.
    charged: Pieces,
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
    /// CPU of a node, and rank, to row.
    cpus: BTreeMap<(NodeId, Cpu), u32>,
    late_cpu: Option<u32>,
    ranks: BTreeMap<u32, u32>,
    bursts: Gathered,
    interrupts: Gathered,
    regions: Gathered,
    detours: Gathered,
}

/// Reads the tables of the run once and fills a window for every late step listed in the findings.
pub(super) fn collect(run: &RunReader, findings: &Findings) -> Result<Windows, RunError> {
    let mut frames = frames(run, findings);
    if frames.is_empty() {
        return Ok(Windows::default());
    }
    let index = Index::new(frames.iter().map(|f| (f.begin, f.end)));
    // Where each thread was seen first.
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    run.for_each::<Bursts>(|r| {
        if r.pid != Pid::IDLE {
            let piece = |row| Piece {
                row,
                what: r.pid.get(),
                begin: r.begin_ns,
                end: r.end_ns,
                more: r.end_reason.code().into(),
                certain: r.certain,
            };
            visit(&index, &mut frames, r.begin_ns, r.end_ns, |f| {
                let row = f.cpus.get(&(r.node, r.cpu)).copied();
                if row.is_some() {
                    nodes.entry(r.pid.get()).or_insert(r.node.get());
                }
                f.bursts.put(row.map(piece));
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
    name(run, findings, frames, &nodes)
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

/// The stretches charged on ranks that are shown.
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

/// Calls `visit` with every frame that the stretch overlaps.
fn visit(index: &Index, frames: &mut [Frame], begin: u64, end: u64, visit: impl FnMut(&mut Frame)) {
    if index.meets(begin, end) {
        let over = |f: &&mut Frame| begin < f.end && f.begin < end;
        frames.iter_mut().filter(over).for_each(visit);
    }
}

/// Replaces thread and source numbers by dense ones and looks up their names.
fn name(
    run: &RunReader,
    findings: &Findings,
    mut frames: Vec<Frame>,
    nodes: &BTreeMap<u32, u32>,
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
    let dense = |of: fn(&Frame) -> &Gathered| -> BTreeMap<u32, u32> {
        let seen: BTreeSet<u32> = frames
            .iter()
            .flat_map(|f| of(f).pieces.iter().map(|p| p.what))
            .collect();
        seen.into_iter().zip(0..).collect()
    };
    let manifest = run.manifest();
    let cpu_name = |(node, cpu): (NodeId, Cpu)| {
        let host = manifest.nodes.iter().find(|n| n.node == node);
        match host.filter(|_| manifest.nodes.len() > 1) {
            Some(n) => format!("{} CPU {cpu}", n.host.name),
            None => format!("CPU {cpu}"),
        }
    };
    let (pids, ids) = (dense(|f| &f.bursts), dense(|f| &f.interrupts));
    let windows = frames
        .into_iter()
        .zip(&findings.latest)
        .map(|(f, late)| Window {
            charged: charged(&f, late),
            base: f.begin.to_string(),
            span: f.end - f.begin,
            step: (offset(late.begin_ns, f.begin), offset(late.end_ns, f.begin)),
            bursts: f.bursts.columns(f.begin, Some(&pids)),
            interrupts: f.interrupts.columns(f.begin, Some(&ids)),
            regions: f.regions.columns(f.begin, None),
            detours: f.detours.columns(f.begin, None),
            cpus: f.cpus.into_keys().map(cpu_name).collect(),
            late_cpu: f.late_cpu,
            ranks: f.ranks.into_keys().collect(),
        })
        .collect();
    let node_of = |pid: &u32| nodes.get(pid).copied().unwrap_or(0);
    Ok(Windows {
        windows,
        tasks: task_names(run, pids.keys().map(|pid| (node_of(pid), *pid)))?,
        sources: source_names(run, &ids)?,
    })
}
