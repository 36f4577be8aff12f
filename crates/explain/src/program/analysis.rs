//! The analysis of a recorded program, in order.

use super::lanes::Program;
use super::messages::Matched;
use super::origins::{Classes, Explained, Origins, explain_waits};
use super::summary;
use super::waits::{self, Waits};
use super::waves::{Wave, waves};
use crate::ExplainError;
use crate::attribute::merged;
use crate::catalog::{Catalog, SourceId};
use crate::edges::Gap;
use crate::strikes::Strike;
use crate::watch::Charge;
use idlewave_run::findings::ProgramFindings;
use idlewave_run::tables::{Marks, Messages, Table, Wait, WaitPart, WaitParts};
use idlewave_run::{Ledger, PhaseKind, RunReader, SourceKind};
use idlewave_units::{Nanos, Rank};
use std::collections::BTreeMap;

/// A recorded program as it is in the bundle.
#[derive(Debug)]
pub struct Recorded {
    /// Its calls.
    pub program: Program,
    /// Its messages.
    pub matched: Matched,
    /// Name of its MPI library.
    pub library: Option<String>,
    /// Begin and end of the phase.
    pub phase: (u64, u64),
}

impl Recorded {
    /// Reads the first recorded phase; `None` if there is none, or its program called no MPI.
    pub fn read(run: &RunReader, losses: &mut Ledger) -> Result<Option<Self>, ExplainError> {
        let phases = run.manifest().phases.iter();
        let mut recorded = phases.filter_map(|p| match &p.kind {
            PhaseKind::Recorded { library, .. } => Some((library, (p.begin_ns, p.end_ns))),
            _ => None,
        });
        let Some((library, phase)) = recorded.next() else {
            return Ok(None);
        };
        let Some(mut program) = Program::read(run, losses)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            matched: Matched::read(run, &mut program, losses)?,
            program,
            library: library.clone(),
            phase,
        }))
    }

    /// The stretches in which a lane was not seen to run: begin and end of a call are moments in which it did.
    pub(crate) fn unseen(&self, lane: usize) -> Vec<Gap> {
        let calls = &self.program.lanes[lane].calls;
        let mut out = Vec::with_capacity(2 * calls.len());
        for (i, call) in calls.iter().enumerate() {
            let next = calls.get(i + 1).map_or(u64::MAX / 2, |c| c.begin);
            for (begin, end) in [(call.begin, call.end), (call.end, next)] {
                let length = end.saturating_sub(begin);
                out.push(Gap { begin, length });
            }
        }
        out
    }

    /// Takes the sleep inside of calls out of what was taken from the lanes: there it is how the rank waits.
    pub(crate) fn drop_sleep_in_calls(&self, catalog: &Catalog, charges: &mut [Vec<Charge>]) {
        for (lane, list) in self.program.lanes.iter().zip(charges) {
            let mut kept = Vec::with_capacity(list.len());
            for charge in list.drain(..) {
                if catalog.kind(charge.source) != SourceKind::Blocked {
                    kept.push(charge);
                    continue;
                }
                let mut from = charge.begin;
                for call in &lane.calls[lane.calls_within(charge.begin, charge.end)] {
                    if from < call.begin {
                        kept.push(Charge {
                            begin: from,
                            end: call.begin,
                            ..charge
                        });
                    }
                    from = call.end;
                }
                if from < charge.end {
                    kept.push(Charge {
                        begin: from,
                        ..charge
                    });
                }
            }
            *list = kept;
        }
    }
}

/// What one source did to a recorded program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Delays of the ranks that it struck, each counted once however many waited for it.
    pub lateness: u64,
    /// Delays to which it contributed most.
    pub late: u64,
    /// Time lost by all ranks.
    pub lost: u64,
}

/// Adds the strikes on a thread for which nobody waits: it loses what is taken from it.
pub fn add_uncoupled(strikes: &[Strike], delays: &mut BTreeMap<SourceId, Delay>) {
    for strike in strikes {
        let delay = delays.entry(strike.source).or_default();
        delay.lateness += strike.length;
        delay.lost += strike.length;
    }
}

/// What is known of a recorded program.
#[derive(Debug)]
pub struct ProgramAnalysis {
    recorded: Recorded,
    waits: Waits,
    origins: Origins,
    waves: Vec<Wave>,
    findings: ProgramFindings,
    /// Per source, what it delayed.
    pub delays: BTreeMap<SourceId, Delay>,
}

/// Analyses a recorded program; `charges` are what was taken from its lanes, in their order.
pub fn analyse(
    recorded: Recorded,
    charges: &[Vec<Charge>],
    marks: &Marks,
    catalog: &mut Catalog,
    losses: &mut Ledger,
) -> ProgramAnalysis {
    let classes = Classes {
        network: catalog.class(SourceKind::Network),
        slow_level: catalog.class(SourceKind::SlowLevel),
        imbalance: catalog.class(SourceKind::Imbalance),
        unexplained: catalog.class(SourceKind::Unexplained),
    };
    let (program, matched) = (&recorded.program, &recorded.matched);
    let waits = waits::find(program, matched, charges);
    let timings = program.timings(&waits, charges);
    let origins = explain_waits(program, matched, &waits, charges, &timings, classes);
    drop(timings);
    losses.enter(
        "waits shorter than the error between the clocks of two nodes",
        origins.untrusted.0,
        "they are not explained",
        "nothing: what they add up to is among the waits",
    );
    let delays = delays(&waits, &origins);
    let waves = waves(program, &waits, &origins);
    let findings = summary::findings(&recorded, &waits, &origins, charges, marks, &|source| {
        source != classes.unexplained && catalog.kind(source) != SourceKind::Unexplained
    });
    ProgramAnalysis {
        recorded,
        waits,
        origins,
        waves,
        findings,
        delays,
    }
}

/// A delay that several ranks waited for is one: of what their waits charge to a source, the largest counts.
fn delays(waits: &Waits, origins: &Origins) -> BTreeMap<SourceId, Delay> {
    let mut events: BTreeMap<(u32, u64), BTreeMap<SourceId, u64>> = BTreeMap::new();
    let mut out: BTreeMap<SourceId, Delay> = BTreeMap::new();
    for explained in &origins.explained {
        let culprit = waits.all[explained.wait as usize].culprit;
        for share in origins.shares_of(explained) {
            out.entry(share.source).or_default().lost += share.ns;
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
    out
}

impl ProgramAnalysis {
    /// Tables and findings, given the place of every source in the table of sources.
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
            // What the culprit lost itself and what came back to it is one part.
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
        (findings, self.recorded.matched.table(), waits, parts)
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
