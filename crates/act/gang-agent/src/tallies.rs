//! Costs of switches: counts of all, times of recent ones.

use crate::control::{Quantiles, SwitchStatus};
use idlewave_gang::protocol::{Outcome, Report, Why};
use idlewave_stats::histogram::{self, LogHistogram};
use idlewave_units::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// Switches whose times are kept.
const WINDOW: usize = 4096;

/// A higher cost is not plausible: an agent's clock is wrong.
const LONGEST: Nanos = Nanos::from_secs(3600);

/// The phases of a switch, in order. The rest of the total is messages: READY up the tree and
/// SWITCH down.
pub const PHASES: [&str; 6] = ["stop", "drain", "freeze", "context", "thaw", "messages"];

/// Those of them that concern the network.
const NETWORK: [usize; 2] = [1, 3];

/// Times of one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// From the stop time to the last node thawed.
    pub cost: Nanos,
    /// Between the first and the last node thawed.
    pub skew: Nanos,
    /// In the order of [`PHASES`].
    pub phases: [Nanos; 6],
    /// Whether the network of any gang was drained or changed.
    pub network: bool,
}

/// Statistics of all switches.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    switched: u64,
    aborted: BTreeMap<Why, u64>,
    missing: u64,
    last: VecDeque<Times>,
    histogram: LogHistogram,
    total: Nanos,
}

impl Tallies {
    /// Adds the end of a switch, and returns its cost if it was completed and its nodes reported
    /// times. `network`: whether a gang with contexts had the CPUs before or after it.
    pub fn add(&mut self, report: &Report, network: bool) -> Option<Nanos> {
        let Report::Over {
            outcome,
            stop_at,
            tally,
            missing,
            ..
        } = report
        else {
            return None;
        };
        self.missing += missing.len() as u64;
        if let Outcome::Aborted(why) = outcome {
            *self.aborted.entry(*why).or_default() += 1;
            return None;
        }
        self.switched += 1;
        let (first, last) = tally.thawed?;
        let cost = last.saturating_sub(*stop_at).min(LONGEST);
        let p = tally.phases;
        let named = [p.stop, p.drain, p.freeze, p.context, p.thaw];
        let sum = named
            .iter()
            .fold(0, |sum: u64, p| sum.saturating_add(p.get()));
        let sum = Nanos::from_nanos(sum);
        let times = Times {
            cost,
            skew: last.saturating_sub(first),
            phases: [
                p.stop,
                p.drain,
                p.freeze,
                p.context,
                p.thaw,
                // The longest phases of several nodes may add up to more than the total.
                cost.saturating_sub(sum),
            ],
            network,
        };
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(times);
        self.histogram.add(cost.get());
        self.total += cost;
        Some(cost)
    }

    /// For display and programs.
    pub fn status(&self) -> SwitchStatus {
        let of = |time: fn(&Times) -> Nanos| quantiles(self.last.iter().map(time).collect());
        let phase = |i: usize| {
            // The network phases do not occur in other switches.
            let counts = |times: &&Times| times.network || !NETWORK.contains(&i);
            let of = self.last.iter().filter(counts);
            quantiles(of.map(|times| times.phases[i]).collect())
        };
        let bins = self.histogram.non_empty().into_iter();
        SwitchStatus {
            switched: self.switched,
            aborted: self
                .aborted
                .iter()
                .map(|(why, n)| (reason(*why).to_owned(), *n))
                .collect(),
            missing: self.missing,
            cost: of(|times| times.cost),
            skew: of(|times| times.skew),
            phases: (0..)
                .zip(PHASES)
                .filter_map(|(i, name)| Some((name.to_owned(), phase(i)?)))
                .collect(),
            total: self.total,
            histogram: bins
                .map(|(value, n)| {
                    let upper = histogram::edges(value).1.unwrap_or(u64::MAX);
                    (Nanos::from_nanos(upper), n)
                })
                .collect(),
        }
    }
}

/// Why a switch was aborted, in words.
pub fn reason(why: Why) -> &'static str {
    match why {
        Why::Missing => "a node did not answer in time",
        Why::Drain => "a node could not drain the network",
        Why::Freeze => "a node could not freeze the gang",
        Why::UnderWay => "messages were still in flight",
        Why::GangGone => "the gang had ended",
        Why::Leaving => "a node left",
    }
}

/// Order statistics: the smallest of n values such that a share `q` is not greater. `None` without
/// values.
fn quantiles(mut values: Vec<Nanos>) -> Option<Quantiles> {
    values.sort_unstable();
    let n = values.len();
    let at = |q: f64| {
        let rank = (q * n as f64).ceil() as usize;
        values.get(rank.max(1) - 1).copied()
    };
    Some(Quantiles {
        n: n as u64,
        median: at(0.5)?,
        p90: at(0.9)?,
        p99: at(0.99)?,
        longest: at(1.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_gang::GangId;
    use idlewave_gang::protocol::{Epoch, Nodes, Phases, Slot, Tally};
    use idlewave_units::NodeId;

    fn us(n: u64) -> Nanos {
        Nanos::from_micros(n)
    }

    fn over(outcome: Outcome, thawed: Option<(Nanos, Nanos)>, phases: Phases) -> Report {
        let mut tally = Tally::of(NodeId::new(0));
        (tally.thawed, tally.phases) = (thawed, phases);
        Report::Over {
            epoch: Epoch::new(1),
            outcome,
            running: Slot::Gang(GangId::new(0)),
            stop_at: us(1_000),
            thaw_at: Some(us(1_200)),
            late: Nodes::new(),
            missing: Nodes::one(NodeId::new(3)),
            tally,
        }
    }

    #[test]
    fn the_phases_of_a_switch_and_its_messages_are_its_cost() {
        let phases = Phases {
            stop: us(10),
            drain: us(20),
            freeze: us(130),
            context: us(1),
            thaw: us(30),
        };
        let mut tallies = Tallies::default();
        let report = over(Outcome::Switched, Some((us(1_290), us(1_300))), phases);
        assert_eq!(tallies.add(&report, true), Some(us(300)));
        let times = tallies.last[0];
        assert_eq!(times.phases.map(|p| p.get()).iter().sum::<u64>(), 300_000);
        assert_eq!((times.skew, times.phases[5]), (us(10), us(109)));
        let status = tallies.status();
        let cost = status.cost.unwrap();
        assert_eq!((status.switched, status.missing, cost.n), (1, 1, 1));
        assert_eq!((cost.median, cost.longest), (us(300), us(300)));
        assert_eq!(status.phases.len(), PHASES.len());
        assert_eq!(status.histogram.iter().map(|(_, n)| n).sum::<u64>(), 1);
        assert!(status.histogram[0].0 >= us(300));
    }

    #[test]
    fn phases_of_the_network_are_told_of_switches_that_had_them() {
        let phases = |drain| Phases {
            drain,
            ..Phases::default()
        };
        let report = |drain| {
            over(
                Outcome::Switched,
                Some((us(1_290), us(1_300))),
                phases(drain),
            )
        };
        let mut tallies = Tallies::default();
        let told = |tallies: &Tallies, name: &str| {
            let phases = tallies.status().phases;
            phases
                .into_iter()
                .find(|(of, _)| of == name)
                .map(|(_, q)| (q.n, q.median))
        };
        tallies.add(&report(us(0)), false);
        assert_eq!(told(&tallies, "drain"), None);
        assert_eq!(told(&tallies, "context"), None);
        tallies.add(&report(us(20)), true);
        assert_eq!(told(&tallies, "drain"), Some((1, us(20))));
        assert_eq!(told(&tallies, "context"), Some((1, us(0))));
        assert_eq!(told(&tallies, "freeze"), Some((2, us(0))));
    }

    #[test]
    fn an_aborted_switch_is_counted_by_its_reason_and_costs_nothing_known() {
        let mut tallies = Tallies::default();
        let phases = Phases::default();
        for why in [Why::Freeze, Why::Missing, Why::Freeze] {
            assert_eq!(
                tallies.add(&over(Outcome::Aborted(why), None, phases), true),
                None
            );
        }
        let status = tallies.status();
        assert_eq!((status.switched, status.missing), (0, 3));
        // What was not measured is not zero.
        assert_eq!(
            (status.cost, status.skew, status.phases),
            (None, None, vec![])
        );
        let counts: Vec<u64> = status.aborted.iter().map(|(_, n)| *n).collect();
        assert_eq!(counts, [1, 2]);
    }

    #[test]
    fn quantiles_are_order_statistics() {
        let q = quantiles((1..=200).map(us).collect()).unwrap();
        assert_eq!(
            (q.median, q.p90, q.p99, q.longest),
            (us(100), us(180), us(198), us(200))
        );
        assert_eq!(quantiles(vec![us(7)]).unwrap().p99, us(7));
        assert_eq!(quantiles(Vec::new()), None);
    }
}
