//! `idlewave simulate`: options to a simulation, and its outcome to the terminal.

mod ask;
mod goal;

use crate::until_killed;
use clap::{Args, Subcommand};
use goal::GoalArgs;
use idlewave_recording::Stop;
use idlewave_units::Nanos;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  idlewave simulate goal app.goal
  idlewave simulate goal app.goal --latency 800 --gap-per-byte 0.04
  idlewave simulate goal - --json < app.goal
  idlewave simulate goal ring.iw --ranks 64 --set steps=10
  idlewave simulate stencil --noise noise.toml --ranks 1e2..1e4
  idlewave simulate collective allreduce --noise poisson:10ms:50us";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: Simulation,
}

#[derive(Debug, Subcommand)]
enum Simulation {
    /// Play a GOAL schedule or a program: when does each rank finish?
    Goal(GoalArgs),
    /// What noise costs a program whose ranks exchange with their neighbours
    Stencil(Box<ask::StencilArgs>),
    /// What noise costs a program of a collective operation
    Collective(Box<ask::CollectiveArgs>),
    /// Predict a measured run, compare, and say what it would be with more ranks or less noise
    Like(Box<ask::LikeArgs>),
}

/// A whole number of nanoseconds, or a time with its unit.
pub(crate) fn nanos(text: &str) -> Result<Nanos, String> {
    match text.parse() {
        Ok(ns) if !text.starts_with('+') => Ok(Nanos::from_nanos(ns)),
        _ => text
            .parse()
            .map_err(|_| format!("`{text}` is no time, as in 2500 (nanoseconds) or 2.5us")),
    }
}

/// Runs the command. It writes nothing but its output, so that a signal may end it at any moment.
pub fn run_simulate(args: &SimulateArgs) -> ExitCode {
    // Nothing stops it but a signal, which ends it at once.
    let stop = Stop::default();
    until_killed(|_| match &args.what {
        Simulation::Goal(args) => goal::run_goal(args, &stop),
        Simulation::Stencil(args) => ask::run_stencil(args, &stop),
        Simulation::Collective(args) => ask::run_collective(args, &stop),
        Simulation::Like(args) => ask::run_like(args, &stop),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_nanoseconds_or_have_a_unit() {
        assert_eq!(nanos("2500"), Ok(Nanos::from_nanos(2_500)));
        assert_eq!(nanos("2.5us"), Ok(Nanos::from_nanos(2_500)));
        for text in ["-1", "+1", "", "1.5", "x", "2^3", "18446744073709551616"] {
            assert!(nanos(text).is_err(), "{text}");
        }
    }
}
