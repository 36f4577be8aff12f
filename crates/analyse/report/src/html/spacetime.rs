//! Waiting in space and time: for every lockstep run, a map over ranks and time. It shows the share
//! of time that ranks waited, and what struck them.
//!
//! A late rank shows as a front of waiting that moves away from it: an idle wave. There is one map
//! of the whole run and one around each of the latest steps. Cells are sums, so the maps stay small
//! for any number of ranks and length of the run.

use idlewave_run::findings::{Findings, LockstepFindings};
use idlewave_run::tables::{Bursts, Interrupts, RegionKind, Regions, Sources, TaskKind, Tasks};
use idlewave_run::{PhaseKind, RunError, RunReader, SourceKind};
use idlewave_units::{Cpu, NodeId, Pid};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most cells along the ranks and along the time: what a screen can show.
const MAX_ROWS: u32 = 256;
const MAX_COLUMNS: u64 = 1_024;
/// Most maps around late steps, per run.
const MAX_WINDOWS: usize = 2;
/// Sources with their own colour: those that cost most.
const MAX_SOURCES: usize = 7;
/// Number for all other sources, and for none.
const OTHERS: u8 = MAX_SOURCES as u8 + 1;
const NOBODY: u8 = 0;
/// Steps shown before a late one; least and most steps shown after it.
const STEPS_BEFORE: u64 = 4;
const STEPS_AFTER: (u64, u64) = (16, 96);
/// Shares have this many levels above zero. A level is one character, counted from this one, so
/// that maps deflate well.
const LEVELS: u32 = 31;
const NO_LEVEL: u8 = b'0';
/// Most lockstep runs with maps: the first ones.
const MAX_RUNS: usize = 8;

/// One map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Map {
    /// Index into `lockstep` of the findings.
    pub run: usize,
    /// The late step that the map is about, as an index into `latest` of the findings; `None` for
    /// the whole run.
    pub late: Option<usize>,
    /// First rank and number of ranks of the map.
    pub first: u32,
    pub ranks: u32,
    pub rows: u32,
    pub columns: u32,
    /// Nanoseconds per column.
    pub column: u64,
    /// Zero of the axis: the start of the late step, in nanoseconds after the map's start.
    pub zero: u64,
    /// One character per cell, row by row: the level of the share of time that the ranks waited in
    /// it.
    pub waiting: String,
    /// The source that took most CPU time in each cell: 0 for none, 1 and up for `sources`, then
    /// one number for all others.
    pub who: String,
    /// For each cell: the level of the share of its CPUs' time that all sources took.
    pub taken: String,
    /// Indices into `sources` of the findings, in the order of the numbers in `who`.
    pub sources: Vec<usize>,
    /// Ranks per nanosecond that an undisturbed wave travels; `None` if ranks form no line or all
    /// wait for all.
    pub speed: Option<f64>,
    /// Whether a wave travels to higher ranks only.
    pub one_sided: bool,
}

/// A map being filled.
struct Grid {
    run: usize,
    late: Option<usize>,
    phase: u32,
    first: u32,
    ranks: u32,
    rows: u32,
    columns: u32,
    begin: u64,
    column: u64,
    zero: u64,
    /// Nanoseconds waited, cell by cell.
    waiting: Vec<u64>,
    /// Nanoseconds taken, by cell and source number.
    taken: BTreeMap<(u32, u8), u64>,
}

impl Grid {
    fn new(
        (run, found): (usize, &LockstepFindings),
        late: Option<usize>,
        ranks: Range<u32>,
        (begin, end): (u64, u64),
        zero: u64,
    ) -> Self {
        let span = end.saturating_sub(begin).max(1);
        let column = span.div_ceil(MAX_COLUMNS);
        let many = ranks.end - ranks.start;
        let (rows, columns) = (many.min(MAX_ROWS), span.div_ceil(column) as u32);
        Grid {
            run,
            late,
            phase: found.phase,
            first: ranks.start,
            ranks: many,
            rows,
            columns,
            begin,
            column,
            zero: zero.saturating_sub(begin),
            waiting: vec![0; rows as usize * columns as usize],
            taken: BTreeMap::new(),
        }
    }

    /// Whether the map shows a rank.
    fn shows(&self, rank: u32) -> bool {
        (self.first..self.first + self.ranks).contains(&rank)
    }

    /// The cells that an interval of a shown rank covers, with the nanoseconds in each.
    fn cells(&self, rank: u32, begin: u64, end: u64) -> impl Iterator<Item = (u32, u64)> + use<> {
        let last = self
            .begin
            .saturating_add(u64::from(self.columns) * self.column);
        let (begin, end) = (begin.max(self.begin), end.min(last));
        let row =
            (u64::from(rank - self.first) * u64::from(self.rows) / u64::from(self.ranks)) as u32;
        let (base, columns, column) = (self.begin, self.columns, self.column);
        let first = begin.saturating_sub(base) / column;
        let until = match begin < end {
            true => (end - 1 - base) / column + 1,
            false => first,
        };
        (first..until).map(move |c| {
            let from = base + c * column;
            let ns = end.min(from + column) - begin.max(from);
            (row * columns + c as u32, ns)
        })
    }

    /// Number of ranks in a row.
    fn ranks_of(&self, row: u32) -> u64 {
        let first = |row: u32| (u64::from(row) * u64::from(self.ranks)).div_ceil(self.rows.into());
        first(row + 1) - first(row)
    }

    fn finish(self, sources: &[usize], speed: Option<f64>, one_sided: bool) -> Map {
        let mut who = vec![NOBODY; self.waiting.len()];
        let mut most = vec![0_u64; self.waiting.len()];
        let mut all = vec![0_u64; self.waiting.len()];
        for (&(cell, source), &ns) in &self.taken {
            let cell = cell as usize;
            all[cell] += ns;
            if ns > most[cell] {
                (most[cell], who[cell]) = (ns, source);
            }
        }
        let levels = |values: &[u64]| -> String {
            let share = |(i, &ns): (usize, &u64)| {
                let whole = self.ranks_of(i as u32 / self.columns) * self.column;
                char::from(NO_LEVEL + level(ns as f64 / whole as f64))
            };
            values.iter().enumerate().map(share).collect()
        };
        Map {
            run: self.run,
            late: self.late,
            first: self.first,
            ranks: self.ranks,
            rows: self.rows,
            columns: self.columns,
            column: self.column,
            zero: self.zero,
            waiting: levels(&self.waiting),
            who: who.iter().map(|w| char::from(NO_LEVEL + w)).collect(),
            taken: levels(&all),
            sources: sources.to_vec(),
            speed,
            one_sided,
        }
    }
}

/// The level of a share; the root spreads small shares over more levels.
fn level(share: f64) -> u8 {
    let levels = f64::from(LEVELS);
    (levels * share.sqrt()).ceil().min(levels) as u8
}

/// The maps of all lockstep runs with more than one rank. Reads the tables once, batch by batch.
pub(super) fn collect(run: &RunReader, findings: &Findings) -> Result<Vec<Map>, RunError> {
    let mut grids = grids(run, findings);
    if grids.is_empty() {
        return Ok(Vec::new());
    }
    run.for_each::<Regions>(|r| {
        if r.kind == RegionKind::Compute {
            return;
        }
        for grid in grids.iter_mut().filter(|g| g.phase == r.phase) {
            if grid.shows(r.rank.get()) {
                for (cell, ns) in grid.cells(r.rank.get(), r.begin_ns, r.end_ns) {
                    grid.waiting[cell as usize] += ns;
                }
            }
        }
    })?;
    let sources = costly(findings);
    let places = places(run);
    let mut taken = |node: NodeId, cpu: Cpu, who: u8, begin: u64, end: u64| {
        if let Some(&rank) = places.get(&(node, cpu)) {
            for grid in grids.iter_mut().filter(|g| g.shows(rank)) {
                for (cell, ns) in grid.cells(rank, begin, end) {
                    *grid.taken.entry((cell, who)).or_default() += ns;
                }
            }
        }
    };
    let number = |kind: SourceKind, names: &[&str]| {
        let is = |&i: &usize| {
            let s = &findings.sources[i];
            s.kind == kind && names.contains(&s.name.as_str())
        };
        let place = sources.iter().position(is);
        place.map_or(OTHERS, |p| p as u8 + 1)
    };
    let mut rows: BTreeMap<u32, u8> = BTreeMap::new();
    run.for_each::<Sources>(|s| {
        rows.insert(s.id, number(s.kind, &[&s.name]));
    })?;
    let threads = threads(run, number)?;
    run.for_each::<Interrupts>(|i| {
        let who = rows.get(&i.source).copied().unwrap_or(OTHERS);
        taken(i.node, i.cpu, who, i.begin_ns, i.end_ns);
    })?;
    run.for_each::<Bursts>(|b| {
        if b.pid != Pid::IDLE {
            let who = threads
                .get(&(b.node, b.pid))
                .copied()
                .unwrap_or(Some(OTHERS));
            if let Some(who) = who {
                taken(b.node, b.cpu, who, b.begin_ns, b.end_ns);
            }
        }
    })?;
    let manifest = run.manifest();
    Ok(grids
        .into_iter()
        .map(|grid| {
            let step = findings.lockstep[grid.run].step.get();
            let phase = manifest.phases.get(grid.phase as usize);
            let (speed, one_sided) = phase.map_or((None, false), |p| wave(&p.kind, step));
            grid.finish(&sources, speed, one_sided)
        })
        .collect())
}

/// Speed of a wave in an undisturbed system: each step carries it as far as messages reach.
fn wave(kind: &PhaseKind, step: u64) -> (Option<f64>, bool) {
    match kind {
        PhaseKind::Lockstep {
            coupling: idlewave_run::Coupling::Neighbours,
            sides,
            neighbourhood,
            ..
        } if sides.len() < 2 && step > 0 => (
            Some(f64::from(neighbourhood.reach) / step as f64),
            neighbourhood.one_sided,
        ),
        _ => (None, false),
    }
}

/// Each run as a whole, and the surroundings of its latest steps, unless they overlap.
fn grids(run: &RunReader, findings: &Findings) -> Vec<Grid> {
    let mut out = Vec::new();
    let manifest = run.manifest();
    let runs = findings.lockstep.iter().enumerate();
    let runs = runs.filter(|(_, found)| !manifest.is_later_turn(found.phase));
    for lockstep in runs.take(MAX_RUNS) {
        let (_, found) = lockstep;
        let Some(phase) = run.manifest().phases.get(found.phase as usize) else {
            continue;
        };
        if found.ranks < 2 || phase.begin_ns >= phase.end_ns {
            continue;
        }
        let (first, last) = (phase.begin_ns, phase.end_ns);
        let all = 0..found.ranks;
        out.push(Grid::new(lockstep, None, all.clone(), (first, last), first));
        let step = found.step.get().max(1);
        // Long enough for a wave to reach the other side of a ring.
        let after = u64::from(found.ranks / 2).clamp(STEPS_AFTER.0, STEPS_AFTER.1);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let late = findings.latest.iter().enumerate();
        for (index, late) in late.filter(|(_, l)| l.phase == found.phase) {
            let begin = late
                .begin_ns
                .saturating_sub(STEPS_BEFORE.saturating_mul(step));
            let end = late.end_ns.saturating_add(after.saturating_mul(step));
            let (begin, end) = (begin.max(first), end.min(last));
            let small = end.saturating_sub(begin) < (last - first) / 3 * 2;
            if taken.len() >= MAX_WINDOWS || begin >= end || !small {
                continue;
            }
            if taken.iter().all(|t| end <= t.0 || t.1 <= begin) {
                taken.push((begin, end));
                // On a line of ranks a wave stays near for a while.
                let ranks = match wave(&phase.kind, step).0 {
                    Some(_) => near(late.last_rank.get(), found.ranks),
                    None => all.clone(),
                };
                out.push(Grid::new(
                    lockstep,
                    Some(index),
                    ranks,
                    (begin, end),
                    late.begin_ns,
                ));
            }
        }
    }
    out
}

/// As many ranks around `rank` as there are rows.
fn near(rank: u32, ranks: u32) -> Range<u32> {
    let most = MAX_ROWS.min(ranks);
    let first = rank.saturating_sub(most / 2).min(ranks - most);
    first..first + most
}

/// The sources that cost most, as indices.
fn costly(findings: &Findings) -> Vec<usize> {
    let named = |i: &usize| findings.sources[*i].kind != SourceKind::Unexplained;
    (0..findings.sources.len())
        .filter(named)
        .take(MAX_SOURCES)
        .collect()
}

/// The rank on each CPU; the first if there are several.
fn places(run: &RunReader) -> BTreeMap<(NodeId, Cpu), u32> {
    let mut places = BTreeMap::new();
    for rank in &run.manifest().ranks {
        if let Some(cpu) = rank.cpu {
            places.entry((rank.node, cpu)).or_insert(rank.rank.get());
        }
    }
    places
}

/// The source number of each thread that may take a CPU from a rank; `None` for ranks.
fn threads(
    run: &RunReader,
    number: impl Fn(SourceKind, &[&str]) -> u8,
) -> Result<BTreeMap<(NodeId, Pid), Option<u8>>, RunError> {
    let mut tasks = Vec::new();
    run.for_each::<Tasks>(|t| tasks.push(t))?;
    let processes: BTreeMap<(NodeId, Pid), String> = tasks
        .iter()
        .filter(|t| t.process == Some(t.pid))
        .map(|t| ((t.node, t.pid), t.name.clone()))
        .collect();
    Ok(tasks
        .into_iter()
        .map(|t| {
            let process = t.process.and_then(|p| processes.get(&(t.node, p)));
            // Copies of a kernel thread share one name; threads of a program use its name.
            let group = t.name.split('/').next().unwrap_or_default();
            let who = match t.kind {
                TaskKind::Rank => None,
                TaskKind::Kernel => Some(number(SourceKind::KernelThread, &[&t.name, group])),
                TaskKind::Own => Some(number(SourceKind::Recorder, &[&t.name])),
                _ => Some(number(
                    SourceKind::Task,
                    &[process.unwrap_or(&t.name).as_str()],
                )),
            };
            ((t.node, t.pid), who)
        })
        .collect())
}

/// The section; empty without maps.
pub(super) fn section(maps: &[Map], findings: &Findings) -> String {
    use super::markup::{caption, escape, section as in_section};
    if maps.is_empty() {
        return String::new();
    }
    let option = |(i, map): (usize, &Map)| {
        let run = &findings.lockstep[map.run];
        let what = match map.late.and_then(|l| findings.latest.get(l)) {
            None => "the whole run".to_owned(),
            Some(late) => format!(
                "around step {}: rank {} late by {}",
                late.iteration, late.last_rank, late.lateness
            ),
        };
        format!(
            "<option value=\"{i}\">{}, {what}</option>",
            escape(&crate::number::plain(&run.name))
        )
    };
    let options: String = maps.iter().enumerate().map(option).collect();
    let text = caption(
        "Left to right the time, top to bottom the ranks. The stronger the tone, the longer ranks waited there; on top of it, in the \
         colours of the sources, who took the CPUs of the ranks, as strong as the share that was taken. A rank that is late shows as \
         a colour, and behind it a front of waiting runs away from it, from rank to rank: an idle wave. Two waves that meet \
         go out. Where all wait for all, everybody waits at once instead.",
    );
    let dashed = match maps.iter().any(|m| m.speed.is_some() && m.late.is_some()) {
        true => caption(
            "Dashed: how fast a wave runs if nothing else disturbs, as far as messages reach in every step.",
        ),
        false => String::new(),
    };
    let body = format!(
        "{text}<div class=\"figure\" id=\"spacetime-figure\"><div class=\"tools\">\
         <select id=\"spacetime-map\" aria-label=\"Run and stretch of time\">{options}</select>\
         <output id=\"spacetime-range\"></output>\
         <button type=\"button\" data-zoom=\"in\" aria-label=\"Zoom in\">+</button>\
         <button type=\"button\" data-zoom=\"out\" aria-label=\"Zoom out\">&minus;</button>\
         <button type=\"button\" data-zoom=\"all\">All of it</button></div>\
         <canvas id=\"spacetime-canvas\" class=\"pane\" tabindex=\"0\" role=\"img\" aria-label=\"Map of waiting over ranks and \
         time\"></canvas><p class=\"legend\" id=\"spacetime-legend\"></p></div>\n{dashed}<p class=\"caption\">Wheel or + and - zoom, \
         drag or arrow keys pan, 0 shows all of it.</p>\n"
    );
    in_section("spacetime", "Waiting in space and time", &body)
}

#[cfg(test)]
#[path = "spacetime_tests.rs"]
mod tests;
