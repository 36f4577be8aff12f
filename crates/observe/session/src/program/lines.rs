//! Turns lines that a recorded program wrote to `trace_marker` into points among its marks.

use crate::SessionError;
use idlewave_ftrace::MarkerLine;
use idlewave_run::tables::{Mark, Marks, Table};
use idlewave_run::{Manifest, PhaseKind, RunReader, RunWriter, Unavailable};
use idlewave_units::{NodeId, Pid, Rank};
use std::collections::{HashMap, HashSet};

/// Adds the lines of a decoded kernel trace to the table `marks`; `None` is recorded as
/// unavailable. Does nothing without a recorded program, and skips lines that are marks already.
pub(crate) fn add_lines(
    out: &mut RunWriter,
    lines: Option<&[MarkerLine]>,
) -> Result<(), SessionError> {
    let recorded = |kind: &PhaseKind| matches!(kind, PhaseKind::Recorded { .. });
    if !out.manifest.phases.iter().any(|p| recorded(&p.kind)) {
        return Ok(());
    }
    let Some(lines) = lines else {
        if let Some(node) = out.manifest.nodes.first_mut() {
            node.trace.unavailable.push(Unavailable {
                what: "lines that programs write to trace_marker".to_owned(),
                why: "not all CPUs were recorded, or the kernel is older than Linux 6.15"
                    .to_owned(),
                allow: None,
            });
        }
        return Ok(());
    };
    if lines.is_empty() {
        return Ok(());
    }
    let is_there = out.manifest.tables.iter().any(|t| t.name == Marks::NAME);
    let mut marks = match is_there {
        true => RunReader::open(out.path())?.read::<Marks>()?,
        false => Marks::default(),
    };
    add(&mut marks, lines, &ranks_of_threads(&out.manifest));
    Ok(out.write_table(&marks)?)
}

fn ranks_of_threads(manifest: &Manifest) -> HashMap<Pid, Rank> {
    let ranks = manifest.ranks.iter();
    let threads = ranks.flat_map(|r| r.threads.iter().map(|thread| (*thread, r.rank)));
    threads.collect()
}

fn add(marks: &mut Marks, lines: &[MarkerLine], ranks: &HashMap<Pid, Rank>) {
    let known: HashSet<(Pid, u64)> = marks.rows().map(|m| (m.thread, m.begin_ns)).collect();
    for line in lines {
        // A line without a thread is useless.
        let Some(thread) = line.thread else { continue };
        if known.contains(&(thread, line.time_ns)) {
            continue;
        }
        marks.push(Mark {
            rank: ranks.get(&thread).copied(),
            node: NodeId::new(0),
            thread,
            name: line.text.clone(),
            begin_ns: line.time_ns,
            end_ns: Some(line.time_ns),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time_ns: u64, thread: Option<u32>, text: &str) -> MarkerLine {
        MarkerLine {
            time_ns,
            thread: thread.map(Pid::new),
            text: text.to_owned(),
        }
    }

    #[test]
    fn lines_are_points_of_the_rank_whose_thread_wrote_them_and_are_added_once() {
        let ranks = HashMap::from([(Pid::new(7), Rank::new(3))]);
        let lines = [
            line(10, Some(7), "a"),
            line(20, Some(8), "b"),
            line(30, None, "c"),
        ];
        let mut marks = Marks::default();
        for _ in 0..2 {
            add(&mut marks, &lines, &ranks);
            let found: Vec<_> = marks
                .rows()
                .map(|m| (m.rank, m.name, m.begin_ns, m.end_ns))
                .collect();
            let expected = [
                (Some(Rank::new(3)), "a".to_owned(), 10, Some(10)),
                (None, "b".to_owned(), 20, Some(20)),
            ];
            assert_eq!(found, expected);
        }
    }
}
