//! The command line.

use crate::compare::CompareArgs;
use crate::explain::ExplainArgs;
use crate::export::ExportArgs;
use crate::fit::FitArgs;
use crate::gang::GangArgs;
use crate::import::ImportArgs;
use crate::measure::MeasureArgs;
use crate::place::PlaceArgs;
use crate::record::{NodeRecordArgs, NodeRunArgs, NodeSendArgs, RecordArgs};
use crate::report::ReportArgs;
use crate::simulate::SimulateArgs;
use crate::study::StudyArgs;
use clap::{Parser, Subcommand};

/// Measures what interrupts parallel programs, names the cause of every delay, and predicts
/// what the delays cost at scale.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 80,
    after_help = "Times need a unit: ns, us, ms, s or min, as in 1.5ms. docs/method.md \
    explains the numbers.

Exit codes:
  0      success
  1      any other failure
  2      wrong usage
  3      not possible on this machine, or not permitted
  4      reading or writing failed
  5      an input is missing, damaged or not understood
  6      --kill ended a deadlocked job
  7      a part of the answer is missing; the rest was printed
  124    --timeout ended the job
  126    the command to run is not executable
  127    the command to run does not exist
  128+N  ended by signal N
`record`, `gang submit` and `gang watch` pass on the program's own exit code.
Details: docs/exit-codes.md.

Environment: NO_COLOR switches colours off. Where there is no terminal, \
    CLICOLOR_FORCE=1 switches them on and COLUMNS sets the width."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the noise of this machine, name its causes, predict its cost at scale, and write a
    /// report (under a minute)
    Study(StudyArgs),
    /// Time exchange, collectives, ping-pong, benchmarks or scaling, with threads or under mpirun
    Measure(MeasureArgs),
    /// Record a program, MPI or not, together with a kernel trace, and explain its waits
    Record(RecordArgs),
    /// Fit a noise model to a run, or to detours that another tool measured
    Fit(FitArgs),
    /// Predict how long a program takes, with and without noise, on any number of ranks
    Simulate(SimulateArgs),
    /// Choose the nodes, the ranks per node and their order for a program on a shared network
    Place(PlaceArgs),
    /// Run several parallel jobs in turns on the same nodes; detect hangs
    Gang(GangArgs),
    /// Make a run from the trace of another tool: trace-cmd, perf, Score-P, Paraver and others
    Import(ImportArgs),
    /// Rebuild the analysis of a saved run; list its processes, daemons and interrupts
    Explain(ExplainArgs),
    /// Compare two saved runs: what takes longer, and whether the difference may be chance
    Compare(CompareArgs),
    /// Rebuild the HTML report of a saved run
    Report(ReportArgs),
    /// Write a saved run for another tool: Paraver, OTF2, Perfetto, KernelShark, CSV and others
    Export(ExportArgs),
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
