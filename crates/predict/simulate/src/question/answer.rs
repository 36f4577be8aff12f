//! Answers a question: replications with all noise and without each source, until the interval is
//! narrow enough.

use super::approach::{Approach, block_ends, weights};
use super::error::QuestionError;
use super::repeat::{Effort, Interval, Sample};
use super::runner::Runner;
use crate::bulk::{OneOff, Program};
use idlewave_noise::{Noise, NoiseModel};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// A question.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The program.
    pub program: &'a Program,
    /// The noise.
    pub model: &'a NoiseModel,
    /// Steps to average, at least 1.
    pub steps: u64,
    /// Warm-up steps, which are not averaged: ranks that start in lockstep take time to become as
    /// disturbed as they will be.
    pub warm_up: u64,
    /// One-off delays, the same in all replications; steps count from the start of the warm-up.
    pub delays: &'a [OneOff],
    /// What to leave out, one after the other: a name, and the numbers of its sources in the model.
    pub without: &'a [(String, Vec<usize>)],
    /// How the mean step approaches its long-run value, if the long run is asked for; `None`: the
    /// mean of these steps.
    pub approach: Option<Approach>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Mean undisturbed step in nanoseconds.
    pub quiet_step_ns: f64,
    /// Mean step in nanoseconds.
    pub step_ns: Interval,
    /// Mean step over the undisturbed one, minus 1.
    pub slowdown: Interval,
    /// How much longer the steps of the second half are than those of the first, relative to the
    /// undisturbed step.
    pub rise: Interval,
    /// The part of the slow-down outside the averaged steps: the estimated difference between the
    /// long run and these steps. 0 if the long run is not asked for.
    pub unseen: Interval,
    /// Whether the long run was asked for.
    pub long_run: bool,
    /// One entry for each entry of the question's `without`.
    pub without: Vec<Without>,
    /// Number of independent replications.
    pub replications: u32,
    /// Whether the interval is as narrow as requested.
    pub precise: bool,
}

impl Answer {
    /// Whether ranks were still becoming more disturbed: steps certainly became longer, by more
    /// than the interval allows for.
    pub fn still_rises(&self, share: f64) -> bool {
        let much = share * self.slowdown.mean;
        match self.long_run {
            true => self.unseen.low > 0.0 && self.unseen.mean > much,
            false => self.rise.low > 0.0 && self.rise.mean > much.min(self.slowdown.half_width()),
        }
    }
}

/// The effect of leaving a source out.
#[derive(Clone, Debug, PartialEq)]
pub struct Without {
    /// Its name in the question.
    pub name: String,
    /// Numbers of the sources of the model that were left out.
    pub sources: Vec<usize>,
    /// The remaining slow-down.
    pub slowdown: Interval,
    /// The slow-down saved: the source's cost, from pairs with the same random numbers.
    pub saved: Interval,
}

/// From this number of ranks, a single simulation keeps all cores busy.
const MANY_RANKS: u32 = 16_384;

/// Answers a question. The same question and effort give the same answer at any number of threads.
///
/// `progress` gets the number of replications done and the largest number that may be needed, on
/// the calling thread.
///
/// # Errors
/// An invalid program or model, a program that takes no time, or `stop` became true.
pub fn answer(
    question: &Question<'_>,
    effort: &Effort,
    stop: &AtomicBool,
    progress: &dyn Fn(u32, u32),
) -> Result<Answer, QuestionError> {
    answer_within(question, effort, f64::INFINITY, stop, progress)
}

/// The same, unless the ranks of a replication take more than `most_ns` on average.
///
/// # Errors
/// As [`answer`]; the replications take longer.
pub(crate) fn answer_within(
    question: &Question<'_>,
    effort: &Effort,
    most_ns: f64,
    stop: &AtomicBool,
    progress: &dyn Fn(u32, u32),
) -> Result<Answer, QuestionError> {
    let none = NoiseModel::default();
    let quiet = Noise::new(&none, effort.seed, 0, |_| true)?;
    let quiet_step_ns = mean_step(question, &quiet, &[], most_ns, stop)?.step_ns;
    if quiet_step_ns <= 0.0 {
        return Err(QuestionError::NoTime);
    }
    let variants = question.without.len() + 1;
    let one = |replication: u32, variant: usize| -> Result<Means, QuestionError> {
        let left_out = variant.checked_sub(1).map(|v| &question.without[v].1);
        let keep = |source: usize| left_out.is_none_or(|l| !l.contains(&source));
        let noise = Noise::new(question.model, effort.seed, replication, keep)?;
        mean_step(question, &noise, question.delays, most_ns, stop)
    };
    let level = effort.level();
    let mut samples = vec![Steps::default(); variants];
    let (mut rises, mut unseen) = (Sample::default(), Sample::default());
    let mut done = 0;
    progress(0, effort.most);
    while let Some(batch) = effort.next_batch(done, || samples[0].slowdown(quiet_step_ns, level)) {
        let jobs: Vec<(u32, usize)> = (done..done + batch)
            .flat_map(|r| (0..variants).map(move |v| (r, v)))
            .collect();
        let results: Vec<Result<Means, QuestionError>> = match question.program.ranks >= MANY_RANKS
        {
            true => jobs.iter().map(|&(r, v)| one(r, v)).collect(),
            false => jobs.par_iter().map(|&(r, v)| one(r, v)).collect(),
        };
        for (&(_, variant), result) in jobs.iter().zip(results) {
            let means = result?;
            samples[variant].push(&means);
            if variant == 0 {
                rises.push(means.rise_ns);
                unseen.push(means.step_ns - means.seen_ns);
            }
        }
        done += batch;
        progress(done, effort.most);
    }
    let without = question
        .without
        .iter()
        .zip(&samples[1..])
        .map(|((name, sources), steps)| Without {
            name: name.clone(),
            sources: sources.clone(),
            slowdown: steps.slowdown(quiet_step_ns, level),
            saved: samples[0]
                .less(steps)
                .map(|ns| ns / quiet_step_ns)
                .interval(level),
        })
        .collect();
    let slow = samples[0].slowdown(quiet_step_ns, level);
    let share = |ns: f64| ns / quiet_step_ns;
    Ok(Answer {
        quiet_step_ns,
        step_ns: samples[0].interval(level),
        precise: effort.is_precise(&slow),
        slowdown: slow,
        rise: rises.map(share).interval(),
        unseen: unseen.map(share).interval(),
        long_run: question.approach.is_some(),
        without,
        replications: done,
    })
}

/// Means over ranks and the steps after the warm-up, in nanoseconds.
struct Means {
    /// The requested mean: of these steps, or of the long run.
    step_ns: f64,
    /// If the long run is extrapolated, its value with the smallest and with the largest exponent;
    /// otherwise `step_ns`.
    bounds_ns: [f64; 2],
    /// The mean over these steps.
    seen_ns: f64,
    /// Mean of the second half of the steps minus that of the first; 0 for a single step.
    rise_ns: f64,
}

fn mean_step(
    question: &Question<'_>,
    noise: &Noise,
    delays: &[OneOff],
    most_ns: f64,
    stop: &AtomicBool,
) -> Result<Means, QuestionError> {
    let mut run = Runner::new(question.program, noise, delays, most_ns)?;
    run.advance(question.warm_up, stop)?;
    let steps = question.steps;
    let approach = question.approach;
    let blocks = approach.map_or(Vec::new(), |_| block_ends(steps));
    let mut ends = blocks.clone();
    ends.extend([steps / 2, steps]);
    ends.sort_unstable();
    ends.dedup();
    let begin = run.sum();
    // The sum of the times of all ranks, by the number of steps done.
    let mut sums = BTreeMap::from([(0, begin)]);
    let mut done = 0;
    for end in ends {
        run.advance(end - done, stop)?;
        sums.insert(end, run.sum());
        done = end;
    }
    let ranks = f64::from(question.program.ranks);
    let mean = |from: u64, to: u64| match to - from {
        0 => 0.0,
        steps => (sums[&to] - sums[&from]) as f64 / (steps as f64 * ranks),
    };
    let seen_ns = mean(0, steps);
    let fitted = |exponent: f64| {
        let begins = std::iter::once(&0).chain(&blocks);
        let weights = weights(exponent, question.warm_up, &blocks);
        let parts = begins.zip(&blocks).zip(weights);
        // The weights add up to 1: without noise, nothing is added to the observed mean.
        let unseen = parts.map(|((&b, &e), w)| w * (mean(b, e) - seen_ns));
        seen_ns + unseen.sum::<f64>()
    };
    let (step_ns, bounds_ns) = match approach.filter(|_| !blocks.is_empty()) {
        Some(a) => (
            fitted(a.exponent),
            [fitted(a.between.0), fitted(a.between.1)],
        ),
        None => (seen_ns, [seen_ns; 2]),
    };
    let half = steps / 2;
    Ok(Means {
        step_ns,
        bounds_ns,
        seen_ns,
        rise_ns: match half {
            0 => 0.0,
            _ => mean(half, steps) - mean(0, half),
        },
    })
}

/// Mean steps of all replications.
#[derive(Clone, Debug, Default)]
struct Steps {
    steps: Sample,
    bounds: [Sample; 2],
}

impl Steps {
    fn push(&mut self, means: &Means) {
        self.steps.push(means.step_ns);
        for (bound, ns) in self.bounds.iter_mut().zip(means.bounds_ns) {
            bound.push(ns);
        }
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Steps {
        Steps {
            steps: self.steps.map(&f),
            bounds: [self.bounds[0].map(&f), self.bounds[1].map(&f)],
        }
    }

    fn less(&self, other: &Steps) -> Steps {
        Steps {
            steps: self.steps.less(&other.steps),
            bounds: [0, 1].map(|i| self.bounds[i].less(&other.bounds[i])),
        }
    }

    fn slowdown(&self, quiet_step_ns: f64, level: f64) -> Interval {
        self.map(|ns| ns / quiet_step_ns - 1.0).interval(level)
    }

    /// Combines two independent errors: chance, and the law of the approach to the long run.
    fn interval(&self, level: f64) -> Interval {
        let interval = self.steps.interval_at(level);
        let off = |bound: &Sample| (bound.interval().mean - interval.mean).abs();
        let law = off(&self.bounds[0]).max(off(&self.bounds[1]));
        interval.widened(law)
    }
}
