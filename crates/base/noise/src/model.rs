//! The contents of a model. The file format mirrors these types: docs/noise-model.md.

use idlewave_run::SourceKind;
use serde::{Deserialize, Serialize};

/// The noise on the nodes of a cluster. All nodes are alike, but their events differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseModel {
    /// Version of the format: 1.
    pub schema: u32,
    /// Its origin, for display.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// CPUs of a node that run ranks, one rank each; at least 1.
    #[serde(default = "one")]
    pub cpus_per_node: u32,
    /// The time base of the events.
    #[serde(default, skip_serializing_if = "Clock::is_default")]
    pub clock: Clock,
    /// The sources of noise.
    #[serde(default, rename = "source")]
    pub sources: Vec<Source>,
}

fn one() -> u32 {
    1
}

impl Default for NoiseModel {
    /// No noise, one CPU per node.
    fn default() -> Self {
        NoiseModel {
            schema: NoiseModel::SCHEMA,
            about: String::new(),
            cpus_per_node: 1,
            clock: Clock::default(),
            sources: Vec::new(),
        }
    }
}

/// The time base of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The wall clock: events during a wait of the rank cost it nothing.
    #[default]
    Wall,
    /// The time during which the rank computes, including what strikes it: noise by exposure. It
    /// stands still while the rank waits, so idle time absorbs nothing. CPUs that are struck
    /// together are struck at the same point of this time.
    Work,
}

impl Clock {
    fn is_default(&self) -> bool {
        *self == Clock::default()
    }
}

/// One source of noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Class.
    pub kind: SourceKind,
    /// Name, as in the table of sources of a run.
    pub name: String,
    /// What an event strikes.
    #[serde(default, skip_serializing_if = "Scope::is_default")]
    pub strikes: Scope,
    /// CPUs that share the same events.
    #[serde(default, skip_serializing_if = "Together::is_default")]
    pub together: Together,
    /// Only these CPUs of every node (0 to `cpus_per_node - 1`); all if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<u32>>,
    /// Share of its speed that a rank keeps during an event, from 0 (it stops) to less than 1: a
    /// lower frequency level, or an event that runs on an idle hardware thread of the same core.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keeps: f64,
    /// When events start.
    pub arrivals: Arrivals,
    /// Lengths of events; omitted if `arrivals` is a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Lengths>,
    /// Goodness of the fit; omitted if nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// What an event of a source strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Every CPU has its own events; rates are per CPU.
    #[default]
    EachCpu,
    /// The node has the events; each strikes one randomly drawn CPU, like a daemon that migrates.
    /// Rates are per node.
    OneCpuOfNode,
}

impl Scope {
    fn is_default(&self) -> bool {
        *self == Scope::default()
    }
}

/// CPUs that meet the events of a source at the same times and for the same lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Together {
    /// None.
    #[default]
    Alone,
    /// All CPUs of a node.
    Node,
    /// All CPUs of all nodes: co-scheduled.
    All,
}

impl Together {
    fn is_default(&self) -> bool {
        *self == Together::default()
    }
}

/// When events start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "process", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// At random times, independent of each other.
    Poisson {
        /// Events per second.
        rate_per_s: f64,
    },
    /// At regular intervals.
    Periodic {
        /// Distance between two events, in nanoseconds; at least 1.
        period_ns: u64,
        /// Each event is late by a random time up to this, in nanoseconds; below the period.
        #[serde(default, skip_serializing_if = "is_nothing")]
        jitter_ns: u64,
        /// Start of the first event, in nanoseconds, less than the period; random if omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase_ns: Option<u64>,
    },
    /// As recorded, replayed in blocks drawn at random with replacement from the recording, which
    /// wraps around. Within a block the events keep their recorded distances.
    Trace {
        /// Recorded time in nanoseconds, later than the start of the last event.
        watched_ns: u64,
        /// Length of a block in nanoseconds. If omitted, the whole recording is repeated from a
        /// random point.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block_ns: Option<u64>,
        /// Start and length of each event in nanoseconds, in order of start.
        events: Vec<[u64; 2]>,
    },
}

fn is_nothing(value: &u64) -> bool {
    *value == 0
}

/// How long events last, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Lengths {
    /// Constant.
    Fixed {
        /// The length.
        ns: u64,
    },
    /// Exponentially distributed.
    Exponential {
        /// Their mean.
        mean_ns: f64,
    },
    /// As observed, optionally with a tail beyond.
    Empirical {
        /// Length and number of events of that length, rising.
        bins: Vec<[u64; 2]>,
        /// A law for the longest events, which reaches beyond the longest observed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail: Option<Tail>,
    },
    /// Generalised Pareto above a threshold: P(length > t) = (1 + shape (t - threshold) /
    /// scale)^(-1 / shape).
    Pareto(Tail),
}

/// A generalised Pareto distribution above a threshold (Coles, "An Introduction to Statistical
/// Modeling of Extreme Values", 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    /// Number of events that follow this law, in the unit of the bins' counts; ignored without
    /// bins.
    #[serde(default = "one_event", skip_serializing_if = "is_one_event")]
    pub count: u64,
    /// The threshold, in nanoseconds.
    pub threshold_ns: u64,
    /// Its scale in nanoseconds, above 0.
    pub scale_ns: f64,
    /// Its shape: 0 is exponential; above 0 the tail is heavy, and from 1 it has no mean; below 0
    /// lengths are bounded.
    pub shape: f64,
    /// Longer events are cut to this length, an upper bound for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u64>,
}

fn one_event() -> u64 {
    1
}

fn is_one_event(count: &u64) -> bool {
    *count == 1
}

/// How well a source's law fits the observations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Events observed.
    pub events: u64,
    /// CPU time watched, in nanoseconds.
    pub watched_ns: u64,
    /// Rate per second of a CPU with its 95 % interval: value, low, high.
    pub rate_per_s: [f64; 3],
    /// Share of a CPU's time that it takes with its 95 % interval: value, low, high.
    pub stolen: [f64; 3],
    /// Tests of the laws.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "test")]
    pub tests: Vec<GoodnessOfFit>,
}

/// One test of a law against the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoodnessOfFit {
    /// What was tested: "gaps are exponential".
    pub what: String,
    /// The test: "Kolmogorov-Smirnov, Lilliefors".
    pub test: String,
    /// Its statistic.
    pub statistic: f64,
    /// Probability of a statistic at least this large if the law holds, 0 to 1.
    pub p: f64,
}

impl NoiseModel {
    /// The version that this program writes and reads.
    pub const SCHEMA: u32 = 1;
}

impl Source {
    /// A task with independent events on every CPU, each taking the whole CPU. `length` is omitted
    /// if the arrivals are a trace.
    pub fn task(
        name: impl Into<String>,
        arrivals: Arrivals,
        length: impl Into<Option<Lengths>>,
    ) -> Self {
        Source {
            kind: SourceKind::Task,
            name: name.into(),
            strikes: Scope::EachCpu,
            together: Together::Alone,
            cpus: None,
            keeps: 0.0,
            arrivals,
            length: length.into(),
            fit: None,
        }
    }

    /// Class and name, "irq:eth0", or just one if they are equal, "timer tick". As a pattern it
    /// selects the source.
    pub fn label(&self) -> String {
        let kind = self.kind.label();
        match kind == self.name {
            true => kind.to_owned(),
            false => format!("{kind}:{}", self.name),
        }
    }
}

impl Source {
    /// Share of a CPU's time that the source takes, averaged over the node's CPUs; `None` if its
    /// lengths have no mean.
    pub fn stolen(&self, cpus_per_node: u32) -> Option<f64> {
        let mean = || self.length.as_ref().and_then(Lengths::mean_ns);
        let taken = match &self.arrivals {
            Arrivals::Poisson { rate_per_s } => rate_per_s * mean()? / 1e9,
            Arrivals::Periodic { period_ns, .. } => mean()? / *period_ns as f64,
            Arrivals::Trace {
                watched_ns, events, ..
            } => events.iter().map(|e| e[1] as f64).sum::<f64>() / *watched_ns as f64,
        };
        let nodes = f64::from(cpus_per_node.max(1));
        let struck = match (self.strikes, &self.cpus) {
            (Scope::OneCpuOfNode, None) => 1.0 / nodes,
            (Scope::OneCpuOfNode, Some(cpus)) => cpus.len() as f64 / (nodes * nodes),
            (Scope::EachCpu, None) => 1.0,
            (Scope::EachCpu, Some(cpus)) => cpus.len() as f64 / nodes,
        };
        Some(taken * struck * (1.0 - self.keeps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_source_takes_is_rate_times_length_of_the_cpus_that_it_strikes() {
        let mut source = Source::task(
            "x",
            Arrivals::Poisson { rate_per_s: 100.0 },
            Some(Lengths::Fixed { ns: 1_000_000 }),
        );
        assert_eq!(source.stolen(4), Some(0.1));
        source.cpus = Some(vec![1]);
        assert_eq!(source.stolen(4), Some(0.025));
        (source.cpus, source.strikes) = (None, Scope::OneCpuOfNode);
        assert_eq!(source.stolen(4), Some(0.025));
        source.keeps = 0.5;
        assert_eq!(source.stolen(4), Some(0.0125));
        source.arrivals = Arrivals::Trace {
            watched_ns: 1_000,
            block_ns: None,
            events: vec![[0, 100], [500, 300]],
        };
        (source.keeps, source.strikes) = (0.0, Scope::EachCpu);
        assert_eq!(source.stolen(4), Some(0.4));
    }
}
