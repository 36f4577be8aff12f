//! The timeline's data: what ran where, in a few steps around every late step that is listed.
//!
//! The tables are read once, batch by batch; only what overlaps a window is kept, and of that only the
//! longest pieces, so that the page stays small whatever the length of the run.

use idlewave_run::findings::Findings;
use idlewave_run::tables::{Bursts, Detours, Interrupts, Regions, Table, Tasks};
use idlewave_run::{RunError, RunReader};
use idlewave_units::{Cpu, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Steps shown before and after a late one.
const STEPS_AROUND: u64 = 3;
/// Ranks shown in a window: the last one and its neighbours by number.
const MAX_ROWS: usize = 24;
/// Pieces of one kind kept per window; the shortest are left out first.
const MAX_PIECES: usize = 600;

/// One row's pieces as columns: times are nanoseconds after the window's base and may be negative.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pieces {
    /// Row of the window.
    row: Vec<u32>,
    /// Task, source, or kind of region; unused for detours.
    what: Vec<u32>,
    /// Begin.
    at: Vec<i64>,
    /// Length.
    len: Vec<u64>,
    /// Bursts: why it ended. Interrupts: depth. Regions: iteration.
    more: Vec<u64>,
    /// Indices of those whose begin or end is inferred.
    unsure: Vec<u32>,
    /// How many were left out for being the shortest.
    left_out: u64,
}

/// What is shown around one late step.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Window {
    /// Nanoseconds of CLOCK_MONOTONIC that offsets count from, as text: it may exceed 2^53.
    base: String,
    /// Length of the window.
    span: u64,
    /// The late step, offsets.
    step: (i64, i64),
    /// CPUs, by row.
    cpus: Vec<u32>,
    /// Ranks, by row.
    ranks: Vec<u32>,
    bursts: Pieces,
    interrupts: Pieces,
    regions: Pieces,
    detours: Pieces,
}

/// A task as the timeline names it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TaskName {
    name: String,
    kind: u8,
    pid: u32,
}

/// An interrupt as the timeline names it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SourceName {
    name: String,
    kind: &'static str,
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
    /// CPU and rank to row.
    cpus: BTreeMap<u32, u32>,
    ranks: BTreeMap<u32, u32>,
    bursts: Vec<Piece>,
    interrupts: Vec<Piece>,
    regions: Vec<Piece>,
    detours: Vec<Piece>,
    left_out: [u64; 4],
}

#[derive(Clone, Copy)]
struct Piece {
    row: u32,
    what: u32,
    begin: u64,
    end: u64,
    more: u64,
    certain: bool,
}

/// Reads the tables of the run once and fills a window for every late step listed in the findings.
pub(super) fn collect(run: &RunReader, findings: &Findings) -> Result<Windows, RunError> {
    let mut frames = frames(run, findings);
    if frames.is_empty() {
        return Ok(Windows::default());
    }
    let index = Index::new(&frames);
    for_each::<Bursts>(run, |r| {
        if r.pid != Pid::IDLE {
            let piece = |row| Piece {
                row,
                what: r.pid.get(),
                begin: r.begin_ns,
                end: r.end_ns,
                more: r.end_reason.into(),
                certain: r.certain,
            };
            index.visit(&mut frames, r.begin_ns, r.end_ns, |f| {
                put(
                    &mut f.bursts,
                    &mut f.left_out[0],
                    f.cpus.get(&r.cpu.get()).copied().map(piece),
                );
            });
        }
    })?;
    for_each::<Interrupts>(run, |r| {
        let piece = |row| Piece {
            row,
            what: r.source,
            begin: r.begin_ns,
            end: r.end_ns,
            more: r.depth.into(),
            certain: r.certain,
        };
        index.visit(&mut frames, r.begin_ns, r.end_ns, |f| {
            put(
                &mut f.interrupts,
                &mut f.left_out[1],
                f.cpus.get(&r.cpu.get()).copied().map(piece),
            );
        });
    })?;
    for_each::<Regions>(run, |r| {
        let piece = |row| Piece {
            row,
            what: r.kind.into(),
            begin: r.begin_ns,
            end: r.end_ns,
            more: r.iteration,
            certain: true,
        };
        index.visit(&mut frames, r.begin_ns, r.end_ns, |f| {
            let row = f.ranks.get(&r.rank.get()).filter(|_| f.phase == r.phase);
            put(&mut f.regions, &mut f.left_out[2], row.copied().map(piece));
        });
    })?;
    for_each::<Detours>(run, |r| {
        let end = r.begin_ns.saturating_add(r.length.get());
        let piece = |row| Piece {
            row,
            what: 0,
            begin: r.begin_ns,
            end,
            more: 0,
            certain: true,
        };
        index.visit(&mut frames, r.begin_ns, end, |f| {
            let row = r
                .rank
                .and_then(|k| f.ranks.get(&k.get()))
                .filter(|_| f.phase == r.phase);
            put(&mut f.detours, &mut f.left_out[3], row.copied().map(piece));
        });
    })?;
    name(run, findings, frames)
}

/// Calls `visit` with every row of a table, one batch in memory at a time.
pub(super) fn for_each<T: Table>(
    run: &RunReader,
    mut visit: impl FnMut(T::Row),
) -> Result<(), RunError> {
    let Some(mut reader) = run.table_if_present::<T>()? else {
        return Ok(());
    };
    let mut batch = T::default();
    while reader.next_into(&mut batch)? {
        batch.rows().for_each(&mut visit);
        batch.clear();
    }
    Ok(())
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
        let cpu_of = |rank: &u32| sheets.get(*rank as usize).and_then(|s| s.cpu).map(Cpu::get);
        let mut cpus: BTreeSet<u32> = shown.iter().filter_map(cpu_of).collect();
        cpus.extend(late.cpu.map(Cpu::get));
        frames.push(Frame {
            begin: late.begin_ns.saturating_sub(around),
            end: late.end_ns.saturating_add(around),
            phase: late.phase,
            cpus: cpus.into_iter().zip(0..).collect(),
            ranks: shown.into_iter().zip(0..).collect(),
            bursts: Vec::new(),
            interrupts: Vec::new(),
            regions: Vec::new(),
            detours: Vec::new(),
            left_out: [0; 4],
        });
    }
    frames
}

/// Finds the windows that a stretch of time overlaps.
struct Index {
    /// Union of all windows, disjoint and rising: most rows overlap none.
    union: Vec<(u64, u64)>,
}

impl Index {
    fn new(frames: &[Frame]) -> Self {
        let mut spans: Vec<(u64, u64)> = frames.iter().map(|f| (f.begin, f.end)).collect();
        spans.sort_unstable();
        let mut union: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in spans {
            match union.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => union.push((begin, end)),
            }
        }
        Self { union }
    }

    fn visit(&self, frames: &mut [Frame], begin: u64, end: u64, mut visit: impl FnMut(&mut Frame)) {
        let next = self.union.partition_point(|u| u.1 <= begin);
        if self.union.get(next).is_none_or(|u| u.0 >= end) {
            return;
        }
        frames
            .iter_mut()
            .filter(|f| begin < f.end && f.begin < end)
            .for_each(&mut visit);
    }
}

/// Keeps a piece; of too many, the longest half.
fn put(pieces: &mut Vec<Piece>, left_out: &mut u64, piece: Option<Piece>) {
    pieces.extend(piece);
    if pieces.len() >= 2 * MAX_PIECES {
        shorten(pieces, left_out);
    }
}

fn shorten(pieces: &mut Vec<Piece>, left_out: &mut u64) {
    if pieces.len() > MAX_PIECES {
        pieces.sort_by_key(|p| {
            (
                Reverse(p.end.saturating_sub(p.begin)),
                p.begin,
                p.row,
                p.what,
            )
        });
        *left_out += (pieces.len() - MAX_PIECES) as u64;
        pieces.truncate(MAX_PIECES);
    }
}

/// Replaces thread and source numbers by dense ones and looks up their names.
fn name(run: &RunReader, findings: &Findings, mut frames: Vec<Frame>) -> Result<Windows, RunError> {
    for f in &mut frames {
        shorten(&mut f.bursts, &mut f.left_out[0]);
        shorten(&mut f.interrupts, &mut f.left_out[1]);
        shorten(&mut f.regions, &mut f.left_out[2]);
        shorten(&mut f.detours, &mut f.left_out[3]);
    }
    let dense = |of: fn(&Frame) -> &Vec<Piece>| -> BTreeMap<u32, u32> {
        let seen: BTreeSet<u32> = frames
            .iter()
            .flat_map(|f| of(f).iter().map(|p| p.what))
            .collect();
        seen.into_iter().zip(0..).collect()
    };
    let (pids, ids) = (dense(|f| &f.bursts), dense(|f| &f.interrupts));
    let mut tasks: Vec<TaskName> = pids
        .keys()
        .map(|&pid| TaskName {
            name: format!("thread {pid}"),
            kind: 5,
            pid,
        })
        .collect();
    for_each::<Tasks>(run, |t| {
        if let Some(&i) = pids.get(&t.pid.get()) {
            tasks[i as usize].name = t.name;
            tasks[i as usize].kind = t.kind;
        }
    })?;
    let mut sources: Vec<SourceName> = ids
        .keys()
        .map(|id| SourceName {
            name: format!("source {id}"),
            kind: "not known",
        })
        .collect();
    for_each::<idlewave_run::tables::Sources>(run, |s| {
        if let Some(&i) = ids.get(&s.id) {
            let kind =
                idlewave_run::SourceKind::from_code(s.kind).map_or("not known", |k| k.label());
            sources[i as usize] = SourceName { name: s.name, kind };
        }
    })?;
    let windows = frames
        .into_iter()
        .zip(&findings.latest)
        .map(|(f, late)| Window {
            base: f.begin.to_string(),
            span: f.end - f.begin,
            step: (offset(late.begin_ns, f.begin), offset(late.end_ns, f.begin)),
            bursts: columns(f.bursts, f.begin, f.left_out[0], Some(&pids)),
            interrupts: columns(f.interrupts, f.begin, f.left_out[1], Some(&ids)),
            regions: columns(f.regions, f.begin, f.left_out[2], None),
            detours: columns(f.detours, f.begin, f.left_out[3], None),
            cpus: f.cpus.into_keys().collect(),
            ranks: f.ranks.into_keys().collect(),
        })
        .collect();
    Ok(Windows {
        windows,
        tasks,
        sources,
    })
}

fn offset(at: u64, base: u64) -> i64 {
    at.wrapping_sub(base) as i64
}

/// In order of row and time; outer interrupts before those nested in them.
fn columns(
    mut pieces: Vec<Piece>,
    base: u64,
    left_out: u64,
    dense: Option<&BTreeMap<u32, u32>>,
) -> Pieces {
    pieces.sort_by_key(|p| (p.row, p.begin, Reverse(p.end), p.what, p.more));
    let mut out = Pieces {
        left_out,
        ..Pieces::default()
    };
    for (i, p) in pieces.iter().enumerate() {
        out.row.push(p.row);
        out.what
            .push(dense.map_or(p.what, |d| d.get(&p.what).copied().unwrap_or(0)));
        out.at.push(offset(p.begin, base));
        out.len.push(p.end.saturating_sub(p.begin));
        out.more.push(p.more);
        if !p.certain {
            out.unsure.push(i as u32);
        }
    }
    out
}
