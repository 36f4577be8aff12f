//! `idlewave gang`: several parallel jobs on the same nodes, each in step.

mod ask;
mod background;
mod far;
mod local;
mod log;
mod lookout;
mod ranks;
mod serve;
mod slurm;
mod starter;
mod study;
mod submit;
mod text;
mod watch;
mod ways;
mod words;

use crate::exit::{Exit, Failure};
use crate::until_stopped;
use clap::{Args, Subcommand};
use idlewave_agent::Control;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  sudo idlewave gang start --background
  idlewave gang submit -- mpirun -n 2 ./app
  idlewave gang submit --context 1MiB --ranks 2 -- idlewave measure is
  idlewave gang status --watch
  sudo idlewave gang stop";

/// Runs parallel jobs on the same nodes in turns of 10 to 100 ms: all ranks of one job, then all
/// ranks of the next, so that none of them waits for ranks that its neighbours displaced.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GangArgs {
    #[command(subcommand)]
    what: Gang,
}

#[derive(Debug, Subcommand)]
enum Gang {
    /// Start the service that switches jobs on this node, and on others
    Start(Box<serve::StartArgs>),
    /// Run a command as a gang: its ranks take turns with those of other gangs
    Submit(submit::SubmitArgs),
    /// Say which gangs there are
    List(ask::ListArgs),
    /// Show the matrix of gangs, whose turn it is, and what switches cost
    Status(ask::StatusArgs),
    /// End the processes of a gang
    Cancel(ask::CancelArgs),
    /// Let everything run and take no new gangs; or undo that
    Drain(ask::DrainArgs),
    /// End the service; all gangs run on as any programs do
    Stop(ask::StopArgs),
    /// Print the service's metrics in Prometheus' text format
    Metrics(ask::MetricsArgs),
    /// Run an MPI program, and say when its ranks wait for each other for ever
    Watch(watch::WatchArgs),
    /// Measure what switching costs, and what it saves, with programs of known work or two of yours
    Study(study::StudyArgs),
    /// Switch the jobs of Slurm
    Slurm(slurm::SlurmArgs),
    /// Switch the gangs of this node, as a controller on another node says
    Agent(serve::AgentArgs),
    /// Be a program of the study
    #[command(hide = true)]
    Program(study::ProgramArgs),
    /// Start the ranks of a gang
    #[command(hide = true)]
    Ranks(starter::StarterArgs),
    /// Be a rank of another node
    #[command(hide = true)]
    Relay(lookout::RelayArgs),
    /// Tell what the ranks of this node wait for
    #[command(hide = true)]
    Lookout(lookout::LookoutArgs),
    /// Thaw what an agent froze when it dies
    #[command(hide = true)]
    Watchdog(serve::WatchdogArgs),
}

/// Where the service is asked.
#[derive(Clone, Debug, Args)]
struct Place {
    /// The service's socket [default: /run/idlewave/gang.sock, or the user's own]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Place {
    /// The socket that was named, or the usual one: from the root on, as the agent of this node works elsewhere.
    fn path(&self) -> PathBuf {
        let path = self.socket.clone().unwrap_or_else(serve::usual_socket);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Whether no socket was named.
    fn is_usual(&self) -> bool {
        self.socket.is_none()
    }

    /// The socket to ask at: the one that was named, or root's if somebody serves there, or the user's own.
    fn connect(&self) -> Result<Control, Failure> {
        let mut places = vec![self.path()];
        if self.is_usual() {
            places.push(PathBuf::from(serve::ROOTS_SOCKET));
        }
        let mut first = None;
        for path in places {
            match Control::connect(&path) {
                Ok(control) => return Ok(control),
                Err(error) => {
                    first.get_or_insert((path, error));
                }
            }
        }
        let what = first.map_or_else(String::new, |(path, error)| {
            format!("reach the gang service at {}: {error}", path.display())
        });
        Err(Failure::new(Exit::NotPossible, what)
            .with_next("start it with `idlewave gang start`, or say where it is with --socket"))
    }
}

/// Runs the command.
pub fn run_gang(args: GangArgs) -> ExitCode {
    match args.what {
        Gang::Start(args) => until_stopped(|stop| serve::start(&args, stop)),
        Gang::Agent(args) => until_stopped(|stop| serve::agent(&args, stop)),
        Gang::Slurm(args) => slurm::run_slurm(&args),
        Gang::Watchdog(args) => serve::watchdog(&args),
        // Their signals are the command's own.
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
