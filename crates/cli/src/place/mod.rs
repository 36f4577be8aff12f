//! `idlewave place`: which nodes, how many ranks on each of them, and in which order.

mod calibrate;
mod topology;

use crate::exit::{Exit, Failure};
use crate::{report_failure, signals};
use clap::{Args, Subcommand};
use idlewave_recording::Stop;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mpirun -n 8 --map-by ppr:4:node idlewave place calibrate -o network.toml
  idlewave place topology docs/examples/ibnetdiscover.txt --topology-conf -o -";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlaceArgs {
    #[command(subcommand)]
    what: Place,
}

#[derive(Debug, Subcommand)]
enum Place {
    /// Measure what messages cost, alone and together: the parameters of the network
    Calibrate(calibrate::CalibrateArgs),
    /// Say which nodes a cluster has and how they are joined; write Slurm's topology.conf
    Topology(topology::TopologyArgs),
}

/// Runs the command. What measures ends in order when it is told to; everything else writes nothing but its output, so that a signal may
/// end it at any moment.
pub fn run_place(args: PlaceArgs) -> ExitCode {
    let ended = |done: Result<(), Failure>| match done {
        Ok(()) => Exit::Done.into(),
        Err(failure) => report_failure(&failure),
    };
    match args.what {
        Place::Calibrate(args) => measuring(|stop| calibrate::run_calibrate(args, stop)),
        Place::Topology(args) => ended(topology::run_topology(&args)),
    }
}

/// Runs a measurement, which a signal stops.
fn measuring(run: impl FnOnce(&Stop) -> Result<(), Failure>) -> ExitCode {
    let stop = match signals::stop_on_signals() {
        Ok(stop) => stop,
        Err(failure) => return report_failure(&failure),
    };
    let done = run(&stop);
    let ended = stop.signal().map(|signal| Exit::Signal(signal).into());
    match done {
        Ok(()) => ended.unwrap_or(Exit::Done.into()),
        Err(failure) => {
            let code = report_failure(&failure);
            ended.unwrap_or(code)
        }
    }
}
