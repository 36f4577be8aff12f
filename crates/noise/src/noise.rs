//! A model with a seed: the streams of events that it is made of.

use crate::check::ModelProblem;
use crate::events::{Event, Events, MIX_STREAM, Process};
use crate::lengths::{LengthSet, LengthsBuilder};
use crate::model::{Arrivals, Clock, NoiseModel, Scope, Source, Together};
use crate::philox::philox4x32_one;

/// A CPU of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node, from 0.
    pub node: u32,
    /// The CPU within its node, from 0.
    pub cpu: u32,
    /// The CPU among those of all nodes.
    pub global: u32,
}

/// Noise, ready to strike. Immutable: share it between threads.
#[derive(Clone, Debug)]
pub struct Noise {
    pub(crate) key: [u32; 2],
    pub(crate) cpus_per_node: u32,
    pub(crate) clock: Clock,
    pub(crate) streams: Vec<Stream>,
    sources: usize,
}

/// A stream of events that are numbered through.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// In the counter of its random numbers.
    pub id: u32,
    pub scope: Scope,
    pub together: Together,
    /// By CPU of a node; empty: all.
    pub strikes: Vec<bool>,
    /// Speed that is kept, of [`FULL`]; 0 where the rank stands still.
    pub keeps: u32,
    pub process: Process,
}

/// Full speed, in the unit of [`Stream::keeps`].
pub(crate) const FULL: u32 = 1 << 10;

impl Stream {
    /// Whether it can strike this CPU.
    pub fn reaches(&self, place: Place) -> bool {
        self.strikes.is_empty() || self.strikes[place.cpu as usize]
    }

    /// What shares its events.
    pub fn key_place(&self, place: Place) -> u32 {
        match (self.together, self.scope) {
            (Together::All, _) => 0,
            (Together::Node, _) | (Together::Alone, Scope::OneCpuOfNode) => place.node,
            (Together::Alone, Scope::EachCpu) => place.global,
        }
    }
}

impl Noise {
    /// Makes the streams of a model. Of a source that `keep` refuses (by its number in the model) the events have no length
    /// and those of all others are as they are with it.
    ///
    /// `replication` numbers independent repetitions with the same seed.
    ///
    /// # Errors
    /// What [`NoiseModel::check`] finds.
    pub fn new(
        model: &NoiseModel,
        seed: u64,
        replication: u32,
        keep: impl Fn(usize) -> bool,
    ) -> Result<Noise, ModelProblem> {
        model.check()?;
        let words = philox4x32_one(
            [replication, 0, 0, u32::MAX],
            [seed as u32, (seed >> 32) as u32],
        );
        let mut streams = Vec::new();
        let mut mix = LengthsBuilder::default();
        let mut rate = 0.0;
        for (index, source) in model.sources.iter().enumerate() {
            match mixed_rate(source) {
                Some(own) => {
                    rate += own;
                    if let Some(lengths) = source.length.as_ref().filter(|_| own > 0.0) {
                        mix.add(index, own, lengths, keep(index));
                    }
                }
                None => streams.extend(stream(model, index, source, keep(index))),
            }
        }
        if let Some(lengths) = mix.build() {
            let process = Process::Poisson {
                gap_ns: 1e9 / rate,
                lengths,
            };
            streams.insert(
                0,
                Stream {
                    id: MIX_STREAM,
                    scope: Scope::EachCpu,
                    together: Together::Alone,
                    strikes: Vec::new(),
                    keeps: 0,
                    process,
                },
            );
        }
        Ok(Noise {
            key: [words[0] as u32, words[1] as u32],
            cpus_per_node: model.cpus_per_node,
            clock: model.clock,
            streams,
            sources: model.sources.len(),
        })
    }

    /// Which time of a CPU its events are laid on.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Sources of the model, those without events too.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// A CPU by its number among those of all nodes.
    pub fn place(&self, cpu: u32) -> Place {
        Place {
            node: cpu / self.cpus_per_node,
            cpu: cpu % self.cpus_per_node,
            global: cpu,
        }
    }

    /// The events that begin on a CPU before `until_ns`, in order of begin and source; those of sources that were not kept are
    /// left out.
    pub fn events(&self, cpu: u32, until_ns: u64) -> Vec<Event> {
        let place = self.place(cpu);
        let mut all = Vec::new();
        for stream in (0..self.streams.len()).filter(|&s| self.streams[s].reaches(place)) {
            let mut events = Events::new(self, stream, place);
            loop {
                let event = events.next(self);
                if event.begin >= until_ns {
                    break;
                }
                if event.length > 0 {
                    all.push(event);
                }
            }
        }
        all.sort_by_key(|e| (e.begin, e.source, e.length));
        all
    }
}

/// A number from 0 to below 1 that belongs to a rank under a seed, for what is drawn once and for all: its speed.
pub fn uniform(seed: u64, rank: u32) -> f64 {
    let [high, low, ..] =
        philox4x32_one([rank, 0, 1, u32::MAX], [seed as u32, (seed >> 32) as u32]);
    ((high << 32 | low) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Rate of a source whose events are drawn together with those of others: independent Poisson processes are one.
fn mixed_rate(source: &Source) -> Option<f64> {
    let plain = source.scope_is_plain() && source.keeps == 0.0;
    match source.arrivals {
        Arrivals::Poisson { rate_per_s } if plain => Some(rate_per_s),
        _ => None,
    }
}

impl Source {
    fn scope_is_plain(&self) -> bool {
        self.strikes == Scope::EachCpu && self.together == Together::Alone && self.cpus.is_none()
    }
}

/// The stream of a source of its own; `None` if it has no events, or none of any length.
fn stream(model: &NoiseModel, index: usize, source: &Source, keep: bool) -> Option<Stream> {
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
            watched_ns: *watched_ns,
            block_ns: block_ns.unwrap_or(u64::MAX),
            events: events.clone(),
        },
    };
    let strikes = source.cpus.as_ref().map_or_else(Vec::new, |cpus| {
        (0..model.cpus_per_node)
            .map(|c| cpus.contains(&c))
            .collect()
    });
    Some(Stream {
        id: index as u32 + 1,
        scope: source.strikes,
        together: source.together,
        strikes,
        keeps: (source.keeps * f64::from(FULL)) as u32,
        process,
    })
}
