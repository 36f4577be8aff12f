//! The timeline of ranks: the whole program in bins, and exact pieces around the listed waits.
//!
//! The tables are read once, batch by batch. The number of rows and windows, not the length of the
//! run, bounds memory and page size: 10^7 calls fill the same bins as 10^4.

use super::pieces::{Pieces, SourceName, TaskName, source_names, task_names};
use super::windows_of_waits::{Filled, Frame, collect, thread_rows};
use crate::story;
use base64::{Engine, engine::general_purpose::STANDARD};
use idlewave_run::findings::{Findings, ProgramFindings, WaitFinding};
use idlewave_run::tables::{
    Bursts, Calls, EndReason, Interrupts, OperationClass, Operations, Waits,
};
use idlewave_run::{RunError, RunReader};
use idlewave_units::Rank;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most ranks with a row. If there are more, those named in the findings come first, then some at
/// even distances.
pub(super) const MAX_ROWS: usize = 48;
/// Bins of all rows together; bounds memory and page size.
const BINS: usize = 1 << 16;
/// Most bins per row: twice what a screen can show.
const MAX_BINS: usize = 2_048;

/// What a bin is divided into: four classes of calls, waiting, and what others took.
const LAYERS: usize = 6;
const WAITING: usize = 4;
const TAKEN: usize = 5;

/// The layer of a class of functions, by which the timeline colours it.
fn layer(class: OperationClass) -> usize {
    use OperationClass as Class;
    match class {
        Class::Send | Class::Receive | Class::SendReceive => 0,
        Class::Complete => 1,
        Class::AllToAll
        | Class::FromRoot
        | Class::ToRoot
        | Class::Prefix
        | Class::StartCollective
        | Class::Neighbour => 2,
        Class::Other | Class::Communicator | Class::Life => 3,
    }
}

/// An MPI function as the timeline names it.
#[derive(Clone, Debug, Default, Serialize)]
struct OperationName {
    name: String,
    layer: usize,
}

/// A row of the timeline.
#[derive(Clone, Debug, Serialize)]
struct Row {
    rank: u32,
    /// Index into `nodes`.
    node: usize,
    /// The rank's threads; what else runs on its CPU is not its own.
    threads: Vec<u32>,
}

/// Exact pieces of an interval.
#[derive(Clone, Debug, Serialize)]
struct Window {
    from: i64,
    to: i64,
    calls: Pieces,
    waits: Pieces,
    bursts: Pieces,
    interrupts: Pieces,
    /// From row to `what`: time sent, time until received, bytes.
    messages: Pieces,
    marks: Pieces,
}

/// Everything that the timeline of ranks draws. Times are nanoseconds after `base`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Lanes {
    /// CLOCK_MONOTONIC of node 0 at time 0, as text: it may exceed 2^53.
    base: String,
    span: u64,
    nodes: Vec<String>,
    rows: Vec<Row>,
    /// Ranks of the program.
    ranks: u32,
    bins: usize,
    /// Per layer: one byte per bin, row by row, base64; 255 is the whole bin.
    layers: Vec<String>,
    operations: Vec<OperationName>,
    tasks: Vec<TaskName>,
    sources: Vec<SourceName>,
    marks: Vec<String>,
    windows: Vec<Window>,
    /// For every listed wait: its interval and what to show around it.
    waits: Vec<Focus>,
}

/// What to look at to understand a wait.
#[derive(Clone, Debug, Serialize)]
struct Focus {
    /// The wait itself.
    begin: i64,
    end: i64,
    /// What to show.
    from: i64,
    to: i64,
}

/// The timeline of a recorded program; `None` if the run recorded no program or nothing of its
/// ranks.
pub(super) fn lanes(run: &RunReader, findings: &Findings) -> Result<Option<Lanes>, RunError> {
    let (Some(program), Some(recorded)) = (&findings.program, story::recorded(run.manifest()))
    else {
        return Ok(None);
    };
    let rows = rows(program);
    if rows.is_empty() || recorded.end_ns <= recorded.begin_ns {
        return Ok(None);
    }
    let (base, span) = (recorded.begin_ns, recorded.end_ns - recorded.begin_ns);
    let row_of: BTreeMap<u32, u32> = rows.iter().copied().zip(0..).collect();
    let mut operations: Vec<OperationName> = Vec::new();
    run.for_each::<Operations>(|o| {
        let id = o.id as usize;
        // MPI has a few hundred functions; a larger number means damage.
        if id < 4_096 {
            if operations.len() <= id {
                operations.resize(id + 1, OperationName::default());
            }
            operations[id] = OperationName {
                name: o.name,
                layer: layer(o.class),
            };
        }
    })?;
    let bins = (BINS / rows.len()).min(MAX_BINS);
    let mut overview = Overview::new(base, span, bins, rows.len());
    fill(run, &row_of, &operations, &mut overview)?;

    let since = computing_since(run, program)?;
    let waits = program.latest.iter().zip(since);
    let focus: Vec<(u64, u64)> = waits.map(|(w, since)| around(program, w, since)).collect();
    let frames = frames(run, program, &row_of, base, span, &focus);
    let Filled {
        frames,
        marks,
        threads: seen,
    } = collect(run, &row_of, frames)?;
    let mut pids = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for f in &frames {
        pids.extend(f.bursts.pieces.iter().map(|p| p.what));
        ids.extend(f.interrupts.pieces.iter().map(|p| p.what));
    }
    let pids: BTreeMap<u32, u32> = pids.into_iter().zip(0..).collect();
    let ids: BTreeMap<u32, u32> = ids.into_iter().zip(0..).collect();
    let after = |at: u64| super::pieces::offset(at, base);
    let waits = program.latest.iter().zip(&focus);
    Ok(Some(Lanes {
        base: base.to_string(),
        span,
        nodes: run
            .manifest()
            .nodes
            .iter()
            .map(|n| n.host.name.clone())
            .collect(),
        rows: rows
            .iter()
            .map(|&rank| Row {
                rank,
                node: node_index(run, rank),
                threads: threads(run, rank),
            })
            .collect(),
        ranks: program.ranks,
        bins,
        layers: overview.encoded(),
        operations,
        tasks: task_names(run, pids.keys().map(|&n| seen[n as usize]))?,
        sources: source_names(run, &ids)?,
        marks,
        waits: waits
            .map(|(w, f)| Focus {
                begin: after(w.begin_ns),
                end: after(w.end_ns),
                from: after(f.0),
                to: after(f.1),
            })
            .collect(),
        windows: frames
            .into_iter()
            .map(|f| Window {
                from: after(f.begin),
                to: after(f.end),
                calls: f.calls.columns(base, None),
                waits: f.waits.columns(base, None),
                bursts: f.bursts.columns(base, Some(&pids)),
                interrupts: f.interrupts.columns(base, Some(&ids)),
                messages: f.messages.columns(base, None),
                marks: f.marks.columns(base, None),
            })
            .collect(),
    }))
}

fn threads(run: &RunReader, rank: u32) -> Vec<u32> {
    let sheet = run.manifest().ranks.get(rank as usize);
    sheet.map_or_else(Vec::new, |s| s.threads.iter().map(|t| t.get()).collect())
}

fn node_index(run: &RunReader, rank: u32) -> usize {
    let sheet = run.manifest().ranks.get(rank as usize);
    let position =
        |s: &idlewave_run::RankSheet| run.manifest().nodes.iter().position(|n| n.node == s.node);
    sheet.and_then(position).unwrap_or(0)
}

/// The ranks that get a row: all, or those in the findings plus some more.
fn rows(program: &ProgramFindings) -> Vec<u32> {
    let all = program.ranks;
    if all as usize <= MAX_ROWS {
        return (0..all).collect();
    }
    let mut chosen = BTreeSet::new();
    // Origins of waves first, then the ranks that take part in the longest waits: up to three
    // quarters of the rows.
    let waits = program.latest.iter();
    let named = program
        .waves
        .iter()
        .map(|w| w.origin)
        .chain(waits.flat_map(|w| [w.origin, w.culprit, w.rank]));
    for rank in named.map(Rank::get) {
        if chosen.len() < MAX_ROWS * 3 / 4 && rank < all {
            chosen.insert(rank);
        }
    }
    let left = (MAX_ROWS - chosen.len()) as u64;
    chosen.extend((0..left).map(|i| (i * u64::from(all) / left) as u32));
    chosen.into_iter().collect()
}

/// When the origin of every listed wait last left MPI before its delay: the start of the late
/// computation.
fn computing_since(run: &RunReader, program: &ProgramFindings) -> Result<Vec<u64>, RunError> {
    // Per rank: times before which to look, in order, with the latest end of a call seen before
    // each.
    let mut ends: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let anchors: Vec<(u32, u64)> = program
        .latest
        .iter()
        .map(|w| (w.origin.get(), delayed_until(program, w)))
        .collect();
    for &(rank, until) in &anchors {
        ends.entry(rank).or_default().push((until, 0));
    }
    ends.values_mut().for_each(|l| l.sort_unstable());
    run.for_each::<Calls>(|c| {
        if let Some(list) = ends.get_mut(&c.rank.get()) {
            let next = list.partition_point(|a| a.0 < c.end_ns);
            if let Some(a) = list.get_mut(next) {
                a.1 = a.1.max(c.end_ns);
            }
        }
    })?;
    // What lies before an earlier time lies before a later one, too.
    for list in ends.values_mut() {
        for i in 1..list.len() {
            list[i].1 = list[i].1.max(list[i - 1].1);
        }
    }
    let found = |&(rank, until): &(u32, u64)| {
        let list = ends.get(&rank)?;
        list.get(list.partition_point(|a| a.0 < until)).map(|a| a.1)
    };
    Ok(anchors.iter().map(|a| found(a).unwrap_or(0)).collect())
}

/// When the delay of a wait's origin ended: the end of the first wait for it.
fn delayed_until(program: &ProgramFindings, wait: &WaitFinding) -> u64 {
    let wave = story::wave_of(program, wait).and_then(|w| program.waves.get(w));
    let first = wave.and_then(|w| w.points.first());
    first.map_or(wait.end_ns, |p| p.2.saturating_add(p.3.get()))
}

/// What one must see to understand a wait: the wait, what made its culprit late, and the path of
/// its wave.
fn around(program: &ProgramFindings, wait: &WaitFinding, computing_since: u64) -> (u64, u64) {
    /// Of a computation longer than this many times the wait, only the end is shown; otherwise the
    /// wait would be too short to see.
    const LONGEST: u64 = 30;
    let length = wait.end_ns.saturating_sub(wait.begin_ns).max(1_000);
    let wave = story::wave_of(program, wait).and_then(|w| program.waves.get(w));
    let first = wave.map_or(wait.begin_ns, |w| w.begin_ns.min(wait.begin_ns));
    let earliest = delayed_until(program, wait).saturating_sub(LONGEST.saturating_mul(length));
    let first = first.min(computing_since.max(earliest));
    let margin = length.max((wait.end_ns - first) / 4) / 2;
    (
        first.saturating_sub(margin),
        wait.end_ns.saturating_add(margin),
    )
}

/// Exact windows: the whole program if it is short, otherwise around the listed waits; overlapping
/// ones merge.
fn frames(
    run: &RunReader,
    program: &ProgramFindings,
    rows: &BTreeMap<u32, u32>,
    base: u64,
    span: u64,
    focus: &[(u64, u64)],
) -> Vec<Frame> {
    /// Tables up to this many rows go into the page in full.
    const SHORT: u64 = 24_000;
    /// Most pieces of a kind in all windows together, and room for at least this many in each.
    const PIECES: usize = 24_000;
    const LEAST: usize = 240;
    let size = |name: &str| {
        let entry = run.manifest().tables.iter().find(|t| t.name == name);
        entry.map_or(0, |t| t.rows)
    };
    let tables = [
        "calls",
        "bursts",
        "interrupts",
        "messages",
        "waits",
        "marks",
    ];
    if program.ranks as usize <= rows.len() && tables.iter().all(|t| size(t) <= SHORT) {
        return vec![Frame::new(
            base,
            base.saturating_add(span),
            SHORT as usize + 1,
        )];
    }
    let mut spans = focus.to_vec();
    spans.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match union.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => union.push((begin, end)),
        }
    }
    let most = (PIECES / union.len().max(1)).max(LEAST);
    union
        .into_iter()
        .map(|(begin, end)| Frame::new(begin, end, most))
        .collect()
}

/// The whole program in bins.
struct Overview {
    base: u64,
    span: u64,
    bins: usize,
    /// Nanoseconds per layer, row and bin.
    sums: Vec<Vec<u64>>,
}

impl Overview {
    fn new(base: u64, span: u64, bins: usize, rows: usize) -> Self {
        Self {
            base,
            span,
            bins,
            sums: vec![vec![0; bins * rows]; LAYERS],
        }
    }

    /// Start of a bin, after the base.
    fn edge(&self, bin: usize) -> u64 {
        (u128::from(self.span) * bin as u128 / self.bins as u128) as u64
    }

    fn add(&mut self, layer: usize, row: u32, begin: u64, end: u64) {
        let begin = begin.saturating_sub(self.base).min(self.span);
        let end = end.saturating_sub(self.base).min(self.span);
        let mut bin = (u128::from(begin) * self.bins as u128 / u128::from(self.span)) as usize;
        let mut at = begin;
        while at < end && bin < self.bins {
            let next = self.edge(bin + 1).min(end);
            let place = row as usize * self.bins + bin;
            self.sums[layer][place] += next.saturating_sub(at);
            at = at.max(next);
            bin += 1;
        }
    }

    /// One byte per bin. What is not zero is at least 1; waiting is subtracted from the calls it is
    /// part of.
    fn encoded(mut self) -> Vec<String> {
        for i in 0..self.sums[WAITING].len() {
            let mut waiting = self.sums[WAITING][i];
            // Collectives and completions first: they wait most.
            for layer in [2, 1, 0, 3] {
                let part = self.sums[layer][i].min(waiting);
                self.sums[layer][i] -= part;
                waiting -= part;
            }
        }
        let widths: Vec<u64> = (0..self.bins)
            .map(|b| (self.edge(b + 1) - self.edge(b)).max(1))
            .collect();
        let byte = |i: usize, ns: u64| -> u8 {
            let share = (ns as f64 / widths[i % self.bins] as f64 * 255.0).round();
            (share.min(255.0) as u8).max(u8::from(ns > 0))
        };
        let encode = |layer: &Vec<u64>| {
            let bytes: Vec<u8> = layer
                .iter()
                .enumerate()
                .map(|(i, ns)| byte(i, *ns))
                .collect();
            STANDARD.encode(bytes)
        };
        self.sums.iter().map(encode).collect()
    }
}

/// Reads the tables once to fill the bins.
fn fill(
    run: &RunReader,
    rows: &BTreeMap<u32, u32>,
    operations: &[OperationName],
    overview: &mut Overview,
) -> Result<(), RunError> {
    run.for_each::<Calls>(|c| {
        if let Some(&row) = rows.get(&c.rank.get()) {
            let layer = operations.get(c.operation as usize).map_or(3, |o| o.layer);
            overview.add(layer, row, c.begin_ns, c.end_ns);
        }
    })?;
    run.for_each::<Waits>(|w| {
        if let Some(&row) = rows.get(&w.rank.get()) {
            overview.add(WAITING, row, w.begin_ns, w.end_ns);
        }
    })?;
    let thread_rows = thread_rows(run, rows);
    // What was taken: from preemption to running again, and interrupts that struck the rank.
    let mut off_since: HashMap<(u32, u32), u64> = HashMap::new();
    run.for_each::<Bursts>(|b| {
        let thread = (b.node.get(), b.pid.get());
        if let Some(&row) = thread_rows.get(&thread) {
            if let Some(since) = off_since.remove(&thread) {
                overview.add(TAKEN, row, since, b.begin_ns);
            }
            if b.end_reason == EndReason::Preempted {
                off_since.insert(thread, b.end_ns);
            }
        }
    })?;
    run.for_each::<Interrupts>(|i| {
        if let Some(&row) = thread_rows
            .get(&(i.node.get(), i.pid.get()))
            .filter(|_| i.depth == 0)
        {
            overview.add(TAKEN, row, i.begin_ns, i.end_ns);
        }
    })
}
