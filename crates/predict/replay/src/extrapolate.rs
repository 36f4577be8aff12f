//! The pattern of a run on any number of ranks.
//!
//! Assumptions: the loop stays the same; a message of a given length costs what it did; message
//! lengths scale with what they carry ([`lengths`](crate::lengths)); a plane or cuboid gets sides
//! as equal as possible. Weak scaling: rank r of P' ranks computes what rank r P / P' of the P
//! recorded ones did, which keeps the imbalance. Strong scaling: P / P' of that. Computation is the
//! mean over the iterations; its variation is recorded in the pattern, but only noise makes it vary
//! here.

use crate::ReplayError;
use crate::lengths::{Scaling, of_collective, of_neighbours};
use crate::looped::Times;
use crate::neighbours::described;
use crate::pattern::{PatternOfRun, PhaseKindOfRun};
use idlewave_noise::Noise;
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::Work;
use idlewave_simulate::bulk::{Algorithm, Engine, Phase, Program, Wait};
use idlewave_simulate::collectives::Algorithms;
use idlewave_simulate::goal::Parameters;

/// A pattern as a program for the bulk engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Extrapolated {
    /// One step is one iteration of the recorded loop.
    pub program: Program,
    /// Iterations of the run.
    pub steps: u64,
    /// What had to be assumed, in words.
    pub assumptions: Vec<String>,
}

/// How long an extrapolated program takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Extrapolation {
    /// Number of ranks.
    pub ranks: u32,
    /// Steps played.
    pub steps: u64,
    /// When its slowest rank has finished all steps, in nanoseconds.
    pub makespan_ns: u64,
}

impl Extrapolation {
    /// Mean length of a step, in nanoseconds.
    pub fn step_ns(&self) -> f64 {
        self.makespan_ns as f64 / self.steps.max(1) as f64
    }
}

impl PatternOfRun {
    /// The same loop on this many ranks, at least 1.
    pub fn extrapolate(
        &self,
        ranks: u32,
        scaling: Scaling,
        costs: Parameters,
        algorithms: &Algorithms,
    ) -> Extrapolated {
        let work = |times: &[Times]| self.work(times, ranks, scaling);
        let mut assumptions = self.notes.clone();
        assumptions.push(match scaling {
            Scaling::Weak => "the work of a rank does not depend on the number of ranks".to_owned(),
            Scaling::Strong => format!(
                "the work of a rank is {} / {ranks} of what it was",
                self.ranks
            ),
        });
        let mut assume = |said: String| {
            if !assumptions.contains(&said) {
                assumptions.push(said);
            }
        };
        let mut phases = Vec::new();
        for phase in &self.phases {
            if phase.work.iter().any(|t| t.mean > 0.0) {
                phases.push(Phase::Compute(work(&phase.work)));
            }
            phases.push(match phase.kind {
                PhaseKindOfRun::Exchange {
                    stencil,
                    bytes,
                    blocking,
                    overlapped,
                } => {
                    let wider = self.stretched(stencil, ranks);
                    let (bytes, why) = of_neighbours(bytes, &stencil, &wider, scaling);
                    assume(format!(
                        "messages go to the neighbours of {}",
                        described(&wider)
                    ));
                    why.into_iter().for_each(&mut assume);
                    Phase::Exchange {
                        stencil: wider,
                        bytes,
                        wait: match (blocking, overlapped) {
                            (true, _) => Wait::Blocking,
                            (false, true) => Wait::Overlapped(work(&phase.meanwhile)),
                            (false, false) => Wait::All,
                        },
                    }
                }
                PhaseKindOfRun::Collective { operation, bytes } => {
                    let (bytes, why) = of_collective(operation, bytes, self.ranks, ranks, scaling);
                    why.into_iter().for_each(&mut assume);
                    Phase::Collective {
                        operation,
                        algorithm: match algorithms.of(operation, ranks, bytes) {
                            // In a program, each round has one message per rank.
                            Algorithm::Linear => Algorithm::Pairwise,
                            other => other,
                        },
                        bytes,
                    }
                }
            });
        }
        Extrapolated {
            program: Program {
                ranks,
                phases,
                costs,
            },
            steps: self.steps,
            assumptions,
        }
    }

    fn work(&self, times: &[Times], ranks: u32, scaling: Scaling) -> Work {
        let factor = match scaling {
            Scaling::Weak => 1.0,
            Scaling::Strong => f64::from(self.ranks) / f64::from(ranks),
        };
        let of = |rank: u32| {
            let place = u64::from(rank) * u64::from(self.ranks) / u64::from(ranks);
            (times[place as usize].mean * factor).round() as u64
        };
        Work::Each((0..ranks).map(of).collect())
    }

    /// The same neighbourhood at another rank count.
    fn stretched(&self, stencil: Stencil, ranks: u32) -> Stencil {
        let all = ranks as usize;
        let shape = match (stencil.shape.y, stencil.shape.z) {
            _ if ranks == self.ranks => stencil.shape,
            (1, 1) => Shape { x: all, y: 1, z: 1 },
            (_, 1) => Shape::plane(all),
            _ => Shape::cuboid(all),
        };
        Stencil { shape, ..stencil }
    }
}

impl Extrapolated {
    /// Plays all steps under this noise.
    ///
    /// # Errors
    /// Times exceed 64-bit nanoseconds.
    pub fn play(&self, noise: &Noise) -> Result<Extrapolation, ReplayError> {
        let ranks = self.program.ranks;
        let failed = |error| ReplayError::Bulk { ranks, error };
        let mut engine = Engine::new(&self.program, noise, &[]).map_err(failed)?;
        for _ in 0..self.steps {
            engine.step().map_err(failed)?;
        }
        Ok(Extrapolation {
            ranks,
            steps: self.steps,
            makespan_ns: engine.times().iter().copied().max().unwrap_or(0),
        })
    }
}
