//! `idlewave gang watch`: runs a program and watches what its ranks wait for.

use super::ranks::Ranks;
use super::words::Words;
use crate::exit::{Exit, Failure, report_failure};
use crate::signals::for_program;
use clap::Args;
use idlewave_freeze::clock;
use idlewave_gang_agent::wait;
use idlewave_record::{Machine, exit_code, find_launch, start, wait_for};
use idlewave_units::Nanos;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The longest delay before a signal is passed on or the job's time limit takes effect.
const STEP: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave gang watch -- mpirun -n 2 ./app
  idlewave gang watch --kill --timeout 10min -- mpirun -n 2 ./app
  idlewave gang watch --json --interval 50ms -- mpirun -n 2 ./app

The exit code is the program's own, 6 if --kill ended it because of a deadlock,
or 124 if --timeout ended it.")]
pub struct WatchArgs {
    /// Time between two checks, from 10ms to 10s; a deadlock is reported when two checks agree; if
    /// no rank moves, the next check follows at once
    #[arg(
        long,
        default_value = "100ms",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    interval: Nanos,
    /// End the job on a deadlock, but not on a mere suspicion, such as a polling loop
    #[arg(long)]
    kill: bool,
    /// Say where the ranks are and end the job after this time, at least 10ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    timeout: Option<Nanos>,
    /// Write the messages on standard error as lines of JSON
    #[arg(long)]
    json: bool,
    /// Number of words before the program in a launcher's command, launcher included; for when
    /// idlewave does not find the program
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// The command, with its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    program: Vec<OsString>,
}

/// Runs the command. Standard output belongs to the program, so all our messages go to standard
/// error.
pub fn run_watch(args: &WatchArgs) -> ExitCode {
    match watched(args) {
        Ok(code) => code,
        Err(failure) => report_failure(&failure),
    }
}

fn watched(args: &WatchArgs) -> Result<ExitCode, Failure> {
    let interval = time(args.interval, "--interval", 10, Some(10_000))?;
    let timeout = args
        .timeout
        .map(|given| time(given, "--timeout", 10, None))
        .transpose()?;
    let mut signals = for_program()?;
    let mut ranks = Ranks::prepare(Words::new(args.json), interval)?;
    let launch = find_launch(&args.program, args.at, &Machine)
        // The error itself says what to do.
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let (words, environment) = match launch {
        Some(launch) => {
            let (shim, environment) = ranks.launch(launch.launcher, &args.program, &[]);
            (launch.with_shim(&args.program, &shim), environment)
        }
        None => (args.program.clone(), ranks.environment()),
    };
    let child = start(&words, &environment)?;
    let launcher = child.id();
    let begun = Instant::now();
    let mut ended = None;
    let mut last = None;
    let status = wait_for(child, &mut signals, |end| {
        // A signal ends the wait early, which at most causes an early look.
        let left = match ended {
            None => ranks.due().saturating_duration_since(Instant::now()),
            Some(_) => STEP,
        };
        let mut sockets = vec![end];
        sockets.extend(ranks.sockets());
        let _ = wait(&sockets, Some(clock::now() + Nanos::from(left.min(STEP))));
        let now = Instant::now();
        // The deadlock of a job that is being ended is not reported again.
        if ended.is_none() {
            let look = ranks.look(now);
            let dead = look.as_ref().is_some_and(|look| look.deadlock().is_some());
            last = look.or(last.take());
            if dead && args.kill {
                ended = Some(Exit::Deadlock);
                ranks.end(launcher);
            }
        }
        if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) && ended.is_none() {
            ended = Some(Exit::TimeOut);
            ranks.words.timed_out(begun.elapsed(), last.as_ref());
            ranks.end(launcher);
        }
        if ranks.overdue(now) {
            ranks.kill(launcher);
        }
    });
    if signals.asked_to_end().0 > 1 {
        // The launcher and its descendants were killed; ranks may not be among them.
        ranks.kill_all();
    }
    // A job that exits with code 0 although it was told to end did not hang.
    if ranks.ended(status.success()) && ended == Some(Exit::Deadlock) {
        ended = None;
    }
    ranks.words.end(begun.elapsed());
    Ok(ended.map_or_else(|| ExitCode::from(exit_code(status) as u8), ExitCode::from))
}

fn time(given: Nanos, option: &str, least: u64, most: Option<u64>) -> Result<Duration, Failure> {
    let ns = given.get();
    let ms = u128::from(ns) / 1_000_000;
    if ms < u128::from(least) || most.is_some_and(|most| ms > u128::from(most)) {
        let range = match most {
            Some(_) => "from 10ms to 10s",
            None => "10ms or more",
        };
        let what = format!("take {given} for {option}");
        return Err(Failure::new(Exit::Usage, what).with_next(format!("give {range}")));
    }
    Ok(Duration::from_nanos(ns))
}
