//! The parameters of a network, and of the nodes on it.
//!
//! Sources of the model: A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, "LogGP", SPAA 1995 (a
//! single message); H. Casanova et al., "Versatile, scalable, and accurate simulation of
//! distributed applications and platforms", JPDC 2014 (shared resources: max-min fair flows).

use crate::error::NetworkError;
use crate::quantity::{Origin, Quantity};
use serde::{Deserialize, Serialize};

/// The cost of a single message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathCosts {
    /// From the end of the sender's overhead to the first byte at the receiver, nanoseconds.
    pub latency_ns: Quantity,
    /// Bandwidth of one message, bytes per second, above 0: limited by a core that copies, or by a
    /// single stream of a transport.
    pub bandwidth: Quantity,
}

/// The resource shared by all messages of a node to and from other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Out of the node, bytes per second, above 0.
    pub out: Quantity,
    /// Into the node, bytes per second, above 0.
    pub into: Quantity,
    /// Both directions together, bytes per second; `None` if they are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both: Option<Quantity>,
}

/// Interference among the computing ranks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowDown {
    /// Ranks on a node, at least 1.
    pub ranks: u32,
    /// Their time over the time of one rank alone on the node; at least 0.5.
    pub factor: Quantity,
}

/// Deviations of the model from the measurement: standard deviations of the relative residuals,
/// each at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misfit {
    /// For times determined by overhead and latency: short messages.
    pub short: f64,
    /// For long messages within a node.
    pub inside: f64,
    /// For long messages between nodes.
    pub outside: f64,
}

/// Parameters of a network and of its nodes, which are all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkParameters {
    /// Their origin, one line.
    pub about: String,
    /// CPU time of a rank for each message sent or received, nanoseconds.
    pub overhead_ns: Quantity,
    /// Eager limit, bytes: longer messages wait for their receive.
    pub eager_limit: u64,
    /// Latency of each switch after the first, nanoseconds.
    pub hop_ns: Quantity,
    /// Bandwidth shared by all messages within a memory domain, bytes per second of payload, above
    /// 0.
    pub memory: Quantity,
    /// Deviations of the model from the measurement.
    #[serde(default = "Misfit::assumed")]
    pub misfit: Misfit,
    /// Messages within a node.
    pub inside: PathCosts,
    /// Messages between nodes below one switch.
    pub outside: PathCosts,
    /// The adapter, shared by all messages of a node.
    pub adapter: Adapter,
    /// Capacity of a switch, bytes per second; `None` if only its ports limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Quantity>,
    /// Slow-down of computation by the ranks of a node, by rising rank count; interpolated between
    /// entries, constant after the last one. Empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_down: Vec<SlowDown>,
}

impl Misfit {
    /// Without a measurement: 10 %.
    pub const ASSUMED: Misfit = Misfit {
        short: 0.1,
        inside: 0.1,
        outside: 0.1,
    };

    fn assumed() -> Self {
        Self::ASSUMED
    }
}

/// Possible error of assumed values, as a factor in either direction.
const GUESS: f64 = 1.5;

impl NetworkParameters {
    /// Whether no measurement between nodes exists.
    pub fn between_nodes_is_assumed(&self) -> bool {
        self.outside.bandwidth.origin == Origin::Assumed
    }

    /// Nodes with full-duplex adapters of this many bytes per second, and typical values of such a
    /// network for everything else, as a guess.
    pub fn assumed(about: impl Into<String>, adapter: f64) -> Self {
        let guess = |value| Quantity::assumed(value, GUESS);
        // Up to 1 Gbit/s: Ethernet through the kernel's network stack. Above: networks whose
        // adapters offload the work. Values as commonly measured by ping-pong; see docs/network.md.
        let (latency, overhead, hop) = match adapter <= 150e6 {
            true => (25_000.0, 5_000.0, 2_000.0),
            false => (1_500.0, 500.0, 150.0),
        };
        NetworkParameters {
            about: about.into(),
            overhead_ns: guess(overhead),
            eager_limit: 64 << 10,
            hop_ns: guess(hop),
            memory: guess(10e9),
            misfit: Misfit::ASSUMED,
            inside: PathCosts {
                latency_ns: guess(500.0),
                bandwidth: guess(4e9),
            },
            outside: PathCosts {
                latency_ns: guess(latency),
                bandwidth: guess(adapter),
            },
            adapter: Adapter {
                out: guess(adapter),
                into: guess(adapter),
                both: None,
            },
            switch: None,
            slow_down: Vec::new(),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first invalid one, by its name in the file.
    pub fn check(&self) -> Result<(), NetworkError> {
        let wrong = |name: &str, why: &'static str| NetworkError::Parameter {
            name: name.to_owned(),
            why,
        };
        for (name, quantity, rate) in self.quantities() {
            if !quantity.is_sound() {
                return Err(wrong(name, "it must be 0 or more, and within its range"));
            }
            if rate && quantity.low <= 0.0 {
                return Err(wrong(name, "a bandwidth must be above 0"));
            }
        }
        let misfits = [
            ("misfit.short", self.misfit.short),
            ("misfit.inside", self.misfit.inside),
            ("misfit.outside", self.misfit.outside),
        ];
        if let Some((name, _)) = misfits.iter().find(|(_, m)| !(0.0..10.0).contains(m)) {
            return Err(wrong(name, "it must be a share from 0 to 10"));
        }
        let mut before = 0;
        for step in &self.slow_down {
            if step.ranks <= before {
                return Err(wrong(
                    "slow_down",
                    "numbers of ranks must rise, starting at 1 or more",
                ));
            }
            if !step.factor.is_sound() || !(0.5..=1e6).contains(&step.factor.value) {
                return Err(wrong("slow_down", "factors must be 0.5 to 1000000"));
            }
            before = step.ranks;
        }
        Ok(())
    }

    /// All single values with their names, and whether they are bandwidths.
    pub(crate) fn quantities(&self) -> Vec<(&'static str, Quantity, bool)> {
        let mut all = vec![
            ("overhead_ns", self.overhead_ns, false),
            ("hop_ns", self.hop_ns, false),
            ("memory", self.memory, true),
            ("inside.latency_ns", self.inside.latency_ns, false),
            ("inside.bandwidth", self.inside.bandwidth, true),
            ("outside.latency_ns", self.outside.latency_ns, false),
            ("outside.bandwidth", self.outside.bandwidth, true),
            ("adapter.out", self.adapter.out, true),
            ("adapter.into", self.adapter.into, true),
        ];
        let optional = [("adapter.both", self.adapter.both), ("switch", self.switch)];
        all.extend(
            optional
                .into_iter()
                .filter_map(|(n, q)| Some((n, q?, true))),
        );
        all
    }

    /// How much longer the same computation takes with this many ranks on a node. 1 for one rank or
    /// without a curve.
    pub fn slow_down(&self, ranks: u32) -> Quantity {
        let curve = &self.slow_down;
        let after = curve.partition_point(|step| step.ranks < ranks);
        match (after.checked_sub(1).map(|i| curve[i]), curve.get(after)) {
            (None, None) => Quantity::stated(1.0),
            (Some(last), None) => last.factor,
            (before, Some(next)) => {
                let before = before.unwrap_or(SlowDown {
                    ranks: 1,
                    factor: Quantity::stated(1.0),
                });
                between(before, *next, ranks)
            }
        }
    }
}

/// Interpolates linearly between two points of the curve.
fn between(before: SlowDown, next: SlowDown, ranks: u32) -> Quantity {
    if ranks >= next.ranks || before.ranks >= next.ranks {
        return next.factor;
    }
    let share =
        f64::from(ranks.saturating_sub(before.ranks)) / f64::from(next.ranks - before.ranks);
    let on = |a: f64, b: f64| a + (b - a) * share;
    Quantity {
        value: on(before.factor.value, next.factor.value),
        low: on(before.factor.low, next.factor.low),
        high: on(before.factor.high, next.factor.high),
        origin: next.factor.origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_down_is_one_for_one_rank_and_on_lines_between_points() {
        let mut network = NetworkParameters::assumed("test", 125e6);
        assert_eq!(network.slow_down(7).value, 1.0);
        let point = |ranks, factor| SlowDown {
            ranks,
            factor: Quantity::stated(factor),
        };
        network.slow_down = vec![point(2, 1.5), point(4, 3.0)];
        let at: Vec<f64> = (1..=5).map(|k| network.slow_down(k).value).collect();
        assert_eq!(at, [1.0, 1.5, 2.25, 3.0, 3.0]);
        network.check().unwrap();
    }

    #[test]
    fn numbers_that_cannot_be_are_named() {
        let good = NetworkParameters::assumed("test", 125e6);
        good.check().unwrap();
        let refused = |change: &dyn Fn(&mut NetworkParameters)| {
            let mut bad = good.clone();
            change(&mut bad);
            bad.check().unwrap_err().to_string()
        };
        assert!(refused(&|n| n.memory = Quantity::stated(0.0)).contains("memory"));
        assert!(refused(&|n| n.adapter.out = Quantity::stated(f64::NAN)).contains("adapter.out"));
        assert!(refused(&|n| n.adapter.both = Some(Quantity::stated(0.0))).contains("both"));
        assert!(refused(&|n| n.misfit.inside = -1.0).contains("misfit"));
        let falling = [3, 2].map(|ranks| SlowDown {
            ranks,
            factor: Quantity::stated(1.0),
        });
        assert!(refused(&|n| n.slow_down = falling.to_vec()).contains("rise"));
    }
}
