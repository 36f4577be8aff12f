//! What is to be simulated, and what cannot be.

use super::error::BundleError;
use super::limits::{MOST_RANK_STEPS, MOST_RANKS};
use crate::bulk::{OneOff, Program};
use idlewave_noise::{Clock, NoiseModel};

/// What is simulated, and what the manifest says of it.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// A computation followed by communication of one kind: exchanges with the same neighbours, or a collective. Pauses may come
    /// after the computation.
    pub program: &'a Program,
    /// The noise. Each rank has a CPU of its own.
    pub model: &'a NoiseModel,
    /// Seed of the noise.
    pub seed: u64,
    /// Number of the repetition with this seed.
    pub replication: u32,
    /// Sources of the model that are left out, by their numbers; the others strike as they do with them.
    pub without: &'a [usize],
    /// Delays that happen once.
    pub delays: &'a [OneOff],
    /// Steps, from 1 on.
    pub steps: u64,
    /// The command line.
    pub command: &'a [String],
    /// When it was given, RFC 3339 in UTC, for people only.
    pub started: &'a str,
}

impl Run<'_> {
    /// Whether it can be simulated, and a bundle holds it.
    pub(super) fn check(&self) -> Result<(), BundleError> {
        let (ranks, steps) = (self.program.ranks, self.steps);
        if self.model.clock == Clock::Work {
            return Err(BundleError::Exposure);
        }
        if ranks > MOST_RANKS {
            return Err(BundleError::Ranks(ranks));
        }
        if u64::from(ranks).saturating_mul(steps) > MOST_RANK_STEPS {
            return Err(BundleError::RankSteps { ranks, steps });
        }
        if steps == 0 {
            return Err(BundleError::NoLockstep("it has no step"));
        }
        let sources = self.model.sources.len();
        if let Some(&missing) = self.without.iter().find(|&&i| i >= sources) {
            return Err(BundleError::Without(missing, sources));
        }
        let outside = |d: &&OneOff| d.rank >= ranks || d.step >= steps;
        match self.delays.iter().find(outside) {
            Some(&OneOff { rank, step, .. }) => Err(BundleError::Delay {
                rank,
                step,
                ranks,
                steps,
            }),
            None => Ok(()),
        }
    }
}
