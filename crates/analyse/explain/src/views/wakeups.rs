//! Who woke the threads that made steps late, and who woke those.
//!
//! The waker is the thread that ran on the CPU of the wake-up, unless an interrupt was being
//! handled there: then it is the innermost interrupt, because the interrupted thread has nothing to
//! do with the wake-up. A wake-up by the timer interrupt is a sleep that ended.
//!
//! Threads are summed up by source, as in the table of sources. Memory grows with pairs of sources,
//! not with wake-ups.

use super::scope::Scope;
use crate::ExplainError;
use crate::catalog::{Catalog, SourceId};
use idlewave_run::findings::Findings;
use idlewave_run::tables::{Interrupt, Interrupts, LateSteps, Sources, Tasks, Waits};
use idlewave_run::{RunReader, SourceKind};
use idlewave_units::{Cpu, Nanos, NodeId, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sources shown.
const SOURCES: usize = 10;
/// Wakers kept of each source.
const WAKERS: usize = 5;
/// Wake-ups between two checks of the flag that stops the pass.
const LOOK: u64 = 1 << 14;

/// Wake-up chains of the sources that cost most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wakeups {
    /// Late steps, or waits of a recorded program.
    pub late: u64,
    /// Most time lost first.
    pub sources: Vec<Woken>,
}

/// A source that was woken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Woken {
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// Time that it cost all ranks, over the whole run.
    pub lost: Nanos,
    /// How often it was woken.
    pub wakeups: u64,
    /// How often during a late step.
    pub in_late: u64,
    /// Who woke it, most often first.
    pub wakers: Vec<Waker>,
    /// Wakers left out.
    pub more: u64,
}

/// Who woke a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waker {
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// How often.
    pub wakeups: u64,
    /// How often during a late step.
    pub in_late: u64,
    /// Who woke the waker, whatever for, most often first; empty for interrupts.
    pub woken_by: Vec<Back>,
}

/// One level further back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Back {
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// How often.
    pub wakeups: u64,
}

type Counts = BTreeMap<SourceId, BTreeMap<SourceId, (u64, u64)>>;

/// The view. With `all`, every source in the scope is shown, even one that cost nothing.
pub fn wakeups(
    run: &RunReader,
    findings: &Findings,
    scope: &Scope,
    all: bool,
    stop: &AtomicBool,
) -> Result<Wakeups, ExplainError> {
    let mut catalog = Catalog::new(&run.read::<Tasks>()?, &run.read::<Sources>()?);
    let (late, late_spans) = late_spans(run)?;
    let counts = count(run, &mut catalog, scope, &late_spans, stop)?;
    let lost: BTreeMap<(SourceKind, &str), Nanos> = findings
        .sources
        .iter()
        .map(|s| ((s.kind, s.name.as_str()), s.lost))
        .collect();
    let lost_by = |id: SourceId| {
        let found = lost.get(&(catalog.kind(id), catalog.name(id)));
        found.copied().unwrap_or(Nanos::ZERO)
    };
    let sum = |wakers: &BTreeMap<SourceId, (u64, u64)>| {
        let both = |all: (u64, u64), one: &(u64, u64)| (all.0 + one.0, all.1 + one.1);
        wakers.values().fold((0, 0), both)
    };
    let mut order: Vec<SourceId> = counts.shown.keys().copied().collect();
    order.retain(|&id| all || lost_by(id) > Nanos::ZERO);
    order.sort_by_key(|id| {
        (
            Reverse(lost_by(*id)),
            Reverse(sum(&counts.shown[id]).0),
            *id,
        )
    });
    order.truncate(SOURCES);
    let sources = order.into_iter().map(|id| {
        let wakers = &counts.shown[&id];
        let (wakeups, in_late) = sum(wakers);
        let mut by: Vec<(SourceId, (u64, u64))> = wakers.iter().map(|(k, v)| (*k, *v)).collect();
        by.sort_by_key(|(waker, n)| (Reverse(n.0), *waker));
        let more = by.len().saturating_sub(WAKERS) as u64;
        by.truncate(WAKERS);
        let waker = |(waker, n): (SourceId, (u64, u64))| Waker {
            kind: catalog.kind(waker),
            name: name(&catalog, waker),
            wakeups: n.0,
            in_late: n.1,
            woken_by: back(&catalog, counts.all.get(&waker)),
        };
        Woken {
            kind: catalog.kind(id),
            name: name(&catalog, id),
            lost: lost_by(id),
            wakeups,
            in_late,
            wakers: by.into_iter().map(waker).collect(),
            more,
        }
    });
    let sources = sources.collect();
    Ok(Wakeups { late, sources })
}

fn name(catalog: &Catalog, id: SourceId) -> String {
    match catalog.kind(id) {
        SourceKind::Rank => "a rank".to_owned(),
        _ => catalog.name(id).to_owned(),
    }
}

fn back(catalog: &Catalog, wakers: Option<&BTreeMap<SourceId, (u64, u64)>>) -> Vec<Back> {
    let mut by: Vec<(SourceId, u64)> = wakers
        .into_iter()
        .flatten()
        .map(|(id, n)| (*id, n.0))
        .collect();
    by.sort_by_key(|(id, n)| (Reverse(*n), *id));
    by.truncate(WAKERS);
    by.into_iter()
        .map(|(id, wakeups)| Back {
            kind: catalog.kind(id),
            name: name(catalog, id),
            wakeups,
        })
        .collect()
}

/// Wake-ups by woken source and waker.
#[derive(Debug, Default)]
struct Counted {
    /// Of the threads in the scope.
    shown: Counts,
    /// Of all threads in the stretch of time.
    all: Counts,
}

fn count(
    run: &RunReader,
    catalog: &mut Catalog,
    scope: &Scope,
    late: &[(u64, u64)],
    stop: &AtomicBool,
) -> Result<Counted, ExplainError> {
    let mut counted = Counted::default();
    let mut rows = run.in_order::<idlewave_run::tables::Wakeups>(|w| w.time_ns)?;
    let mut interrupts = run.in_order::<Interrupts>(|i| i.begin_ns)?;
    let mut open: BTreeMap<(NodeId, Cpu), Vec<Interrupt>> = BTreeMap::new();
    let mut seen = 0_u64;
    while let Some(wakeup) = rows.next_row()? {
        seen += 1;
        if seen % LOOK == 0 && stop.load(Ordering::Relaxed) {
            return Err(ExplainError::Interrupted);
        }
        let time = wakeup.time_ns;
        while interrupts.peek().is_some_and(|begin| begin <= time) {
            if let Some(row) = interrupts.next_row()? {
                let nest = open.entry((row.node, row.cpu)).or_default();
                nest.retain(|outer| outer.end_ns >= row.begin_ns);
                nest.push(row);
            }
        }
        if !scope.has_time(time) || wakeup.pid == Pid::IDLE {
            continue;
        }
        let nest = open.get(&(wakeup.node, wakeup.cpu));
        let inner = nest.and_then(|nest| nest.iter().rfind(|i| i.end_ns >= time));
        let waker = match inner {
            Some(interrupt) => catalog.interrupt(interrupt.source),
            None => catalog.thread(wakeup.node, wakeup.waker),
        };
        let woken = catalog.thread(wakeup.node, wakeup.pid);
        let place = late.partition_point(|span| span.0 <= time);
        let in_late = place > 0 && time < late[place - 1].1;
        let add = |counts: &mut Counts| {
            let sum = counts.entry(woken).or_default().entry(waker).or_default();
            *sum = (sum.0 + 1, sum.1 + u64::from(in_late));
        };
        add(&mut counted.all);
        if scope.has_thread(wakeup.node, wakeup.pid)
            && scope.has_cpu(wakeup.node, wakeup.target_cpu)
        {
            add(&mut counted.shown);
        }
    }
    Ok(counted)
}

/// How many steps were late (or waits were explained), and the union of their times, in order.
fn late_spans(run: &RunReader) -> Result<(u64, Vec<(u64, u64)>), ExplainError> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    run.for_each::<LateSteps>(|s| spans.push((s.begin_ns, s.end_ns)))?;
    run.for_each::<Waits>(|w| spans.push((w.begin_ns, w.end_ns)))?;
    let count = spans.len() as u64;
    spans.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match union.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => union.push((begin, end)),
        }
    }
    Ok((count, union))
}
