//! What a gap seen from user space shows beyond the kernel's records.
//!
//! A gap is longer than the interrupts and bursts recorded inside it: it includes kernel entry and
//! exit, writing of trace events, and cache refill. A gap during which the kernel recorded nothing,
//! though it was recording everything, was not caused by the kernel.

use crate::catalog::{Catalog, SourceId};
use crate::watch::Charge;
use idlewave_run::{SourceKind, TraceMode};
use std::collections::BTreeMap;

/// A gap as recorded: last reading before it, and its length above an undisturbed turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub begin: u64,
    pub length: u64,
}

/// Time beyond the kernel's records that a gap charges to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    pub begin: u64,
    pub end: u64,
    pub source: SourceId,
    pub ns: u64,
    /// Whether this is a gap of its own, not the edge of a record.
    pub alone: bool,
}

impl Extra {
    /// Its share in `begin..end`, in proportion to the overlap.
    pub fn within(&self, begin: u64, end: u64) -> u64 {
        let overlap = self.end.min(end).saturating_sub(self.begin.max(begin));
        let length = self.end - self.begin;
        if overlap >= length {
            return self.ns;
        }
        (u128::from(self.ns) * u128::from(overlap) / u128::from(length.max(1))) as u64
    }
}

/// The counter is calibrated to some tens of nanoseconds: records this close to a gap belong to it.
const TOLERANCE_NS: u64 = 300;

/// A gap with the charges inside it.
#[derive(Clone, Copy, Debug)]
struct Matched {
    gap: Gap,
    recorded: u64,
    dominating: Option<SourceId>,
    events: u64,
}

/// The gaps of all watches with the charges of the same watches.
#[derive(Default)]
pub struct GapMatcher {
    watches: Vec<(Vec<Matched>, Option<Edge>)>,
    beyond: BTreeMap<SourceKind, Vec<u64>>,
}

impl GapMatcher {
    /// Adds the gaps of one watch and its charges, both in order; `iterations` of the watched
    /// program, if it iterates.
    pub fn add(
        &mut self,
        gaps: &[Gap],
        charges: &[Charge],
        catalog: &Catalog,
        iterations: Option<u64>,
    ) {
        let mut matched = Vec::with_capacity(gaps.len());
        let mut first = 0;
        for &gap in gaps {
            let from = gap.begin.saturating_sub(TOLERANCE_NS);
            let to = gap.begin + gap.length + TOLERANCE_NS;
            while charges.get(first).is_some_and(|c| c.end <= from) {
                first += 1;
            }
            let inside = charges[first..].iter().take_while(|c| c.begin < to);
            let (mut recorded, mut events, mut longest) = (0, 0, None::<(u64, SourceId)>);
            for charge in inside {
                let ns = charge.end.min(to).saturating_sub(charge.begin.max(from));
                recorded += ns;
                events += 1;
                if longest.is_none_or(|(l, _)| ns > l) {
                    longest = Some((ns, charge.source));
                }
            }
            let dominating = longest.map(|(_, source)| source);
            if let Some(source) = dominating {
                let kind = catalog.kind(source);
                self.beyond
                    .entry(kind)
                    .or_default()
                    .push(gap.length.saturating_sub(recorded));
            }
            matched.push(Matched {
                gap,
                recorded,
                dominating,
                events,
            });
        }
        let own = iterations.and_then(|n| own_work(&matched, n));
        self.watches.push((matched, own));
    }

    /// What the gaps of every watch (in the order of `add`) show beyond the records; `modes` are
    /// the trace modes of their nodes, in the same order.
    pub fn extras(
        mut self,
        modes: &[TraceMode],
        catalog: &mut Catalog,
        event_ns: Option<f64>,
    ) -> Vec<Vec<Extra>> {
        let edges: BTreeMap<SourceKind, Edge> = self
            .beyond
            .iter_mut()
            .map(|(&kind, beyond)| (kind, Edge::of(beyond)))
            .collect();
        let tracing = catalog.class(SourceKind::Tracing);
        let mut alone_of = |mode: &TraceMode| match mode {
            TraceMode::Tracefs => catalog.class(SourceKind::Hypervisor),
            TraceMode::PerfSwitch => catalog.intern(SourceKind::Unexplained, NO_SWITCH),
            TraceMode::Counters | TraceMode::Off => {
                catalog.intern(SourceKind::Unexplained, NOT_RECORDED)
            }
        };
        let alone: Vec<SourceId> = modes.iter().map(&mut alone_of).collect();
        let hypervisor = catalog.class(SourceKind::Hypervisor);
        let mut out = Vec::with_capacity(self.watches.len());
        for (((matched, own), mode), alone) in self.watches.into_iter().zip(modes).zip(alone) {
            let sees_everything = *mode == TraceMode::Tracefs;
            let mut extras = Vec::with_capacity(matched.len());
            for m in matched {
                let beyond = m.gap.length.saturating_sub(m.recorded);
                if beyond == 0 {
                    continue;
                }
                let (begin, end) = (m.gap.begin, m.gap.begin + m.gap.length);
                let mut push = |source, ns, alone| {
                    if ns > 0 {
                        extras.push(Extra {
                            begin,
                            end,
                            source,
                            ns,
                            alone,
                        });
                    }
                };
                let Some(source) = m.dominating else {
                    push(
                        alone,
                        own.map_or(beyond, |usual| usual.excess(beyond)),
                        true,
                    );
                    continue;
                };
                let edge = edges[&catalog.kind(source)];
                let (edge_ns, rest) = if beyond <= edge.allowed || !sees_everything {
                    (beyond, 0)
                } else {
                    (edge.median, beyond - edge.median)
                };
                // One event at the start of every charge and one at the end of the last.
                let written = (m.events + 1) as f64 * event_ns.unwrap_or(0.0);
                let tracing_ns = (written as u64).min(edge_ns);
                push(tracing, tracing_ns, false);
                push(source, edge_ns - tracing_ns, false);
                push(hypervisor, rest, true);
            }
            out.push(extras);
        }
        out
    }
}

/// How much longer than the records in it a gap around one class of record usually is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    median: u64,
    allowed: u64,
}

/// A gap without a record is not an interruption if it occurs in more than one of this many
/// iterations.
const OWN_WORK_SHARE: u64 = 10;

/// What the program itself does between readings of the counter, if that is long enough to be
/// recorded as a gap: for instance messages between distant CPUs. It recurs with the iterations.
fn own_work(matched: &[Matched], iterations: u64) -> Option<Edge> {
    let mut lengths: Vec<u64> = matched
        .iter()
        .filter(|m| m.dominating.is_none())
        .map(|m| m.gap.length)
        .collect();
    (lengths.len() as u64 > iterations / OWN_WORK_SHARE && !lengths.is_empty())
        .then(|| Edge::of(&mut lengths))
}

/// Edges vary with caches and code path: this much above the median is still an edge.
const EDGE_AT_LEAST_NS: u64 = 2_000;

impl Edge {
    /// Median, and as the limit the median plus five robust standard deviations (1.4826 MAD).
    pub(crate) fn of(beyond: &mut [u64]) -> Edge {
        let middle = beyond.len() / 2;
        let median = *beyond.select_nth_unstable(middle).1;
        let mut off: Vec<u64> = beyond.iter().map(|b| b.abs_diff(median)).collect();
        let mad = *off.select_nth_unstable(middle).1;
        let allowed = median + EDGE_AT_LEAST_NS.max((5.0 * 1.4826 * mad as f64) as u64);
        Edge { median, allowed }
    }

    /// The part of `ns` beyond the usual.
    pub(crate) fn excess(self, ns: u64) -> u64 {
        match ns <= self.allowed {
            true => 0,
            false => ns - self.median,
        }
    }
}

/// Name of a gap without a switch of its own thread, when nothing else could be seen.
pub const NO_SWITCH: &str = "gap without a switch (interrupt or hypervisor)";
/// Name of a gap when the kernel's view was not recorded.
pub const NOT_RECORDED: &str = "gap (the kernel's view was not recorded)";

#[cfg(test)]
mod tests {
    use super::*;

    fn without_record(length: u64) -> Matched {
        Matched {
            gap: Gap { begin: 0, length },
            recorded: 0,
            dominating: None,
            events: 0,
        }
    }

    #[test]
    fn a_gap_that_comes_with_the_iterations_is_the_work_of_the_program() {
        let mut matched: Vec<Matched> = (0..50).map(|i| without_record(1_300 + i)).collect();
        matched.push(without_record(80_000));
        let usual = own_work(&matched, 100).expect("half of the iterations have one");
        assert_eq!(usual.excess(1_340), 0);
        assert_eq!(usual.excess(80_000), 80_000 - 1_325);
        assert_eq!(own_work(&matched, 1_000), None);
        assert_eq!(own_work(&[], 0), None);
    }
}
