//! Interrupts by name and CPU: how many, how long, how nested; and the clock interrupt by itself.
//!
//! The *net* length of an interrupt is its time less that of the interrupts nested in it. Rows of a
//! CPU come in order of time, outer before inner, so one open nest per CPU is all that is kept. An
//! interrupt whose start or end was inferred counts, but its length does not.

use super::coarse::{CoarseCounter, counters};
use super::lengths::{LengthSummary, Lengths};
use super::scope::Scope;
use super::ticks::{Clock, Ticks};
use crate::ExplainError;
use idlewave_run::findings::Estimate;
use idlewave_run::tables::{Interrupt, Interrupts as Table_, Sources, Table};
use idlewave_run::{RunReader, SourceKind};
use idlewave_stats::rates;
use idlewave_units::{Cpu, Nanos, NodeId};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Interrupts by name and CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interrupts {
    /// From the first to the last interrupt in the scope.
    pub watched: Nanos,
    /// Most net time first.
    pub interrupts: Vec<InterruptRow>,
    /// The clock interrupt, one entry per node.
    pub clocks: Vec<Clock>,
    /// What the counters of /proc say, where the kernel was not traced.
    pub coarse: Vec<CoarseCounter>,
}

/// One kind of interrupt on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InterruptRow {
    /// Node.
    pub node: NodeId,
    /// CPU.
    pub cpu: Cpu,
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Per second.
    pub rate: Estimate,
    /// Lengths without what was nested in them.
    pub net: LengthSummary,
    /// Time of interrupts nested directly in them.
    pub nested: Nanos,
    /// How many of them were nested in another one themselves.
    pub inner: u64,
}

#[derive(Debug, Default)]
struct Sums {
    count: u64,
    net: Lengths,
    nested: u64,
    inner: u64,
}

/// An interrupt that may still get others nested in it.
#[derive(Clone, Debug)]
struct Open {
    row: Interrupt,
    nested: u64,
}

type Key = (NodeId, Cpu, u32);

/// Rows between two checks of the flag that stops the pass.
const LOOK: u64 = 1 << 14;

/// The view.
pub fn interrupts(
    run: &RunReader,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<Interrupts, ExplainError> {
    let sources = run.read::<Sources>()?;
    let named: BTreeMap<u32, (SourceKind, String)> =
        sources.rows().map(|s| (s.id, (s.kind, s.name))).collect();
    let is_tick = |source: u32| matches!(named.get(&source), Some((SourceKind::TimerTick, _)));
    let mut rows = run.in_order::<Table_>(|i| i.begin_ns)?;
    let mut sums: BTreeMap<Key, Sums> = BTreeMap::new();
    let mut nests: BTreeMap<(NodeId, Cpu), Vec<Open>> = BTreeMap::new();
    let mut ticks = Ticks::default();
    let (mut first, mut last, mut seen) = (None, 0, 0_u64);
    let mut close = |open: Open, ticks: &mut Ticks| {
        let Open { row, nested } = open;
        let sum = sums.entry((row.node, row.cpu, row.source)).or_default();
        sum.count += 1;
        sum.inner += u64::from(row.depth > 0);
        sum.nested += nested;
        let whole = row.end_ns.saturating_sub(row.begin_ns);
        if row.certain {
            sum.net.add(whole.saturating_sub(nested));
        }
        if is_tick(row.source) {
            ticks.add(
                row.node,
                row.cpu,
                row.begin_ns,
                row.certain.then_some(whole),
            );
        }
    };
    while let Some(row) = rows.next_row()? {
        seen += 1;
        if seen % LOOK == 0 && stop.load(Ordering::Relaxed) {
            return Err(ExplainError::Interrupted);
        }
        let asked = scope.has_cpu(row.node, row.cpu) && scope.has_thread(row.node, row.pid);
        if !asked || !scope.has_time(row.begin_ns) {
            continue;
        }
        first.get_or_insert(row.begin_ns);
        last = last.max(row.end_ns);
        let nest = nests.entry((row.node, row.cpu)).or_default();
        while nest.last().is_some_and(|open| open.row.depth >= row.depth) {
            if let Some(open) = nest.pop() {
                close(open, &mut ticks);
            }
        }
        if let Some(outer) = nest.last_mut() {
            outer.nested += row.end_ns.saturating_sub(row.begin_ns);
        }
        nest.push(Open { row, nested: 0 });
    }
    for open in nests.into_values().flatten() {
        close(open, &mut ticks);
    }
    let watched = first.map_or(0, |first| last.saturating_sub(first));
    let seconds = watched as f64 / 1e9;
    let mut table: Vec<InterruptRow> = sums
        .into_iter()
        .map(|((node, cpu, source), sum)| {
            let unknown = || (SourceKind::Unexplained, format!("source {source}"));
            let (kind, name) = named.get(&source).cloned().unwrap_or_else(unknown);
            InterruptRow {
                node,
                cpu,
                kind,
                name,
                count: sum.count,
                rate: rates::poisson(sum.count, seconds),
                net: sum.net.summary(),
                nested: Nanos::from_nanos(sum.nested),
                inner: sum.inner,
            }
        })
        .collect();
    table.sort_by(|a, b| {
        let key = |r: &InterruptRow| (Reverse(r.net.total), Reverse(r.count));
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.name, a.node, a.cpu).cmp(&(&b.name, b.node, b.cpu)))
    });
    Ok(Interrupts {
        watched: Nanos::from_nanos(watched),
        interrupts: table,
        clocks: ticks.finish(run.manifest(), watched),
        coarse: counters(run, scope)?,
    })
}
