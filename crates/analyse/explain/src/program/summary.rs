//! Findings on a recorded program that are sums over its calls, messages, waits and marks.

use super::find::CallFinder;
use super::lanes::Program;
use super::messages::Matched;
use super::origins::{Explained, Origins};
use super::rank_times::{Spans, ranks_time};
use super::recorded::Recorded;
use super::waits::Waits;
use crate::catalog::SourceId;
use crate::watch::Charge;
use idlewave_run::findings::{
    LatePartFinding, MarkFinding, OperationFinding, PathFinding, ProgramFindings, WaitClass,
    WaitFinding,
};
use idlewave_run::tables::{Marks, Table, WaitKind};
use idlewave_units::{Nanos, Rank};
use std::collections::BTreeMap;

/// Waits listed in the findings; all are in the tables.
const LATEST_KEPT: usize = 100;

/// Everything that does not need the table of sources. `named` tells whether a source has a name.
pub fn findings(
    recorded: &Recorded,
    waits: &Waits,
    origins: &Origins,
    charges: &[Vec<Charge>],
    spans: &Spans,
    marks: &Marks,
    named: &dyn Fn(SourceId) -> bool,
) -> ProgramFindings {
    let (program, matched) = (&recorded.program, &recorded.matched);
    let shares = || origins.explained.iter().flat_map(|e| origins.shares_of(e));
    let matrix = matrix(matched);
    let nanos = Nanos::from_nanos;
    let lengths = |e: &Explained| waits.all[e.wait as usize].length();
    ProgramFindings {
        library: recorded.library.clone(),
        ranks: program.of_rank.len() as u32,
        total: nanos(spans.total()),
        ranks_time: ranks_time(program, waits, charges, spans),
        operations: operations(program, matched, waits),
        message_bytes: matrix.values().map(|m| m.1).sum(),
        messages: matched.pairs.len() as u64,
        matrix: matrix
            .into_iter()
            .map(|((from, to), (n, bytes))| (from, to, n, bytes))
            .collect(),
        waits: wait_classes(program, waits, origins),
        waited: nanos(origins.explained.iter().map(lengths).sum()),
        named: nanos(shares().filter(|s| named(s.source)).map(|s| s.ns).sum()),
        propagated: nanos(shares().filter(|s| !s.own).map(|s| s.ns).sum()),
        latest: Vec::new(),
        waves: Vec::new(),
        path: PathFinding::default(),
        marks: mark_findings(program, waits, marks),
    }
}

fn operations(program: &Program, matched: &Matched, waits: &Waits) -> Vec<OperationFinding> {
    let mut lengths: Vec<Vec<u64>> = vec![Vec::new(); program.operations.len()];
    let mut waiting = vec![0u64; program.operations.len()];
    for call in program.lanes.iter().flat_map(|l| &l.calls) {
        lengths[usize::from(call.operation)].push(call.end - call.begin);
    }
    for wait in &waits.all {
        let call = program.call(wait.lane, wait.call);
        waiting[usize::from(call.operation)] += wait.length();
    }
    let mut bytes: Vec<u64> = program.operations.iter().map(|o| o.sent).collect();
    let mut calls = CallFinder::of(program);
    for send in &matched.sends {
        if let Some(i) = calls.find(program, send.lane, send.posted) {
            bytes[usize::from(program.call(send.lane, i).operation)] += send.bytes;
        }
    }
    let mut out: Vec<OperationFinding> = lengths
        .iter_mut()
        .enumerate()
        .filter(|(_, lengths)| !lengths.is_empty())
        .map(|(i, lengths)| OperationFinding {
            name: program.operations[i].name.clone(),
            calls: lengths.len() as u64,
            time: Nanos::from_nanos(lengths.iter().sum()),
            waiting: Nanos::from_nanos(waiting[i]),
            median: median(lengths),
            max: Nanos::from_nanos(lengths.iter().copied().max().unwrap_or(0)),
            bytes: bytes[i],
        })
        .collect();
    out.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    out
}

/// The upper of two middle values.
fn median(values: &mut [u64]) -> Nanos {
    if values.is_empty() {
        return Nanos::ZERO;
    }
    let middle = values.len() / 2;
    Nanos::from_nanos(*values.select_nth_unstable(middle).1)
}

/// Messages and bytes between ranks.
fn matrix(matched: &Matched) -> BTreeMap<(Rank, Rank), (u64, u64)> {
    let mut out: BTreeMap<(Rank, Rank), (u64, u64)> = BTreeMap::new();
    for &(_, r) in &matched.pairs {
        let receive = &matched.receives[r as usize];
        let cell = out.entry((receive.from, receive.to)).or_default();
        *cell = (cell.0 + 1, cell.1 + receive.bytes);
    }
    out
}

fn kind_name(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::LateSender => "late sender",
        WaitKind::LateReceiver => "late receiver",
        _ => "wait at a collective",
    }
}

fn wait_classes(program: &Program, waits: &Waits, origins: &Origins) -> Vec<WaitClass> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for explained in &origins.explained {
        let wait = &waits.all[explained.wait as usize];
        let name = match wait.kind {
            WaitKind::Collective => {
                let call = program.call(wait.lane, wait.call);
                format!("wait at {}", program.name(call))
            }
            kind => kind_name(kind).to_owned(),
        };
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1 + wait.length());
    }
    for (name, sum) in [
        ("too short to be explained", origins.short),
        ("shorter than the error of the clocks", origins.untrusted),
    ] {
        if sum.0 > 0 {
            sums.insert(name.to_owned(), sum);
        }
    }
    let mut out: Vec<WaitClass> = sums
        .into_iter()
        .map(|(name, (count, time))| WaitClass {
            name,
            count,
            time: Nanos::from_nanos(time),
        })
        .collect();
    out.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    out
}

/// The longest waits, longest first.
pub fn latest(
    program: &Program,
    waits: &Waits,
    origins: &Origins,
    place: &BTreeMap<SourceId, u32>,
) -> Vec<WaitFinding> {
    let mut order: Vec<u32> = (0..origins.explained.len() as u32).collect();
    order.sort_by_key(|&i| {
        let wait = origins.explained[i as usize].wait;
        (std::cmp::Reverse(waits.all[wait as usize].length()), i)
    });
    order.truncate(LATEST_KEPT);
    let finding = |i: u32| {
        let explained = &origins.explained[i as usize];
        let wait = &waits.all[explained.wait as usize];
        let rank = |lane: u32| program.lanes[lane as usize].rank;
        let (mut parts, mut by_origin) = (BTreeMap::new(), BTreeMap::new());
        for share in origins.shares_of(explained) {
            *parts.entry(place[&share.source]).or_insert(0) += share.ns;
            *by_origin.entry(share.origin).or_insert(0) += share.ns;
        }
        let mut parts: Vec<LatePartFinding> = parts
            .into_iter()
            .map(|(source, ns)| LatePartFinding {
                source,
                time: Nanos::from_nanos(ns),
            })
            .collect();
        parts.sort_by_key(|p| (std::cmp::Reverse(p.time), p.source));
        let most = by_origin
            .into_iter()
            .max_by_key(|&(rank, ns)| (ns, std::cmp::Reverse(rank)));
        WaitFinding {
            wait: i,
            operation: program.name(program.call(wait.lane, wait.call)).to_owned(),
            kind: kind_name(wait.kind).to_owned(),
            rank: rank(wait.lane),
            culprit: rank(wait.culprit),
            cpu: explained.cpu,
            origin: most.map_or(rank(wait.culprit), |m| m.0),
            hops: explained.hops,
            begin_ns: wait.begin,
            end_ns: wait.end,
            parts,
        }
    };
    order.into_iter().map(finding).collect()
}

fn mark_findings(program: &Program, waits: &Waits, marks: &Marks) -> Vec<MarkFinding> {
    let mut found: BTreeMap<String, (u64, Vec<u64>, u64)> = BTreeMap::new();
    for mark in marks.rows() {
        let sum = found.entry(mark.name).or_default();
        sum.0 += 1;
        // A region that was never left has no length.
        let Some(end) = mark.end_ns.filter(|&end| end >= mark.begin_ns) else {
            continue;
        };
        sum.1.push(end - mark.begin_ns);
        let lane = mark.rank.and_then(|r| program.lane_of(r, mark.thread));
        sum.2 += lane.map_or(0, |l| waits.time_within(l, mark.begin_ns, end));
    }
    let mut out: Vec<MarkFinding> = found
        .into_iter()
        .map(|(name, (count, mut lengths, waiting))| MarkFinding {
            name,
            count,
            time: Nanos::from_nanos(lengths.iter().sum()),
            median: median(&mut lengths),
            max: Nanos::from_nanos(lengths.iter().copied().max().unwrap_or(0)),
            waiting: Nanos::from_nanos(waiting),
        })
        .collect();
    out.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    out
}
