//! A stream of events: its CPUs, and when the events start.

use crate::lengths::{LengthSet, LengthsBuilder};
use crate::model::{Arrivals, NoiseModel, Scope, Source, Together};

/// Number of the stream of all Poisson sources that strike every CPU independently; source `i` of
/// the model has stream `i + 1`.
pub(crate) const MIX_STREAM: u32 = 0;

/// A CPU of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The node, from 0.
    pub node: u32,
    /// The CPU within its node, from 0.
    pub cpu: u32,
    /// The CPU, numbered over all nodes.
    pub global: u32,
}

/// A stream of numbered events.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Part of the counter of its random numbers.
    pub id: u32,
    pub scope: Scope,
    pub together: Together,
    /// Whether it strikes each CPU of a node; empty if it strikes all.
    pub strikes: Vec<bool>,
    /// Speed that the rank keeps, in units of 1/[`FULL`]; 0 stops it.
    pub keeps: u32,
    pub process: Process,
}

/// Full speed, in the unit of [`Stream::keeps`].
pub(crate) const FULL: u32 = 1 << 10;

/// Starts and lengths of the events of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Process {
    Poisson {
        gap_ns: f64,
        lengths: LengthSet,
    },
    Periodic {
        period_ns: u64,
        jitter_ns: u64,
        phase_ns: Option<u64>,
        lengths: LengthSet,
    },
    Trace {
        source: u32,
        played: Played,
    },
}

/// A recording that is replayed in blocks from randomly drawn positions.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    /// Its length, after which it starts again.
    pub watched_ns: u64,
    pub block_ns: u64,
    /// Start and length of each event, in order.
    pub events: Vec<[u64; 2]>,
}

impl Stream {
    /// The stream of a source that needs its own; `None` if it has no events, or only events of
    /// length 0.
    pub fn of(model: &NoiseModel, index: usize, source: &Source, keep: bool) -> Option<Self> {
        if !keep {
            return None;
        }
        let lengths = || -> Option<LengthSet> {
            let mut builder = LengthsBuilder::default();
            builder.add(index, 1.0, source.length.as_ref()?, true);
            builder.build()
        };
        let process = match &source.arrivals {
            Arrivals::Poisson { rate_per_s } if *rate_per_s > 0.0 => Process::Poisson {
                gap_ns: 1e9 / rate_per_s,
                lengths: lengths()?,
            },
            Arrivals::Poisson { .. } => return None,
            Arrivals::Periodic {
                period_ns,
                jitter_ns,
                phase_ns,
            } => Process::Periodic {
                period_ns: *period_ns,
                jitter_ns: *jitter_ns,
                phase_ns: *phase_ns,
                lengths: lengths()?,
            },
            Arrivals::Trace { events, .. } if events.is_empty() => return None,
            Arrivals::Trace {
                watched_ns,
                block_ns,
                events,
            } => Process::Trace {
                source: index as u32,
                played: Played {
                    watched_ns: *watched_ns,
                    block_ns: block_ns.unwrap_or(u64::MAX),
                    events: events.clone(),
                },
            },
        };
        let strikes = source.cpus.as_ref().map_or_else(Vec::new, |cpus| {
            (0..model.cpus_per_node)
                .map(|c| cpus.contains(&c))
                .collect()
        });
        Some(Self {
            id: index as u32 + 1,
            scope: source.strikes,
            together: source.together,
            strikes,
            keeps: (source.keeps * f64::from(FULL)) as u32,
            process,
        })
    }

    /// Whether it can strike this CPU.
    pub fn reaches(&self, place: Place) -> bool {
        self.strikes.is_empty() || self.strikes[place.cpu as usize]
    }

    /// A word that all CPUs which share its events have in common.
    pub fn key_place(&self, place: Place) -> u32 {
        match (self.together, self.scope) {
            (Together::All, _) => 0,
            (Together::Node, _) | (Together::Alone, Scope::OneCpuOfNode) => place.node,
            (Together::Alone, Scope::EachCpu) => place.global,
        }
    }
}
