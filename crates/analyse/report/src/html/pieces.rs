//! What both timelines are made of: pieces of rows that overlap a window, the longest first.

use idlewave_run::tables::{Sources, TaskKind, Tasks};
use idlewave_run::{Manifest, RunError, RunReader};
use idlewave_units::{Cpu, NodeId};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Pieces of one kind as columns. Times are nanoseconds after the window's base and may be
/// negative.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pieces {
    /// Row of the window.
    pub row: Vec<u32>,
    /// Bursts: task. Interrupts and charges: source. Regions: kind. Unused for detours.
    pub what: Vec<u32>,
    /// Start.
    pub at: Vec<i64>,
    /// Length.
    pub len: Vec<u64>,
    /// Bursts: reason of the end. Interrupts: depth. Regions: iteration.
    pub more: Vec<u64>,
    /// Indices of pieces whose start or end is inferred.
    pub unsure: Vec<u32>,
    /// How many of the shortest were left out.
    pub left_out: u64,
}

/// A task as the timeline names it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TaskName {
    pub name: String,
    pub kind: u8,
    pub pid: u32,
}

/// An interrupt as the timeline names it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SourceName {
    pub name: String,
    pub kind: &'static str,
}

/// Node and thread: the same thread number on another node is another thread.
pub(super) type Thread = (u32, u32);

/// The name of a CPU, with its node's if there are several.
pub(super) fn cpu_name(manifest: &Manifest, (node, cpu): (NodeId, Cpu)) -> String {
    let host = manifest.nodes.iter().find(|n| n.node == node);
    match host.filter(|_| manifest.nodes.len() > 1) {
        Some(n) => format!("{} CPU {cpu}", n.host.name),
        None => format!("CPU {cpu}"),
    }
}

/// A piece of a row, with absolute times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub row: u32,
    pub what: u32,
    pub begin: u64,
    pub end: u64,
    pub more: u64,
    pub certain: bool,
}

/// Pieces of one kind being collected; if there are too many, the longest are kept.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    pub pieces: Vec<Piece>,
    most: usize,
    left_out: u64,
}

impl Gathered {
    /// Keeps `most` pieces, at least 1.
    pub(super) fn new(most: usize) -> Self {
        Self {
            pieces: Vec::new(),
            most: most.max(1),
            left_out: 0,
        }
    }

    pub(super) fn put(&mut self, piece: Option<Piece>) {
        self.pieces.extend(piece);
        if self.pieces.len() >= 2 * self.most {
            self.shorten();
        }
    }

    /// Drops the shortest pieces above the limit.
    pub(super) fn shorten(&mut self) {
        if self.pieces.len() > self.most {
            let length = |p: &Piece| p.end.saturating_sub(p.begin);
            self.pieces
                .sort_by_key(|p| (Reverse(length(p)), p.begin, p.row, p.what));
            self.left_out += (self.pieces.len() - self.most) as u64;
            self.pieces.truncate(self.most);
        }
    }

    /// Sorted by row and time; outer interrupts before nested ones.
    pub(super) fn columns(mut self, base: u64, dense: Option<&BTreeMap<u32, u32>>) -> Pieces {
        self.shorten();
        self.pieces
            .sort_by_key(|p| (p.row, p.begin, Reverse(p.end), p.what, p.more));
        let mut out = Pieces {
            left_out: self.left_out,
            ..Pieces::default()
        };
        for (i, p) in self.pieces.iter().enumerate() {
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
}

/// Tells whether an interval overlaps any window.
pub(super) struct Index {
    /// Union of all windows, disjoint and ascending: most pieces overlap none.
    union: Vec<(u64, u64)>,
}

impl Index {
    pub(super) fn new(spans: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut spans: Vec<(u64, u64)> = spans.collect();
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

    /// Whether any window overlaps the interval.
    pub(super) fn meets(&self, begin: u64, end: u64) -> bool {
        let next = self.union.partition_point(|u| u.1 <= begin);
        self.union.get(next).is_some_and(|u| u.0 < end)
    }
}

/// The offset of `at` from `base`; negative if before it.
pub(super) fn offset(at: u64, base: u64) -> i64 {
    at.wrapping_sub(base) as i64
}

/// Names of threads, given by node and thread number, in the given order.
pub(super) fn task_names(
    run: &RunReader,
    threads: impl Iterator<Item = Thread>,
) -> Result<Vec<TaskName>, RunError> {
    let (mut tasks, mut places) = (Vec::new(), BTreeMap::new());
    for thread in threads {
        places.insert(thread, tasks.len());
        tasks.push(TaskName {
            name: format!("thread {}", thread.1),
            kind: TaskKind::Unknown.code(),
            pid: thread.1,
        });
    }
    run.for_each::<Tasks>(|t| {
        if let Some(&i) = places.get(&(t.node.get(), t.pid.get())) {
            tasks[i].name = t.name;
            tasks[i].kind = t.kind.code();
        }
    })?;
    Ok(tasks)
}

/// Names of the sources in `ids`, ordered by their dense numbers.
pub(super) fn source_names(
    run: &RunReader,
    ids: &BTreeMap<u32, u32>,
) -> Result<Vec<SourceName>, RunError> {
    let mut sources: Vec<SourceName> = ids
        .keys()
        .map(|id| SourceName {
            name: format!("source {id}"),
            kind: "not known",
        })
        .collect();
    run.for_each::<Sources>(|s| {
        if let Some(&i) = ids.get(&s.id) {
            sources[i as usize] = SourceName {
                name: s.name,
                kind: s.kind.label(),
            };
        }
    })?;
    Ok(sources)
}

#[cfg(test)]
pub(super) mod tests {
    use idlewave_run::tables::{Burst, Bursts, EndReason, Table, Task, TaskKind, Tasks};
    use idlewave_run::testing::empty_manifest;
    use idlewave_run::{RankSheet, RunReader, RunWriter};
    use idlewave_units::{Cpu, NodeId, Pid, Rank};
    use std::path::Path;

    /// A run of two ranks on CPU 0 of two nodes, on each of which a thread 7 ran from 100 to 200:
    /// backup on node 0, monitor on node 1.
    pub(crate) fn same_number_on_two_nodes(dir: &Path) -> RunReader {
        let mut manifest = empty_manifest();
        let (mut tasks, mut bursts) = (Tasks::default(), Bursts::default());
        for (n, name) in [(0, "backup"), (1, "monitor")] {
            let node = NodeId::new(n);
            manifest.ranks.push(RankSheet {
                process: None,
                rank: Rank::new(n),
                node,
                cpu: Some(Cpu::new(0)),
                threads: vec![Pid::new(100 + n)],
                priority: None,
            });
            tasks.push(Task {
                node,
                pid: Pid::new(7),
                process: None,
                name: name.to_owned(),
                kind: TaskKind::User,
            });
            bursts.push(Burst {
                node,
                cpu: Cpu::new(0),
                pid: Pid::new(7),
                begin_ns: 100,
                end_ns: 200,
                end_reason: EndReason::Sleeping,
                certain: true,
            });
        }
        let path = dir.join("run");
        let mut out = RunWriter::create(&path, manifest).unwrap();
        out.write_table(&tasks).unwrap();
        out.write_table(&bursts).unwrap();
        out.close(None).unwrap();
        RunReader::open(&path).unwrap()
    }
}
