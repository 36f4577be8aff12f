//! A model with a seed, as streams of events.

use crate::check::ModelProblem;
use crate::lengths::LengthsBuilder;
use crate::model::{Arrivals, Clock, NoiseModel, Scope, Source, Together};
use crate::philox::philox4x32_one;
use crate::stream::{MIX_STREAM, Place, Process, Stream};

/// Noise, ready for queries. Immutable, so threads can share it.
#[derive(Clone, Debug)]
pub struct Noise {
    pub(crate) key: [u32; 2],
    pub(crate) cpus_per_node: u32,
    pub(crate) clock: Clock,
    pub(crate) streams: Vec<Stream>,
    sources: usize,
}

impl Noise {
    /// Creates the streams of a model. Events of sources that `keep` rejects (by index in the
    /// model) have length 0; the events of all other sources do not change.
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
                None => streams.extend(Stream::of(model, index, source, keep(index))),
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

    /// The time base of the events.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Sources of the model, including those without events.
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
}

/// A number in 0..1 that is fixed for a rank and a seed, for example for the rank's speed.
pub fn uniform(seed: u64, rank: u32) -> f64 {
    let [high, low, ..] =
        philox4x32_one([rank, 0, 1, u32::MAX], [seed as u32, (seed >> 32) as u32]);
    ((high << 32 | low) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Rate of a source whose events can be drawn together with those of others: the sum of independent
/// Poisson processes is a Poisson process.
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
