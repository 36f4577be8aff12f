//! `idlewave place calibrate`: turns options into a calibration, fits parameters to its samples,
//! and writes and prints both.

mod sheet;
mod text;

use crate::exit::{Exit, Failure};
use crate::files::{name, read_text, refuse_place, write_new};
use crate::json::{self, Begun};
use crate::measure;
use crate::output::print;
use crate::progress::Bars;
use clap::Args;
use idlewave_measure::{
    CalibrateOptions, Calibrated, FabricChoice, NodeLoad, busy_nodes, calibrate,
};
use idlewave_mpi::{Launch, Search};
use idlewave_network::{Calibration, CalibrationSamples, NetworkError, fit};
use idlewave_report::calibration_page;
use idlewave_run::Header;
use idlewave_session::Stop;
use idlewave_units::Nanos;
use idlewave_units::foreign::misfit;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Larger files cannot be samples.
const MOST_BYTES: usize = 256 << 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Start it on two or more nodes, with as many ranks per node as a job may have. A single process measures within this node only.

Examples:
  mpirun -n 8 --map-by ppr:4:node idlewave place calibrate -o network.toml
  mpirun -n 8 --map-by ppr:4:node idlewave place calibrate --html network.html
  idlewave place calibrate --ranks 2 --duration 10s
  idlewave place calibrate --from samples.json")]
pub struct CalibrateArgs {
    /// New file for the parameters
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Total time, from 1s to 60min; at least three rounds, which take longer on slow networks
    #[arg(long, default_value = "60s", value_name = "TIME")]
    duration: Nanos,
    /// New file for all samples
    #[arg(long, value_name = "FILE.json")]
    samples: Option<PathBuf>,
    /// Fit saved samples instead of measuring
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["samples", "ranks", "leaf", "duration"])]
    from: Option<PathBuf>,
    /// New file for an HTML page with curves over message size and ranks
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Nodes on one leaf switch; give it once per leaf [default: all on one]
    #[arg(long, value_name = "NODE,NODE,...")]
    leaf: Vec<String>,
    /// Number of ranks, as threads of this process, without a launcher [default: one per CPU]
    #[arg(long, value_name = "N")]
    ranks: Option<u32>,
    /// MPI library to load [default: the launcher's]
    #[arg(long, value_name = "PATH")]
    mpi_lib: Option<PathBuf>,
    /// Use the MPI library that this compiled program loads
    #[arg(long, value_name = "PROGRAM", conflicts_with = "mpi_lib")]
    mpi_of: Option<PathBuf>,
    /// Seed of the resampling for the intervals
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print everything as JSON instead of the tables
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    /// How busy other processes kept each node meanwhile; empty with `--from`.
    machine: &'a [NodeLoad],
    samples: &'a CalibrationSamples,
    calibration: &'a Calibration,
}

impl CalibrateArgs {
    fn options(&self) -> CalibrateOptions {
        let names = |leaf: &String| leaf.split(',').map(str::trim).map(str::to_owned).collect();
        CalibrateOptions {
            duration: self.duration,
            fabric: self.ranks.map(|_| FabricChoice::Threads),
            mpi: Search {
                library: self.mpi_lib.clone(),
                program: self.mpi_of.clone(),
            },
            ranks: self.ranks,
            leaves: self.leaf.iter().map(names).collect(),
        }
    }

    /// The files to write, with their options.
    fn targets(&self) -> [(Option<&Path>, &'static str); 3] {
        [
            (self.output.as_deref(), "-o"),
            (self.samples.as_deref(), "--samples"),
            (self.html.as_deref(), "--html"),
        ]
    }
}

/// Runs the command. In a job, rank 0 writes and prints.
pub fn run_calibrate(args: CalibrateArgs, stop: &Stop) -> Result<(), Failure> {
    let launched = Launch::of_this_process().map_or(0, |launch| launch.rank);
    if launched == 0 {
        for (path, option) in args.targets() {
            path.map_or(Ok(()), |path| refuse_place(path, option))?;
        }
    }
    let begun = Begun::now();
    let Calibrated { samples, machine } = match &args.from {
        Some(path) => Calibrated {
            samples: read(path, stop)?,
            machine: Vec::new(),
        },
        None => {
            let bars = Bars::new(!args.json && launched == 0);
            let done = calibrate(&args.options(), stop, &bars);
            bars.finish();
            match measure::of_job(done, launched)? {
                Some(calibrated) => calibrated,
                None => return Ok(()),
            }
        }
    };
    let mut said = String::new();
    let mut wrote =
        |path: &Path, what: &str| said.push_str(&format!("{what}: {}\n", path.display()));
    if let Some(path) = &args.samples {
        let text = json(&samples)?;
        write_new(path, "--samples", |out| out.write_all(text.as_bytes()))?;
        wrote(path, "samples");
    }
    let found = fit(&samples, args.seed).map_err(|error| match (&args.from, error) {
        (Some(path), NetworkError::Samples(why)) => unfit(path, why),
        (_, error) => Failure::new(Exit::Other, error.to_string())
            .with_next("measure again with more time (--duration), on at least two ranks"),
    })?;
    if let Some(path) = &args.output {
        let text = found.parameters.write();
        write_new(path, "-o", |out| out.write_all(text.as_bytes()))?;
        wrote(path, "parameters");
    }
    if let Some(path) = &args.html {
        let page = calibration_page(&sheet::sheet(&samples, &found));
        write_new(path, "--html", |out| out.write_all(page.as_bytes()))?;
        wrote(path, "report");
    }
    if args.json {
        let printed = Printed {
            machine: &machine,
            samples: &samples,
            calibration: &found,
        };
        let header = match args.from {
            Some(_) => Header::of(None),
            None => begun.header(samples.nodes.clone(), samples.interrupted, &machine),
        };
        return json::print_below(header, printed);
    }
    let next = match &args.output {
        Some(_) => "",
        None => "next step: write the parameters with -o network.toml\n",
    };
    let busy = busy_nodes(&machine).into_iter();
    let busy: String = busy.map(|said| format!("! {said}\n")).collect();
    print(&format!(
        "{busy}{}{said}{next}",
        text::render(&samples, &found)
    ))
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|e| Failure::new(Exit::Other, format!("encode the samples: {e}")))?;
    Ok(text + "\n")
}

/// The next step for a file that has no samples.
const GIVE: &str = "give a file that `idlewave place calibrate --samples` wrote";

/// The failure for a file of samples to which nothing can be fitted.
fn unfit(path: &Path, why: String) -> Failure {
    Failure::new(Exit::Bundle, format!("read {}: {why}", name(path))).with_next(GIVE)
}

fn read(path: &Path, stop: &Stop) -> Result<CalibrationSamples, Failure> {
    let text = read_text(path, MOST_BYTES, GIVE, Some(stop))?;
    // serde would read a list as the values of the fields in order.
    if text.trim_start().starts_with('[') {
        return Err(unfit(path, "it contains no calibration samples".to_owned()));
    }
    serde_json::from_str(&text).map_err(|error| unfit(path, misfit(&error.to_string())))
}
