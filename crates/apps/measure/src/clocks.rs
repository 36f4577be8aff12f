//! Aligns the clocks of a job's nodes with that of the first node, by messages through the fabric.
//!
//! Before and after every run, one rank of every node, its leader, answers the first rank several
//! times with its clock; the quickest answer bounds the error (Cristian 1989). What ranks record in
//! between is corrected by the line through both, as in recordings of programs
//! ([`align`](idlewave_session::align)).

use crate::gather;
use idlewave_clock::monotonic_ns;
use idlewave_fabric::{Fabric, FabricError, Nodes, Tag};
use idlewave_run::{Alignment, Ledger, clock_error_between};
use idlewave_session::NodeFacts;
use idlewave_session::align::{Correction, Exchange, Span, corrections, joined, shared_clock};
use idlewave_units::{Nanos, NodeId, Rank};
use std::collections::BTreeSet;
use std::time::Duration;

/// The number of questions to a leader in a row, of which the quickest counts: the first ones may
/// have to open a connection.
const QUESTIONS: u32 = 16;
/// The number of series of questions, and the minimum time between two: longer than a scheduler
/// slice, in case a rank loses the CPU during one series.
const ROWS: u32 = 3;
const BREAK: Duration = Duration::from_millis(5);
/// How rarely an idle rank checks whether all are done: it may share its CPU with a rank that is
/// being asked.
const PAUSE: Duration = Duration::from_micros(500);
const TAG: Tag = Tag(210);
const ROOT: Rank = Rank::new(0);

/// The clocks of all nodes.
#[derive(Debug)]
pub struct Clocks {
    /// Leaders of the nodes, rank 0 first. With a single node there is nothing to compare.
    leaders: Vec<Rank>,
    hosts: Vec<String>,
    /// Facts about every node, on rank 0.
    facts: Vec<Option<NodeFacts>>,
    /// On rank 0: the quickest exchange with every node but the first, in the previous comparison.
    before: Vec<Exchange>,
    /// On rank 0: corrections for the time between the last two comparisons.
    corrections: Vec<Correction>,
    /// On rank 0: alignments over all runs so far.
    alignments: Vec<Option<Alignment>>,
    /// The number of runs between two comparisons so far.
    runs: u32,
    losses: Ledger,
}

impl Clocks {
    /// Compares the clocks for the first time. All ranks call it.
    pub fn begin<F: Fabric>(fabric: &mut F, nodes: &Nodes) -> Result<Self, FabricError> {
        let count = nodes.count() as usize;
        let leaders: Vec<Rank> = (0..nodes.count())
            .filter_map(|node| nodes.leader(NodeId::new(node)))
            .collect();
        let mut clocks = Self {
            leaders,
            hosts: nodes.names().to_vec(),
            facts: vec![None; count],
            before: Vec::new(),
            corrections: vec![Correction::none(); count],
            alignments: vec![None; count],
            runs: 0,
            losses: Ledger::default(),
        };
        if clocks.is_one() {
            return Ok(clocks);
        }
        let own = clocks.own_node(fabric.rank()).map(|_| NodeFacts::here());
        let all = gather::values_to_root(fabric, own.as_ref())?;
        for (node, leader) in clocks.leaders.iter().enumerate() {
            clocks.facts[node] = all.get(leader.index()).cloned().flatten();
        }
        clocks.before = clocks.exchange(fabric)?;
        // No run yet: a constant offset.
        clocks.take(&[]);
        Ok(clocks)
    }

    /// Whether all ranks are on one node.
    pub fn is_one(&self) -> bool {
        self.leaders.len() < 2
    }

    /// The node that `rank` leads, if any.
    pub fn own_node(&self, rank: Rank) -> Option<usize> {
        self.leaders.iter().position(|&leader| leader == rank)
    }

    /// Compares the clocks after a run; what was recorded since the previous comparison can then be
    /// corrected. All ranks call it.
    pub fn compare<F: Fabric>(&mut self, fabric: &mut F) -> Result<(), FabricError> {
        if self.is_one() {
            return Ok(());
        }
        let after = self.exchange(fabric)?;
        self.take(&after);
        if !after.is_empty() {
            self.before = after;
        }
        Ok(())
    }

    /// The correction for the times of each rank between the last two comparisons. Known on rank 0.
    pub fn of_ranks<'a>(&'a self, nodes: &'a Nodes) -> impl Iterator<Item = &'a Correction> + 'a {
        let of_node = |node: &NodeId| self.corrections.get(node.get() as usize);
        nodes.of_ranks().iter().filter_map(of_node)
    }

    /// The correction for the times of a node between the last two comparisons. Known on rank 0.
    pub fn of_node(&self, node: usize) -> Correction {
        let found = self.corrections.get(node).cloned();
        found.unwrap_or_else(Correction::none)
    }

    /// For the manifest: how a node's times were corrected, over all runs; `None` if they need no
    /// correction.
    pub fn alignment(&self, node: usize) -> Option<&Alignment> {
        self.alignments.get(node)?.as_ref()
    }

    /// A bound on the error between the times of any two of the first `ranks` ranks, over all runs
    /// so far. Known on rank 0.
    pub fn error_of(&self, nodes: &Nodes, ranks: u32) -> Nanos {
        let taking_part = nodes.of_ranks().iter().take(ranks as usize);
        let nodes: BTreeSet<usize> = taking_part.map(|node| node.get() as usize).collect();
        clock_error_between(nodes.into_iter().map(|node| self.alignment(node)))
    }

    /// Takes the ledger entries about the clocks.
    pub fn take_losses(&mut self) -> Ledger {
        std::mem::take(&mut self.losses)
    }

    /// The quickest exchange with every other node, on rank 0; empty elsewhere. All ranks call it.
    fn exchange<F: Fabric>(&self, fabric: &mut F) -> Result<Vec<Exchange>, FabricError> {
        let mut found: Vec<Option<Exchange>> = vec![None; self.leaders.len()];
        let asked = self.own_node(fabric.rank()).is_some();
        for row in 0..ROWS {
            if fabric.rank() == ROOT {
                if row > 0 {
                    std::thread::sleep(BREAK);
                }
                for (node, &leader) in self.leaders.iter().enumerate().skip(1) {
                    let now = ask(fabric, node, leader)?;
                    let both = found[node].into_iter().chain(now);
                    found[node] = both.min_by_key(round_trip);
                }
            } else if asked {
                answer(fabric)?;
            }
        }
        fabric.barrier(&mut rest)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Computes corrections from the previous comparison and the one `after`, if there was one.
    fn take(&mut self, after: &[Exchange]) {
        let spans = spans(self.leaders.len(), &self.before, after);
        let exchanges: Vec<Exchange> = self.before.iter().chain(after).copied().collect();
        let measured = corrections(&spans, &exchanges);
        for (node, measured) in measured.into_iter().enumerate().skip(1) {
            // Every leader has answered.
            let Some(measured) = measured else { continue };
            let (from, to) = spans[node];
            let shares = match (&self.facts[0], &self.facts[node]) {
                (Some(a), Some(b)) => a.shares_clock(b),
                _ => false,
            };
            let (correction, alignment) = if shares {
                let (host, losses) = (&self.hosts[node], &mut self.losses);
                shared_clock(Some(&measured), (from, to), host, losses)
            } else {
                let alignment = measured.sheet(from, to);
                (measured, Some(alignment))
            };
            self.corrections[node] = correction;
            let known = self.alignments[node].take().filter(|_| self.runs > 0);
            self.alignments[node] = match (known, alignment) {
                (Some(known), Some(alignment)) => Some(joined(known, alignment)),
                (known, alignment) => alignment.or(known),
            };
        }
        self.runs += u32::from(!after.is_empty());
    }
}

fn rest() {
    std::thread::sleep(PAUSE);
}

fn round_trip(exchange: &Exchange) -> u64 {
    exchange.received_ns.saturating_sub(exchange.sent_ns)
}

/// Asks a leader for its clock; returns the quickest exchange.
fn ask<F: Fabric>(
    fabric: &mut F,
    node: usize,
    leader: Rank,
) -> Result<Option<Exchange>, FabricError> {
    let (mut question, mut buffer) = (vec![0; 8], Vec::new());
    let mut quickest: Option<Exchange> = None;
    for _ in 0..QUESTIONS {
        // Post the receive beforehand, so that the round trip does not include it.
        let receiving = fabric.start_receive(Some(leader), TAG, 8, buffer)?;
        let sent_ns = monotonic_ns();
        let sending = fabric.start_send(leader, TAG, question)?;
        let answer = fabric.finish_receive(receiving, &mut || ())?.data;
        let received_ns = monotonic_ns();
        question = fabric.finish_send(sending, &mut || ())?;
        let exchange = answer.first_chunk().map(|peer| Exchange {
            node: 0,
            peer: node,
            sent_ns,
            received_ns,
            peer_ns: u64::from_ne_bytes(*peer),
        });
        buffer = answer;
        quickest = quickest.into_iter().chain(exchange).min_by_key(round_trip);
    }
    Ok(quickest)
}

/// The leader's side of [`ask`].
fn answer<F: Fabric>(fabric: &mut F) -> Result<(), FabricError> {
    let mut buffer = Vec::new();
    for number in 0..QUESTIONS {
        let receiving = fabric.start_receive(Some(ROOT), TAG, 8, buffer)?;
        // The first question may come late, after the leaders before this one; the others follow
        // quickly.
        buffer = match number {
            0 => fabric.finish_receive(receiving, &mut rest)?,
            _ => fabric.finish_receive(receiving, &mut || ())?,
        }
        .data;
        let now = monotonic_ns().to_ne_bytes().to_vec();
        let sending = fabric.start_send(ROOT, TAG, now)?;
        fabric.finish_send(sending, &mut || ())?;
    }
    Ok(())
}

/// The interval between the two comparisons on each node's own clock. The first node needs none.
fn spans(nodes: usize, before: &[Exchange], after: &[Exchange]) -> Vec<Span> {
    let mut spans: Vec<Option<Span>> = vec![None; nodes];
    for exchange in before.iter().chain(after) {
        let at = exchange.peer_ns;
        spans[exchange.peer] = Some(match spans[exchange.peer] {
            Some((from, to)) => (from.min(at), to.max(at)),
            None => (at, at),
        });
    }
    spans.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_fabric::{PointToPoint, Waiting, world};

    const S: u64 = 1_000_000_000;

    /// Two nodes after a first comparison, with the facts of one kernel if they `share` its clock.
    fn clocks(before: Exchange, share: bool) -> Clocks {
        let facts = NodeFacts::here();
        let other = NodeFacts {
            boot_id: match share {
                true => facts.boot_id.clone(),
                false => "another".to_owned(),
            },
            ..facts.clone()
        };
        let mut clocks = Clocks {
            leaders: vec![Rank::new(0), Rank::new(2)],
            hosts: vec!["a".to_owned(), "b".to_owned()],
            facts: vec![Some(facts), Some(other)],
            before: vec![before],
            corrections: vec![Correction::none(); 2],
            alignments: vec![None; 2],
            runs: 0,
            losses: Ledger::default(),
        };
        clocks.take(&[]);
        clocks
    }

    /// Asked at `sent_ns`, with a round trip of 40 us, of a clock that is `ahead`.
    fn exchange(sent_ns: u64, ahead: u64) -> Exchange {
        Exchange {
            node: 0,
            peer: 1,
            sent_ns,
            received_ns: sent_ns + 40_000,
            peer_ns: sent_ns + 20_000 + ahead,
        }
    }

    #[test]
    fn times_between_two_comparisons_are_corrected_by_the_line_through_both() {
        // 50 us in 10 s: 5 ppm.
        let mut clocks = clocks(exchange(S, 500 * S), false);
        let alignment = clocks.alignment(1).cloned().expect("compared once");
        assert_eq!(
            (alignment.points.len(), alignment.points[0].offset_ns),
            (1, -500 * S as i64)
        );
        clocks.take(&[exchange(11 * S, 500 * S + 50_000)]);
        let correction = &clocks.corrections[1];
        let (from, to) = (501 * S + 20_000, 511 * S + 70_000);
        assert_eq!(correction.apply(from), S + 20_000);
        assert_eq!(correction.apply(to), 11 * S + 20_000);
        assert_eq!(correction.apply(506 * S + 45_000), 6 * S + 20_000);
        // Half a round trip each, and a nanosecond for rounding.
        let error = |clocks: &Clocks| clocks.alignment(1).map(|a| a.error);
        assert_eq!(error(&clocks), Some(Nanos::from_nanos(20_001)));
        assert_eq!(clocks.alignment(1).expect("aligned").points.len(), 2);
        assert_eq!(clocks.alignment(0), None);
        // A second run begins where the first one ended.
        clocks.before = vec![exchange(11 * S, 500 * S + 50_000)];
        clocks.take(&[exchange(21 * S, 500 * S + 50_000)]);
        let alignment = clocks.alignment(1).expect("aligned");
        let offsets: Vec<i64> = alignment.points.iter().map(|p| p.offset_ns).collect();
        let late = -500 * S as i64 - 50_000;
        assert_eq!(offsets, [-500 * S as i64, late, late]);
        assert_eq!(alignment.method.matches("linear").count(), 1);
    }

    #[test]
    fn nodes_on_one_kernel_are_not_corrected_unless_the_messages_say_otherwise() {
        let mut one = clocks(exchange(S, 15_000), true);
        one.take(&[exchange(2 * S, 15_000)]);
        assert_eq!(one.alignment(1), None);
        assert_eq!(one.corrections[1].apply(7), 7);
        assert!(one.take_losses().is_empty());
        let mut other = clocks(exchange(S, 5 * S), true);
        assert!(other.alignment(1).is_some());
        assert!(!other.take_losses().is_empty());
    }

    #[test]
    fn leaders_answer_and_the_others_wait() {
        let nodes = 3;
        std::thread::scope(|scope| {
            for mut fabric in world(4, Waiting::Yield) {
                scope.spawn(move || {
                    // Ranks 0 and 1 on the first node.
                    let clocks = Clocks {
                        leaders: [0, 2, 3].map(Rank::new).to_vec(),
                        hosts: vec![String::new(); nodes],
                        facts: vec![None; nodes],
                        before: Vec::new(),
                        corrections: vec![Correction::none(); nodes],
                        alignments: vec![None; nodes],
                        runs: 0,
                        losses: Ledger::default(),
                    };
                    let found = clocks.exchange(&mut fabric).expect("all live");
                    if fabric.rank() == ROOT {
                        let peers: Vec<usize> = found.iter().map(|e| e.peer).collect();
                        assert_eq!(peers, [1, 2]);
                        for e in found {
                            assert!(e.sent_ns <= e.peer_ns && e.peer_ns <= e.received_ns);
                        }
                    } else {
                        assert!(found.is_empty());
                    }
                });
            }
        });
    }
}
