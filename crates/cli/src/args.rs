//! The command line.

use clap::{Args, Parser, Subcommand};
use idlewave_record::RecordOptions;
use idlewave_study::StudyOptions;
use idlewave_units::{CpuSet, Nanos};
use std::ffi::OsString;
use std::path::PathBuf;

/// Keeps parallel programs in step: measures what interrupts them, names the culprit of every
/// delay, and predicts what the delays cost at scale.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 80,
    after_help = "Times are a number with ns, us, ms, s or min, as in 1.5ms. \
    What the numbers mean: docs/method.md.\n\nExit codes: 0 done, 2 wrong usage, 3 not possible on this machine, \
    4 reading or writing failed, 5 no readable run, schedule, topology or list of detours, 128+N ended by signal N, 1 anything else. \
    `record` ends with the program's own exit code; 126 and 127 as in a shell."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure this machine, explain every late step by name, predict, and write a report (under a minute)
    Study(StudyArgs),
    /// Measure exchange, collectives, ping-pong or scaling, over threads or under mpirun
    Measure(crate::measure::MeasureArgs),
    /// Record a program, MPI or not, together with the kernel's view, and explain its waits
    Record(RecordArgs),
    /// Fit a model of the noise to a run, or to detours that another tool measured
    Fit(crate::fit::FitArgs),
    /// Simulate what a program's messages and computations cost
    Simulate(crate::simulate::SimulateArgs),
    /// Choose nodes, ranks per node and their order for a program on a network that is shared
    Place(crate::place::PlaceArgs),
    /// Run several parallel jobs on the same nodes in turns, each in step
    Gang(crate::gang::GangArgs),
    /// Explain a recorded run again, from its bundle alone
    Explain(ExplainArgs),
    /// Write the HTML report of a run again, from its bundle alone
    Report(ReportArgs),
    /// Become the program on a node
    #[command(hide = true)]
    NodeRun(NodeRunArgs),
    /// Send a node's bundle
    #[command(hide = true)]
    NodeSend(NodeSendArgs),
    /// Record a node
    #[command(hide = true)]
    NodeRecord(NodeRecordArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave study
  sudo idlewave study -o before --duration 60s
  idlewave study --cpus 2-5 --work 100us --no-trace")]
pub struct StudyArgs {
    /// Directory for the run; must not exist, or be empty [default: idlewave-study-<date>-<time>]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Time to measure, from 2s to 60min; the analysis comes on top
    #[arg(
        long,
        default_value = "30s",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    duration: Nanos,
    /// Ranks of the lockstep runs, from 1 to 4096 [default: one per CPU]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    ranks: Option<u32>,
    /// Computation of one iteration, from 2us to 1s
    #[arg(
        long,
        default_value = "20us",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    work: Nanos,
    /// CPUs to measure, as in 0-3,8 [default: all that are allowed]
    #[arg(long, value_name = "CPUS")]
    cpus: Option<CpuSet>,
    /// Do not record the kernel's view (causes will have no names)
    #[arg(long)]
    no_trace: bool,
    /// Seed of the prediction: the same one gives the same numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print the findings as JSON instead of the summary
    #[arg(long)]
    pub json: bool,
}

impl StudyArgs {
    pub fn into_options(self) -> StudyOptions {
        StudyOptions {
            output: self.output,
            duration: self.duration,
            ranks: self.ranks,
            work: self.work,
            cpus: self.cpus,
            trace: !self.no_trace,
            seed: self.seed,
            command: std::env::args_os()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave record -- mpirun -n 4 ./app
  sudo idlewave record -o slow -- mpirun -n 4 ./app
  idlewave record --no-report -o single -- ./app")]
pub struct RecordArgs {
    /// Directory for the run; must not exist, or be empty [default: idlewave-record-<date>-<time>]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Do not record the kernel's view (causes will have no names)
    #[arg(long)]
    no_trace: bool,
    /// Only record: neither explain the run nor write the report
    #[arg(long)]
    no_report: bool,
    /// Words before the program in a launcher's command, the launcher included, where idlewave does not find it
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// The command, with its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    program: Vec<OsString>,
}

impl RecordArgs {
    pub fn into_options(self) -> RecordOptions {
        RecordOptions {
            output: self.output,
            trace: !self.no_trace,
            report: !self.no_report,
            at: self.at,
            program: self.program,
            command: std::env::args_os()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
        }
    }
}

#[derive(Debug, Args)]
pub struct NodeRunArgs {
    pub token: String,
    #[arg(required = true, last = true)]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct NodeSendArgs {
    pub token: String,
}

#[derive(Debug, Args)]
pub struct NodeRecordArgs {
    pub token: String,
    pub bundle: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave explain before")]
pub struct ExplainArgs {
    /// The run, a directory made by `idlewave study` or `idlewave record`
    pub run: PathBuf,
    /// Print the findings as JSON instead of the summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave report before
  idlewave report before -o before.html")]
pub struct ReportArgs {
    /// The run, a directory made by `idlewave study` or `idlewave record`
    pub run: PathBuf,
    /// Where to write the page [default: report.html in the run]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
