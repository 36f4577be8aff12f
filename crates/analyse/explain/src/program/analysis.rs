//! The analysis of a recorded program, in order.

use super::lanes::{Program, is_of_mpi};
use super::origins::{Classes, Explained, Origins, explain_waits};
use super::path::Path;
use super::rank_times::Spans;
use super::recorded::Recorded;
use super::summary;
use super::waits::{self, Waits};
use super::waves::{Wave, waves};
use crate::attribute::merged;
use crate::catalog::{Catalog, LONG_CALLS, SourceId};
use crate::kernel::Kernels;
use crate::strikes::Strike;
use crate::watch::Charge;
use idlewave_run::findings::ProgramFindings;
use idlewave_run::tables::{Marks, Messages, Table, Wait, WaitPart, WaitParts};
use idlewave_run::{Ledger, SourceKind};
use idlewave_units::{Nanos, Rank};
use std::collections::BTreeMap;

/// The effect of one source on a recorded program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    /// Delays of the ranks that it struck, each counted once however many ranks waited for it.
    pub lateness: u64,
    /// Delays to which it contributed most.
    pub late: u64,
    /// Time lost by all ranks.
    pub lost: u64,
    /// Sum of the squares of what single delays cost all ranks, in square nanoseconds.
    pub squares: f64,
}

/// Adds the strikes on a thread for which no one waits: it loses what is taken from it.
pub fn add_uncoupled(strikes: &[Strike], delays: &mut BTreeMap<SourceId, Delay>) {
    for strike in strikes {
        let delay = delays.entry(strike.source).or_default();
        delay.lateness += strike.length;
        delay.lost += strike.length;
        delay.squares += (strike.length as f64).powi(2);
    }
}

/// The analysis of a recorded program.
#[derive(Debug)]
pub struct ProgramAnalysis {
    recorded: Recorded,
    messages: Messages,
    waits: Waits,
    origins: Origins,
    waves: Vec<Wave>,
    path: Path,
    findings: ProgramFindings,
    /// Per source, its delays.
    pub delays: BTreeMap<SourceId, Delay>,
}

/// The source charged with what a call took beyond its wait and beyond the usual.
fn long_call(program: &Program, kernels: &Kernels, catalog: &mut Catalog) -> SourceId {
    let seen = |node| kernels.of(node).is_some_and(|k| k.mode.sees_switches());
    if !program.lanes.iter().all(|lane| seen(lane.node)) {
        return catalog.intern(SourceKind::Network, LONG_CALLS);
    }
    match program.operations.iter().any(|o| is_of_mpi(&o.name)) {
        true => catalog.transfer(program.lanes.iter().map(|lane| lane.node)),
        // Other libraries use sockets within a node too.
        false => catalog.class(SourceKind::Network),
    }
}

/// Analyses a recorded program; `charges` are what was taken from its lanes, in their order, as far
/// as `kernels` were recorded.
pub fn analyse(
    recorded: Recorded,
    kernels: &Kernels,
    charges: &[Vec<Charge>],
    marks: &Marks,
    catalog: &mut Catalog,
    losses: &mut Ledger,
) -> ProgramAnalysis {
    let (program, matched) = (&recorded.program, &recorded.matched);
    let classes = Classes {
        network: long_call(program, kernels, catalog),
        slow_level: catalog.class(SourceKind::SlowLevel),
        imbalance: catalog.class(SourceKind::Imbalance),
        unexplained: catalog.class(SourceKind::Unexplained),
    };
    let explained = || {
        let waits = waits::find(program, matched, charges);
        let timings = program.timings(&waits, charges);
        let spans = Spans::of(&recorded, marks);
        let (origins, path) = rayon::join(
            || explain_waits(program, matched, &waits, charges, &timings, classes),
            || Path::of(program, &waits, charges, &timings, &spans, classes),
        );
        (waits, origins, spans, path)
    };
    let ((waits, origins, spans, path), messages) = rayon::join(explained, || matched.table());
    losses.enter(
        "waits shorter than the error between the clocks of two nodes",
        origins.untrusted.0,
        "they are not explained",
        "nothing: their total is listed among the waits",
    );
    let delays = delays(&waits, &origins);
    let waves = waves(program, &waits, &origins);
    let findings = summary::findings(
        &recorded,
        &waits,
        &origins,
        charges,
        &spans,
        marks,
        &|source| source != classes.unexplained && catalog.kind(source) != SourceKind::Unexplained,
    );
    ProgramAnalysis {
        recorded,
        messages,
        waits,
        origins,
        waves,
        path,
        findings,
        delays,
    }
}

/// A delay that several ranks waited for counts once: the largest charge among their waits.
fn delays(waits: &Waits, origins: &Origins) -> BTreeMap<SourceId, Delay> {
    let mut events: BTreeMap<(u32, u64), BTreeMap<SourceId, u64>> = BTreeMap::new();
    // Cost of the event that started a delay, wherever it was waited for.
    let mut costs: BTreeMap<(SourceId, (u32, u64)), u64> = BTreeMap::new();
    let mut out: BTreeMap<SourceId, Delay> = BTreeMap::new();
    for explained in &origins.explained {
        let culprit = waits.all[explained.wait as usize].culprit;
        for share in origins.shares_of(explained) {
            out.entry(share.source).or_default().lost += share.ns;
            *costs.entry((share.source, explained.anchor)).or_default() += share.ns;
            if share.own {
                let event = events.entry((culprit, explained.own_anchor)).or_default();
                let most = event.entry(share.source).or_default();
                *most = share.ns.max(*most);
            }
        }
    }
    for event in events.values() {
        let most = event
            .iter()
            .max_by_key(|&(&id, &ns)| (ns, std::cmp::Reverse(id)));
        for (&source, &ns) in event {
            let delay = out.entry(source).or_default();
            delay.lateness += ns;
            // The rank that was struck lost it as well.
            delay.lost += ns;
            delay.late += u64::from(most.is_some_and(|m| *m.0 == source));
        }
    }
    for ((source, _), ns) in costs {
        out.entry(source).or_default().squares += (ns as f64).powi(2);
    }
    out
}

impl ProgramAnalysis {
    /// The sources that took time on the critical path.
    pub fn on_path(&self) -> impl Iterator<Item = SourceId> + '_ {
        self.path.taken.keys().copied()
    }

    /// Tables and findings, given the row of every source in the table of sources.
    pub fn finish(
        self,
        place: &BTreeMap<SourceId, u32>,
    ) -> (
        ProgramFindings,
        Messages,
        idlewave_run::tables::Waits,
        WaitParts,
    ) {
        let program = &self.recorded.program;
        let mut findings = self.findings;
        findings.latest = summary::latest(program, &self.waits, &self.origins, place);
        findings.path = self.path.finding(place);
        findings.waves = self
            .waves
            .into_iter()
            .map(|w| {
                let mut finding = w.finding;
                finding.source = place[&w.source];
                finding
            })
            .collect();
        let mut waits = idlewave_run::tables::Waits::default();
        let mut parts = WaitParts::default();
        for (i, explained) in self.origins.explained.iter().enumerate() {
            let wait = &self.waits.all[explained.wait as usize];
            waits.push(row(program, wait, explained));
            // The culprit's own loss and what came back to it are one part.
            let shares = self.origins.shares_of(explained).iter();
            let shares: Vec<_> = shares.map(|s| ((s.origin, s.source), s.ns)).collect();
            for ((origin, source), ns) in merged(&shares) {
                parts.push(WaitPart {
                    wait: i as u32,
                    origin,
                    finding: place[&source],
                    time: Nanos::from_nanos(ns),
                });
            }
        }
        (findings, self.messages, waits, parts)
    }
}

fn row(program: &Program, wait: &waits::RawWait, explained: &Explained) -> Wait {
    let rank = |lane: u32| -> Rank { program.lanes[lane as usize].rank };
    Wait {
        rank: rank(wait.lane),
        call: program.call(wait.lane, wait.call).row,
        kind: wait.kind,
        begin_ns: wait.begin,
        end_ns: wait.end,
        culprit: rank(wait.culprit),
        parent: explained.parent,
        hops: explained.hops,
    }
}
