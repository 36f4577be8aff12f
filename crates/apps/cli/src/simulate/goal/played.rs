//! A schedule or a program to simulate, and its noise.

use crate::exit::{Exit, Failure};
use crate::files::{name, write_new};
use idlewave_noise::{Noise, Timelines};
use idlewave_simulate::goal::{self, GoalError, Outcome, Parameters, Schedule};
use idlewave_simulate::program::{self, Bound, PlayError, ProgramError};
use std::path::Path;

/// What to simulate.
pub enum Played {
    Schedule(Schedule),
    Program(Bound),
}

impl Played {
    pub fn ranks(&self) -> u32 {
        match self {
            Played::Schedule(schedule) => schedule.ranks(),
            Played::Program(program) => program.ranks(),
        }
    }

    /// Simulates it; each CPU has its own noise.
    pub fn play(
        &self,
        file: &Path,
        parameters: &Parameters,
        noise: &Noise,
    ) -> Result<Outcome, Failure> {
        match self {
            Played::Schedule(schedule) => {
                let played = match noise.is_silent() {
                    true => goal::simulate(schedule, parameters),
                    false => {
                        let cpus = Timelines::new(noise, schedule.ranks(), schedule.cpus());
                        goal::simulate_with(schedule, parameters, cpus)
                    }
                };
                played.map_err(|error| not_simulated("schedule", file, &error))
            }
            Played::Program(bound) => {
                let played = match noise.is_silent() {
                    true => program::simulate(bound, parameters),
                    false => {
                        let cpus = Timelines::new(noise, bound.ranks(), bound.cpus());
                        program::simulate_with(bound, parameters, cpus)
                    }
                };
                played.map_err(|error| match error {
                    PlayError::Goal(error) => not_simulated("program", file, &error),
                    PlayError::Program(error) => not_run(file, &error),
                })
            }
        }
    }

    /// Writes the schedule as text, either completely or not at all.
    pub fn write_goal(&self, file: &Path, path: &Path) -> Result<(), Failure> {
        let expanded;
        let schedule = match self {
            Played::Schedule(schedule) => schedule,
            Played::Program(program) => {
                expanded = program
                    .expand(u64::MAX)
                    .map_err(|error| not_run(file, &error))?;
                &expanded
            }
        };
        write_new(path, "--write-goal", |mut out| {
            schedule.write_text(&mut out)
        })
    }
}

/// The sources of noise, and the makespan without them.
#[derive(Default)]
pub struct Disturbed {
    pub sources: Vec<String>,
    pub seed: u64,
    pub quiet_ns: Option<u64>,
}

fn not_run(file: &Path, error: &ProgramError) -> Failure {
    Failure::new(
        Exit::Bundle,
        format!("run the program {}: {error}", name(file)),
    )
    .with_next("correct that expression, or give other values with --ranks or --set")
}

fn not_simulated(what: &str, file: &Path, error: &GoalError) -> Failure {
    let next = match error {
        GoalError::TooLong { .. } => "look for a size or an option that is far too large",
        GoalError::Unfinished(_) => {
            "correct the ranks, the tags or the order of these operations; no times are predicted until all match"
        }
    };
    Failure::new(
        Exit::Bundle,
        format!("finish the {what} {}: {error}", name(file)),
    )
    .with_next(next)
}
