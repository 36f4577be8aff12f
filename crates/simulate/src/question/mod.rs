//! Questions to a simulation: what does noise cost this program, which source costs how much, and how sure is that?
//!
//! Place in the flow: a [`Program`], a [`NoiseModel`] and an [`Effort`] go in, an [`Answer`] with intervals comes out. Every replication
//! is simulated with all noise and without each of the asked sources, under the same random numbers: what differs is the source.

mod fast;
mod repeat;
mod shares;
mod wave;

pub use repeat::{Effort, Interval};
pub use shares::{PathShare, PathShares};
pub use wave::{Wave, WaveStep, wave};

use crate::bulk::{BulkError, Engine, OneOff, Program};
use crate::lockstep::LockstepError;
use fast::Runner;
use idlewave_noise::{ModelProblem, Noise, NoiseModel};
use rayon::prelude::*;
use repeat::Sample;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// In the order of the question.
    pub without: Vec<Without>,
    /// Independent repetitions.
    pub replications: u32,
    /// Whether the interval is as narrow as was asked for.
    pub precise: bool,
}

impl Answer {
    /// Whether ranks were not yet as disturbed as they will be: steps became longer, by more than this share of the slow-down and for sure.
    pub fn still_rises(&self, share: f64) -> bool {
        self.rise.low > 0.0 && self.rise.mean > share * self.slowdown.mean
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

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The program cannot be run.
    #[error(transparent)]
    Program(#[from] BulkError),
    /// It takes too long.
    #[error(transparent)]
    Lockstep(#[from] LockstepError),
    /// The noise cannot be.
    #[error(transparent)]
    Noise(#[from] ModelProblem),
    /// The program takes no time, so that nothing can be longer than it.
    #[error("the program takes no time")]
    NoTime,
    /// `stop` became true.
    #[error("stopped before the end")]
    Stopped,
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
    let mut samples = vec![Sample::default(); variants];
    let mut rises = Sample::default();
    let mut done = 0;
    progress(0, effort.most);
    while let Some(batch) = effort.next_batch(done, &samples[0], quiet_step_ns) {
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
            samples[variant].push(means.step_ns);
            if variant == 0 {
                rises.push(means.rise_ns);
            }
        }
        done += batch;
        progress(done, effort.most);
    }
    let slowdown = |step: f64| step / quiet_step_ns - 1.0;
    let without = question
        .without
        .iter()
        .zip(&samples[1..])
        .map(|((name, sources), sample)| Without {
            name: name.clone(),
            sources: sources.clone(),
            slowdown: sample.map(slowdown).interval(),
            saved: samples[0]
                .less(sample)
                .map(|ns| ns / quiet_step_ns)
                .interval(),
        })
        .collect();
    let slow = samples[0].map(slowdown).interval();
    Ok(Answer {
        quiet_step_ns,
        step_ns: samples[0].interval(),
        precise: effort.is_precise(&slow),
        slowdown: slow,
        rise: rises.map(|ns| ns / quiet_step_ns).interval(),
        without,
        replications: done,
    })
}

/// Means over ranks and the steps after the warm-up, in nanoseconds.
struct Means {
    step_ns: f64,
    /// Of the second half of the steps less that of the first; 0 of a single step.
    rise_ns: f64,
}

fn mean_step(
    question: &Question<'_>,
    noise: &Noise,
    delays: &[OneOff],
    stop: &AtomicBool,
) -> Result<Means, QuestionError> {
    let mut run = Runner::new(question, noise, delays)?;
    run.advance(question.warm_up, stop)?;
    let ranks = f64::from(question.program.ranks);
    let half = question.steps / 2;
    let before = run.sum();
    run.advance(half, stop)?;
    let between = run.sum();
    run.advance(question.steps - half, stop)?;
    let after = run.sum();
    let mean = |ns: u128, steps: u64| ns as f64 / (steps.max(1) as f64 * ranks);
    Ok(Means {
        step_ns: mean(after - before, question.steps),
        rise_ns: match half {
            0 => 0.0,
            _ => mean(after - between, question.steps - half) - mean(between - before, half),
        },
    })
}

fn advance(engine: &mut Engine<'_>, steps: u64, stop: &AtomicBool) -> Result<(), QuestionError> {
    for _ in 0..steps {
        engine.step()?;
        // Relaxed: it only has to be seen some time.
        if stop.load(Ordering::Relaxed) {
            return Err(QuestionError::Stopped);
        }
    }
    Ok(())
}
