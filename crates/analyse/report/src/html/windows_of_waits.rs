//! Exact pieces of a recorded program in a few windows of time: calls, waits, messages, regions,
//! and what ran on each rank's CPU.

use super::pieces::{Gathered, Index, Piece, Thread};
use idlewave_run::tables::{Bursts, Calls, Interrupts, Marks, Messages, Waits};
use idlewave_run::{RunError, RunReader};
use idlewave_units::{Cpu, Pid};
use std::collections::{BTreeMap, HashMap};

/// Most region names kept: a program may use any number of them.
const MAX_MARKS: usize = 200;

/// A window being filled.
pub(super) struct Frame {
    pub begin: u64,
    pub end: u64,
    pub calls: Gathered,
    pub waits: Gathered,
    pub bursts: Gathered,
    pub interrupts: Gathered,
    pub messages: Gathered,
    pub marks: Gathered,
    /// What ran on every CPU (row: index of node and CPU in `places`), until the rank on it is
    /// known.
    on_cpus: Gathered,
    in_interrupts: Gathered,
    most: usize,
}

impl Frame {
    /// A window that keeps at most `most` pieces of a kind.
    pub(super) fn new(begin: u64, end: u64, most: usize) -> Self {
        let gathered = || Gathered::new(most);
        Self {
            begin,
            end,
            calls: gathered(),
            waits: gathered(),
            bursts: gathered(),
            interrupts: gathered(),
            messages: gathered(),
            marks: gathered(),
            on_cpus: gathered(),
            in_interrupts: gathered(),
            most,
        }
    }
}

/// Node and CPU.
type Place = (u32, Cpu);

/// The filled windows.
pub(super) struct Filled {
    pub frames: Vec<Frame>,
    /// Names of the regions in the windows.
    pub marks: Vec<String>,
    /// Threads of the bursts in the windows, by their number.
    pub threads: Vec<Thread>,
}

/// Fills the windows; reads each table once.
pub(super) fn collect(
    run: &RunReader,
    rows: &BTreeMap<u32, u32>,
    mut frames: Vec<Frame>,
) -> Result<Filled, RunError> {
    if frames.is_empty() {
        return Ok(Filled {
            frames,
            marks: Vec::new(),
            threads: Vec::new(),
        });
    }
    let index = Index::new(frames.iter().map(|f| (f.begin, f.end)));
    let marks = fill_program(run, rows, &index, &mut frames)?;
    let (places, threads) = fill_cpus(run, &index, &mut frames)?;
    let rows_of = thread_rows(run, rows);
    let row_of_thread: Vec<Option<u32>> = threads.iter().map(|t| rows_of.get(t).copied()).collect();
    let bound: BTreeMap<u32, Place> = run
        .manifest()
        .ranks
        .iter()
        .filter_map(|s| Some((*rows.get(&s.rank.get())?, (s.node.get(), s.cpu?))))
        .collect();
    for f in &mut frames {
        assign(f, &row_of_thread, &places, &bound);
    }
    Ok(Filled {
        frames,
        marks,
        threads,
    })
}

fn piece(row: u32, what: u32, begin: u64, end: u64, more: u64) -> Piece {
    Piece {
        row,
        what,
        begin,
        end,
        more,
        certain: true,
    }
}

/// Calls, waits, messages and marks of the ranks; returns the names of the marks.
fn fill_program(
    run: &RunReader,
    rows: &BTreeMap<u32, u32>,
    index: &Index,
    frames: &mut [Frame],
) -> Result<Vec<String>, RunError> {
    run.for_each::<Calls>(|c| {
        if let Some(&row) = rows.get(&c.rank.get()) {
            let bytes = c.sent.map_or(0, |b| b.get());
            let p = piece(row, c.operation, c.begin_ns, c.end_ns, bytes);
            visit(index, frames, &p, |f| f.calls.put(Some(p)));
        }
    })?;
    run.for_each::<Waits>(|w| {
        if let Some(&row) = rows.get(&w.rank.get()) {
            let p = piece(row, w.culprit.get(), w.begin_ns, w.end_ns, w.hops.into());
            visit(index, frames, &p, |f| f.waits.put(Some(p)));
        }
    })?;
    run.for_each::<Messages>(|m| {
        if let (Some(&from), Some(&to)) = (rows.get(&m.from.get()), rows.get(&m.to.get())) {
            if from != to {
                let p = piece(from, to, m.sent_ns, m.completed_ns, m.bytes.get());
                visit(index, frames, &p, |f| f.messages.put(Some(p)));
            }
        }
    })?;
    let mut names: Vec<String> = Vec::new();
    run.for_each::<Marks>(|m| {
        let Some(&row) = m.rank.and_then(|r| rows.get(&r.get())) else {
            return;
        };
        let end = m.end_ns.unwrap_or(u64::MAX);
        let known = names.iter().position(|n| *n == m.name);
        let Some(name) = known.or_else(|| (names.len() < MAX_MARKS).then_some(names.len())) else {
            return;
        };
        if name == names.len() {
            names.push(m.name);
        }
        let p = piece(row, name as u32, m.begin_ns, end, 0);
        visit(index, frames, &p, |f| {
            let end = p.end.min(f.end);
            f.marks.put(Some(Piece { end, ..p }));
        });
    })?;
    Ok(names)
}

/// What was on the CPUs; returns the numbers of the CPUs, and the threads by their numbers.
fn fill_cpus(
    run: &RunReader,
    index: &Index,
    frames: &mut [Frame],
) -> Result<(BTreeMap<Place, u32>, Vec<Thread>), RunError> {
    let mut places: BTreeMap<Place, u32> = BTreeMap::new();
    let mut place = |node: u32, cpu: Cpu| {
        let next = places.len() as u32;
        *places.entry((node, cpu)).or_insert(next)
    };
    let mut seen: BTreeMap<Thread, u32> = BTreeMap::new();
    run.for_each::<Bursts>(|b| {
        if b.pid != Pid::IDLE {
            let next = seen.len() as u32;
            let thread = *seen.entry((b.node.get(), b.pid.get())).or_insert(next);
            let mut p = piece(
                place(b.node.get(), b.cpu),
                thread,
                b.begin_ns,
                b.end_ns,
                b.end_reason.code().into(),
            );
            p.certain = b.certain;
            visit(index, frames, &p, |f| f.on_cpus.put(Some(p)));
        }
    })?;
    run.for_each::<Interrupts>(|i| {
        let mut p = piece(
            place(i.node.get(), i.cpu),
            i.source,
            i.begin_ns,
            i.end_ns,
            i.depth.into(),
        );
        p.certain = i.certain;
        visit(index, frames, &p, |f| f.in_interrupts.put(Some(p)));
    })?;
    let mut threads: Vec<Thread> = vec![(0, 0); seen.len()];
    for (thread, number) in seen {
        threads[number as usize] = thread;
    }
    Ok((places, threads))
}

/// Row of each rank's thread; of several threads that call MPI, the first.
pub(super) fn thread_rows(run: &RunReader, rows: &BTreeMap<u32, u32>) -> HashMap<Thread, u32> {
    let sheets = run.manifest().ranks.iter();
    sheets
        .filter_map(|s| {
            let row = *rows.get(&s.rank.get())?;
            let thread = s.threads.first()?;
            Some(((s.node.get(), thread.get()), row))
        })
        .collect()
}

/// Calls `put` with every window that overlaps the piece; a point in time lasts one nanosecond.
fn visit(index: &Index, frames: &mut [Frame], piece: &Piece, put: impl FnMut(&mut Frame)) {
    let (begin, end) = (piece.begin, piece.end.max(piece.begin.saturating_add(1)));
    if index.meets(begin, end) {
        let over = |f: &&mut Frame| begin < f.end && f.begin < end;
        frames.iter_mut().filter(over).for_each(put);
    }
}

/// Assigns what ran on a CPU to the rank that was on it at the time.
fn assign(
    f: &mut Frame,
    row_of_thread: &[Option<u32>],
    places: &BTreeMap<Place, u32>,
    bound: &BTreeMap<u32, Place>,
) {
    f.on_cpus.shorten();
    f.in_interrupts.shorten();
    let row_of = |p: &Piece| row_of_thread.get(p.what as usize).copied().flatten();
    // Per row: since when it was on which CPU.
    let mut stays: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
    for p in &f.on_cpus.pieces {
        if let Some(row) = row_of(p) {
            stays.entry(row).or_default().push((p.begin, p.row));
        }
    }
    for (&row, place) in bound {
        if let Some(&place) = places.get(place) {
            stays.entry(row).or_insert_with(|| vec![(f.begin, place)]);
        }
    }
    // Stays on a CPU, by CPU: start, end, row.
    let mut on: BTreeMap<u32, Vec<(u64, u64, u32)>> = BTreeMap::new();
    for (row, mut list) in stays {
        list.sort_unstable();
        list.dedup_by_key(|s| s.1);
        for (i, &(begin, place)) in list.iter().enumerate() {
            let begin = if i == 0 { f.begin } else { begin };
            let end = list.get(i + 1).map_or(f.end, |n| n.0);
            on.entry(place).or_default().push((begin, end, row));
        }
    }
    let clipped = |p: &Piece, stay: &(u64, u64, u32)| {
        let (begin, end) = (p.begin.max(stay.0), p.end.min(stay.1));
        (begin < end).then_some(Piece {
            row: stay.2,
            begin,
            end,
            ..*p
        })
    };
    let (mut bursts, mut interrupts) = (Gathered::new(f.most), Gathered::new(f.most));
    for (from, to) in [
        (&f.on_cpus, &mut bursts),
        (&f.in_interrupts, &mut interrupts),
    ] {
        for p in &from.pieces {
            for stay in on.get(&p.row).into_iter().flatten() {
                to.put(clipped(p, stay));
            }
        }
        to.shorten();
    }
    f.bursts = bursts;
    f.interrupts = interrupts;
    (f.on_cpus, f.in_interrupts) = (Gathered::new(1), Gathered::new(1));
}

#[cfg(test)]
mod tests {
    use super::super::pieces::task_names;
    use super::super::pieces::tests::same_number_on_two_nodes;
    use super::*;

    #[test]
    fn threads_of_one_number_on_two_nodes_keep_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let run = same_number_on_two_nodes(dir.path());
        let rows = BTreeMap::from([(0, 0), (1, 1)]);
        let filled = collect(&run, &rows, vec![Frame::new(0, 1_000, 10)]).unwrap();
        let names = task_names(&run, filled.threads.iter().copied()).unwrap();
        let mut shown: Vec<(u32, &str)> = filled.frames[0]
            .bursts
            .pieces
            .iter()
            .map(|p| (p.row, names[p.what as usize].name.as_str()))
            .collect();
        shown.sort_unstable();
        assert_eq!(shown, [(0, "backup"), (1, "monitor")]);
        let unknown = task_names(&run, [(1, 8)].into_iter()).unwrap();
        assert_eq!((unknown[0].name.as_str(), unknown[0].kind), ("thread 8", 5));
    }
}
