//! `idlewave gang`: runs several parallel jobs on the same nodes, each in step.

mod ask;
mod background;
mod far;
mod local;
mod log;
mod lookout;
mod provider;
mod ranks;
mod serve;
mod slurm;
mod socket;
mod starter;
mod study;
mod submit;
mod text;
mod watch;
mod ways;
mod words;

use crate::exit::{Failure, report_failure};
use crate::signals::until_stopped;
use clap::{Args, Subcommand};
use idlewave_session::check_machine;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  sudo idlewave gang start --background
  idlewave gang submit -- mpirun -n 2 ./app
  idlewave gang submit --context 1MiB --ranks 2 -- idlewave measure is
  idlewave gang status --watch
  sudo idlewave gang stop";

/// Runs parallel jobs on the same nodes in turns of 10 to 100 ms: all ranks of one job, then all
/// ranks of the next, so that no rank waits for one that another job displaced.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GangArgs {
    #[command(subcommand)]
    what: Gang,
}

#[derive(Debug, Subcommand)]
enum Gang {
    /// Start the service that switches gangs, on this node and others
    Start(Box<serve::StartArgs>),
    /// Run a command as a gang: its ranks take turns with those of other gangs
    Submit(submit::SubmitArgs),
    /// List the gangs
    List(ask::ListArgs),
    /// Show the matrix of gangs, whose turn it is, and what switches cost
    Status(ask::StatusArgs),
    /// End a gang
    Cancel(ask::CancelArgs),
    /// Let all gangs run unswitched and accept no new ones; or undo that
    Drain(ask::DrainArgs),
    /// Stop the service; all gangs run on unswitched
    Stop(ask::StopArgs),
    /// Print the service's metrics in the Prometheus text format
    Metrics(ask::MetricsArgs),
    /// Run an MPI program and report deadlocks among its ranks
    Watch(watch::WatchArgs),
    /// Measure what switching costs and saves, with built-in programs or two of yours
    Study(study::StudyArgs),
    /// Switch the jobs of Slurm
    Slurm(slurm::SlurmArgs),
    /// Run the agent of this node, for a controller on another node
    Agent(serve::AgentArgs),
    /// Run as a program of the study
    #[command(hide = true)]
    Program(study::ProgramArgs),
    /// Start the ranks of a gang
    #[command(hide = true)]
    Ranks(starter::StarterArgs),
    /// Become a rank on another node
    #[command(hide = true)]
    Relay(lookout::RelayArgs),
    /// Report what the ranks of this node wait for
    #[command(hide = true)]
    Lookout(lookout::LookoutArgs),
    /// Thaw what an agent froze when it dies
    #[command(hide = true)]
    Watchdog(serve::WatchdogArgs),
}

impl Gang {
    /// Whether the command finds, freezes or ends processes by their PIDs.
    fn names_processes(&self) -> bool {
        matches!(
            self,
            Self::Start(_) | Self::Agent(_) | Self::Submit(_) | Self::Watch(_) | Self::Study(_)
        )
    }
}

/// Runs the command.
pub fn run_gang(args: GangArgs) -> ExitCode {
    if let Some(Err(trouble)) = args.what.names_processes().then(check_machine) {
        return report_failure(&Failure::from(trouble));
    }
    match args.what {
        Gang::Start(args) => until_stopped(|stop| serve::start(&args, stop)),
        Gang::Agent(args) => until_stopped(|stop| serve::agent(&args, stop)),
        Gang::Slurm(args) => slurm::run_slurm(&args),
        Gang::Watchdog(args) => serve::watchdog(&args),
        // These commands handle signals themselves.
        Gang::Ranks(args) => starter::run_ranks(&args),
        Gang::Relay(args) => lookout::run_relay(&args),
        Gang::Lookout(args) => lookout::run_lookout(&args),
        Gang::Submit(args) => submit::submit(&args),
        Gang::Watch(args) => watch::run_watch(&args),
        Gang::Study(args) => until_stopped(|stop| study::run_study(&args, stop)),
        Gang::Program(args) => until_stopped(|stop| study::run_program(&args, stop)),
        Gang::List(args) => until_stopped(|_| ask::list(&args)),
        Gang::Status(args) => until_stopped(|stop| ask::status(&args, stop)),
        Gang::Cancel(args) => until_stopped(|_| ask::cancel(&args)),
        Gang::Drain(args) => until_stopped(|_| ask::drain(&args)),
        Gang::Stop(args) => until_stopped(|_| ask::stop(&args)),
        Gang::Metrics(args) => until_stopped(|_| ask::metrics(&args)),
    }
}
