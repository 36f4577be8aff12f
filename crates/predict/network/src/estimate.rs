//! A predicted time with its interval and its bottleneck.
//!
//! A time is a sum of parts, each proportional to one parameter or to its inverse. To first order,
//! an error of 1 % in a parameter changes the time by 1 % of its part; errors of several parameters
//! add up in quadrature (J. Taylor, "An Introduction to Error Analysis", 1997, chapter 3). Errors
//! of two placements on one network are correlated: the comparison of their times is uncertain only
//! by the parts in which they differ, and by the misfit of the model, which counts for each of
//! them.

use crate::parameters::Misfit;
use crate::path::{Held, Parts};
use crate::play::Played;
use crate::program::Program;
use crate::resources::{Network, Parameter, Place};
use crate::stage::Stage;
use std::collections::BTreeMap;

/// 95 % of a normal distribution lie within this many standard deviations.
const SIGMAS: f64 = 1.96;

/// A predicted number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The number.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Predicted {
    /// With this relative standard deviation, for a log-normal distribution.
    fn with_deviation(value: f64, deviation: f64) -> Self {
        let factor = (SIGMAS * deviation).exp();
        Predicted {
            value,
            low: value / factor,
            high: value * factor,
        }
    }
}

/// A predicted time.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds, with the uncertainty of the parameters and the misfit.
    pub seconds: Predicted,
    /// Parts of the critical path by the parameter that they are proportional to, as shares of the
    /// time; they add up to 1.
    pub shares: BTreeMap<Parameter, f64>,
    /// The bottleneck: what takes most of the time.
    pub limit: Limiting,
    /// Its share of the time, 0..=1.
    pub limit_share: f64,
    /// Relative deviations of the parameters that have a share.
    deviations: BTreeMap<Parameter, f64>,
    misfit: Misfit,
}

/// What takes most of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limiting {
    /// Computation.
    Compute,
    /// Overhead of messages on CPUs.
    Overhead,
    /// Latency of messages.
    Latency,
    /// Transfer of messages at the speed of a single one.
    Message,
    /// A shared resource, by its index.
    Resource(u32),
}

impl Network {
    /// The time of a replayed program, repeated `times` times.
    pub fn estimate(
        &self,
        program: &Program,
        stage: &Stage,
        places: &[Place],
        played: &Played,
        times: f64,
    ) -> Estimate {
        let parts = played.critical_path(program, stage);
        let total = parts.total_ns().max(1) as f64;
        let mut by: BTreeMap<Parameter, u64> = BTreeMap::new();
        let mut limits: BTreeMap<Limiting, u64> = BTreeMap::new();
        let mut add = |parameter, limit, ns: u64| {
            if ns > 0 {
                *by.entry(parameter).or_default() += ns;
                *limits.entry(limit).or_default() += ns;
            }
        };
        add(Parameter::SlowDown, Limiting::Compute, parts.compute_ns);
        add(Parameter::Overhead, Limiting::Overhead, parts.overhead_ns);
        let inside = |way: u32| {
            let uses = &stage.ways[way as usize].uses;
            uses.first()
                .is_some_and(|u| self.parameter_of(u.resource) == Parameter::Memory)
        };
        for (&way, &ns) in &parts.latency_ns {
            let parameter = match inside(way) {
                true => Parameter::InsideLatency,
                false => Parameter::OutsideLatency,
            };
            add(parameter, Limiting::Latency, ns);
        }
        for (&(way, held), &ns) in &parts.transfer_ns {
            match held {
                Held::Shared(resource) => {
                    add(
                        self.parameter_of(resource),
                        Limiting::Resource(resource),
                        ns,
                    );
                }
                Held::Alone if inside(way) => {
                    add(Parameter::InsideBandwidth, Limiting::Message, ns)
                }
                Held::Alone => add(Parameter::OutsideBandwidth, Limiting::Message, ns),
            }
        }
        let most = limits
            .iter()
            .max_by_key(|(limit, ns)| (**ns, std::cmp::Reverse(**limit)));
        let (limit, ns) = most.map_or((Limiting::Compute, 0), |(limit, ns)| (*limit, *ns));
        let shares: BTreeMap<Parameter, f64> = by
            .into_iter()
            .map(|(p, ns)| (p, ns as f64 / total))
            .collect();
        let seconds = parts.total_ns() as f64 * 1e-9 * times;
        let estimate = Estimate {
            seconds: Predicted::with_deviation(seconds, 0.0),
            deviations: self.deviations(&shares, places, stage, &parts),
            shares,
            limit,
            limit_share: ns as f64 / total,
            misfit: self.parameters().misfit,
        };
        estimate.with_range()
    }

    fn deviations(
        &self,
        shares: &BTreeMap<Parameter, f64>,
        places: &[Place],
        stage: &Stage,
        parts: &Parts,
    ) -> BTreeMap<Parameter, f64> {
        let p = self.parameters();
        let node = places.get(parts.last_rank as usize).map(|place| place.node);
        let ranks = places
            .iter()
            .filter(|place| Some(place.node) == node)
            .count() as u32;
        let of = |parameter: &Parameter| {
            let quantity = match parameter {
                Parameter::SlowDown => return self.slow_down_deviation(ranks, stage.measured_with),
                Parameter::Overhead => p.overhead_ns,
                Parameter::InsideLatency => p.inside.latency_ns,
                Parameter::InsideBandwidth => p.inside.bandwidth,
                Parameter::OutsideLatency => p.outside.latency_ns,
                Parameter::OutsideBandwidth => p.outside.bandwidth,
                Parameter::Memory => p.memory,
                // Links between switches have the uncertainty of the adapters, which determine
                // them.
                Parameter::AdapterOut | Parameter::Link => p.adapter.out,
                Parameter::AdapterInto => p.adapter.into,
                Parameter::AdapterBoth => p.adapter.both.unwrap_or(p.adapter.out),
                Parameter::Switch => p.switch.unwrap_or(p.adapter.out),
            };
            quantity.relative_deviation()
        };
        shares
            .keys()
            .map(|parameter| (*parameter, of(parameter)))
            .collect()
    }
}

impl Network {
    /// Relative deviation of the slow-down with this many ranks on a node, given the time with
    /// `measured_with`.
    fn slow_down_deviation(&self, ranks: u32, measured_with: u32) -> f64 {
        let of = |ranks: u32| self.parameters().slow_down(ranks).relative_deviation();
        match ranks == measured_with {
            true => 0.0,
            false => of(ranks).hypot(of(measured_with)),
        }
    }
}

impl Estimate {
    /// Relative deviation due to the misfit of the model: each kind of communication counts in
    /// proportion to its share.
    fn misfit(&self) -> f64 {
        let share = |parameters: &[Parameter]| -> f64 {
            parameters.iter().filter_map(|p| self.shares.get(p)).sum()
        };
        use Parameter::{
            AdapterBoth, AdapterInto, AdapterOut, InsideBandwidth, InsideLatency, Link, Memory,
            OutsideBandwidth, OutsideLatency, Overhead, Switch,
        };
        let outside = [
            OutsideBandwidth,
            AdapterOut,
            AdapterInto,
            AdapterBoth,
            Switch,
            Link,
        ];
        let parts = [
            self.misfit.short * share(&[Overhead, InsideLatency, OutsideLatency]),
            self.misfit.inside * share(&[InsideBandwidth, Memory]),
            self.misfit.outside * share(&outside),
        ];
        parts.iter().map(|p| p * p).sum::<f64>().sqrt()
    }

    fn with_range(self) -> Self {
        let parameters = self
            .shares
            .iter()
            .map(|(p, share)| share * self.deviations[p]);
        let squares: f64 = parameters.map(|d| d * d).sum();
        let misfit = self.misfit();
        let deviation = (squares + misfit * misfit).sqrt();
        Estimate {
            seconds: Predicted::with_deviation(self.seconds.value, deviation),
            ..self
        }
    }

    /// This time over another one on the same network, with the interval of the ratio. The times
    /// differ significantly if 1 is outside the interval.
    pub fn ratio(&self, other: &Estimate) -> Predicted {
        let all = self.shares.keys().chain(other.shares.keys());
        let all: std::collections::BTreeSet<&Parameter> = all.collect();
        let share = |of: &Estimate, p| of.shares.get(p).copied().unwrap_or(0.0);
        let squares = all.into_iter().map(|p| {
            let own = self.deviations.get(p).copied().unwrap_or(0.0) * share(self, p);
            let others = other.deviations.get(p).copied().unwrap_or(0.0) * share(other, p);
            (own - others).powi(2)
        });
        let misfits = [self, other].map(|e| e.misfit().powi(2));
        let deviation = (squares.sum::<f64>() + misfits.iter().sum::<f64>()).sqrt();
        let value = self.seconds.value / other.seconds.value.max(f64::MIN_POSITIVE);
        Predicted::with_deviation(value, deviation)
    }

    /// Whether this time differs from the other by more than the uncertainty.
    pub fn differs_from(&self, other: &Estimate) -> bool {
        let ratio = self.ratio(other);
        ratio.low > 1.0 || ratio.high < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_of(seconds: f64, shares: &[(Parameter, f64, f64)], outside: f64) -> Estimate {
        let estimate = Estimate {
            seconds: Predicted::with_deviation(seconds, 0.0),
            shares: shares.iter().map(|s| (s.0, s.1)).collect(),
            limit: Limiting::Compute,
            limit_share: 0.0,
            deviations: shares.iter().map(|s| (s.0, s.2)).collect(),
            misfit: Misfit {
                outside,
                ..Misfit::default()
            },
        };
        estimate.with_range()
    }

    /// The relative deviation of an interval.
    fn deviation(of: Predicted) -> f64 {
        (of.high / of.value).ln() / SIGMAS
    }

    #[test]
    fn a_time_is_as_uncertain_as_its_parts_are() {
        use Parameter::{AdapterOut, SlowDown};
        let all = made_of(1.0, &[(AdapterOut, 1.0, 0.1)], 0.0);
        assert!((deviation(all.seconds) - 0.1).abs() < 1e-9);
        let half = made_of(1.0, &[(AdapterOut, 0.5, 0.1), (SlowDown, 0.5, 0.0)], 0.0);
        assert!((deviation(half.seconds) - 0.05).abs() < 1e-9);
        // 3-4-5; the misfit is that of messages between nodes.
        let both = made_of(1.0, &[(AdapterOut, 0.5, 0.06), (SlowDown, 0.5, 0.0)], 0.08);
        assert!((deviation(both.seconds) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn each_misfit_is_of_its_own_shares() {
        use Parameter::{InsideBandwidth, Link, Memory, OutsideLatency, Overhead, SlowDown};
        let misfit = Misfit {
            short: 0.1,
            inside: 0.2,
            outside: 0.4,
        };
        let of = |shares: &[(Parameter, f64)]| {
            let shares: Vec<_> = shares.iter().map(|&(p, share)| (p, share, 0.0)).collect();
            let mut estimate = made_of(1.0, &shares, 0.0);
            estimate.misfit = misfit;
            deviation(estimate.with_range().seconds)
        };
        for (shares, expected) in [
            (vec![(SlowDown, 1.0)], 0.0),
            (vec![(Overhead, 0.5), (OutsideLatency, 0.5)], 0.1),
            (
                vec![(InsideBandwidth, 0.25), (Memory, 0.25), (SlowDown, 0.5)],
                0.1,
            ),
            (vec![(Link, 1.0)], 0.4),
            (vec![(Memory, 0.75), (Link, 0.5)], 0.25),
        ] {
            assert!((of(&shares) - expected).abs() < 1e-9, "{shares:?}");
        }
    }

    #[test]
    fn what_both_are_wrong_in_together_makes_no_difference() {
        use Parameter::{AdapterOut, SlowDown};
        let fast = made_of(1.0, &[(AdapterOut, 1.0, 0.3)], 0.0);
        let slow = made_of(1.1, &[(AdapterOut, 1.0, 0.3)], 0.0);
        // Their intervals overlap widely, yet one is faster for any adapter.
        assert!(slow.seconds.low < fast.seconds.high);
        assert!(slow.differs_from(&fast) && fast.differs_from(&slow));
        let other = made_of(1.1, &[(SlowDown, 1.0, 0.0)], 0.0);
        assert!(!other.differs_from(&fast));
        let vague = made_of(1.1, &[(AdapterOut, 1.0, 0.3)], 0.1);
        assert!(!vague.differs_from(&fast));
        let ratio = slow.ratio(&fast);
        assert_eq!((ratio.value, ratio.low), (1.1, 1.1));
    }
}
