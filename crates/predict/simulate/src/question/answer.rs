//! Answers a question: replications with all noise and without each source, until the interval is narrow enough.

use super::approach::{Approach, block_ends, weights};
use super::error::QuestionError;
use super::repeat::{Effort, Interval, Sample};
use super::runner::Runner;
use crate::bulk::{OneOff, Program};
use idlewave_noise::{Noise, NoiseModel};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The program.
    pub program: &'a Program,
    /// What disturbs it.
    pub model: &'a NoiseModel,
    /// Steps that are averaged, from 1 on.
    pub steps: u64,
    /// Steps before them, which are not: ranks that begin in step need time to become as disturbed as they will be.
    pub warm_up: u64,
    /// Delays that happen once, in all replications alike; steps count from the begin of the warm-up.
    pub delays: &'a [OneOff],
    /// What to leave out, one after the other: a name, and numbers of sources of the model.
    pub without: &'a [(String, Vec<usize>)],
    /// How the mean step approaches the one of a run without end, if that is what is asked; `None`: the mean of these steps.
    pub approach: Option<Approach>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Mean undisturbed step in nanoseconds.
    pub quiet_step_ns: f64,
    /// Mean step in nanoseconds.
    pub step_ns: Interval,
    /// Mean step over the undisturbed one, less 1.
    pub slowdown: Interval,
    /// How much longer steps of the second half are than those of the first, over the undisturbed one.
    pub rise: Interval,
    /// Part of the slow-down that no averaged step had: by how much the long run is estimated to be slower than these steps. 0 where it is not asked for.
    pub unseen: Interval,
    /// Whether the long run was asked for.
    pub long_run: bool,
    /// In the order of the question.
    pub without: Vec<Without>,
    /// Independent repetitions.
    pub replications: u32,
    /// Whether the interval is as narrow as was asked for.
    pub precise: bool,
}

impl Answer {
    /// Whether ranks were not yet as disturbed as they will be: steps became longer for sure, and by more than the interval allows for.
    pub fn still_rises(&self, share: f64) -> bool {
        let much = share * self.slowdown.mean;
        match self.long_run {
            true => self.unseen.low > 0.0 && self.unseen.mean > much,
            false => self.rise.low > 0.0 && self.rise.mean > much.min(self.slowdown.half_width()),
        }
    }
}

/// What leaving a source out brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Without {
    /// As it was asked for.
    pub name: String,
    /// Numbers of the sources of the model that were left out.
    pub sources: Vec<usize>,
    /// Slow-down that is left.
    pub slowdown: Interval,
    /// Slow-down that goes away: the source's cost, from pairs under the same random numbers.
    pub saved: Interval,
}

/// Ranks of a program from which on one simulation has work for all cores.
const MANY_RANKS: u32 = 16_384;

/// Answers a question. The same question and effort give the same answer at any number of threads.
///
/// `progress` is told how many replications are done and how many there may be, on the calling thread.
///
/// # Errors
/// A program or model that cannot be, a program without time, `stop` became true.
pub fn answer(
    question: &Question<'_>,
    effort: &Effort,
    stop: &AtomicBool,
    progress: &dyn Fn(u32, u32),
) -> Result<Answer, QuestionError> {
    let none = NoiseModel::default();
    let quiet = Noise::new(&none, effort.seed, 0, |_| true)?;
    let quiet_step_ns = mean_step(question, &quiet, &[], stop)?.step_ns;
    if quiet_step_ns <= 0.0 {
        return Err(QuestionError::NoTime);
    }
    let variants = question.without.len() + 1;
    let one = |replication: u32, variant: usize| -> Result<Means, QuestionError> {
        let left_out = variant.checked_sub(1).map(|v| &question.without[v].1);
        let keep = |source: usize| left_out.is_none_or(|l| !l.contains(&source));
        let noise = Noise::new(question.model, effort.seed, replication, keep)?;
        mean_step(question, &noise, question.delays, stop)
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
    /// What is asked: of these steps, or of the long run.
    step_ns: f64,
    /// Of the long run, if it is approached with the least and with the largest exponent; else the same.
    bounds_ns: [f64; 2],
    /// Of these steps.
    seen_ns: f64,
    /// Of the second half of the steps less that of the first; 0 of a single step.
    rise_ns: f64,
}

fn mean_step(
    question: &Question<'_>,
    noise: &Noise,
    delays: &[OneOff],
    stop: &AtomicBool,
) -> Result<Means, QuestionError> {
    let mut run = Runner::new(question.program, noise, delays)?;
    run.advance(question.warm_up, stop)?;
    let steps = question.steps;
    let approach = question.approach;
    let blocks = approach.map_or(Vec::new(), |_| block_ends(steps));
    let mut ends = blocks.clone();
    ends.extend([steps / 2, steps]);
    ends.sort_unstable();
    ends.dedup();
    let begin = run.sum();
    // The sum of the times of all ranks after so many steps.
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
        // Weights add up to 1: without noise, nothing is added to what was seen.
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

    /// Of chance, and of the law by which the long run is approached: the two are independent.
    fn interval(&self, level: f64) -> Interval {
        let interval = self.steps.interval_at(level);
        let off = |bound: &Sample| (bound.interval().mean - interval.mean).abs();
        let law = off(&self.bounds[0]).max(off(&self.bounds[1]));
        interval.widened(law)
    }
}
