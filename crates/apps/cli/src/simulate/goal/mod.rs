//! `idlewave simulate goal`: simulates schedules and programs under the LogGOPS model.

mod output;
mod played;

use super::ask::{NoiseArgs, model};
use super::nanos::nanos;
use crate::exit::{Exit, Failure};
use crate::files::{name, refuse_place};
use crate::output::print;
use clap::Args;
use idlewave_noise::{Noise, NoiseModel};
use idlewave_session::Stop;
use idlewave_simulate::goal::{Parameters, PerByte, ReadError, Schedule};
use idlewave_simulate::program::{Bindings, Bound, Problem, Program, ReadProgramError};
use idlewave_units::{Bytes, Nanos};
use played::{Disturbed, Played};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Examples of all simulations.
pub const EXAMPLES: &str = "\
Examples:
  idlewave simulate goal app.goal
  idlewave simulate goal app.goal --latency 800 --gap-per-byte 0.04
  idlewave simulate goal - --json < app.goal
  idlewave simulate goal ring.iw --ranks 64 --set steps=10
  idlewave simulate stencil --noise noise.toml --ranks 1e2..1e4
  idlewave simulate collective allreduce --noise poisson:10ms:50us";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GoalArgs {
    /// A GOAL schedule, text or binary, or a program; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of ranks, instead of that in the program
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    ranks: Option<u32>,
    /// Set a parameter of the program; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, allow_hyphen_values = true)]
    set: Vec<(String, i64)>,
    /// Also write the simulated schedule as GOAL text; must not exist
    #[arg(long, value_name = "FILE")]
    write_goal: Option<PathBuf>,
    /// L: time from the end of the sender's overhead to the first byte at the receiver, in ns
    #[arg(long, default_value = "2500", value_name = "NS", value_parser = nanos, allow_hyphen_values = true)]
    latency: Nanos,
    /// o: CPU time per message, at the sender and at the receiver, in ns
    #[arg(long, default_value = "1500", value_name = "NS", value_parser = nanos, allow_hyphen_values = true)]
    overhead: Nanos,
    /// g: minimum time between two messages on a NIC, in ns
    #[arg(long, default_value = "1000", value_name = "NS", value_parser = nanos, allow_hyphen_values = true)]
    gap: Nanos,
    /// G: ns per byte on the NIC, a decimal number; 0.04 is 25 GB/s
    #[arg(
        long,
        default_value = "6",
        value_name = "NS",
        allow_hyphen_values = true
    )]
    gap_per_byte: PerByte,
    /// O: ns per byte on the sender's CPU, a decimal number
    #[arg(
        long,
        default_value = "0",
        value_name = "NS",
        allow_hyphen_values = true
    )]
    overhead_per_byte: PerByte,
    /// S: the sender of a message above this size waits for the receive
    #[arg(
        long,
        default_value = "65535",
        value_name = "BYTES",
        allow_hyphen_values = true
    )]
    rendezvous: u64,
    #[command(flatten)]
    noise: NoiseArgs,
    /// Seed of the noise; the same seed gives the same times
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print everything as JSON, including the finish time of every rank
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run_goal(args: &GoalArgs, stop: &Stop) -> Result<(), Failure> {
    let parameters = Parameters {
        latency: args.latency,
        overhead: args.overhead,
        gap: args.gap,
        gap_per_byte: args.gap_per_byte,
        overhead_per_byte: args.overhead_per_byte,
        rendezvous: Bytes::new(args.rendezvous),
    };
    let model = model(&args.noise, args.seed, stop)?;
    if let Some(path) = &args.write_goal {
        refuse_place(path, "--write-goal")?;
    }
    let played = read(args)?;
    if let Some(path) = &args.write_goal {
        played.write_goal(&args.file, path)?;
    }
    let noise = Noise::new(&model, args.seed, 0, |_| true).map_err(|problem| {
        Failure::new(Exit::Usage, format!("use this noise: {problem}"))
            .with_next("give the source possible rates and lengths")
    })?;
    let outcome = played.play(&args.file, &parameters, &noise)?;
    let quiet = match model.sources.is_empty() {
        true => None,
        false => Some(
            played
                .play(&args.file, &parameters, &silence())?
                .makespan_ns(),
        ),
    };
    let disturbed = Disturbed {
        sources: model.sources.iter().map(|s| s.label()).collect(),
        seed: args.seed,
        quiet_ns: quiet,
    };
    if args.json {
        let value = output::value(&played, &parameters, &outcome, &disturbed);
        return crate::json::print_computed(value);
    }
    print(&output::summary(
        &args.file,
        &played,
        &parameters,
        &outcome,
        &disturbed,
    ))
}

/// Noise without sources.
fn silence() -> Noise {
    let none = NoiseModel::default();
    Noise::new(&none, 0, 0, |_| true).expect("a model without sources is one")
}

/// Parses the name and the value of a parameter.
fn setting(text: &str) -> Result<(String, i64), String> {
    let refused = || format!("`{text}` is not NAME=VALUE with an integer value, as in steps=100");
    let (name, value) = text.split_once('=').ok_or_else(refused)?;
    let value = value.parse().map_err(|_| refused())?;
    match name.is_empty() || text.contains("=+") {
        true => Err(refused()),
        false => Ok((name.to_owned(), value)),
    }
}

/// Reads a schedule or a program; a program starts with a keyword that tells them apart.
fn read(args: &GoalArgs) -> Result<Played, Failure> {
    let file = &args.file;
    let no_file = |error| not_read(file, &ReadError::Io(error));
    let mut input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file).map_err(no_file)?),
    };
    let mut head = Vec::new();
    let longest = b"program ".len() as u64;
    let read = input.by_ref().take(longest).read_to_end(&mut head);
    read.map_err(no_file)?;
    let begins = Program::begins(&head);
    let input = head.as_slice().chain(input);
    if begins {
        let program = Program::read(input).map_err(|error| match error {
            ReadProgramError::Io(error) => no_file(error),
            ReadProgramError::Program(error) => {
                Failure::new(Exit::Bundle, format!("read {}: {error}", name(file)))
                    .with_next("correct that line; docs/simulate.md has the grammar")
            }
        })?;
        return bind(&program, args).map(Played::Program);
    }
    if args.ranks.is_some() || !args.set.is_empty() {
        let option = if args.ranks.is_some() {
            "--ranks"
        } else {
            "--set"
        };
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "read {}: {option} is for programs, and this is a schedule",
                name(file)
            ),
        )
        .with_next("omit it, or give a program; docs/simulate.md has the grammar"));
    }
    Schedule::read(input)
        .map(Played::Schedule)
        .map_err(|error| not_read(file, &error))
}

fn bind(program: &Program, args: &GoalArgs) -> Result<Bound, Failure> {
    let bindings = Bindings {
        ranks: args.ranks,
        values: args.set.clone(),
    };
    program.bind(&bindings).map_err(|error| {
        let (exit, next) = match error.problem {
            Problem::NoRanks => (Exit::Usage, "give --ranks N"),
            Problem::UnknownParameter { .. } => (
                Exit::Usage,
                "correct --set, or declare it in the program: param NAME = VALUE",
            ),
            _ if error.place.line.is_none() => (Exit::Usage, "give another --ranks N"),
            _ => (
                Exit::Bundle,
                "correct that line, or give other values with --set",
            ),
        };
        Failure::new(exit, format!("read {}: {error}", name(&args.file))).with_next(next)
    })
}

fn not_read(file: &Path, error: &ReadError) -> Failure {
    let (exit, next) = match error {
        ReadError::Io(_) => (Exit::Io, "check the file's name and that you may read it"),
        ReadError::Text { .. } => (
            Exit::Bundle,
            "correct that line; docs/simulate.md has the grammar",
        ),
        ReadError::Binary { .. } => (
            Exit::Bundle,
            "write the file again with the program that created it, or give it as text",
        ),
    };
    Failure::new(exit, format!("read {}: {error}", name(file))).with_next(next)
}
