//! `idlewave simulate`: options to a simulation, and its outcome to the terminal.

use crate::exit::{Exit, Failure};
use crate::{report_failure, signals};
use clap::{Args, Subcommand};
use idlewave_simulate::goal::{
    GoalError, Outcome, Parameters, PerByte, ReadError, Schedule, simulate,
};
use idlewave_units::{Bytes, Nanos};
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

const EXAMPLES: &str = "\
Examples:
  idlewave simulate goal app.goal
  idlewave simulate goal app.goal --latency 800 --gap-per-byte 0.04
  idlewave simulate goal - --json < app.goal
  idlewave simulate stencil --noise noise.toml --ranks 1e2..1e6
  idlewave simulate collective allreduce --noise poisson:10ms:50us";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: Simulation,
}

#[derive(Debug, Subcommand)]
enum Simulation {
    /// Play a GOAL schedule under the LogGOPS model: when does each rank finish?
    Goal(GoalArgs),
    /// What noise costs a program whose ranks exchange with their neighbours
    Stencil(Box<crate::ask::StencilArgs>),
    /// What noise costs a program of a collective operation
    Collective(Box<crate::ask::CollectiveArgs>),
    /// Predict a measured run, compare, and say what it would be with more ranks or less noise
    Like(Box<crate::ask::LikeArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct GoalArgs {
    /// The schedule, as text or in the binary form; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// L: from the sender's overhead to the first byte at the receiver, in ns
    #[arg(long, default_value = "2500", value_name = "NS", value_parser = nanos, allow_hyphen_values = true)]
    latency: Nanos,
    /// o: CPU time of a message, at the sender and at the receiver, in ns
    #[arg(long, default_value = "1500", value_name = "NS", value_parser = nanos, allow_hyphen_values = true)]
    overhead: Nanos,
    /// g: least time between two messages on a NIC, in ns
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
    /// S: the sender of a message of more bytes waits for the receive
    #[arg(
        long,
        default_value = "65535",
        value_name = "BYTES",
        allow_hyphen_values = true
    )]
    rendezvous: u64,
    /// Print everything as JSON, the finish time of every rank too
    #[arg(long)]
    json: bool,
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
    let stop = AtomicBool::new(false);
    let run = || match &args.what {
        Simulation::Goal(args) => run_goal(args),
        Simulation::Stencil(args) => crate::ask::run_stencil(args, &stop),
        Simulation::Collective(args) => crate::ask::run_collective(args, &stop),
        Simulation::Like(args) => crate::ask::run_like(args, &stop),
    };
    match signals::end_on_signals().and_then(|()| run()) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => report_failure(&failure),
    }
}

fn run_goal(args: &GoalArgs) -> Result<(), Failure> {
    let parameters = Parameters {
        latency: args.latency,
        overhead: args.overhead,
        gap: args.gap,
        gap_per_byte: args.gap_per_byte,
        overhead_per_byte: args.overhead_per_byte,
        rendezvous: Bytes::new(args.rendezvous),
    };
    let schedule = read(&args.file).map_err(|error| not_read(&args.file, &error))?;
    let outcome =
        simulate(&schedule, &parameters).map_err(|error| not_simulated(&args.file, &error))?;
    let text = match args.json {
        true => json(&schedule, &parameters, &outcome),
        false => summary(&args.file, &schedule, &parameters, &outcome),
    };
    crate::print(&text).map_err(|failure| failure.with_next("send the output elsewhere"))
}

fn read(file: &Path) -> Result<Schedule, ReadError> {
    match file.as_os_str() == "-" {
        true => Schedule::read(std::io::stdin().lock()),
        false => Schedule::read(File::open(file)?),
    }
}

fn name(file: &Path) -> String {
    match file.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

fn not_read(file: &Path, error: &ReadError) -> Failure {
    let (exit, next) = match error {
        ReadError::Io(_) => (
            Exit::Io,
            "check the name of the file and that you may read it",
        ),
        ReadError::Text { .. } => (
            Exit::Bundle,
            "correct that line; docs/simulate.md has the grammar",
        ),
        ReadError::Binary { .. } => (
            Exit::Bundle,
            "write the file again with the program that made it, or give the text form",
        ),
    };
    Failure::new(exit, format!("read {}: {error}", name(file))).with_next(next)
}

fn not_simulated(file: &Path, error: &GoalError) -> Failure {
    let next = match error {
        GoalError::TooLong { .. } => "look for a size or an option that is far too large",
        GoalError::Unfinished(_) => {
            "correct the ranks, the tags or the order of these operations; until all match there are no times"
        }
    };
    Failure::new(
        Exit::Bundle,
        format!("finish the schedule {}: {error}", name(file)),
    )
    .with_next(next)
}

/// What no number of the outcome contains.
const NOT_MODELLED: [&str; 4] = [
    "noise",
    "contention between messages on the links of a network",
    "the collectives of an MPI library: a schedule has single messages",
    "the handshake of a rendezvous",
];

fn json(schedule: &Schedule, parameters: &Parameters, outcome: &Outcome) -> String {
    let number = |per_byte: PerByte| per_byte.to_string().parse::<f64>().ok();
    let value = serde_json::json!({
        "schedule": {
            "ranks": schedule.ranks(),
            "operations": outcome.operations,
            "dependencies": schedule.dependencies(),
            "messages": outcome.messages,
            "message_bytes": outcome.bytes,
        },
        "parameters": {
            "latency_ns": parameters.latency.get(),
            "overhead_ns": parameters.overhead.get(),
            "gap_ns": parameters.gap.get(),
            "gap_per_byte_ns": number(parameters.gap_per_byte),
            "overhead_per_byte_ns": number(parameters.overhead_per_byte),
            "rendezvous_bytes": parameters.rendezvous.get(),
        },
        "makespan_ns": outcome.makespan_ns(),
        "finish_ns": outcome.finish_ns,
        "not_modelled": NOT_MODELLED,
    });
    format!("{value:#}\n")
}

/// Ranks that are listed.
const SLOWEST: usize = 8;

fn summary(file: &Path, schedule: &Schedule, parameters: &Parameters, outcome: &Outcome) -> String {
    let makespan = outcome.makespan_ns();
    let slowest = outcome.slowest(SLOWEST);
    let bytes = outcome.bytes.map_or("over 2^64 bytes".to_owned(), |bytes| {
        format!("{bytes} bytes")
    });
    let last = slowest.first().map_or(0, |&(rank, _)| rank);
    let mut out = format!("GOAL schedule {}\n", name(file));
    // A String takes everything.
    let _ = write!(
        out,
        "  ranks         {}\n  operations    {}, with {} dependencies\n  messages      {}, {bytes}\n\n\
         makespan        {} ({makespan} ns), set by rank {last}\n\n\
         SLOWEST RANKS\n  {:>10} {:>24} {:>30}\n",
        schedule.ranks(),
        outcome.operations,
        schedule.dependencies(),
        outcome.messages,
        Nanos::from_nanos(makespan),
        "rank",
        "finish in ns",
        "before the last in ns",
    );
    for &(rank, finish) in &slowest {
        let _ = writeln!(out, "  {rank:>10} {finish:>24} {:>30}", makespan - finish);
    }
    let more = outcome.finish_ns.len() - slowest.len();
    if more > 0 {
        let _ = writeln!(out, "  and {more} more; --json has all");
    }
    let _ = write!(
        out,
        "\nPARAMETERS\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {} bytes\n\
         \nNOT MODELLED\n",
        "latency L",
        parameters.latency.get(),
        "overhead o",
        parameters.overhead.get(),
        "gap g",
        parameters.gap.get(),
        "gap per byte G",
        parameters.gap_per_byte,
        "overhead per byte O",
        parameters.overhead_per_byte,
        "rendezvous above S",
        parameters.rendezvous.get(),
    );
    for what in NOT_MODELLED {
        let _ = writeln!(out, "  {what}");
    }
    out.push_str(
        "\nNEXT\n  What a faster network would bring: give --latency, --overhead, --gap and\n  \
         --gap-per-byte of that network (0.04 ns per byte are 25 GB/s).\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_fits_eighty_columns_whatever_the_numbers_are() {
        let text = "num_ranks 1\nrank 0 {\ncalc 18446744073709551615\n}\n";
        let schedule: Schedule = text.parse().unwrap();
        let mut parameters = Parameters::default();
        let mut outcome = simulate(&schedule, &parameters).unwrap();
        outcome.operations = u64::MAX;
        outcome.messages = u64::MAX;
        outcome.bytes = Some(u64::MAX);
        outcome.finish_ns = vec![u64::MAX; 20];
        parameters.gap_per_byte = "0.123456789012345678".parse().unwrap();
        let text = summary(Path::new("x.goal"), &schedule, &parameters, &outcome);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.contains("and 12 more"), "{text}");
    }

    #[test]
    fn times_are_nanoseconds_or_have_a_unit() {
        assert_eq!(nanos("2500"), Ok(Nanos::from_nanos(2_500)));
        assert_eq!(nanos("2.5us"), Ok(Nanos::from_nanos(2_500)));
        for text in ["-1", "+1", "", "1.5", "x", "2^3", "18446744073709551616"] {
            assert!(nanos(text).is_err(), "{text}");
        }
    }
}
