//! What is to be simulated, and whether a bundle can hold it.

use super::error::BundleError;
use super::limits::{MOST_RANK_STEPS, MOST_RANKS};
use crate::bulk::{OneOff, Program};
use idlewave_noise::{Clock, NoiseModel};

/// What is simulated, and what the manifest says about it.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// A computation followed by communication of one kind: exchanges with the same neighbours, or
    /// a collective. Pauses may come after the computation.
    pub program: &'a Program,
    /// The noise. Each rank has a CPU of its own.
    pub model: &'a NoiseModel,
    /// Seed of the noise.
    pub seed: u64,
    /// Number of the replication with this seed.
    pub replication: u32,
    /// Numbers of the model's sources to leave out; the others strike as they would with them.
    pub without: &'a [usize],
    /// One-off delays.
    pub delays: &'a [OneOff],
    /// Steps, at least 1.
    pub steps: u64,
    /// The command line.
    pub command: &'a [String],
    /// When the command was given, RFC 3339 in UTC; for human readers only.
    pub started: &'a str,
}

impl Run<'_> {
    /// Checks that the run can be simulated and that a bundle can hold it.
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
