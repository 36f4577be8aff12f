//! `idlewave place`: which nodes, how many ranks on each of them, and in which order.

mod calibrate;

use crate::exit::Failure;
use clap::{Args, Subcommand};
use idlewave_recording::Stop;

pub(crate) const EXAMPLES: &str = "\
Examples:
  mpirun -n 8 --map-by ppr:4:node idlewave place calibrate -o network.toml";

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
}

/// Runs the command.
pub fn run_place(args: PlaceArgs, stop: &Stop) -> Result<(), Failure> {
    match args.what {
        Place::Calibrate(args) => calibrate::run_calibrate(args, stop),
    }
}
