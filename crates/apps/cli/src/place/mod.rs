//! `idlewave place`: recommends nodes, the number of ranks on each, and their order.

mod advise;
mod answer;
mod calibrate;
mod choice;
mod contention;
mod evaluate;
mod files;
mod format;
mod load;
mod network;
mod numbers;
mod predict;
mod scotch;
mod sheet;
mod study;
mod subject;
mod text;
mod topology;
mod words;

use crate::signals::{until_killed, until_stopped};
use clap::{Args, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  idlewave place --pattern halo -n 64 --nodes 16 --cores 8
  idlewave place --workload is:A -n 16 --nodes 8 --cores 8 --adapter 1Gbit/s
  idlewave place --goal app.goal --topology docs/examples/fat-tree.toml
  idlewave place --run slow --nodes 4 --cores 4 -o placed --html placed.html
  idlewave place --pattern halo -n 64 --nodes 16 --cores 8 --scotch
  idlewave place --pattern halo -n 8 --nodes 4 --cores 8 --evaluate n1:0-7
  mpirun -n 8 --map-by ppr:4:node idlewave place calibrate -o network.toml
  mpirun -n 16 --map-by ppr:1:node idlewave place load -o load.toml
  idlewave place topology docs/examples/ibnetdiscover.txt --topology-conf -o -";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct PlaceArgs {
    #[command(subcommand)]
    what: Option<Place>,
    #[command(flatten)]
    advise: Box<advise::AdviseArgs>,
}

#[derive(Debug, Subcommand)]
enum Place {
    /// Measure what messages cost, alone and under contention: the network parameters
    Calibrate(calibrate::CalibrateArgs),
    /// Fit a table of measured run times, and predict each row from the others
    Contention(contention::ContentionArgs),
    /// Measure what other jobs send over the links of the cluster, for --load
    Load(load::LoadArgs),
    /// Run a workload, or a program of yours, with every number of nodes and ranks per node, and
    /// compare with the prediction
    Study(study::StudyArgs),
    /// Show the nodes, switches and links of a cluster; write Slurm's topology.conf
    Topology(topology::TopologyArgs),
}

/// Runs the command. Measuring commands end cleanly on a signal. All others write only their
/// output, so a signal may end them at any moment, except while Scotch runs, which leaves something
/// to clean up.
pub fn run_place(args: PlaceArgs) -> ExitCode {
    match args.what {
        Some(Place::Calibrate(args)) => until_stopped(|stop| calibrate::run_calibrate(args, stop)),
        Some(Place::Contention(args)) => until_killed(|_| contention::run_contention(&args)),
        Some(Place::Load(args)) => until_stopped(|stop| load::run_load(&args, stop)),
        Some(Place::Study(args)) => study::run_study(&args),
        Some(Place::Topology(args)) => until_killed(|_| topology::run_topology(&args)),
        None => until_killed(|ending| advise::run_advise(&args.advise, ending)),
    }
}
