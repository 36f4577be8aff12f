//! What a model says. The form of the file is that of these types: docs/noise-model.md.

use idlewave_run::SourceKind;
use serde::{Deserialize, Serialize};

/// All that disturbs the nodes of a cluster. Every node is like every other; their events differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseModel {
    /// Version of the form: 1.
    pub schema: u32,
    /// Where it comes from, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// CPUs of a node that run ranks, one rank each, from 1 on.
    #[serde(default = "one")]
    pub cpus_per_node: u32,
    /// Which time of a CPU its events are laid on.
    #[serde(default, skip_serializing_if = "Clock::is_default")]
    pub clock: Clock,
    /// What disturbs.
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

/// Which time of a CPU its events are laid on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The time of day: what falls into a wait of the rank costs it nothing.
    #[default]
    Wall,
    /// The time that its rank computes, what strikes it included: noise by exposure. It stands still while the rank waits, so that idle time absorbs
    /// nothing. CPUs that are struck together are struck at the same point of this time.
    Work,
}

impl Clock {
    fn is_default(&self) -> bool {
        *self == Clock::default()
    }
}

/// One source of disturbance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Class.
    pub kind: SourceKind,
    /// Name, as in the table of sources of a run.
    pub name: String,
    /// Whom an event strikes.
    #[serde(default, skip_serializing_if = "Scope::is_default")]
    pub strikes: Scope,
    /// Which CPUs have their events at the same moments.
    #[serde(default, skip_serializing_if = "Together::is_default")]
    pub together: Together,
    /// Only these CPUs of every node (0 to `cpus_per_node - 1`); all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<u32>>,
    /// Share of its speed that a rank keeps during an event, 0 (it stands still) to below 1: a lower frequency level, or an
    /// event that an idle hardware thread of the same core takes upon itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keeps: f64,
    /// When events begin.
    pub arrivals: Arrivals,
    /// How long they last; with `arrivals` of a trace it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Lengths>,
    /// How well the model fits what was measured; left out where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Whom an event of a source strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Every CPU has events of its own; rates are per CPU.
    #[default]
    EachCpu,
    /// A node has the events, each strikes one of its CPUs, drawn anew: a daemon that wanders. Rates are per node.
    OneCpuOfNode,
}

impl Scope {
    fn is_default(&self) -> bool {
        *self == Scope::default()
    }
}

/// Which CPUs meet the events of a source at the same moments and for the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Together {
    /// None.
    #[default]
    Alone,
    /// Those of a node.
    Node,
    /// All, of all nodes: co-scheduled.
    All,
}

impl Together {
    fn is_default(&self) -> bool {
        *self == Together::default()
    }
}

/// When events begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "process", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// At random moments, independent of each other.
    Poisson {
        /// Events per second.
        rate_per_s: f64,
    },
    /// Regular.
    Periodic {
        /// Distance of two events, in nanoseconds, from 1 on.
        period_ns: u64,
        /// Each event is late by a random time up to this, in nanoseconds; below the period.
        #[serde(default, skip_serializing_if = "is_nothing")]
        jitter_ns: u64,
        /// When the first one begins, in nanoseconds, below the period; drawn where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase_ns: Option<u64>,
    },
    /// As they were seen, in blocks drawn at random with replacement from what was watched, whose end joins its
    /// beginning: what happens within a block happens as it was seen.
    Trace {
        /// Time watched in nanoseconds, beyond the begin of the last event.
        watched_ns: u64,
        /// Length of a block in nanoseconds; the whole from a random moment on, again and again, where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block_ns: Option<u64>,
        /// Begin and length of each event in nanoseconds, in order of their begins.
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
    /// Always the same.
    Fixed {
        /// The length.
        ns: u64,
    },
    /// Exponentially distributed.
    Exponential {
        /// Their mean.
        mean_ns: f64,
    },
    /// As they were seen, and perhaps beyond.
    Empirical {
        /// Length and number of events of that length, rising.
        bins: Vec<[u64; 2]>,
        /// The longest events, whose lengths follow a law of their own and reach beyond the longest seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail: Option<Tail>,
    },
    /// Generalised Pareto above a threshold: P(length > t) = (1 + shape (t - threshold) / scale)^(-1 / shape).
    Pareto(Tail),
}

/// A generalised Pareto distribution above a threshold (Coles, "An Introduction to Statistical Modeling of Extreme Values", 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    /// Events that follow it, in the unit of the bins beside it; of no meaning without bins.
    #[serde(default = "one_event", skip_serializing_if = "is_one_event")]
    pub count: u64,
    /// Where it begins, in nanoseconds.
    pub threshold_ns: u64,
    /// Its scale in nanoseconds, above 0.
    pub scale_ns: f64,
    /// Its shape: 0 is exponential, above 0 heavy, from 1 on without mean; below 0 it has an end.
    pub shape: f64,
    /// Longer events are as long as this: what a machine cannot exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u64>,
}

fn one_event() -> u64 {
    1
}

fn is_one_event(count: &u64) -> bool {
    *count == 1
}

/// How well a source's law fits what was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Events from which it was learnt.
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
    /// Probability of so large a statistic if the law holds, 0 to 1.
    pub p: f64,
}

impl NoiseModel {
    /// The version that this program writes and reads.
    pub const SCHEMA: u32 = 1;
}

impl Source {
    /// A task whose events every CPU has on its own, each of which takes the whole CPU. `length` is left out with arrivals of a trace.
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

    /// Class and name, "irq:eth0"; once where they are the same, "timer tick". A pattern that chooses it.
    pub fn label(&self) -> String {
        let kind = self.kind.label();
        match kind == self.name {
            true => kind.to_owned(),
            false => format!("{kind}:{}", self.name),
        }
    }
}

impl Source {
    /// Share of the time of a CPU of a node that it takes, on average over the node's CPUs; `None` if its lengths have no mean.
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
