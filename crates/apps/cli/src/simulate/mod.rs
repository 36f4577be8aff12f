//! `idlewave simulate`: turns options into a simulation and prints its outcome.

mod ask;
mod goal;
mod nanos;

use crate::signals::until_killed;
use clap::{Args, Subcommand};
use goal::{EXAMPLES, GoalArgs};
use idlewave_session::Stop;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: Simulation,
}

#[derive(Debug, Subcommand)]
enum Simulation {
    /// Simulate a GOAL schedule or a program, and print when each rank finishes
    Goal(GoalArgs),
    /// Predict what noise costs a program that exchanges with its neighbours
    Stencil(Box<ask::StencilArgs>),
    /// Predict what noise costs a program that calls a collective
    Collective(Box<ask::CollectiveArgs>),
    /// Predict a measured run, compare, and predict it with more ranks or less noise
    Like(Box<ask::LikeArgs>),
}

/// Runs the command. It writes nothing but its output, so a signal may end it at any moment.
pub fn run_simulate(args: &SimulateArgs) -> ExitCode {
    // Only a signal stops it, and that ends it at once.
    let stop = Stop::default();
    until_killed(|_| match &args.what {
        Simulation::Goal(args) => goal::run_goal(args, &stop),
        Simulation::Stencil(args) => ask::run_stencil(args, &stop),
        Simulation::Collective(args) => ask::run_collective(args, &stop),
        Simulation::Like(args) => ask::run_like(args, &stop),
    })
}
