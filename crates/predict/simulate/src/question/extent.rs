//! How many ranks and steps of a long-running program are simulated.
//!
//! Simulating fewer ranks for longer tells more than simulating many for a moment. On a line of
//! equal ranks the result is the same: within K steps a rank is affected only by ranks up to K
//! places away, so no mean depends on what lies beyond.

use super::answer::{Answer, Question, answer};
use super::approach::{Approach, BLOCKS};
use super::error::QuestionError;
use super::repeat::Effort;
use super::runner::as_lockstep;
use crate::bulk::{Phase, Program, Wait};
use crate::{Shape, Work};
use idlewave_noise::{Clock, NoiseModel};
use std::sync::atomic::AtomicBool;

/// How a long-running program is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    /// Replaces the program: one with fewer of its equal ranks, which gives the same result.
    pub smaller: Option<Program>,
    /// Steps to average.
    pub steps: u64,
    /// Steps before them.
    pub warm_up: u64,
}

/// Rank-steps of a replication on the fast engine and on the general one; a fraction of a second
/// each.
const FAST: u64 = 16_000_000;
const GENERAL: u64 = 4_000_000;
/// Where needed, up to this many times that work.
const MOST_TIMES: u64 = 16;
/// Least number of steps with many ranks.
const LEAST_STEPS: u64 = 100;
/// Largest number of steps at the usual work.
const MOST_STEPS: u64 = 16_000;
/// More is simulated while more than this share of the slow-down is estimated rather than observed.
const MUCH_ESTIMATED: f64 = 0.05;

impl Extent {
    /// The extent for `times` times the usual work. It depends on the program and the model alone.
    pub fn of(program: &Program, model: &NoiseModel, times: u64) -> Extent {
        let work = match model.clock == Clock::Wall && as_lockstep(program).is_some() {
            true => FAST,
            false => GENERAL,
        };
        // An invalid program is rejected when it is run.
        let parts = program.operations().unwrap_or(1).max(1);
        Extent::within(program, model, work * times / parts, MOST_STEPS * times)
    }

    /// At most this many rank-steps and steps, but never fewer than a minimum of steps.
    pub fn within(
        program: &Program,
        model: &NoiseModel,
        rank_steps: u64,
        most_steps: u64,
    ) -> Extent {
        let smaller = equal_line(program, model).and_then(|(speed, node)| {
            // As many ranks as can affect each other within the steps that the budget then affords.
            let ranks = (2.0 * speed as f64 * rank_steps as f64).sqrt() as u64 + 1;
            let ranks = ranks.max(2 * speed * LEAST_STEPS);
            let ranks = u32::try_from(ranks.next_multiple_of(u64::from(node.max(1)))).ok()?;
            (ranks < program.ranks).then(|| shortened(program, ranks))
        });
        let ranks = smaller.as_ref().map_or(program.ranks, |s| s.ranks);
        let fit = rank_steps / u64::from(ranks.max(1));
        let all = fit.clamp(LEAST_STEPS, most_steps.max(LEAST_STEPS));
        let warm_up = all / (BLOCKS + 1);
        Extent {
            steps: all - warm_up,
            warm_up,
            smaller,
        }
    }

    /// Simulates as much as the long run needs to be observed, within a budget of some seconds.
    ///
    /// # Errors
    /// As [`answer`].
    pub fn settled(
        program: &Program,
        model: &NoiseModel,
        effort: &Effort,
        stop: &AtomicBool,
    ) -> Result<Extent, QuestionError> {
        let mut times = 1;
        loop {
            let extent = Extent::of(program, model, times);
            if times >= MOST_TIMES || model.sources.is_empty() {
                return Ok(extent);
            }
            let seen = answer(
                &extent.question(program, model, &[]),
                effort,
                stop,
                &|_, _| {},
            )?;
            if !seen.estimates(MUCH_ESTIMATED) {
                return Ok(extent);
            }
            times *= 4;
        }
    }

    /// The question for this extent.
    pub fn question<'a>(
        &'a self,
        program: &'a Program,
        model: &'a NoiseModel,
        without: &'a [(String, Vec<usize>)],
    ) -> Question<'a> {
        Question {
            program: self.smaller.as_ref().unwrap_or(program),
            model,
            steps: self.steps,
            warm_up: self.warm_up,
            delays: &[],
            without,
            approach: Approach::of(program),
        }
    }
}

impl Answer {
    /// Whether more than this share of the slow-down is estimated rather than observed.
    fn estimates(&self, share: f64) -> bool {
        self.unseen.mean.abs() > share * self.slowdown.mean.abs()
    }
}

/// For a ring of equal ranks with equal noise: how many places a delay can travel in a step, and
/// the number of ranks after which the noise may repeat.
fn equal_line(program: &Program, model: &NoiseModel) -> Option<(u64, u32)> {
    let mut speed = 0;
    for phase in &program.phases {
        speed += match phase {
            Phase::Pause(_) | Phase::Compute(Work::Same(_)) => 0,
            Phase::Exchange {
                stencil,
                bytes,
                wait,
            } => {
                let Shape { y, z, .. } = stencil.shape;
                let equal = match wait {
                    Wait::All | Wait::Blocking => true,
                    Wait::Overlapped(work) => matches!(work, Work::Same(_)),
                };
                if !equal || !stencil.periodic || y * z != 1 {
                    return None;
                }
                let reach = u64::from(stencil.reach);
                let hops = match wait {
                    Wait::Blocking => reach * (reach + 1),
                    _ => reach,
                };
                // In a rendezvous the sender waits for the receiver too.
                let asks = *bytes > program.costs.rendezvous.get();
                hops * if asks { 2 } else { 1 }
            }
            _ => return None,
        };
    }
    (speed > 0).then_some((speed, model.cpus_per_node))
}

fn shortened(program: &Program, ranks: u32) -> Program {
    let mut smaller = program.clone();
    smaller.ranks = ranks;
    for phase in &mut smaller.phases {
        if let Phase::Exchange { stencil, .. } = phase {
            stencil.shape.x = ranks as usize;
        }
    }
    smaller
}
