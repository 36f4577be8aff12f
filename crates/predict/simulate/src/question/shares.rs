//! What the finish time is made of: critical paths of several replications.

use super::answer::Question;
use super::error::QuestionError;
use super::repeat::Interval;
use super::repeat::Sample;
use super::runner::advance;
use crate::bulk::Engine;
use idlewave_noise::{Noise, Source};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// One source's part of the path to the last finish.
#[derive(Clone, Debug, PartialEq)]
pub struct PathShare {
    /// Number of the source in the model; one-off delays have the number after the last.
    pub source: u32,
    /// Share of the time on the path.
    pub share: Interval,
}

/// The path to the last finish, averaged over replications. The shares of each replication add up
/// to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct PathShares {
    /// Undisturbed computation.
    pub work: Interval,
    /// Messages.
    pub communication: Interval,
    /// Noise by the names of the sources, largest first.
    pub noise: Vec<PathShare>,
    /// Number of last steps over which the path was followed.
    pub steps: u64,
    /// Number of replications.
    pub replications: u32,
}

/// Largest number of ranks times phases kept: 12 bytes each.
const MOST_KEPT: u64 = 20_000_000;

impl PathShares {
    /// Follows the path to the last finish back through the last steps of each replication, as many
    /// as memory allows.
    ///
    /// # Errors
    /// As [`answer`](super::answer()).
    pub fn of(
        question: &Question<'_>,
        seed: u64,
        replications: u32,
        stop: &AtomicBool,
    ) -> Result<PathShares, QuestionError> {
        let replications = replications.max(2);
        let phases = question.program.operations()?.max(1);
        let kept = (MOST_KEPT / (phases * u64::from(question.program.ranks))).max(1);
        let steps = question.steps.min(kept);
        let before = question.warm_up + question.steps - steps;
        let mut work = Sample::default();
        let mut communication = Sample::default();
        // Grouped by the first source of each name; the one-off delays have the number after the
        // last source.
        let labels: Vec<String> = question.model.sources.iter().map(Source::label).collect();
        let first = |source: u32| {
            let own = labels.get(source as usize);
            let first = labels.iter().position(|l| Some(l) == own);
            first.map_or(source, |first| first as u32)
        };
        let mut noise: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for replication in 0..replications {
            let all = Noise::new(question.model, seed, replication, |_| true)?;
            let mut engine = Engine::new(question.program, &all, question.delays)?;
            advance(&mut engine, before, stop)?;
            let mut record = engine.record();
            for _ in 0..steps {
                engine.step_recorded(&mut record)?;
            }
            let Some(path) = record.critical_path() else {
                return Err(QuestionError::NoTime);
            };
            let total = (path.finish_ns - path.begin_ns) as f64;
            work.push(path.work_ns as f64 / total);
            communication.push(path.communication_ns as f64 / total);
            for (source, ns) in path.noise_ns {
                let shares = noise.entry(first(source)).or_default();
                shares.resize(replications as usize, 0.0);
                shares[replication as usize] += ns as f64 / total;
            }
        }
        let mut noise: Vec<PathShare> = noise
            .into_iter()
            .map(|(source, shares)| {
                let mut sample = Sample::default();
                shares.into_iter().for_each(|share| sample.push(share));
                PathShare {
                    source,
                    share: sample.interval().of_share(),
                }
            })
            .collect();
        noise.sort_by(|a, b| b.share.mean.total_cmp(&a.share.mean));
        Ok(PathShares {
            work: work.interval().of_share(),
            communication: communication.interval().of_share(),
            noise,
            steps,
            replications,
        })
    }
}
